//! What a node that waits behind many others, for the rollout of one rule, needs for another rule meanwhile.

use super::*;
use crate::reconciler::RolloutLimits;

const KEY: &str = "example.com/key";
const SLOW: RolloutLimits = RolloutLimits { patches_per_second: Some(1), ..RolloutLimits::NONE };

/// A leader without rules.
fn leading(nodes: usize) -> World {
    let mut world = World::with_limits(16, SLOW);
    for number in 0..nodes {
        world.set_node(&format!("node-{number:02}"), json!({}));
    }
    world.start();
    world.run_until_idle();
    world
}

impl World {
    /// The number of nodes whose ledger lists this resource.
    fn listing(&self, resource: &str) -> usize {
        let ledgers = self.nodes.keys().filter_map(|name| self.ledger(name));
        ledgers.filter(|ledger| ledger.contains(resource)).count()
    }
}

/// I9: pods end that hold a value, while the node waits for its turn in a rollout.
#[test]
fn held_node_does_not_wait_behind_a_rollout() {
    for policy in ["WhenFree", "Immediate"] {
        let mut world = leading(60);
        world.set_rule("key", json!({"resourceName": KEY, "quantity": 1, "shrinkPolicy": "Immediate"}));
        let zone = json!({"matchLabels": {"zone": "a"}});
        world.set_rule("dongle", json!({"nodeSelector": zone, "allNodes": null}));
        world.relabel("node-59", json!({"zone": "a"}));
        world.pass(90);
        world.bind("node-59", 3);
        world.set_rule("dongle", json!({"nodeSelector": zone, "allNodes": null, "quantity": 2}));
        world.pass(20);
        assert_eq!((world.dongles("node-59"), world.ready("dongle").as_str()), (3, "False Held"));
        let other = "example.com/other";
        world.set_rule("other", json!({"resourceName": other, "shrinkPolicy": policy}));
        world.run_until_idle();
        assert!(world.listing(other) < 20);
        world.end_pods();
        world.run_until_idle();
        assert_eq!(world.dongles("node-59"), 2, "{policy}");
        assert!(world.listing(other) < 20);
    }
}

/// The same where no rule declares the value anymore.
#[test]
fn leaving_value_does_not_wait_behind_a_rollout() {
    let mut world = leading(60);
    let zone = json!({"matchLabels": {"zone": "a"}});
    world.set_rule("dongle", json!({"nodeSelector": zone, "allNodes": null, "deletionPolicy": "WhenUnused"}));
    world.relabel("node-59", json!({"zone": "a"}));
    world.pass(90);
    world.bind("node-59", 3);
    world.delete_rule("dongle");
    world.pass(20);
    assert_eq!(world.dongles("node-59"), 3);
    let other = "example.com/other";
    world.set_rule("other", json!({"resourceName": other, "shrinkPolicy": "Immediate"}));
    world.run_until_idle();
    assert!(world.listing(other) < 20);
    world.end_pods();
    world.run_until_idle();
    assert_eq!((world.listing("example.com/dongle"), world.listing(other) < 20), (0, true));
}

/// A new node waits for no rollout: its retry is not behind the conditions of the other nodes.
#[test]
fn retry_on_a_new_node_does_not_wait_for_conditions() {
    let mut world = leading(60);
    let zone = json!({"matchLabels": {"zone": "a"}});
    world.set_rule("dongle", json!({"nodeSelector": zone, "allNodes": null, "shrinkPolicy": "Immediate"}));
    world.set_rule("key", json!({"resourceName": KEY, "shrinkPolicy": "Immediate"}));
    world.pass(90);
    super::conditions::switch(&mut world, true);
    world.start();
    world.pass(4);
    world.relabel("node-59", json!({"zone": "a"}));
    let mut rejected = 0;
    for _ in 0..30 {
        world.answer_all(|world, node, patch| {
            if node == "node-59" && rejected < 2 {
                rejected += 1;
                return Reply::Rejected("no".to_owned());
            }
            world.apply(node, patch)
        });
        world.advance(Duration::from_secs(1));
    }
    let has_condition = |node: &&serde_json::Value| !node["status"]["conditions"].is_null();
    assert!(world.nodes.values().filter(has_condition).count() < 45);
    assert_eq!((rejected, world.dongles("node-59")), (2, 4));
}

/// I9: a contest has pauses, but what ends them is no rollout.
#[test]
fn contested_value_is_repaired_after_its_pause_while_a_rollout_goes_on() {
    for policy in ["WhenFree", "Immediate"] {
        let mut world = leading(90);
        let name = "node-89";
        world.set_rule("dongle", json!({"allNodes": null, "nodeNames": [name], "shrinkPolicy": "Immediate"}));
        world.pass(2);
        for _ in 0..6 {
            world.set_dongles(name, 2);
            world.pass(1);
        }
        assert_eq!((world.dongles(name), world.ready("dongle").as_str()), (2, "False Contested"));
        world.set_rule("key", json!({"resourceName": KEY, "shrinkPolicy": policy}));
        world.pass(30);
        assert!(world.listing(KEY) < 45);
        assert_eq!(world.dongles(name), 4, "{policy}");
    }
}
