//! Rollouts: their rate, and what stops them.

use json_patch::Patch;

use super::*;
use crate::reconciler::RolloutLimits;

/// A leader without rules.
fn leading(concurrency: usize, nodes: usize, limits: RolloutLimits) -> World {
    let mut world = World::with_limits(concurrency, limits);
    for number in 0..nodes {
        world.set_node(&format!("node-{number:02}"), json!({}));
    }
    world.start();
    world.run_until_idle();
    world
}

fn paced(nodes: usize, per_second: u32) -> World {
    leading(16, nodes, RolloutLimits { patches_per_second: Some(per_second), ..RolloutLimits::NONE })
}

fn stopping(nodes: usize, max_failed_nodes: usize) -> World {
    leading(1, nodes, RolloutLimits { max_failed_nodes, ..RolloutLimits::NONE })
}

impl World {
    fn roll_out(&mut self, quantity: u64) {
        self.set_rule("dongle", json!({"quantity": quantity, "shrinkPolicy": "Immediate"}));
        self.run();
    }

    /// The number of nodes with this many dongles.
    pub(super) fn having(&self, dongles: i64) -> usize {
        self.nodes.keys().filter(|name| self.dongles(name) == dongles).count()
    }

    /// Rejects patches until none is open. Returns how many.
    fn reject_all(&mut self) -> usize {
        let mut rejected = 0;
        while !self.open.is_empty() {
            let (slot, node, _) = self.only_patch();
            self.reply(slot, &node, Reply::Rejected("no".to_owned()));
            rejected += 1;
        }
        rejected
    }
}

#[test]
fn rollout_has_a_maximum_rate() {
    let mut world = paced(20, 2);
    world.roll_out(4);
    world.run_until_idle();
    assert_eq!(world.having(4), 2, "at once");
    for second in 1..=9 {
        world.pass(1);
        assert_eq!(world.having(4), 2 + 2 * second);
    }
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("dongle"), "True Advertised");
    world.delete_rule("dongle");
    world.run_until_idle();
    assert_eq!(world.having(-1), 2, "a withdrawal is a rollout too");
}

/// Pods may wait for them.
#[test]
fn repairs_and_new_and_relabelled_nodes_overtake_a_rollout() {
    let mut world = paced(20, 1);
    world.roll_out(4);
    world.run_until_idle();
    assert_eq!(world.having(4), 1);
    world.set_node("node-new", json!({}));
    world.relabel("node-19", json!({"zone": "b"}));
    world.reset("node-00");
    world.run_until_idle();
    assert_eq!(["node-00", "node-19", "node-new"].map(|name| world.dongles(name)), [4; 3]);
    assert_eq!(world.having(4), 3);
}

/// Pods may wait for what selects it by then, whether the watch or the response shows the label first.
#[test]
fn node_that_is_relabelled_while_its_patch_is_in_flight_leaves_the_rollout() {
    for watch_is_first in [true, false] {
        let mut world = paced(20, 1);
        let selector = json!({"matchLabels": {"zone": "b"}});
        world.set_rule("zone", json!({"resourceName": "example.com/zone", "allNodes": null, "nodeSelector": selector}));
        world.roll_out(4);
        let (slot, node, patch) = world.only_patch();
        world.watching = watch_is_first;
        world.relabel(&node, json!({"zone": "b"}));
        let reply = world.apply(&node, &patch);
        world.watching = true;
        world.reply(slot, &node, reply);
        world.run_until_idle();
        let value = &world.nodes[&node]["status"]["allocatable"]["example.com/zone"];
        assert_eq!((value, world.having(4)), (&json!("4"), 1), "the watch is first: {watch_is_first}");
    }
}

/// It does not know since when they have not been as declared.
#[test]
fn starting_controller_patches_old_nodes_at_the_rate_of_a_rollout() {
    for leads_first in [false, true] {
        let limits = RolloutLimits { patches_per_second: Some(2), ..RolloutLimits::NONE };
        let mut world = World::with_limits(16, limits);
        for number in 0..20 {
            world.set_node(&format!("node-{number:02}"), json!({}));
        }
        world.set_node("node-new", json!({}));
        world.nodes.get_mut("node-new").unwrap()["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
        world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
        if leads_first {
            world.lead();
            world.list_all();
        } else {
            world.start();
        }
        world.run_until_idle();
        assert_eq!((world.dongles("node-new"), world.having(4)), (4, 3));
    }
}

#[test]
fn new_leader_continues_a_rollout_at_its_rate() {
    let mut world = paced(20, 2);
    world.roll_out(4);
    world.pass(2);
    world.renews_no_more();
    let before = world.having(4);
    world.renews = true;
    world.pass(20);
    assert!(world.reconciler.leads(world.now.instant));
    assert!(world.having(4) > before);
    world.pass(10);
    assert_eq!(world.having(4), 20);
}

#[test]
fn rollout_whose_patches_fail_stops_and_is_reported() {
    let mut world = stopping(20, 3);
    world.roll_out(4);
    assert_eq!(world.reject_all(), 3);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("dongle"), "False RolloutStopped");
    let (_, status) = world.statuses.last().unwrap();
    assert_eq!(status["nodes"]["failed"], 20);
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("17 waiting because patches of other nodes failed, 3 failed and retried"), "{message}");
    let stops = |world: &World| world.events.iter().filter(|reason| *reason == "RolloutStopped").count();
    assert_eq!(stops(&world), 1);
    assert!(world.open.is_empty(), "{:?}", world.open);
    // After half a minute, others show whether it is over.
    world.advance(Duration::from_secs(29));
    assert_eq!(world.reject_all(), 3);
    world.advance(Duration::from_secs(59));
    assert!(world.open.is_empty(), "{:?}", world.open);
    assert_eq!(stops(&world), 1, "one of several in a row");
    world.advance(Duration::from_secs(5));
    world.run_until_idle();
    world.pass(60);
    assert_eq!(world.having(4), 20);
    assert_eq!(world.ready("dongle"), "True Advertised");
}

#[test]
fn stopped_rollout_delays_no_other_rule_and_no_repair() {
    let mut world = stopping(4, 2);
    world.roll_out(4);
    world.run_until_idle();
    world.roll_out(5);
    assert_eq!(world.reject_all(), 2);
    world.set_rule("key", json!({"resourceName": "example.com/key", "shrinkPolicy": "Immediate"}));
    world.reset("node-03");
    let mut dongles = Vec::new();
    world.answer_all(|world, node, patch| {
        if serde_json::to_string(patch).unwrap().contains(r#""value":"5""#) {
            return Reply::Rejected("no".to_owned());
        }
        let reply = world.apply(node, patch);
        dongles.push((node.to_owned(), world.dongles(node)));
        reply
    });
    assert_eq!(dongles[0], ("node-03".to_owned(), 4), "the lost value is restored as it was, and first");
    assert_eq!(world.having(4), 4);
    assert!(world.nodes.values().all(|node| node["status"]["capacity"]["example.com/key"] == "4"));
}

/// They come first by name.
#[test]
fn nodes_that_always_fail_do_not_keep_others_from_being_tried() {
    let mut world = stopping(20, 3);
    world.roll_out(4);
    for _ in 0..200 {
        world.answer_all(|world, node, patch| match node {
            "node-00" | "node-01" | "node-02" | "node-03" => Reply::Rejected("no".to_owned()),
            _ => world.apply(node, patch),
        });
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(world.having(4), 16);
}

#[test]
fn edit_restarts_a_stopped_rollout() {
    let mut world = stopping(8, 2);
    world.roll_out(4);
    assert_eq!(world.reject_all(), 2);
    world.roll_out(5);
    world.run_until_idle();
    world.pass(10);
    assert_eq!(world.having(5), 8);
}

/// A node that the rule selects anew shows that patches succeed again.
#[test]
fn success_elsewhere_resumes_a_stopped_rollout() {
    let mut world = stopping(8, 2);
    world.roll_out(4);
    assert_eq!(world.reject_all(), 2);
    world.advance(Duration::from_secs(1));
    world.set_node("node-new", json!({}));
    world.run_until_idle();
    world.pass(5);
    assert_eq!(world.having(4), 9);
}

/// The deletion of a rule is a rollout too.
#[test]
fn withdrawal_that_fails_stops() {
    let mut world = stopping(8, 2);
    world.roll_out(4);
    world.run_until_idle();
    world.delete_rule("dongle");
    world.run();
    assert_eq!(world.reject_all(), 2);
    world.advance(Duration::from_secs(1));
    assert!(world.events.contains(&"RolloutStopped".to_owned()), "on a node, as the rule is gone: {:?}", world.events);
    world.pass(40);
    assert_eq!(world.having(-1), 8);
}

/// Something accepts every patch and undoes it: that is no success.
#[test]
fn rollout_whose_patches_are_undone_stops_each_time() {
    let mut world = stopping(40, 3);
    world.roll_out(4);
    let mut patches = 0;
    for _ in 0..100 {
        world.answer_all(|world, node, _| {
            patches += 1;
            let version = world.next_version();
            let node = world.nodes.get_mut(node).unwrap();
            node["metadata"]["resourceVersion"] = json!(version);
            Reply::Patched(Box::new(object(node.clone())))
        });
        world.advance(Duration::from_secs(1));
    }
    assert!((4..=16).contains(&patches), "{patches}");
}

/// The old quantity was rejected, not the new one.
#[test]
fn failure_of_what_was_edited_since_stops_nothing() {
    let mut world = leading(4, 8, RolloutLimits { max_failed_nodes: 2, ..RolloutLimits::NONE });
    world.roll_out(4);
    world.advance(Duration::from_secs(1));
    world.roll_out(5);
    for _ in 0..4 {
        let Open::Patch { slot, node, .. } = world.open.remove(0) else { panic!() };
        world.reply(slot, &node, Reply::Rejected("no".to_owned()));
    }
    world.run_until_idle();
    world.pass(10);
    assert_eq!(world.having(5), 8);
    assert!(!world.events.contains(&"RolloutStopped".to_owned()), "{:?}", world.events);
}

/// Pods decide what a node gets, and that of no other node waits for the rollout either.
#[test]
fn changed_nodes_with_pods_wait_for_no_rollout() {
    let mut world = leading(16, 100, RolloutLimits { patches_per_second: Some(3), ..RolloutLimits::NONE });
    world.roll_out(4);
    world.run_until_idle();
    let selector = json!({"matchLabels": {"key": "yes"}});
    world.set_rule("key", json!({"resourceName": "example.com/key", "allNodes": null, "nodeSelector": selector}));
    for number in 90..96 {
        world.relabel(&format!("node-{number}"), json!({"key": "yes"}));
    }
    world.run_until_idle();
    let keys = world.nodes.values().filter(|node| node["status"]["capacity"]["example.com/key"] == "4").count();
    assert_eq!(keys, 6);
    assert!(world.having(4) < 20, "the rollout goes on");
}

/// Its pods may end long before the stop does.
#[test]
fn held_node_follows_its_pods_while_another_rollout_is_stopped() {
    let mut world = stopping(3, 2);
    world.set_rule("dongle", json!({"quantity": 8}));
    world.pass(5);
    world.bind("node-02", 6);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.pass(5);
    assert_eq!((world.dongles("node-02"), world.having(2)), (6, 2));
    world.set_rule("key", json!({"resourceName": "example.com/key", "shrinkPolicy": "Immediate"}));
    let is_key = |patch: &Patch| serde_json::to_string(patch).unwrap().contains("key");
    for second in 0..25 {
        if second == 5 {
            world.end_pods();
        }
        world.answer_all(|world, node, patch| match is_key(patch) {
            true => Reply::Rejected("no".to_owned()),
            false => world.apply(node, patch),
        });
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(world.having(2), 3);
    assert_eq!(world.ready("key"), "False RolloutStopped");
}

/// The time that it spent in the rollout is no latency of its repair.
#[test]
fn repair_of_a_node_in_a_rollout_counts_from_its_own_change() {
    let mut world = paced(40, 1);
    world.roll_out(4);
    world.run_until_idle();
    world.pass(20);
    assert_eq!(world.having(4), 21);
    world.relabel("node-39", json!({"zone": "b"}));
    world.run_until_idle();
    assert_eq!(world.dongles("node-39"), 4);
    assert!(world.metric("event_to_patch_duration_seconds_sum 0.0"));
    assert!(world.metric("event_to_patch_duration_seconds_count 1"));
}

/// Its value is repaired at once, and alone. What another rule declares waits for the node's turn.
#[test]
fn node_whose_value_drifts_stays_in_the_rollout() {
    let mut world = leading(16, 6, RolloutLimits { patches_per_second: Some(2), ..RolloutLimits::NONE });
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.pass(10);
    assert_eq!(world.having(4), 6);
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.run_until_idle();
    let keys = |world: &World| {
        let ledgers = world.nodes.keys().filter_map(|name| world.ledger(name));
        ledgers.filter(|ledger| ledger.contains("example.com/key")).count()
    };
    assert_eq!(keys(&world), 2);
    for name in ["node-04", "node-05"] {
        world.set_dongles(name, 7);
    }
    world.run_until_idle();
    assert_eq!(world.having(4), 6, "repaired at once");
    assert!(
        world.metric("event_to_patch_duration_seconds_sum 0.0"),
        "the time in the rollout is no latency of a repair"
    );
    assert_eq!(keys(&world), 2);
    world.pass(1);
    assert_eq!(keys(&world), 4);
    world.pass(4);
    assert_eq!(keys(&world), 6);
}

/// I5: the value is too low for a pod that was bound in the meantime.
#[test]
fn raise_after_a_lowering_waits_for_no_rollout() {
    let mut world = leading(16, 30, RolloutLimits { patches_per_second: Some(1), max_failed_nodes: 1 });
    world.set_rule("dongle", json!({"quantity": 8}));
    world.pass(40);
    assert_eq!(world.having(8), 30);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run();
    // While the node is patched, a pod is bound to it.
    let node = world.patched()[0].to_owned();
    world.bind(&node, 6);
    world.run_until_idle();
    world.pass(7);
    assert_eq!(world.dongles(&node), 6);
    assert!(world.having(8) > 10, "the rollout goes on");
}

/// A node that waits for its turn, or for a response, takes no memory for that besides its place; it is written as it is
/// declared by then.
#[test]
fn waiting_node_is_planned_when_it_is_its_turn() {
    let mut world = leading(1, 10, RolloutLimits::NONE);
    world.roll_out(4);
    let working = world.reconciler.nodes().iter().filter(|(_, state)| state.work().is_some()).count();
    let waiting = world.reconciler.queue().len(Stage::Patch);
    assert_eq!((waiting, world.open.len(), working), (9, 1, 0));
    // What waits is written as it is declared by then.
    world.roll_out(5);
    let patches = world.answer_all(|world, node, patch| world.apply(node, patch));
    assert_eq!((world.having(5), patches), (10, 11), "one more for the node that was to get 4");
}
