//! What is done first, and that no node is lost.

use super::*;

#[test]
fn one_plan_follows_each_event_and_each_response() {
    let mut world = World::leading(1, &[]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    let step = world.reconciler.next(world.now);
    assert_eq!((step.planned, step.requests.len()), (1, 1), "the event");
    step.requests.into_iter().for_each(|request| world.take(request));
    let (slot, node, patch) = world.only_patch();
    let reply = world.apply(&node, &patch);
    world.reconciler.complete(Completion::NodePatched { slot, node: node.into(), reply }, world.now);
    let step = world.reconciler.next(world.now);
    assert_eq!(step.planned, 1, "the response, and the event that is the same");
    assert!(step.requests.iter().all(|request| !matches!(request.effect, Effect::PatchNode { .. })));
}

/// Whoever may write rules could otherwise have all nodes planned at each of them.
#[test]
fn rule_not_in_force_plans_only_nodes_that_may_record_it() {
    let mut world = World::leading(50, &[("dongle", 4)]);
    world.run_until_idle();
    let mut planned = |quantity: u64, rule: &str, resource: &str| {
        world.set_rule(rule, json!({"resourceName": resource, "quantity": quantity}));
        let planned = world.reconciler.next(world.now).planned;
        world.run_until_idle();
        planned
    };
    assert_eq!(planned(0, "other", "example.com/other"), 0, "no ledger names it");
    assert_eq!(planned(4, "other", "example.com/other"), 50, "those that it selects");
    assert_eq!(planned(0, "other", "example.com/other"), 50);
    assert_eq!(planned(0, "dongle", "example.com/dongle"), 50);
}

#[test]
fn slot_of_a_node_that_is_deleted_in_flight_is_free_again() {
    let mut world = World::new(1);
    for number in 0..3 {
        world.set_node(&format!("node-{number}"), json!({}));
    }
    world.start();
    world.set_rule("dongle", json!({}));
    world.run();
    let (slot, node, _) = world.only_patch();
    let deleted = world.nodes.remove(&node).unwrap();
    world.observe(Observation::Node(Ok(Event::Delete(object(deleted)))));
    world.reply(slot, &node, Reply::NotFound);
    world.run_until_idle();
    assert_eq!(world.nodes.keys().filter(|node| world.dongles(node) == 4).count(), 2);
}

/// A repair overtakes all that waits, and has a slot of its own.
#[test]
fn repair_overtakes_a_rollout_that_fills_all_slots() {
    let mut world = World::new(1);
    for number in 0..20 {
        world.set_node(&format!("node-{number:02}"), json!({}));
    }
    world.set_rule("dongle", json!({}));
    world.start();
    world.run_until_idle();
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.run();
    assert_eq!(world.open.len(), 1, "one slot");
    world.set_dongles("node-15", 0);
    world.run();
    assert_eq!(world.patched()[1..], ["node-15"], "it waits for no slot");
    world.run_until_idle();
    assert_eq!(world.dongles("node-15"), 4);
}

#[test]
fn node_that_changes_in_flight_is_planned_after_the_response() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 0);
    world.run();
    let (slot, node, patch) = world.only_patch();
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.run();
    assert!(world.open.is_empty(), "one request a node");
    let reply = world.apply(&node, &patch);
    world.reply(slot, &node, reply);
    world.run_until_idle();
    assert!(world.ledger("node-0").unwrap().contains("example.com/key"));
}

/// A rule that has come while a node was in flight counts the node.
#[test]
fn rule_counts_a_node_whose_patch_is_never_answered() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 0);
    world.run();
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.run();
    let hung = world.open.remove(0);
    world.run_until_idle();
    world.advance(Duration::from_secs(2));
    world.run_until_idle();
    assert_eq!(world.ready("key"), "False Progressing", "{hung:?}");
}

/// A list takes effect node by node, and what a response has shown is not undone by it.
#[test]
fn relist_repairs_before_its_end_and_keeps_what_is_newer() {
    let mut world = World::leading(3, &[("dongle", 4)]);
    world.run_until_idle();
    world.watching = false;
    world.set_dongles("node-1", 0);
    world.observe(Observation::Node(Ok(Event::Init)));
    let lost = world.nodes["node-1"].clone();
    world.observe(Observation::Node(Ok(Event::InitApply(object(lost.clone())))));
    world.run();
    assert_eq!(world.patched(), ["node-1"], "before the end of the list");
    world.run_until_idle();
    // The response to the repair is newer than the list.
    world.observe(Observation::Node(Ok(Event::InitApply(object(lost)))));
    let other = world.nodes["node-0"].clone();
    world.observe(Observation::Node(Ok(Event::InitApply(object(other)))));
    world.observe(Observation::Node(Ok(Event::InitDone)));
    world.run();
    assert!(world.open.is_empty(), "{:?}", world.open);
    assert_eq!(world.reconciler.nodes().len(), 2, "the node that was not listed is gone");
}

/// The end of a node that has been recreated does not remove the new one.
#[test]
fn deletion_of_an_older_node_leaves_the_recreated_one() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let old = world.nodes.remove("node-0").unwrap();
    world.set_node("node-0", json!({}));
    world.observe(Observation::Node(Ok(Event::Delete(object(old)))));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 4);
    assert_eq!(world.reconciler.nodes().len(), 1);
}

#[test]
fn response_for_a_recreated_node_changes_nothing() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 0);
    world.run();
    let (slot, node, _) = world.only_patch();
    let old = world.nodes.remove("node-0").unwrap();
    world.set_node("node-0", json!({}));
    world.run();
    world.reply(slot, &node, Reply::Patched(Box::new(object(old))));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 4, "the new node is patched");
}

/// After a restore of etcd the API server is behind what is known.
#[test]
fn response_older_than_the_request_shows_a_server_that_went_back() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.watching = false;
    let mut restored = world.nodes["node-0"].clone();
    restored["metadata"]["annotations"] = json!({"a": "b"});
    restored["status"] = json!({});
    restored["metadata"]["resourceVersion"] = json!("50");
    world.version = 50;
    world.nodes.insert("node-0".to_owned(), restored);
    // Something makes the controller patch the node as it knew it.
    world.set_rule("dongle", json!({"quantity": 8}));
    let rule = world.rules["dongle"].clone();
    let mut rule = rule;
    rule["metadata"]["resourceVersion"] = json!("900");
    world.observe(Observation::Rule(Ok(Event::Apply(object(rule)))));
    world.run_until_idle();
    for _ in 0..5 {
        world.advance(Duration::from_secs(5));
        world.run_until_idle();
    }
    assert_eq!(world.dongles("node-0"), 8);
}
