//! What pods on a node request, before and after a value is lowered or appears.

use super::*;

fn lists(world: &World) -> usize {
    world.open.iter().filter(|open| matches!(open, Open::Pods { .. })).count()
}

/// A lowering while a failed patch pauses is not forgotten.
#[test]
fn lowering_during_a_pause_after_a_failure_is_done() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 8}));
    world.run();
    let (id, node, _) = world.only_patch();
    world.reply(id, &node, failed(500));
    world.set_rule("dongle", json!({"quantity": 2}));
    for _ in 0..10 {
        world.advance(Duration::from_secs(6));
        world.run_until_idle();
    }
    assert_eq!(world.dongles("node-0"), 2);
}

/// Nodes that are deleted while they wait for a list of pods do not keep others waiting.
#[test]
fn deleted_nodes_hold_up_no_lowering() {
    for (nodes, deleted) in [(8, 4), (200, 50)] {
        let mut world = World::leading(nodes, &[("dongle", 4)]);
        world.run_until_idle();
        world.set_rule("dongle", json!({"quantity": 2}));
        world.run();
        assert!((1..=4).contains(&lists(&world)), "{:?}", world.open);
        for number in nodes - deleted..nodes {
            world.delete_node(&format!("node-{number}"));
        }
        world.run_until_idle();
        world.advance(Duration::from_secs(2));
        world.run_until_idle();
        for number in 0..nodes - deleted {
            assert_eq!(world.dongles(&format!("node-{number}")), 2, "{number}");
        }
    }
}

#[test]
fn many_nodes_cost_one_list_of_all_pods() {
    let mut world = World::leading(100, &[]);
    world.run_until_idle();
    world.set_rule("dongle", json!({}));
    world.run();
    assert!(matches!(world.open[..], [Open::Pods { scope: PodScope::Cluster, .. }]));
    world.pods.insert("node-7".to_owned(), 6);
    world.run_until_idle();
    assert_eq!((world.dongles("node-7"), world.dongles("node-8")), (6, 4));
}

/// The list that follows each lowering waits for the others.
#[test]
fn lowering_of_many_nodes_costs_two_lists() {
    let mut world = World::leading(100, &[("dongle", 4)]);
    world.run_until_idle();
    world.advance(Duration::from_secs(10));
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run();
    let mut lists = Vec::new();
    while !world.open.is_empty() {
        let open = world.open.remove(0);
        if let Open::Pods { scope, .. } = &open {
            lists.push(scope.clone());
        }
        // The rollout takes five seconds, and a list is due a second after the one before.
        world.advance(Duration::from_millis(50));
        world.answer(open);
    }
    assert_eq!(lists, [PodScope::Cluster, PodScope::Cluster]);
    assert!((0..100).all(|node| world.dongles(&format!("node-{node}")) == 2));
}

#[test]
fn node_younger_than_the_rule_costs_no_list() {
    let mut world = World::leading(0, &[("dongle", 4)]);
    world.set_node("node-0", json!({}));
    world.edit_node("node-0", |node| node["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z"));
    world.run();
    assert_eq!(world.patched(), ["node-0"]);
}

/// What appears again after a withdrawal is not less than what pods have gone on to request.
#[test]
fn value_that_appears_under_running_pods_is_what_they_request() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.pods.insert("node-0".to_owned(), 3);
    world.delete_rule("dongle");
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), -1);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 3);
    world.pass(3);
    assert_eq!(world.ready("dongle"), "False Held");
    world.pods.clear();
    world.advance(Duration::from_secs(30));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 2, "it follows pods down");
}

/// I5: a pod that is bound between the list and the patch raises the value again.
#[test]
fn pod_bound_while_a_value_is_lowered_raises_it_again() {
    let (mut world, (id, node, patch)) = World::lowering_while_a_pod_is_bound();
    let reply = world.apply(&node, &patch);
    assert_eq!(world.dongles("node-0"), 2);
    world.reply(id, &node, reply);
    world.advance(Duration::from_secs(2));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 3);
}

/// The same where a kubelet resets the value after the list: the patch raises it from 0, to less than pods may use.
#[test]
fn lowering_of_a_value_that_is_reset_is_followed_by_a_list() {
    let (mut world, list) = World::listing_for_a_lowering();
    world.api_server_asks_for_a_pause(5);
    world.answer(list);
    assert!(world.open.is_empty(), "the lowering waits for the end of the pause");
    world.pods.insert("node-0".to_owned(), 3);
    // A repair does not wait.
    world.reset("node-0");
    world.run();
    let (id, node, patch) = world.only_patch();
    let reply = world.apply(&node, &patch);
    assert_eq!(world.dongles("node-0"), 2);
    world.reply(id, &node, reply);
    world.pass(10);
    assert_eq!(world.dongles("node-0"), 3);
}

/// I5: a list that has become old while a patch waits is not the one that precedes it.
#[test]
fn lowering_that_waits_for_long_is_preceded_by_another_list() {
    let (mut world, list) = World::listing_for_a_lowering();
    world.api_server_asks_for_a_pause(40);
    world.answer(list);
    world.pods.insert("node-0".to_owned(), 3);
    world.advance(Duration::from_secs(41));
    world.run();
    let of_node = |open: &Open| matches!(open, Open::Pods { scope: PodScope::Node(node), .. } if **node == *"node-0");
    assert!(world.open.iter().any(of_node), "{:?}", world.open);
    world.pass(3);
    assert_eq!(world.dongles("node-0"), 3);
}

/// The same where the response to the lowering is lost.
#[test]
fn lowering_whose_response_is_lost_is_followed_by_a_list() {
    let (mut world, (id, node, patch)) = World::lowering_while_a_pod_is_bound();
    world.apply(&node, &patch);
    let lost = RequestError::Transport("no answer".to_owned());
    world.reply(id, &node, Reply::from(lost));
    for _ in 0..5 {
        world.advance(Duration::from_secs(2));
        world.run_until_idle();
    }
    assert_eq!(world.dongles("node-0"), 3);
}

/// The same where pods are listed before the watch shows the lowering.
#[test]
fn lowering_that_the_watch_shows_late_is_followed_by_a_list() {
    let (mut world, (id, node, patch)) = World::lowering_while_a_pod_is_bound();
    world.pods.insert("node-0".to_owned(), 4);
    world.watching = false;
    world.apply(&node, &patch);
    let lost = RequestError::Transport("no answer".to_owned());
    world.reply(id, &node, Reply::from(lost));
    world.pass(3);
    assert_eq!(world.dongles("node-0"), 2, "the node is taken to have 4 still");
    world.watching = true;
    world.show("node-0");
    world.pass(10);
    assert_eq!(world.dongles("node-0"), 4);
}

/// A list from before a lowering that is applied late is not the one that follows it.
#[test]
fn lowering_that_is_applied_after_a_list_is_followed_by_another() {
    let (mut world, (id, node, patch)) = World::lowering_while_a_pod_is_bound();
    world.pods.clear();
    world.reply(id, &node, Reply::from(RequestError::Transport("no answer".to_owned())));
    world.advance(Duration::from_secs(2));
    let list = world.open.remove(0);
    world.api_server_asks_for_a_pause(5);
    world.answer(list);
    assert!(world.open.is_empty(), "the next lowering waits for the end of the pause");
    world.pods.insert(node.clone(), 4);
    world.apply(&node, &patch);
    world.pass(10);
    assert_eq!(world.dongles(&node), 4);
}

/// The same where the list is served before, and its response arrives afterwards.
#[test]
fn lowering_that_is_applied_during_a_list_is_followed_by_another() {
    let (mut world, (id, node, patch)) = World::lowering_while_a_pod_is_bound();
    world.reply(id, &node, Reply::from(RequestError::Transport("no answer".to_owned())));
    world.advance(Duration::from_secs(2));
    let list = world.open.remove(0);
    world.apply(&node, &patch);
    world.pods.clear();
    world.answer(list);
    world.pods.insert(node.clone(), 4);
    world.pass(10);
    assert_eq!(world.dongles(&node), 4);
}

/// A lowering that the API server rejects is a failure, and not held by pods.
#[test]
fn rejected_lowering_is_reported_as_a_failure_and_backs_off() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 2}));
    let (mut patches, mut lists) = (0, 0);
    for _ in 0..600 {
        world.run();
        while !world.open.is_empty() {
            lists += self::lists(&world);
            match world.open.remove(0) {
                Open::Patch { id, node, .. } => {
                    patches += 1;
                    world.reply(id, &node, Reply::Rejected("a policy".to_owned()));
                }
                list @ (Open::Pods { .. } | Open::Rules { .. }) => world.answer(list),
            }
        }
        world.advance(Duration::from_secs(1));
    }
    assert!((5..20).contains(&patches), "{patches} patches in ten minutes");
    // One shows that the failure still stands, and one precedes the next try.
    assert!(lists <= 2 * patches + 2, "{lists} lists for {patches} patches");
    assert_eq!(world.ready("dongle"), "False PatchFailed");
}

/// Nothing is said to be held before pods have been listed.
#[test]
fn node_is_not_reported_held_before_pods_are_listed() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 2}));
    world.advance(Duration::from_secs(3));
    assert_eq!(world.ready("dongle"), "False Progressing");
    world.pods.insert("node-0".to_owned(), 3);
    world.pass(3);
    assert_eq!(world.ready("dongle"), "False Held");
    let written = world.statuses.len();
    world.pass(300);
    assert_eq!(world.statuses.len(), written, "polling a held node changes no status");
}

/// A node that is held for long is asked for its pods less and less often.
#[test]
fn held_node_is_polled_ever_more_rarely() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.pods.insert("node-0".to_owned(), 3);
    world.set_rule("dongle", json!({"quantity": 2}));
    let mut lists = 0;
    for _ in 0..3600 {
        world.run();
        while !world.open.is_empty() {
            let open = world.open.remove(0);
            lists += usize::from(matches!(open, Open::Pods { .. }));
            world.answer(open);
        }
        world.advance(Duration::from_secs(1));
    }
    assert!((55..80).contains(&lists), "{lists} lists in an hour");
}

#[test]
fn pods_that_cannot_be_listed_keep_values_and_are_reported() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 2}));
    for _ in 0..5 {
        world.run();
        while let Some(Open::Pods { id, scope }) = world.open.pop() {
            let reply = Err(error(403));
            world.reconciler.complete(Completion::PodsListed { id, scope, reply }, world.now);
            world.run();
        }
        world.advance(Duration::from_secs(1));
    }
    assert_eq!((world.dongles("node-0"), world.ready("dongle").as_str()), (4, "False PodsUnavailable"));
    // A repair does not wait for pods.
    world.set_dongles("node-0", 0);
    world.run();
    assert_eq!(world.patched(), ["node-0"]);
}

/// While a contest pauses, a list after a lowering could change nothing.
#[test]
fn contested_value_that_was_lowered_costs_no_list_during_the_pause() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 2}));
    // Another client undoes each lowering before the list that follows it, until it is a contest.
    for _ in 0..20 {
        world.advance(Duration::from_secs(1));
        while let Some(open) = world.open.pop() {
            world.answer(open);
            if world.dongles("node-0") == 2 {
                world.set_dongles("node-0", 4);
            }
            world.run();
        }
    }
    assert_eq!(world.dongles("node-0"), 4);
    let lowered = |world: &World| world.reconciler.lowered_nodes();
    assert_eq!(lowered(&world), 1);
    for zone in ["a", "b", "c"] {
        world.relabel("node-0", json!({"zone": zone}));
        world.advance(Duration::from_secs(2));
        world.run();
        assert_eq!(lists(&world), 0);
    }
    world.pass(60);
    assert_eq!((world.dongles("node-0"), lowered(&world)), (2, 0));
}
