//! The self-test: when it is sent, and what comes of each answer to it.

use super::*;

const REJECTED: &str = "ValidatingAdmissionPolicy 'node-resource-advertiser' with binding \
    'node-resource-advertiser' denied request: node-resource-advertiser may not change metadata.labels";

pub(super) fn rejection() -> Result<(), RequestError> {
    let RequestError::Api { code, retry_after, .. } = error(422) else { panic!() };
    let status = Box::new(kube::core::Status::failure(REJECTED, ""));
    Err(RequestError::Api { code, status, retry_after })
}

impl World {
    pub(super) fn answer_self_test(&mut self, reply: Result<(), RequestError>) {
        let (number, ..) = *self.self_tests.last().expect("a test");
        let completion = Completion::ConfinementTested { number, reply };
        self.reconciler.complete(completion, self.now);
        self.run();
    }

    /// Whether metrics and `/readyz?verbose` show this state, and no other.
    fn shows_confinement(&self, state: &str, text: &str) -> bool {
        let gauges = ["confined", "unconfined", "unknown", "no_node", "off"].map(|name| {
            let count = usize::from(name == state);
            self.metric(&format!(r#"advertiser_confinement{{state="{name}"}} {count}"#))
        });
        let verbose = self.readiness().verbose();
        let line = verbose.lines().find(|line| line.starts_with("confinement: "));
        gauges == [true; 5] && line.is_some_and(|line| line.contains(text))
    }
}

#[test]
fn leader_tests_confinement_at_once_and_then_every_minute() {
    let mut world = World::leading(3, &[("dongle", 4)]);
    assert_eq!(world.self_tests.len(), 1);
    assert!(world.shows_confinement("unknown", "not tested yet"));
    world.answer_self_test(rejection());
    assert!(world.shows_confinement("confined", "rejected the last dry run"));
    assert!(world.metric(r#"confinement_tests_total{result="confined"} 1"#));
    world.run_until_idle();
    for minute in 1..=4 {
        world.advance(Duration::from_secs(59));
        assert_eq!(world.self_tests.len(), minute, "not before the minute is over");
        world.advance(Duration::from_secs(1));
        assert_eq!(world.self_tests.len(), minute + 1);
        world.answer_self_test(rejection());
    }
    // Each time another node, and another label: one that is there already would be no change.
    let nodes: Vec<_> = world.self_tests.iter().map(|(_, node, _)| node.as_str()).collect();
    assert_eq!(nodes, ["node-0", "node-1", "node-2", "node-0", "node-1"]);
    let labels: std::collections::BTreeSet<_> = world.self_tests.iter().map(|(.., label)| label).collect();
    assert_eq!(labels.len(), 5);
}

#[test]
fn failed_self_test_is_not_sent_again_before_the_next_minute() {
    for answer in [
        Err(error(400)),
        Err(error(403)),
        Err(error(404)),
        Err(error(409)),
        Err(error(422)),
        Err(error(429)),
        Err(error(500)),
        Err(RequestError::Transport("no answer within 15s".to_owned())),
    ] {
        let mut world = World::leading(1, &[("dongle", 4)]);
        world.run_until_idle();
        let text = format!("unknown: {}", answer.as_ref().unwrap_err());
        world.answer_self_test(answer);
        assert!(world.shows_confinement("unknown", &text), "{text}");
        world.advance(Duration::from_secs(59));
        assert_eq!(world.self_tests.len(), 1, "{text}");
        world.advance(Duration::from_secs(1));
        world.answer_self_test(rejection());
        assert!(world.shows_confinement("confined", "rejected the last dry run"), "{text}");
        assert!(world.readiness().is_ready(), "{text}");
    }
}

/// The policy takes effect a moment after the installation.
#[test]
fn first_self_test_that_is_accepted_is_repeated_soon() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    for number in 1..=2 {
        assert_eq!(world.self_tests.len(), number);
        world.answer_self_test(Ok(()));
        assert!(world.shows_confinement("unconfined", "allows this account to change nodes"));
        world.advance(Duration::from_secs(5));
    }
    assert_eq!(world.self_tests.len(), 2, "and only once");
    world.advance(Duration::from_secs(54));
    assert_eq!(world.self_tests.len(), 2);
    world.advance(Duration::from_secs(1));
    world.answer_self_test(rejection());
    assert!(world.shows_confinement("confined", "rejected the last dry run") && world.readiness().is_ready());
}

#[test]
fn self_test_delays_no_repair_and_no_shutdown() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    assert_eq!(world.self_tests.len(), 1, "unanswered from here on");
    world.run_until_idle();
    world.set_dongles("node-0", 0);
    world.run();
    assert_eq!(world.patched(), ["node-0"]);
    world.run_until_idle();
    world.observe(Observation::Stop);
    world.run();
    assert!(world.events.contains(&"released".to_owned()), "{:?}", world.events);
}

#[test]
fn process_that_does_not_lead_sends_no_self_test() {
    let mut world = World::new(16);
    world.set_node("node-0", json!({}));
    world.renews = false;
    world.start();
    world.advance(Duration::from_secs(180));
    assert!(world.self_tests.is_empty());
    assert!(world.shows_confinement("standby", "tested by the leader"));
}

#[test]
fn answer_that_comes_after_leadership_shows_nothing() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.renews_no_more();
    world.answer_self_test(Ok(()));
    assert!(world.shows_confinement("standby", "tested by the leader"));
    assert!(world.metric(r#"confinement_tests_total{result="unconfined"} 0"#));
    assert!(world.metric(r#"confinement_tests_total{result="unknown"} 1"#));
    world.advance(Duration::from_secs(180));
    assert_eq!(world.self_tests.len(), 1);
}

/// The answer to a test from before this process lost the Lease and took it again.
#[test]
fn answer_to_an_earlier_self_test_shows_nothing() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    let (number, ..) = world.self_tests[0];
    world.renews_no_more();
    world.renews = true;
    world.advance(Duration::from_secs(30));
    assert_eq!(world.self_tests.len(), 2, "it leads again");
    let late = Completion::ConfinementTested { number, reply: Ok(()) };
    world.reconciler.complete(late, world.now);
    assert!(world.shows_confinement("unknown", "not tested yet"));
    world.answer_self_test(rejection());
    assert!(world.shows_confinement("confined", "rejected the last dry run"));
}

#[test]
fn self_test_waits_for_a_node() {
    let mut world = World::leading(0, &[("dongle", 4)]);
    assert!(world.shows_confinement("no_node", "no node to test with"));
    world.advance(Duration::from_secs(30));
    world.set_node("node-0", json!({}));
    world.advance(Duration::from_secs(30));
    assert_eq!(world.self_tests.len(), 1);
}

#[test]
fn self_test_that_is_switched_off_is_reported_so() {
    let mut world = World::new(16);
    let options = Options { confinement_test: false, ..world.reconciler.options.clone() };
    world.reconciler = Reconciler::new(Candidate::for_test("pod-1"), options);
    world.set_node("node-0", json!({}));
    world.start();
    world.advance(Duration::from_secs(180));
    assert!(world.self_tests.is_empty());
    assert!(world.shows_confinement("off", "not tested"));
}
