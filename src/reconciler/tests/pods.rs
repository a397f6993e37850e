//! What pods on a node request decides how far a value goes down, and whether it goes up again.

use super::*;

/// A lowering while a failed patch pauses is not forgotten.
#[test]
fn lowering_during_a_pause_after_a_failure_is_done() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 8}));
    world.run();
    let (slot, node, _) = world.only_patch();
    world.reply(slot, &node, failed(500));
    world.set_rule("dongle", json!({"quantity": 2}));
    for _ in 0..10 {
        world.advance(Duration::from_secs(6));
        world.run_until_idle();
    }
    assert_eq!(world.dongles("node-0"), 2);
}

#[test]
fn node_younger_than_the_rule_waits_for_no_list() {
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
    world.bind("node-0", 3);
    world.delete_rule("dongle");
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), -1);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 3);
    world.pass(3);
    assert_eq!(world.ready("dongle"), "False Held");
    world.end_pods();
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 2, "it follows pods down");
}

/// I5: a pod that starts while the value goes down raises it again.
#[test]
fn pod_that_starts_while_a_value_is_lowered_raises_it_again() {
    let (mut world, (slot, node, patch)) = World::lowering_while_a_pod_is_bound();
    let reply = world.apply(&node, &patch);
    assert_eq!(world.dongles("node-0"), 2);
    world.reply(slot, &node, reply);
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 3);
}

/// The same where the response to the lowering is lost, or it is applied late: whatever has lowered the value.
#[test]
fn lowering_that_is_remembered_nowhere_is_raised_again() {
    for (is_late, is_crash) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut world, (slot, node, patch)) = World::lowering_while_a_pod_is_bound();
        if !is_late {
            world.apply(&node, &patch);
        }
        world.reply(slot, &node, Reply::from(RequestError::Transport("no answer".to_owned())));
        if is_crash {
            let mut next = World::new(16);
            (next.nodes, next.rules, next.pods, next.version) = (world.nodes, world.rules, world.pods, 10_000);
            next.start();
            world = next;
        }
        if is_late {
            world.pass(30);
            world.apply(&node, &patch);
        }
        world.pass(10);
        assert_eq!(world.dongles("node-0"), 3, "late: {is_late}, another leader: {is_crash}");
    }
}

/// The value follows each pod that ends, at once: before the scheduler has bound another.
#[test]
fn held_value_follows_its_pods_at_once() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.bind("node-0", 4);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 4);
    for used in [3, 2, 1] {
        world.bind("node-0", used);
        world.run_until_idle();
        assert_eq!(world.dongles("node-0"), 2.max(used.try_into().unwrap()));
    }
}

/// The scheduler gives what a pod frees to the next one a moment later. The value is lower by then.
#[test]
fn value_comes_down_although_pods_queue_for_it() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.bind("node-0", 4);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run_until_idle();
    for _ in 0..600 {
        let used = world.pods["node-0"];
        world.bind("node-0", used - 1);
        world.run_until_idle();
        world.bind("node-0", world.dongles("node-0").try_into().unwrap());
        world.advance(Duration::from_secs(1));
    }
    assert_eq!((world.dongles("node-0"), world.pods["node-0"]), (2, 2));
}

/// A lowering that the API server rejects is a failure, and not held by pods.
#[test]
fn rejected_lowering_is_reported_as_a_failure_and_backs_off() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 2}));
    let mut patches = 0;
    for _ in 0..600 {
        patches += world.answer_all(|_, _, _| Reply::Rejected("a policy".to_owned()));
        world.advance(Duration::from_secs(1));
    }
    assert!((5..20).contains(&patches), "{patches} patches in ten minutes");
    assert_eq!(world.ready("dongle"), "False PatchFailed");
}

/// Nothing is said to be held before it is known what pods request.
#[test]
fn node_is_not_reported_held_before_pods_are_known() {
    let mut world = World::leading(1, &[("key", 4)]);
    world.set_dongles("node-0", 4);
    world.watch_pods = 503;
    world.delete_rule("key");
    world.run_until_idle();
    world.set_rule("dongle", json!({"conflictPolicy": "Overwrite", "quantity": 2}));
    world.advance(Duration::from_secs(3));
    assert_ne!(world.ready("dongle"), "False Held");
    world.pods.insert("node-0".to_owned(), 3);
    world.watch_pods = 200;
    world.list_pods();
    world.pass(3);
    assert_eq!(world.ready("dongle"), "False Held");
    let written = world.statuses.len();
    world.pass(300);
    assert_eq!(world.statuses.len(), written);
}

/// Nothing else happens when the watch has been silent for long, or shows something again.
#[test]
fn silence_of_the_watch_of_pods_is_reported() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.bind("node-0", 3);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.pass(3);
    assert_eq!(world.ready("dongle"), "False Held");
    world.hears_pods = false;
    world.pass(100);
    assert_eq!(world.ready("dongle"), "False PodsUnavailable");
    world.hears_pods = true;
    world.pass(3);
    assert_eq!((world.dongles("node-0"), &*world.ready("dongle")), (3, "False Held"));
}

/// I7: without the permission, or while the watch is broken, nothing is asked again and again, whatever the number of nodes.
#[test]
fn pods_that_cannot_be_watched_keep_values_and_are_reported() {
    let mut world = World::new(16);
    for number in 0..200 {
        world.set_node(&format!("node-{number}"), json!({}));
    }
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.start();
    world.run_until_idle();
    assert_eq!(world.having(4), 200);
    world.watch_pods = 403;
    world.set_rule("dongle", json!({"quantity": 2}));
    for _ in 0..600 {
        world.advance(Duration::from_secs(1));
        assert!(world.open.is_empty());
        world.list_pods();
    }
    assert_eq!((world.having(4), world.ready("dongle").as_str()), (200, "False PodsUnavailable"));
    assert!(world.statuses.len() < 5, "{} statuses", world.statuses.len());
    // A repair does not wait for pods.
    world.set_dongles("node-0", 0);
    world.run();
    assert_eq!(world.patched(), ["node-0"]);
    world.run_until_idle();
    world.watch_pods = 200;
    world.list_pods();
    world.pass(20);
    assert_eq!((world.having(2), world.ready("dongle").as_str()), (200, "True Advertised"));
}

/// A watch that is silent may show pods no longer: nothing is lowered by it.
#[test]
fn silent_watch_of_pods_lowers_nothing() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.bind("node-0", 3);
    world.hears_pods = false;
    world.pass(91);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.pass(10);
    assert_eq!((world.dongles("node-0"), world.ready("dongle").as_str()), (4, "False PodsUnavailable"));
    world.hears_pods = true;
    world.pass(10);
    assert_eq!((world.dongles("node-0"), world.ready("dongle").as_str()), (3, "False Held"));
}
