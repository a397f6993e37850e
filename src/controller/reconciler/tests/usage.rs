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
    world.set_rule("dongle", json!({}));
    assert!(world.watches_pods() && world.knows_pods());
    world.renews = false;
    world.advance(Duration::from_secs(60));
    assert!(!world.watches_pods() && !world.knows_pods(), "it leads no longer");
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
