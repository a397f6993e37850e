//! Watches that stay broken.

use super::*;
use crate::reconciler::watches::Failed;
use crate::response::error::Silent;

const MINUTE: Duration = Duration::from_secs(60);

fn forbidden() -> watcher::Error {
    watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(Status { code: 403, ..Status::failure("no", "") })))
}

fn silent() -> watcher::Error {
    watcher::Error::WatchFailed(kube::Error::ReadEvents(std::io::Error::other(Silent(Duration::from_secs(90)))))
}

fn unreachable() -> watcher::Error {
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    watcher::Error::WatchStartFailed(kube::Error::Service(refused.into()))
}

impl World {
    fn fail_watch(&mut self, error: watcher::Error) {
        self.observe(Observation::Node(Err(error)));
        self.run();
    }

    fn leads(&self) -> bool {
        self.reconciler.leads(self.now.instant)
    }

    pub(super) fn is_reported(&self, resource: &str) -> bool {
        let is_zero = self.metric(&format!("watch_broken_timestamp_seconds{{resource=\"{resource}\"}} 0"));
        !is_zero
    }

    /// A watch of nodes that fails for so many minutes. Returns in how many of their seconds this process has led.
    fn seconds_led(&mut self, minutes: u32, error: fn() -> watcher::Error) -> usize {
        let mut led = 0;
        for second in 0..minutes * 60 {
            if second % 30 == 0 {
                self.fail_watch(error());
            }
            self.advance(Duration::from_secs(1));
            led += usize::from(self.leads());
        }
        led
    }
}

#[test]
fn watch_that_stays_broken_is_reported_until_it_works() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let since = world.now.wall.as_second();
    world.seconds_led(4, forbidden);
    assert!(world.metric(&format!("watch_broken_timestamp_seconds{{resource=\"nodes\"}} {since}")));
    assert!(!world.is_reported("rules"));
    assert_eq!(world.readiness().nodes, None, "that may pass");
    world.seconds_led(2, forbidden);
    let unready = world.readiness().nodes.unwrap();
    assert!(unready.contains("grant the verbs list and watch"), "{unready}");
    // The API server accepts the watch, and nothing changes on nodes.
    world.observe(Observation::WatchBegan(Watched::Nodes));
    world.advance(Duration::from_secs(4));
    assert!(world.is_reported("nodes"), "the watch may end at once");
    world.advance(Duration::from_secs(1));
    world.run();
    assert!(!world.is_reported("nodes") && world.readiness().nodes.is_none());
}

/// A proxy cuts each watch as soon as it is open.
#[test]
fn watch_that_begins_and_fails_at_once_stays_broken() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    for _ in 0..100 {
        world.fail_watch(forbidden());
        world.advance(Duration::from_secs(4));
        world.observe(Observation::WatchBegan(Watched::Nodes));
        world.advance(Duration::from_millis(100));
    }
    assert!(world.is_reported("nodes") && world.readiness().nodes.is_some());
}

/// A proxy rejects the long addresses of all pages but the first.
#[test]
fn watch_whose_list_fails_behind_its_first_page_stays_broken() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let since = world.now.wall.as_second();
    let node = world.nodes["node-0"].clone();
    let rejected = || {
        let status = Status { code: 414, ..Status::failure("too long", "") };
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    };
    for _ in 0..10 {
        world.fail_watch(rejected());
        world.advance(MINUTE / 2);
        world.observe(Observation::Node(Ok(Event::Init)));
        world.observe(Observation::Node(Ok(Event::InitApply(object(node.clone())))));
        world.advance(MINUTE / 2);
    }
    assert!(world.metric(&format!("watch_broken_timestamp_seconds{{resource=\"nodes\"}} {since}")));
    assert!(world.readiness().nodes.is_some());
    world.observe(Observation::Node(Ok(Event::InitDone)));
    world.observe(Observation::WatchBegan(Watched::Nodes));
    world.advance(Duration::from_secs(5));
    world.run();
    assert!(!world.is_reported("nodes") && world.readiness().nodes.is_none());
}

/// Rules can be listed, and no watch of them begins. Each term of leadership lists them anew.
#[test]
fn watch_that_is_rejected_after_each_list_stays_broken() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let rule = world.rules["dongle"].clone();
    // Nor is any write of a status seen.
    world.write_status = 500;
    let since = world.now.wall.as_second();
    for _ in 0..20 {
        world.observe(Observation::Rule(Ok(Event::Init)));
        world.observe(Observation::Rule(Ok(Event::InitApply(object(rule.clone())))));
        world.observe(Observation::Rule(Ok(Event::InitDone)));
        world.observe(Observation::Rule(Err(forbidden())));
        world.advance(MINUTE / 2);
    }
    assert!(world.metric(&format!("watch_broken_timestamp_seconds{{resource=\"rules\"}} {since}")));
    assert!(world.readiness().rules.is_some());
}

#[test]
fn process_stays_ready_while_the_api_server_is_unreachable() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.renews = false;
    world.seconds_led(20, unreachable);
    assert!(world.is_reported("nodes"));
    assert_eq!(world.readiness().nodes, None);
}

/// The Lease can be renewed, so the cause may be local: the Lease expires, and another replica has time to take it.
#[test]
fn leader_whose_watch_stays_broken_lets_another_replica_lead() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.fail_watch(forbidden());
    world.advance(Duration::from_secs(14));
    assert!(world.leads(), "that may pass");
    let mut stood_by = Duration::ZERO;
    for _ in 0..60 {
        world.advance(Duration::from_secs(1));
        world.observe(Observation::Node(Err(forbidden())));
        stood_by += if world.leads() { Duration::ZERO } else { Duration::from_secs(1) };
    }
    // The Lease of 15 seconds was last renewed up to 5 seconds before.
    assert!(stood_by > Duration::from_secs(15), "{stood_by:?}");
    assert!(world.leads(), "no other replica has taken it");
}

/// It rejects the watches of every replica, and one that has just begun to lead would only repair until it has listed the
/// rules. In the end, the cause may be one API server of several.
#[test]
fn overloaded_api_server_moves_leadership_after_five_minutes_only() {
    for (code, reason) in [(429, ""), (503, ""), (504, "Timeout")] {
        let mut world = World::leading(1, &[("dongle", 4)]);
        world.run_until_idle();
        let overloaded = || {
            let status = Status { code, ..Status::failure("too many requests", reason) };
            watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
        };
        for _ in 0..9 {
            world.fail_watch(overloaded());
            world.advance(MINUTE / 2);
            assert!(world.leads() && world.is_reported("nodes") && world.readiness().nodes.is_none());
        }
        world.fail_watch(overloaded());
        world.advance(Duration::from_secs(48));
        assert!(!world.leads() && world.readiness().nodes.is_none());
    }
}

/// A proxy accepts each watch, and holds back what it shows.
#[test]
fn watch_of_nodes_that_stays_silent_is_broken_until_it_shows_something() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let since = world.now.wall.as_second();
    let node = world.nodes["node-0"].clone();
    for minute in 0..9 {
        world.fail_watch(silent());
        if minute > 0 {
            // Lists show what has changed.
            world.observe(Observation::Node(Ok(Event::Init)));
            world.observe(Observation::Node(Ok(Event::InitApply(object(node.clone())))));
            world.observe(Observation::Node(Ok(Event::InitDone)));
        }
        world.observe(Observation::WatchBegan(Watched::Nodes));
        assert!(world.leads() && !world.is_reported("nodes") && world.readiness().nodes.is_none());
        world.advance(MINUTE);
    }
    // One of them fails.
    world.fail_watch(unreachable());
    world.observe(Observation::WatchBegan(Watched::Nodes));
    world.advance(Duration::from_secs(10));
    assert!(!world.is_reported("nodes"));
    world.fail_watch(silent());
    world.advance(Duration::from_secs(70));
    assert!(world.metric(&format!("watch_broken_timestamp_seconds{{resource=\"nodes\"}} {since}")));
    assert!(!world.leads(), "kubelets write every five minutes");
    let unready = world.readiness().nodes.unwrap();
    assert!(unready.contains("a proxy holds events back"), "{unready}");
    world.observe(Observation::WatchHeard(Watched::Nodes));
    world.advance(Duration::from_secs(30));
    assert!(!world.is_reported("nodes") && world.leads() && world.readiness().nodes.is_none());
}

/// It keeps the watch open at first. No replica is better.
#[test]
fn outage_that_begins_with_silence_leaves_the_process_ready() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.renews = false;
    world.fail_watch(silent());
    world.seconds_led(20, unreachable);
    assert!(world.is_reported("nodes"));
    assert_eq!(world.readiness().nodes, None);
}

/// etcd reports its progress every ten minutes by default, and nobody edits rules.
#[test]
fn quiet_rules_are_not_broken() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    for _ in 0..20 {
        let failed = world.reconciler.watches.shown::<()>(Watched::Rules, Err(silent()), world.now);
        assert_eq!(failed.err(), Some(Failed::Quiet));
        world.observe(Observation::Rule(Err(silent())));
        world.observe(Observation::WatchBegan(Watched::Rules));
        world.advance(Duration::from_secs(90));
        assert!(world.leads() && !world.is_reported("rules") && world.readiness().rules.is_none());
    }
    assert!(world.metric("watch_restarts_total{resource=\"rules\"} 0"), "nor is that worth an alert");
    // What is heard may be an error.
    world.observe(Observation::Rule(Err(forbidden())));
    world.observe(Observation::WatchHeard(Watched::Rules));
    world.run();
    assert!(world.is_reported("rules"));
}

/// Silence is no reason to be unready at the first error.
#[test]
fn error_after_silence_counts_from_its_own_time() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    for _ in 0..9 {
        world.fail_watch(silent());
        world.advance(MINUTE);
    }
    let since = world.now.wall.as_second();
    world.fail_watch(forbidden());
    assert!(world.metric(&format!("watch_broken_timestamp_seconds{{resource=\"nodes\"}} {since}")));
    assert_eq!(world.readiness().nodes, None);
}

/// A new leader has to list the rules first, and only repairs until it can.
#[test]
fn leader_that_knows_the_rules_yields_after_five_minutes_without_their_watch() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.observe(Observation::Rule(Err(forbidden())));
    world.advance(Duration::from_secs(280));
    assert!(world.leads());
    world.advance(Duration::from_secs(40));
    assert!(!world.leads());
}

/// A list that lasts longer than the API server remembers.
#[test]
fn watch_that_expires_after_each_list_is_broken() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let expired =
        || watcher::Error::WatchError(Box::new(Status { code: 410, ..Status::failure("too old", "Expired") }));
    world.fail_watch(expired());
    assert!(!world.is_reported("nodes"), "once is normal");
    world.observe(Observation::WatchBegan(Watched::Nodes));
    world.advance(Duration::from_secs(6));
    world.fail_watch(expired());
    assert!(!world.is_reported("nodes"), "it has worked in between");
    let since = world.now.wall.as_second();
    world.advance(MINUTE);
    world.fail_watch(expired());
    assert!(world.metric(&format!("watch_broken_timestamp_seconds{{resource=\"nodes\"}} {since}")));
    world.observe(Observation::Node(Ok(Event::Apply(object(world.nodes["node-0"].clone())))));
    world.run();
    assert!(!world.is_reported("nodes"));
}

/// The cause may be on all replicas: then leadership moves ever more rarely.
#[test]
fn lease_is_given_away_ever_more_rarely() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let led = world.seconds_led(180, forbidden);
    let without = 180 * 60 - led;
    assert!((60..300).contains(&without), "{without} seconds without leadership in three hours");
    // It works for a while.
    world.observe(Observation::WatchBegan(Watched::Nodes));
    world.advance(60 * MINUTE);
    assert!(world.seconds_led(2, forbidden) < 110, "another replica has its turn at once");
}

/// No replica can list what the API server does not serve.
#[test]
fn missing_crd_moves_no_leadership() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let missing = Status { code: 404, ..Status::failure("not found", "") };
    let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(missing)));
    world.observe(Observation::Rule(Err(error)));
    world.advance(30 * MINUTE);
    assert!(world.leads() && world.is_reported("rules") && world.readiness().rules.is_some());
    world.renews_no_more();
}

/// Repairs need no pods, and no replica has a permission that is missing.
#[test]
fn broken_watch_of_pods_is_reported_and_leaves_the_process_ready() {
    let mut world = World::new(16);
    world.set_node("node-0", json!({}));
    world.set_rule("dongle", json!({}));
    world.watch_pods = 403;
    world.start();
    let since = world.now.wall.as_second();
    let is_since =
        |world: &World| world.metric(&format!("watch_broken_timestamp_seconds{{resource=\"pods\"}} {since}"));
    for _ in 0..60 {
        world.pass(30);
        world.list_pods();
        assert!(world.leads() && is_since(&world));
    }
    assert!(world.readiness().is_ready(), "{}", world.readiness());
    assert!(world.metric("watch_restarts_total{resource=\"pods\"} 1"), "an outage counts as one");
    world.watch_pods = 200;
    world.list_pods();
    world.run_until_idle();
    assert!(!world.is_reported("pods"));

    // Nothing is heard.
    world.hears_pods = false;
    world.pass(100);
    assert!(world.is_reported("pods") && world.metric("watch_restarts_total{resource=\"pods\"} 2"));
    // No rule depends on it any more.
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.pass(1);
    assert!(!world.is_reported("pods"));
}
