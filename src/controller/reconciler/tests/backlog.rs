//! What a node that waits behind many others, for the rollout of one rule, needs for another rule meanwhile.

use super::lists_ahead::{KEY, LIMITS, leading, with_cache};
use super::*;
use crate::controller::RolloutLimits;

impl World {
    /// Answers everything ten times a second. If `fails`, the first list of each scope fails.
    fn pass_answering(&mut self, seconds: usize, fails: bool) {
        let mut failed = BTreeSet::new();
        for _ in 0..seconds * 10 {
            for open in std::mem::take(&mut self.open) {
                match open {
                    Open::Pods { id, scope } if fails && failed.insert(format!("{scope:?}")) => {
                        self.reconciler
                            .complete(Completion::PodsListed { id, scope, reply: Err(error(410)) }, self.now);
                    }
                    open => self.answer(open),
                }
            }
            self.answer_patches();
            self.advance(Duration::from_millis(100));
        }
    }

    /// Lowers the dongles of the nodes in zone a for some seconds, and binds pods to those that are lowered. Returns them.
    fn lower_for(&mut self, seconds: u64) -> Vec<String> {
        let spec = |quantity: u64| {
            json!({"quantity": quantity, "shrinkPolicy": if quantity > 2 { "Immediate" } else { "WhenFree" }, "allNodes": null,
                "nodeSelector": {"matchLabels": {"zone": "a"}}})
        };
        self.set_rule("dongle", spec(4));
        self.pass(40);
        self.set_rule("dongle", spec(2));
        self.pass(seconds);
        let lowered: Vec<_> = self.nodes.keys().filter(|name| self.dongles(name) == 2).cloned().collect();
        self.pods = lowered.iter().map(|name| (name.clone(), 3)).collect();
        lowered
    }

    fn label_from(&mut self, first: usize) {
        let names: Vec<String> = self.nodes.keys().skip(first).cloned().collect();
        names.iter().for_each(|name| self.relabel(name, json!({"zone": "a"})));
    }
}

/// I5: a list after a lowering is not behind the nodes of another rollout, also if it fails at first.
#[test]
fn list_after_a_lowering_does_not_wait_for_another_rollout() {
    for (kubelet, nodes, seconds, fails) in [("v1.31.0", 120, 6, false), ("v1.30.14", 300, 12, true)] {
        let limits = RolloutLimits { patches_per_second: Some(13), max_listed: 32, ..RolloutLimits::NONE };
        let mut world = leading(kubelet, nodes, limits);
        world.label_from(nodes - 52);
        let late = world.lower_for(2);
        world.set_rule("key", json!({"resourceName": KEY, "shrinkPolicy": "Immediate"}));
        world.pass_answering(seconds, fails);
        let keys = world.listing(KEY);
        assert!(late.len() > 20 && keys < nodes, "{} lowered, {keys} keys", late.len());
        assert_eq!(world.having(3), late.len(), "{kubelet}");
        world.pass(60);
        assert_eq!((world.having(3), world.having(2), world.listing(KEY)), (late.len(), 52 - late.len(), nodes));
    }
}

/// The same where patches are slow.
#[test]
fn list_after_a_lowering_waits_for_few_patches_of_another_rollout() {
    let mut world = leading("v1.30.14", 120, RolloutLimits::at(Some(2)));
    world.label_from(100);
    let late = world.lower_for(4);
    world.set_rule("key", json!({"resourceName": KEY, "shrinkPolicy": "Immediate"}));
    world.pass_answering(10, false);
    assert!((8..=12).contains(&late.len()), "{}", late.len());
    assert_eq!(world.having(3), late.len());
    assert!(world.listing(KEY) < 40);
}

/// I9: pods end that hold a value, while the node waits for its turn in a rollout, with or without lists of pods.
#[test]
fn held_node_does_not_wait_behind_a_rollout() {
    for policy in ["WhenFree", "Immediate"] {
        let mut world = with_cache(60, RolloutLimits { patches_per_second: Some(1), ..LIMITS });
        world.set_rule("key", json!({"resourceName": KEY, "quantity": 1, "shrinkPolicy": "Immediate"}));
        let zone = json!({"matchLabels": {"zone": "a"}});
        world.set_rule("dongle", json!({"nodeSelector": zone, "allNodes": null}));
        world.relabel("node-59", json!({"zone": "a"}));
        world.pass(90);
        world.pods.insert("node-59".to_owned(), 3);
        world.set_rule("dongle", json!({"nodeSelector": zone, "allNodes": null, "quantity": 2}));
        world.pass(20);
        assert_eq!((world.dongles("node-59"), world.ready("dongle").as_str()), (3, "False Held"));
        let other = "example.com/other";
        world.set_rule("other", json!({"resourceName": other, "shrinkPolicy": policy}));
        world.run_until_idle();
        assert!(world.listing(other) < 20);
        world.pods.clear();
        world.pass(32);
        assert!(world.listing(other) < 55);
        assert_eq!(world.dongles("node-59"), 2, "{policy}");
    }
}

/// The same where the rollout of its own rule was stopped when it began to wait.
#[test]
fn held_node_of_a_stopped_rollout_does_not_wait_behind_another() {
    let mut world = with_cache(60, RolloutLimits { patches_per_second: Some(1), max_failed_nodes: 2, ..LIMITS });
    world.label_from(57);
    world.lower_for(0);
    world.pods = [("node-57".to_owned(), 3)].into();
    for _ in 0..50 {
        for open in std::mem::take(&mut world.open) {
            match open {
                Open::Patch { id, node, .. } if node != "node-57" => {
                    world.reply(id, &node, Reply::Rejected("no".to_owned()));
                }
                open => world.answer(open),
            }
        }
        world.advance(Duration::from_millis(100));
    }
    assert_eq!((world.dongles("node-57"), world.having(4)), (3, 2));
    assert!(world.events.iter().any(|event| event == "RolloutStopped"), "{:?}", world.events);
    world.set_rule("key", json!({"resourceName": KEY, "shrinkPolicy": "Immediate"}));
    world.pods.clear();
    world.pass(40);
    assert!(world.listing(KEY) < 58);
    assert_eq!(world.dongles("node-57"), 2);
}

/// A new node waits for no rollout: its retry is not behind the conditions of the other nodes.
#[test]
fn retry_on_a_new_node_does_not_wait_for_conditions() {
    let mut world = with_cache(60, RolloutLimits { patches_per_second: Some(1), ..LIMITS });
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
        let mut world = with_cache(90, RolloutLimits { patches_per_second: Some(1), ..LIMITS });
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

/// A list of all pods may take long. A node that changes by itself then has a list of its own.
#[test]
fn changed_node_does_not_wait_for_the_list_of_a_rollout() {
    let limits = RolloutLimits { patches_per_second: Some(10), max_listed: 400, ..RolloutLimits::NONE };
    let mut world = leading("v1.30.14", 200, limits);
    let zone = json!({"matchLabels": {"zone": "a"}});
    world.set_rule("key", json!({"resourceName": KEY, "nodeSelector": zone, "allNodes": null}));
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.pass(30);
    assert_eq!(world.having(4), 200);
    world.set_rule("dongle", json!({"quantity": 2}));
    let mut slow = None;
    for _ in 0..150 {
        for open in std::mem::take(&mut world.open) {
            match open {
                open @ Open::Pods { .. } if world.having(2) > 0 => slow = Some(open),
                open => world.answer(open),
            }
        }
        world.answer_patches();
        world.advance(Duration::from_millis(100));
    }
    assert!(matches!(slow, Some(Open::Pods { scope: PodScope::Cluster, .. })), "{slow:?}");
    assert!(world.reconciler.schedule.queue.len(Stage::ListPods) > 8);
    world.relabel("node-199", json!({"zone": "a"}));
    world.run();
    let of_node = |open: &Open| matches!(open, Open::Pods { scope: PodScope::Node(node), .. } if **node == *"node-199");
    assert!(world.open.iter().any(of_node), "{:?}", world.open);
}
