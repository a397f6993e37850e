//! Only the leader writes, and a new one with the rules as they are.

use super::*;
use crate::model::ledger;

impl World {
    pub(super) fn renews_no_more(&mut self) {
        self.renews = false;
        self.advance(Duration::from_secs(11));
        assert!(!self.reconciler.leads(self.now.instant));
    }

    /// Deletes all rules while their watch is away, which then lists what is left.
    fn lose_rules(&mut self) {
        self.rules.clear();
        self.observe(Observation::Rule(Ok(Event::Init)));
        self.observe(Observation::Rule(Ok(Event::InitDone)));
        self.run();
    }
}

#[test]
fn standby_writes_nothing() {
    let mut world = World::new(16);
    world.set_node("node-0", json!({}));
    world.set_rule("dongle", json!({}));
    world.renews = false;
    world.start();
    world.advance(Duration::from_secs(60));
    assert!(world.open.is_empty() && world.statuses.is_empty());
}

/// Nor does what pods request lead to a patch once leadership is lost.
#[test]
fn pods_that_start_after_leadership_is_lost_lead_to_no_patch() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.renews_no_more();
    assert!(!world.watches_pods);
    world.watches_pods = true;
    world.bind("node-0", 6);
    world.watches_pods = false;
    world.advance(Duration::from_secs(5));
    assert!(world.open.is_empty(), "{:?}", world.open);
}

/// No request outlives the Lease.
#[test]
fn deadline_of_a_patch_is_never_beyond_the_lease() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.renews = false;
    world.advance(Duration::from_secs(9));
    let renewed = world.now.instant - Duration::from_secs(9);
    world.set_dongles("node-0", 0);
    world.run();
    let Open::Patch { deadline, .. } = &world.open[0] else { panic!() };
    assert!(*deadline <= renewed + Duration::from_secs(15), "{:?}", deadline.duration_since(renewed));
}

/// I10: the Events that waited when the last term ended were never sent.
#[test]
fn problem_is_reported_again_in_the_next_term() {
    let mut world = World::leading(1, &[]);
    world.set_dongles("node-0", 7);
    world.set_rule("dongle", json!({}));
    let conflicts = |world: &mut World| {
        world.pass(20);
        std::mem::take(&mut world.events).iter().filter(|reason| *reason == "Conflict").count()
    };
    assert_eq!(conflicts(&mut world), 2, "on the node, and on the rule");
    assert_eq!(conflicts(&mut world), 0, "nothing is new");
    world.renews_no_more();
    world.renews = true;
    assert_eq!(conflicts(&mut world), 2);
}

/// I4: a leader whose rule watch is behind withdraws nothing before it has listed the rules.
#[test]
fn new_leader_lists_the_rules_before_it_withdraws() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.run_until_idle();
    let mut next = World::new(16);
    next.reconciler.options.mass_withdrawal_delay = Duration::ZERO;
    next.nodes = world.nodes.clone();
    next.list_nodes();
    next.observe(Observation::Rule(Ok(Event::Init)));
    next.observe(Observation::Rule(Ok(Event::InitDone)));
    next.rules = world.rules.clone();
    next.holds_lists = true;
    next.lead();
    next.advance(Duration::from_secs(60));
    assert_eq!(next.patched(), [""; 0], "the list is unanswered");
    next.run_until_idle();
    next.advance(Duration::from_secs(60));
    assert_eq!((next.dongles("node-0"), next.ready("dongle").as_str()), (4, "True Advertised"));
}

/// A leader that led before lists the rules too.
#[test]
fn leader_that_leads_again_lists_the_rules_again() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.renews_no_more();
    world.watching = false;
    world.set_rule("dongle", json!({"quantity": 8}));
    world.renews = true;
    world.pass(20);
    assert_eq!(world.dongles("node-0"), 8);
}

/// I4: while the rules cannot be listed, repairs are written and nothing else.
#[test]
fn leader_without_a_list_of_rules_only_repairs() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let mut next = World::new(16);
    next.nodes = world.nodes.clone();
    next.set_node("new", json!({}));
    next.set_dongles("node-0", 0);
    next.set_rule("key", json!({"resourceName": "example.com/key"}));
    next.list_rules = 500;
    next.start();
    next.run_until_idle();
    assert_eq!(next.dongles("node-0"), 4, "repaired by the ledger");
    next.advance(Duration::from_secs(120));
    next.run_until_idle();
    assert_eq!((next.ledger("new"), next.dongles("node-0")), (None, 4));
    next.list_rules = 200;
    next.advance(Duration::from_secs(130));
    next.run_until_idle();
    assert!(next.ledger("new").unwrap().contains("example.com/key"));
}

/// I4: a list without most of the rules is acted on only after five minutes.
#[test]
fn mass_withdrawal_waits() {
    let rules = [("a", "example.com/a"), ("b", "example.com/b"), ("c", "example.com/c")];
    let mut world = World::leading(2, &[]);
    for (rule, resource) in rules {
        world.set_rule(rule, json!({"resourceName": resource}));
    }
    world.run_until_idle();
    world.advance(Duration::from_secs(2));
    // The CustomResourceDefinition is deleted and recreated while the watch is away.
    let kept = world.rules.remove("a").unwrap();
    world.rules = BTreeMap::from([("a".to_owned(), kept)]);
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.observe(Observation::Rule(Ok(Event::InitApply(object(world.rules["a"].clone())))));
    world.observe(Observation::Rule(Ok(Event::InitDone)));
    world.run_until_idle();
    world.advance(Duration::from_secs(290));
    world.run_until_idle();
    assert!(world.ledger("node-0").unwrap().contains("example.com/c"));
    assert!(world.metric("rules_missing 2"));
    world.set_rule("b", json!({"resourceName": "example.com/b"}));
    world.run_until_idle();
    assert!(world.metric("rules_missing 1"), "one is back");
    world.advance(Duration::from_secs(11));
    world.run_until_idle();
    let ledger = world.ledger("node-0").unwrap();
    assert!(ledger.contains("example.com/b") && !ledger.contains("example.com/c"), "{ledger}");
    assert!(world.metric("rules_missing 0"));
}

/// I4: a hold belongs to one term of leadership. One that was interrupted withdraws nothing at the next incident.
#[test]
fn hold_that_was_interrupted_does_not_shorten_the_next_one() {
    let mut world = World::leading(3, &[("dongle", 4)]);
    world.run_until_idle();
    world.lose_rules();
    assert!(world.metric("rules_missing 1"));
    world.renews_no_more();
    assert!(world.metric("rules_missing 0"));
    // The leader in between has withdrawn the values, and advertised others.
    world.advance(Duration::from_secs(600));
    let ledger = r#"{"example.com/key":{"quantity":"4","rule":"key"}}"#;
    let values = json!({"example.com/key": "4"});
    for number in 0..3 {
        let name = format!("node-{number}");
        world.set_node(&name, json!({"capacity": values, "allocatable": values}));
        world.edit_node(&name, |node| node["metadata"]["annotations"][ledger::ANNOTATION] = json!(ledger));
    }
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    // All rules are gone again, when this process becomes the leader.
    world.lose_rules();
    world.renews = true;
    world.pass(20);
    assert!(world.metric("rules_missing 1"));
    world.advance(Duration::from_secs(270));
    world.run_until_idle();
    assert_eq!(world.ledger("node-2"), Some(ledger), "the rule is held for the whole delay");
    world.advance(Duration::from_secs(31));
    world.run_until_idle();
    assert_eq!(world.ledger("node-2"), None, "the hold has ended");
}

/// I4: the CustomResourceDefinition is recreated a second time, while the last of its rules is still held.
#[test]
fn rules_that_vanish_during_a_hold_are_held_for_the_whole_delay() {
    let resource = |rule: &str| json!({"resourceName": format!("example.com/{rule}")});
    let mut world = World::leading(2, &[]);
    ["a", "b", "c"].into_iter().for_each(|rule| world.set_rule(rule, resource(rule)));
    world.run_until_idle();
    world.lose_rules();
    assert!(world.metric("rules_missing 3"));
    ["a", "b"].into_iter().for_each(|rule| world.set_rule(rule, resource(rule)));
    world.run_until_idle();
    assert!(world.metric("rules_missing 1"));
    world.advance(Duration::from_secs(290));
    world.rules.clear();
    world.advance(Duration::from_secs(20));
    world.run_until_idle();
    let ledger = world.ledger("node-0").unwrap_or_default();
    assert!(ledger.contains("example.com/a") && ledger.contains("example.com/b"), "{ledger}");
    assert!(!ledger.contains("example.com/c") && world.metric("rules_missing 2"), "{ledger}");
    world.advance(Duration::from_secs(270));
    world.run_until_idle();
    assert!(world.ledger("node-0").is_some_and(|ledger| ledger.contains("example.com/a")));
    world.advance(Duration::from_secs(40));
    world.run_until_idle();
    assert_eq!(world.ledger("node-0"), None);
}

/// I4: what came back during the hold may be missing in a watch that is silent.
#[test]
fn hold_ends_after_a_list_that_began_after_the_delay() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.run_until_idle();
    world.lose_rules();
    world.watching = false;
    world.set_rule("dongle", json!({}));
    world.list_rules = 500;
    world.advance(Duration::from_secs(310));
    assert_eq!(world.patched(), [""; 0], "a failed list is no evidence");
    assert!(world.metric("rules_missing 1"));
    world.list_rules = 200;
    world.advance(Duration::from_secs(150));
    assert_eq!((world.patched().len(), world.dongles("node-0")), (0, 4), "the rule is back");
    assert!(world.metric("rules_missing 0"));
}

/// The same where the nodes are listed last, as by a process that starts beside many of them.
#[test]
fn mass_withdrawal_waits_where_nodes_are_listed_after_rules() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.run_until_idle();
    let mut next = World::new(16);
    next.nodes = world.nodes.clone();
    next.observe(Observation::Rule(Ok(Event::Init)));
    next.observe(Observation::Rule(Ok(Event::InitDone)));
    next.lead();
    next.list_nodes();
    next.run_until_idle();
    assert!(next.metric("rules_missing 1"));
    next.advance(Duration::from_secs(299));
    next.run_until_idle();
    assert_eq!(next.dongles("node-0"), 4, "the rule is held");
    next.advance(Duration::from_secs(1));
    next.run_until_idle();
    assert_eq!(next.dongles("node-0"), -1, "the hold has ended");
}

/// What an ex-leader counted, and what it waited for, is not reported any more.
#[test]
fn ex_leader_reports_no_states_and_is_ready() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 8}));
    world.run();
    let (slot, node, _) = world.only_patch();
    world.reply(slot, &node, Reply::Forbidden("no right".to_owned()));
    world.advance(Duration::from_millis(100));
    assert!(world.readiness().patches.is_some());
    assert!(world.metric("nodes{state=\"failed\"} 1"));
    world.renews_no_more();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.readiness().patches, None);
    assert!(world.metric("nodes{state=\"failed\"} 0"));
    assert!(world.metric("leader 0"));
}

/// Alerts take the maximum over all replicas.
#[test]
fn ex_leader_exports_no_gauge_of_a_leader() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.set_rule("nowhere", json!({"allNodes": null, "nodeNames": ["other"]}));
    world.set_rule("invalid", json!({"resourceName": "cpu"}));
    world.pass(3);
    let gauges = |world: &World| {
        let text = world.metrics().text().unwrap();
        // The memory that rules take is this process's own.
        let is_gauge = |line: &&str| {
            ["_nodes{", "_rules{", "_rules_without", "_rules_missing"].iter().any(|gauge| line.contains(gauge))
        };
        let gauges = text.lines().filter(is_gauge).filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
        gauges.map(|line| line.trim_start_matches("node_resource_advertiser_").to_owned()).collect::<Vec<_>>()
    };
    let [stalled, without] = ["rules{state=\"stalled\"} 1", "rules_without_nodes 1"].map(str::to_owned);
    assert!(gauges(&world).contains(&stalled) && gauges(&world).contains(&without), "{:?}", gauges(&world));
    world.lose_rules();
    assert!(gauges(&world).contains(&"rules_missing 1".to_owned()));
    world.set_rule("invalid", json!({"resourceName": "cpu"}));
    world.renews_no_more();
    world.run();
    assert_eq!(gauges(&world), [""; 0]);
    // Rules change while this process stands by.
    world.set_rule("invalid", json!({"resourceName": "memory"}));
    world.lose_rules();
    world.advance(Duration::from_secs(60));
    assert_eq!(gauges(&world), [""; 0]);
}

/// The Lease is not released while a write may still land.
#[test]
fn lease_is_released_only_where_nothing_is_unanswered() {
    for answered in [true, false] {
        let mut world = World::leading(1, &[("dongle", 4)]);
        world.run_until_idle();
        world.set_dongles("node-0", 0);
        world.run();
        world.observe(Observation::Stop);
        world.run();
        assert!(!world.reconciler.next(world.now).done, "a patch is in flight");
        if answered {
            world.run_until_idle();
        } else {
            world.advance(Duration::from_secs(3));
        }
        world.run();
        assert!(world.reconciler.next(world.now).done);
        assert_eq!(world.events.contains(&"released".to_owned()), answered);
    }
}

/// The same for one that has failed without a response before the process is to end.
#[test]
fn lease_is_kept_while_a_patch_that_failed_may_be_applied() {
    for code in [500, 403] {
        let mut world = World::leading(1, &[("dongle", 4)]);
        world.run_until_idle();
        world.set_dongles("node-0", 0);
        world.run();
        let (slot, node, _) = world.only_patch();
        world.reply(slot, &node, failed(code));
        world.observe(Observation::Stop);
        world.run();
        assert!(world.reconciler.next(world.now).done);
        assert_eq!(world.events.contains(&"released".to_owned()), code == 403, "{code}");
    }
}

#[test]
fn stopping_leader_starts_nothing_new() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.run_until_idle();
    world.observe(Observation::Stop);
    world.set_dongles("node-0", 0);
    world.run();
    assert!(world.open.is_empty());
}

/// A hold that is due to end while a leader that leads again cannot list the rules does not keep it awake.
#[test]
fn leader_without_a_list_of_rules_rests_when_a_hold_is_due_to_end() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.run_until_idle();
    world.rules.clear();
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.observe(Observation::Rule(Ok(Event::InitDone)));
    world.run_until_idle();
    world.advance(Duration::from_secs(280));
    world.renews_no_more();
    world.list_rules = 500;
    world.renews = true;
    // It panics where the process never comes to rest.
    world.advance(Duration::from_secs(120));
    assert_eq!(world.dongles("node-0"), 4);
    world.list_rules = 200;
    world.advance(Duration::from_secs(130));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 4, "the delay has begun anew");
    world.advance(Duration::from_secs(301));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), -1, "the hold has ended");
}
