//! The node's condition: when it is written, and that it delays nothing.

use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::Value;

use super::*;
use crate::model::ledger::ANNOTATION;
use crate::reconciler::RolloutLimits;

fn world(has_condition: bool) -> World {
    let mut world = World::new(16);
    switch(&mut world, has_condition);
    world
}

/// Starts another process, with or without the option.
pub(super) fn switch(world: &mut World, has_condition: bool) {
    let options = Options { node_condition: has_condition, ..world.reconciler.options.clone() };
    world.reconciler = Reconciler::new(Candidate::for_test("pod-1"), options);
    world.watching = false;
}

/// A leader, and a node with the conditions of a kubelet that has what one rule declares.
fn advertised() -> World {
    let mut world = world(true);
    world.set_node("node-0", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    world.set_rule("dongle", json!({}));
    world.start();
    world.pass(2);
    assert_eq!(conditions(&world), ["noderesource.dev/Advertised True Advertised", "Ready True"]);
    world
}

/// The conditions of the node, as `<type> <status> <reason>`.
fn conditions(world: &World) -> Vec<String> {
    let list = world.nodes["node-0"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let texts = |condition: &Value| {
        let texts = ["type", "status", "reason"].map(|field| condition[field].as_str().unwrap_or_default().to_owned());
        texts.join(" ").trim_end().to_owned()
    };
    list.iter().map(texts).collect()
}

fn message(world: &World) -> &str {
    world.nodes["node-0"]["status"]["conditions"][0]["message"].as_str().unwrap()
}

fn edits_condition(patch: &Patch) -> bool {
    patch.0.iter().any(|operation| match operation {
        PatchOperation::Add(add) => add.path.as_str().starts_with("/status/conditions"),
        PatchOperation::Remove(remove) => remove.path.as_str().starts_with("/status/conditions"),
        _ => false,
    })
}

/// Lets a minute pass. Returns the number of patches.
fn patches_in_a_minute(world: &mut World) -> usize {
    let mut patches = 0;
    for _ in 0..60 {
        patches += world.answer_all(|world, node, patch| world.apply(node, patch));
        world.advance(Duration::from_secs(1));
    }
    patches
}

#[test]
fn condition_comes_with_the_value_in_one_patch() {
    for status in [json!({}), json!({"conditions": []}), json!({"conditions": [{"type": "Ready", "status": "False"}]})]
    {
        let mut world = world(true);
        world.set_rule("dongle", json!({}));
        world.start();
        world.now.wall = "2026-02-01T00:00:30.7Z".parse().unwrap();
        world.set_node("node-0", status);
        assert_eq!(patches_in_a_minute(&mut world), 1);
        assert_eq!(
            (world.dongles("node-0"), &*conditions(&world)[0]),
            (4, "noderesource.dev/Advertised True Advertised")
        );
        let condition = &world.nodes["node-0"]["status"]["conditions"][0];
        assert_eq!(condition["lastTransitionTime"], condition["lastHeartbeatTime"]);
        assert_eq!(condition["lastTransitionTime"], "2026-02-01T00:00:31Z");
    }
}

#[test]
fn condition_that_stays_true_is_not_written_again() {
    let mut world = advertised();
    world.set_rule("dongle", json!({"quantity": 8}));
    let mut patches = Vec::new();
    world.answer_all(|world, node, patch| {
        patches.push(edits_condition(patch));
        world.apply(node, patch)
    });
    assert_eq!((world.dongles("node-0"), patches), (8, vec![false]));
    world.edit_node("node-0", |node| node["status"]["conditions"][1]["status"] = json!("False"));
    assert_eq!(patches_in_a_minute(&mut world), 0);
}

#[test]
fn condition_is_false_while_another_manager_has_the_value() {
    let mut world = world(true);
    world.set_dongles("node-0", 7);
    world.set_rule("dongle", json!({}));
    world.set_rule("second", json!({"resourceName": "example.com/second"}));
    world.start();
    world.pass(2);
    assert_eq!(conditions(&world), ["noderesource.dev/Advertised False Conflict"]);
    assert_eq!(message(&world), "not advertised: dongle: Conflict");
    let since = world.nodes["node-0"]["status"]["conditions"][0]["lastTransitionTime"].clone();

    // Another message, and the same status.
    for number in 0..4 {
        world
            .set_rule(&format!("r{number}"), json!({"resourceName": format!("example.com/r{number}"), "paused": true}));
    }
    world.pass(40);
    assert_eq!(message(&world), "not advertised: dongle: Conflict, r0: Paused, r1: Paused, and 2 more");
    assert_eq!(world.nodes["node-0"]["status"]["conditions"][0]["lastTransitionTime"], since);

    for number in 0..4 {
        world.delete_rule(&format!("r{number}"));
    }
    world.edit_node("node-0", |node| {
        for map in ["capacity", "allocatable"] {
            node["status"][map].as_object_mut().unwrap().remove("example.com/dongle");
        }
    });
    world.pass(2);
    assert_eq!(
        (world.dongles("node-0"), conditions(&world)),
        (4, vec!["noderesource.dev/Advertised True Advertised".into()])
    );
    assert_ne!(world.nodes["node-0"]["status"]["conditions"][0]["lastTransitionTime"], since);
}

#[test]
fn condition_stays_true_where_an_invalid_rule_keeps_the_value_for_all() {
    let mut world = advertised();
    world.set_rule("dongle", json!({"quantity": 0}));
    world.set_rule("other", json!({"priority": -1}));
    assert_eq!(patches_in_a_minute(&mut world), 0);
    assert_eq!(conditions(&world)[0], "noderesource.dev/Advertised True Advertised");
}

/// The same patch restores the value and releases it: the paused rule has none.
#[test]
fn condition_is_false_where_a_lost_value_is_released_beside_a_paused_rule() {
    let mut world = advertised();
    world.set_rule("dongle", json!({"deletionPolicy": "Retain"}));
    world.set_rule("later", json!({"paused": true}));
    world.pass(2);
    assert_eq!(conditions(&world)[0], "noderesource.dev/Advertised True Advertised");
    world.set_dongles("node-0", 0);
    world.delete_rule("dongle");
    assert_eq!(patches_in_a_minute(&mut world), 1);
    assert_eq!((world.dongles("node-0"), &*conditions(&world)[0]), (4, "noderesource.dev/Advertised False Paused"));
}

#[test]
fn condition_goes_with_the_last_rule() {
    let mut world = advertised();
    world.delete_rule("dongle");
    assert_eq!(patches_in_a_minute(&mut world), 1);
    assert_eq!((world.dongles("node-0"), conditions(&world)), (-1, vec!["Ready True".into()]));
}

#[test]
fn condition_goes_without_the_option() {
    let mut world = advertised();
    switch(&mut world, false);
    world.start();
    assert_eq!(patches_in_a_minute(&mut world), 1);
    assert_eq!((world.dongles("node-0"), conditions(&world)), (4, vec!["Ready True".into()]));
    switch(&mut world, true);
    world.start();
    assert_eq!(patches_in_a_minute(&mut world), 1);
    assert_eq!(conditions(&world).len(), 2);
}

#[test]
fn rejected_condition_delays_no_value() {
    let mut world = world(true);
    for name in ["dongle", "second", "third"] {
        world.set_rule(name, json!({"resourceName": format!("example.com/{name}")}));
    }
    world.start();
    world.set_node("node-0", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    let mut patches = 0;
    let mut reject = |world: &mut World, node: &str, patch: &Patch| {
        patches += 1;
        if edits_condition(patch) { Reply::Rejected("a policy".to_owned()) } else { world.apply(node, patch) }
    };
    for _ in 0..5 {
        world.answer_all(&mut reject);
        world.advance(Duration::from_secs(1));
    }
    let has = |world: &World, name: &str| world.nodes["node-0"]["status"]["capacity"][name] == "4";
    assert!(["example.com/dongle", "example.com/second", "example.com/third"].iter().all(|name| has(&world, name)));
    for _ in 0..600 {
        world.answer_all(&mut reject);
        world.advance(Duration::from_secs(1));
    }
    world.set_dongles("node-0", 0);
    world.answer_all(&mut reject);
    assert_eq!(world.dongles("node-0"), 4, "a repair");
    assert!((5..=40).contains(&patches), "{patches} patches in ten minutes");
    world.pass(600);
    assert_eq!(conditions(&world)[0], "noderesource.dev/Advertised True Advertised");
}

#[test]
fn condition_that_another_client_changes_is_written_at_most_every_30_seconds() {
    type Edit = fn(&mut Value);
    let edits: [Edit; 2] = [
        |node| node["status"]["conditions"][0]["status"] = json!("False"),
        |node| node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
    ];
    for edit in edits {
        let mut world = advertised();
        let mut patches = 0;
        for _ in 0..600 {
            world.edit_node("node-0", edit);
            patches += world.answer_all(|world, node, patch| world.apply(node, patch));
            world.advance(Duration::from_secs(1));
        }
        assert!((19..=21).contains(&patches), "{patches} patches in ten minutes");
        world.pass(31);
        assert_eq!(conditions(&world), ["noderesource.dev/Advertised True Advertised", "Ready True"]);
    }
}

/// Something between the controller and the storage removes the condition.
#[test]
fn condition_that_is_undone_on_its_way_delays_no_value() {
    let mut world = world(true);
    world.set_rule("dongle", json!({}));
    world.start();
    world.set_node("node-0", json!({}));
    let mut patches = 0;
    let mut strip = |world: &mut World, node: &str, patch: &Patch| {
        patches += 1;
        world.watching = false;
        assert!(matches!(world.apply(node, patch), Reply::Patched(_)));
        world.edit_node(node, |node| drop(node["status"].as_object_mut().unwrap().remove("conditions")));
        world.watching = true;
        Reply::Patched(Box::new(object(world.nodes[node].clone())))
    };
    for quantity in 1..100 {
        world.set_rule("dongle", json!({"quantity": quantity}));
        world.answer_all(&mut strip);
        assert_eq!(world.dongles("node-0"), quantity);
        world.advance(Duration::from_secs(1));
    }
    assert!(patches <= 99 + 5, "{patches} patches for 99 values");
}

#[test]
fn condition_is_false_on_a_node_whose_ledger_cannot_be_read() {
    let mut world = advertised();
    let ledger = json!(world.ledger("node-0"));
    world.edit_node("node-0", |node| node["metadata"]["annotations"][ANNOTATION] = json!("{"));
    world.pass(2);
    assert_eq!(conditions(&world)[0], "noderesource.dev/Advertised False InvalidLedger");
    assert_eq!(world.ledger("node-0"), Some("{"));
    world.edit_node("node-0", |node| node["metadata"]["annotations"][ANNOTATION] = ledger);
    world.pass(40);
    assert_eq!(conditions(&world)[0], "noderesource.dev/Advertised True Advertised");
}

/// The value that is lost may be declared, kept as long as its quantity is unknown, or held.
#[test]
fn condition_is_false_while_the_value_is_lost_and_cannot_be_repaired() {
    let unknown = json!({"quantity": null, "quantityFrom": {"nodeLabel": {"key": "example.com/slots"}, "max": 9}});
    let is_true = "noderesource.dev/Advertised True Advertised";
    for spec in [json!({}), unknown, json!({"quantity": 2})] {
        let mut world = advertised();
        world.bind("node-0", 4);
        world.set_rule("dongle", spec.clone());
        world.pass(10);
        assert_eq!((world.dongles("node-0"), &*conditions(&world)[0]), (4, is_true), "{spec}");
        world.set_dongles("node-0", 0);
        let mut reject = |world: &mut World, node: &str, patch: &Patch| {
            let is_capacity = |add: &AddOperation| add.path.as_str().starts_with("/status/capacity");
            match patch.0.iter().any(|part| matches!(part, PatchOperation::Add(add) if is_capacity(add))) {
                true => Reply::Rejected("a policy".to_owned()),
                false => world.apply(node, patch),
            }
        };
        for _ in 0..40 {
            world.answer_all(&mut reject);
            world.advance(Duration::from_secs(1));
        }
        assert_eq!(conditions(&world), ["noderesource.dev/Advertised False PatchFailed"], "{spec}");
        assert_eq!(world.ready("dongle"), "False PatchFailed", "{spec}");
        world.pass(600);
        assert_eq!((world.dongles("node-0"), &*conditions(&world)[0]), (4, is_true), "{spec}");
    }
}

/// Nothing is written while pods cannot be listed, but the condition.
#[test]
fn condition_is_false_while_a_value_of_another_manager_stays_for_want_of_pods() {
    let mut world = advertised();
    world.watch_pods = 500;
    world.list_pods();
    world.set_dongles("node-0", 10);
    world.pass(60);
    assert_eq!(world.dongles("node-0"), 10);
    assert_eq!(conditions(&world)[0], "noderesource.dev/Advertised False PodsUnavailable");
    world.watch_pods = 200;
    world.list_pods();
    world.pass(60);
    assert_eq!((world.dongles("node-0"), &*conditions(&world)[0]), (4, "noderesource.dev/Advertised True Advertised"));
}

/// A patch without a response lands when the condition is already there, put there by the next one.
#[test]
fn patch_that_lands_late_puts_no_second_condition_on_a_node() {
    for others in [json!({}), json!({"conditions": []}), json!({"conditions": [{"type": "Ready", "status": "True"}]})] {
        let mut world = world(true);
        world.set_rule("dongle", json!({}));
        world.set_dongles("node-0", 7);
        world.edit_node("node-0", |node| {
            for (field, value) in others.as_object().unwrap() {
                node["status"][field] = value.clone();
            }
        });
        world.start();
        let (slot, node, late) = world.only_patch();
        assert!(edits_condition(&late));
        world.reply(slot, &node, Reply::from(RequestError::Transport("no answer".to_owned())));
        world.pass(40);
        assert_eq!(conditions(&world)[0], "noderesource.dev/Advertised False Conflict");
        let count = conditions(&world).len();
        assert!(matches!(world.apply(&node, &late), Reply::Stale { .. }), "{others}");
        assert_eq!(conditions(&world).len(), count);
    }
}

#[test]
fn node_condition_is_never_written_by_a_standby() {
    let mut world = advertised();
    switch(&mut world, true);
    world.list_all();
    world.edit_node("node-0", |node| node["status"]["conditions"] = json!([]));
    assert_eq!(patches_in_a_minute(&mut world), 0);
}

/// Enabled in a large cluster, it is written at the rate of a rollout.
#[test]
fn condition_alone_has_the_limits_of_a_rollout() {
    let limits = RolloutLimits { patches_per_second: Some(10), max_failed_nodes: 10 };
    let mut world = World::with_limits(16, limits);
    for number in 0..100 {
        world.set_node(&format!("node-{number}"), json!({}));
    }
    world.set_rule("dongle", json!({}));
    world.start();
    world.pass(60);
    switch(&mut world, true);
    world.start();
    let mut per_second = Vec::new();
    for _ in 0..20 {
        per_second.push(world.answer_all(|world, node, patch| world.apply(node, patch)));
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(per_second.iter().sum::<usize>(), 100);
    assert!(per_second.iter().all(|patches| *patches <= 20), "{per_second:?}");
}

/// A patch that removes the condition lands after another client has put one in front of it.
#[test]
fn removal_that_lands_late_removes_no_other_condition() {
    let mut world = advertised();
    switch(&mut world, false);
    world.start();
    let (_, node, late) = world.only_patch();
    assert!(edits_condition(&late));
    world.edit_node("node-0", |node| {
        node["status"]["conditions"].as_array_mut().unwrap().insert(0, json!({"type": "Other", "status": "True"}));
    });
    assert!(matches!(world.apply(&node, &late), Reply::Stale { .. }));
    assert_eq!(conditions(&world)[0], "Other True");
}
