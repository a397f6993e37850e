//! When pods are watched.

use super::*;

impl World {
    fn watches_pods(&mut self) -> bool {
        self.run_until_idle();
        self.reconciler.next(self.now).watches_pods
    }

    fn knows_pods(&mut self) -> bool {
        self.reconciler.usage_on("node-0", self.now.instant) != PodUsage::NotFetched
    }
}

#[test]
fn pods_are_watched_while_a_leader_has_a_rule_that_depends_on_them() {
    let mut world = World::new(16);
    world.set_node("node-0", json!({}));
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.set_rule("elsewhere", json!({"resourceName": "example.com/key", "allNodes": null, "nodeNames": ["other"]}));
    world.list_all();
    assert!(!world.watches_pods(), "a standby");
    world.lead();
    assert!(!world.watches_pods(), "no rule with WhenFree selects a node");
    world.set_rule("dongle", json!({}));
    assert!(world.watches_pods());
    assert!(world.knows_pods());
    // It may select one again at any time.
    world.set_rule("dongle", json!({"allNodes": null, "nodeNames": ["other"]}));
    assert!(world.watches_pods() && world.knows_pods());
    for rule in ["dongle", "elsewhere"] {
        world.set_rule(rule, json!({"shrinkPolicy": "Immediate"}));
    }
    assert!(!world.watches_pods() && !world.knows_pods());
    // What is kept for it follows pods up.
    world.set_rule("elsewhere", json!({"shrinkPolicy": "Immediate", "paused": true}));
    assert!(world.watches_pods());
    world.delete_rule("elsewhere");
    assert!(!world.watches_pods());
    world.set_rule("dongle", json!({}));
    assert!(world.watches_pods() && world.knows_pods());
    world.renews = false;
    world.advance(Duration::from_secs(60));
    assert!(!world.watches_pods() && !world.knows_pods(), "it leads no longer");
}

/// Although no rule depends on them: the ledger says that the value is to leave.
#[test]
fn pods_are_watched_while_a_value_leaves() {
    let mut world = World::leading(2, &[]);
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate", "deletionPolicy": "WhenUnused"}));
    assert!(!world.watches_pods());
    world.bind("node-0", 3);
    world.delete_rule("dongle");
    assert!(world.watches_pods());
    assert_eq!((world.dongles("node-0"), world.ledger("node-1")), (3, None));
    assert!(world.metric("values_leaving 1"));
    assert_eq!(world.events.iter().filter(|reason| *reason == "Leaving").count(), 1, "{:?}", world.events);
    world.end_pods();
    assert!(!world.watches_pods());
    assert_eq!(world.ledger("node-0"), None);
    assert!(world.metric("values_leaving 0"));
}

/// Whoever leads next knows it from the ledger alone: that no rule is left is no reason to wait for another list.
#[test]
fn value_leaves_under_the_next_leader() {
    let mut world = World::leading(1, &[]);
    world.set_rule("dongle", json!({"deletionPolicy": "WhenUnused"}));
    world.run_until_idle();
    world.bind("node-0", 3);
    world.delete_rule("dongle");
    world.run_until_idle();
    assert!(world.metric("values_leaving 1") && world.dongles("node-0") == 3);
    world.renews_no_more();
    assert!(world.metric("values_leaving 0"), "it leads no longer");
    let mut next = World::new(16);
    next.nodes = world.nodes;
    next.pods = world.pods;
    next.start();
    next.run_until_idle();
    assert!(next.metric("values_leaving 1") && next.metric("rules_missing 0"));
    next.end_pods();
    next.run_until_idle();
    assert_eq!((next.ledger("node-0"), next.metric("values_leaving 0")), (None, true));
}

#[test]
fn pod_that_cannot_be_decoded_is_in_the_metrics() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    assert!(world.watches_pods());
    let odd = |version: &str| object(json!({"metadata": {"uid": "odd", "resourceVersion": version}, "spec": 7}));
    world.observe(Observation::Pods(Ok(Event::Apply(odd("1")))));
    assert!(world.metric("node_resource_advertiser_unreadable_pods 1"));
    world.observe(Observation::Pods(Ok(Event::Delete(odd("2")))));
    assert!(world.metric("node_resource_advertiser_unreadable_pods 0"));
}

impl World {
    /// What the last status of a rule reports, and how many there have been.
    fn requested(&self, rule: &str) -> (Option<String>, usize) {
        let statuses = self.statuses.iter().filter(|(name, _)| name == rule);
        let last = statuses.clone().next_back().and_then(|(_, status)| status["requested"].as_str());
        (last.map(str::to_owned), statuses.count())
    }
}

const SERIES: &str = r#"{resource="example.com/dongle",rule="dongle"}"#;

#[test]
fn use_alone_costs_one_status_in_thirty_seconds() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.pass(40);
    let (requested, before) = world.requested("dongle");
    assert_eq!(requested.as_deref(), Some("0"));
    for second in 0..300 {
        world.bind("node-0", 1 + second % 3);
        world.bind("node-1", 1 + second % 4);
        world.pass(1);
    }
    let written = world.requested("dongle").1 - before;
    assert!((9..=11).contains(&written), "{written} statuses in 300 s");
    world.bind("node-0", 4);
    world.bind("node-1", 2);
    let seconds = (0..40).take_while(|_| {
        world.pass(1);
        world.requested("dongle").0.as_deref() != Some("6")
    });
    assert!(seconds.count() <= 30, "{:?}", world.requested("dongle"));
    // Nothing else waits for that.
    world.bind("node-1", 1);
    world.pass(1);
    assert_eq!(world.requested("dongle").0.as_deref(), Some("6"));
    world.set_rule("dongle", json!({"quantity": 5}));
    world.pass(2);
    assert_eq!((world.requested("dongle").0.as_deref(), &*world.ready("dongle")), (Some("5"), "True Advertised"));
    let (_, written) = world.requested("dongle");
    world.pass(300);
    assert_eq!(world.requested("dongle").1, written, "nothing changes");
}

#[test]
fn requested_is_reported_only_while_pods_are_known() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.set_rule("key", json!({"resourceName": "example.com/key", "shrinkPolicy": "Immediate"}));
    world.bind("node-0", 3);
    world.pass(60);
    assert_eq!(world.requested("dongle").0.as_deref(), Some("3"));
    assert_eq!(world.requested("key").0.as_deref(), Some("0"), "whatever its policy");
    assert!(world.metric(&format!("_requested{SERIES} 3.0")) && world.metric(&format!("_advertised{SERIES} 4.0")));

    // The watch becomes silent.
    world.hears_pods = false;
    world.pass(150);
    assert_eq!(world.requested("dongle").0, None);
    assert!(!world.metric(&format!("_requested{SERIES} 3.0")) && world.metric(&format!("_advertised{SERIES} 4.0")));
    world.hears_pods = true;
    world.pass(60);
    assert_eq!(world.requested("dongle").0.as_deref(), Some("3"));

    // No rule depends on pods.
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.pass(60);
    assert_eq!((world.requested("dongle").0, world.requested("key").0), (None, None));
}

#[test]
fn requested_is_of_the_nodes_on_which_the_rule_has_a_value() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.bind("node-0", 3);
    world.bind("node-1", 2);
    world.pass(60);
    assert_eq!(world.requested("dongle").0.as_deref(), Some("5"));
    world.set_rule("dongle", json!({"allNodes": null, "nodeNames": ["node-1"]}));
    world.pass(2);
    assert_eq!(world.requested("dongle").0.as_deref(), Some("2"));
    // Another rule decides there.
    world.set_rule("other", json!({"allNodes": null, "nodeNames": ["node-1"], "priority": 1}));
    world.pass(60);
    let [dongle, other] = ["dongle", "other"].map(|rule| world.requested(rule).0.unwrap());
    assert_eq!([&*dongle, &*other], ["0", "2"]);
    // No pod requests what it declares now.
    world.set_rule("other", json!({"allNodes": null, "nodeNames": ["node-1"], "resourceName": "example.com/key"}));
    world.pass(60);
    let [dongle, other] = ["dongle", "other"].map(|rule| world.requested(rule).0.unwrap());
    assert_eq!([&*dongle, &*other], ["2", "0"]);
    assert!(world.metric("_requested{resource=\"example.com/key\",rule=\"other\"} 0.0"));
    assert!(!world.metric("_requested{resource=\"example.com/dongle\",rule=\"other\"} 2.0"));
    world.edit_node("node-1", |_| {});
    let node = object(world.nodes.remove("node-1").unwrap());
    world.observe(Observation::Node(Ok(Event::Delete(node))));
    world.pass(60);
    assert_eq!(world.requested("dongle").0.as_deref(), Some("0"));
    world.delete_rule("other");
    world.pass(1);
    let text = world.metrics().text().unwrap();
    assert!(!text.contains("rule=\"other\""), "{text}");
}

/// It reports what the previous leader reported until it has listed pods.
#[test]
fn new_leader_writes_no_status_for_pods_that_are_as_before() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.bind("node-0", 3);
    world.pass(60);
    let before = world.requested("dongle");
    assert_eq!(before.0.as_deref(), Some("3"));
    world.renews = false;
    world.pass(60);
    assert!(!world.metric(&format!("_requested{SERIES} 3.0")) && !world.metric(&format!("_advertised{SERIES} 4.0")));
    // Lists take a while.
    world.renews = true;
    world.holds_lists = true;
    world.lead();
    world.advance(Duration::from_secs(5));
    world.holds_lists = false;
    world.pass(60);
    assert!(world.metric(&format!("_requested{SERIES} 3.0")), "it leads again");
    assert_eq!(world.requested("dongle"), before);
}
