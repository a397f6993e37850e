//! Lists of pods before the patches of a rollout, where patches or lists fail.

use super::lists_ahead::{KEY, LIMITS, leading, with_cache};
use super::*;
use crate::controller::RolloutLimits;

fn rejects(world: &mut World, open: Open, what: &str) -> bool {
    match open {
        Open::Patch { id, node, patch, .. } if format!("{patch:?}").contains(what) => {
            world.reply(id, &node, Reply::Rejected("no".to_owned()));
            true
        }
        open => {
            world.answer(open);
            false
        }
    }
}

impl World {
    /// Rejects patches of this resource, and answers everything else, until nothing is open. Returns how many lists.
    fn reject_all_of(&mut self, what: &str) -> usize {
        let mut lists = 0;
        loop {
            self.run();
            let Some(open) = self.open.pop() else { return lists };
            lists += usize::from(matches!(open, Open::Pods { .. }));
            rejects(self, open, what);
        }
    }

    /// Answers lists of pods with 403 until none is open. Returns how many.
    fn forbid_lists(&mut self) -> usize {
        let mut lists = 0;
        loop {
            self.run();
            let Some(Open::Pods { id, scope }) = self.open.pop() else { return lists };
            lists += 1;
            self.reconciler.complete(Completion::PodsListed { id, scope, reply: Err(error(403)) }, self.now);
        }
    }
}

/// Otherwise each stop would list the pods of all nodes that are left.
#[test]
fn stopped_rollout_lists_no_pods() {
    let mut world = with_cache(60, RolloutLimits { max_failed_nodes: 2, ..LIMITS });
    world.set_rule("dongle", json!({}));
    let lists = world.reject_all_of("dongle");
    assert!(lists < 30, "{lists}");
    assert_eq!((world.backlog(), world.having(4)), (0, 0), "all wait for the end of the stop");
    assert!(world.working() < 30, "{}", world.working());
    world.advance(Duration::from_secs(5));
    assert_eq!(world.ready("dongle"), "False RolloutStopped");
    assert!(world.open.is_empty());
    // After the pause, nodes are patched that have not failed.
    world.advance(Duration::from_secs(26));
    world.run_until_idle();
    world.pass(10);
    assert_eq!(world.having(4), 60);
    assert_eq!(world.ready("dongle"), "True Advertised");
}

/// I9: the list that another rule needs is not withheld with that of a stopped rollout.
#[test]
fn stopped_rollout_withholds_no_list_of_another_rule() {
    let mut world = with_cache(20, RolloutLimits { max_failed_nodes: 1, ..LIMITS });
    world.set_rule("key", json!({"resourceName": KEY}));
    world.reject_all_of("key");
    world.set_rule("dongle", json!({}));
    world.pass(2);
    assert_eq!(world.having(4), 20);
    assert_eq!(world.listing(KEY), 0);
}

/// I9: nor does a node wait for its change of the other rule until it is its turn to be listed, if the stop has ended.
#[test]
fn stop_that_ends_frees_nodes_behind_the_lists_of_another_rule() {
    let mut world = with_cache(60, RolloutLimits { max_failed_nodes: 1, ..LIMITS });
    world.set_rule("key", json!({"resourceName": KEY, "shrinkPolicy": "Immediate"}));
    world.reject_all_of("key");
    world.set_rule("dongle", json!({}));
    world.run();
    assert_eq!((world.open.len(), world.backlog() > 20, world.working() < 30), (4, true, true), "one rule is stopped");
    // The lists stay open.
    world.advance(Duration::from_secs(36));
    world.answer_patches();
    let keys = world.listing(KEY);
    assert!(keys >= 30, "{keys} keys, although lists are not answered");
}

/// Nodes that wait for the end of a stop are few at a time too when another rule has their pods listed.
#[test]
fn nodes_of_a_stopped_rollout_are_listed_in_turn() {
    let mut world = with_cache(99, RolloutLimits { max_failed_nodes: 2, patches_per_second: Some(2), ..LIMITS });
    world.set_rule("key", json!({"resourceName": KEY, "shrinkPolicy": "Immediate"}));
    world.advance(Duration::from_secs(1));
    let (mut most, mut lists) = (0, 0);
    for second in 0..200 {
        if second == 10 {
            world.set_rule("dongle", json!({}));
        }
        world.run();
        while !world.open.is_empty() {
            let open = world.open.remove(0);
            lists += usize::from(matches!(open, Open::Pods { .. }));
            rejects(&mut world, open, "key");
            world.run();
            most = most.max(world.working());
        }
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(world.having(4), 99);
    // Those whose patches failed have pauses to remember.
    assert!(most < 50, "{most}");
    assert!(lists < 150, "{lists}");
}

/// Those that are about to be listed when the rollout stops are not.
#[test]
fn stop_withholds_the_lists_that_are_due() {
    let mut world = with_cache(99, RolloutLimits { max_failed_nodes: 2, max_listed: 40, ..RolloutLimits::NONE });
    world.set_rule("dongle", json!({}));
    let (mut rejected, mut lists) = (0, 0);
    loop {
        world.run();
        if world.open.is_empty() {
            break;
        }
        let place = world.open.iter().position(|open| matches!(open, Open::Patch { .. })).unwrap_or(0);
        let open = world.open.remove(place);
        lists += usize::from(rejected >= 2 && matches!(open, Open::Pods { .. }));
        rejected += usize::from(rejects(&mut world, open, "dongle"));
    }
    assert!(rejected >= 2 && lists <= 4, "{lists} lists after the stop");
}

/// A list that a pause of the API server has made too old says little about the rate of patches.
#[test]
fn pause_of_the_api_server_leaves_enough_lists_ahead() {
    let limits = RolloutLimits { patches_per_second: Some(2), max_listed: 32, ..RolloutLimits::NONE };
    let mut world = with_cache(80, limits);
    world.set_rule("dongle", json!({}));
    world.run();
    for _ in 0..3 {
        let open = world.open.remove(0);
        world.answer(open);
        world.run();
    }
    let place = world.open.iter().position(|open| matches!(open, Open::Patch { .. })).unwrap();
    let Open::Patch { id, node, .. } = world.open.remove(place) else { panic!() };
    let reply =
        Reply::Failed { message: "busy".to_owned(), retry_after: Some(Duration::from_secs(40)), maybe_applied: false };
    world.reply(id, &node, reply);
    world.run_until_idle();
    world.pass(41);
    assert!(world.reconciler.schedule.lists_ahead.limit() >= 8);
    world.pass(60);
    assert_eq!(world.having(4), 80);
}

/// Each edit plans the nodes again that wait for their patch. Their lists are too old then, and others are not before them.
#[test]
fn edits_of_a_rule_put_no_more_nodes_ahead() {
    let mut world = with_cache(99, RolloutLimits { patches_per_second: Some(1), ..LIMITS });
    for quantity in 4..14 {
        world.set_rule("dongle", json!({ "quantity": quantity }));
        world.pass(3);
        world.run_until_idle();
        assert!(world.working() <= 16, "{}", world.working());
        assert_eq!(world.reconciler.schedule.queue.len(Stage::ListPods), 0);
    }
}

/// Another list of a node precedes a pause of a second, whatever happens to the node in the meantime.
#[test]
fn list_that_a_drift_abandons_is_not_repeated_at_once() {
    for kubelet in ["v1.30.14", "v1.37.1"] {
        let mut world = leading(kubelet, 1, RolloutLimits::NONE);
        world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
        world.run_until_idle();
        world.set_rule("other", json!({"resourceName": "example.com/other"}));
        world.run();
        let mut lists = 0;
        for _ in 0..20 {
            let Some(open) = world.open.pop() else { break };
            // Lost, and restored by another client, while the list is in flight.
            world.reset("node-00");
            world.set_dongles("node-00", 4);
            lists += usize::from(matches!(open, Open::Pods { .. }));
            world.answer(open);
            world.run();
        }
        assert_eq!(lists, 1, "{kubelet}");
    }
}

/// Without the right to list pods, the requests are as few as the nodes that may be ahead.
#[test]
fn lists_that_are_forbidden_are_few() {
    let mut world = with_cache(99, LIMITS);
    world.set_rule("dongle", json!({}));
    assert!(world.forbid_lists() <= 8 + 4);
    assert!(world.working() <= 8 + 4, "{}", world.working());
    // Where the nodes are gone whose lists failed, it is the turn of others.
    let failed = |world: &World| world.reconciler.schedule.unlisted.iter().cloned().collect::<Vec<_>>();
    for name in failed(&world) {
        world.delete_node(&name);
    }
    let before = world.nodes.len();
    world.forbid_lists();
    assert!(!failed(&world).is_empty());
    // With the right, it goes on by itself.
    world.pass(400);
    world.run_until_idle();
    assert_eq!(world.having(4), before);
    assert!(failed(&world).is_empty());
}

/// I10: the status is right while one of two rules of a node is stopped, and the other cannot list pods.
#[test]
fn status_of_a_stopped_rollout_is_right_beside_a_rule_that_lists_pods() {
    let mut world = with_cache(20, RolloutLimits { max_failed_nodes: 1, ..LIMITS });
    world.set_rule("key", json!({"resourceName": KEY}));
    world.reject_all_of("key");
    world.set_rule("dongle", json!({}));
    // Lists are not answered from here on.
    world.advance(Duration::from_secs(3));
    assert_eq!(world.ready("key"), "False RolloutStopped");
    assert_eq!(world.ready("dongle"), "False Progressing");
}

/// I9: what succeeds on nodes whose lists are withheld is known at once, so that few failures do not stop it.
#[test]
fn rollout_succeeds_on_nodes_that_wait_for_a_stopped_one() {
    let mut world = with_cache(40, RolloutLimits { max_failed_nodes: 2, ..LIMITS });
    world.set_rule("key", json!({"resourceName": KEY}));
    world.reject_all_of("key");
    world.pass(2);
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.run();
    while !world.open.is_empty() {
        let what = match &world.open[0] {
            Open::Patch { node, .. } if ["node-05", "node-11", "node-17"].contains(&&**node) => "",
            _ => "nothing",
        };
        let open = world.open.remove(0);
        rejects(&mut world, open, what);
        world.run();
    }
    assert_eq!(world.having(4), 37);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("key"), "False RolloutStopped");
    assert_eq!(world.ready("dongle"), "False PatchFailed");
}

/// Nodes whose lists have failed, and that are to get another value in their turn, are not ahead until then.
#[test]
fn nodes_whose_lists_fail_do_not_keep_others_from_being_listed() {
    let mut world = with_cache(60, RolloutLimits { patches_per_second: Some(7), ..LIMITS });
    for number in 0..54 {
        let zone = if number < 12 { "a" } else { "b" };
        world.relabel(&format!("node-{number:02}"), json!({ "zone": zone }));
    }
    world.run_until_idle();
    world.set_rule("dongle", json!({}));
    world.forbid_lists();
    assert!(world.reconciler.schedule.unlisted.len() >= 8);
    // The patches for this rule come first, so that those nodes wait behind them for their patches.
    world.set_rule(
        "other",
        json!({"resourceName": "example.com/other", "shrinkPolicy": "Immediate", "allNodes": null,
        "nodeSelector": {"matchLabels": {"zone": "b"}}}),
    );
    world.run();
    world.set_rule(
        "key",
        json!({"resourceName": KEY, "shrinkPolicy": "Immediate", "allNodes": null,
        "nodeSelector": {"matchLabels": {"zone": "a"}}}),
    );
    world.pass(3);
    assert!(world.having(4) >= 2, "{}", world.having(4));
}
