//! Quantities that are read from nodes: how often they move, and when the nodes are listed for them.

use serde_json::Value;

use super::*;

const KEY: &str = "example.com/slots";

fn from_label() -> Value {
    json!({"quantity": null, "quantityFrom": {"nodeLabel": {"key": KEY}, "max": 100}, "shrinkPolicy": "Immediate"})
}

fn wait(world: &mut World, seconds: u64) {
    world.run_until_idle();
    for _ in 0..seconds {
        world.advance(Duration::from_secs(1));
        world.run_until_idle();
    }
}

fn label(world: &mut World, node: &str, slots: &str) {
    world.relabel(node, json!({ KEY: slots }));
    world.run_until_idle();
}

#[test]
fn derived_quantity_moves_at_most_once_in_30_seconds() {
    let mut world = World::leading(2, &[]);
    for (node, slots) in [("node-0", "4"), ("node-1", "6")] {
        label(&mut world, node, slots);
    }
    world.set_rule("dongle", from_label());
    wait(&mut world, 2);
    assert_eq!([world.dongles("node-0"), world.dongles("node-1")], [4, 6]);
    assert_eq!(world.ready("dongle"), "True Advertised");
    assert_eq!(world.statuses.last().unwrap().1["total"], "10");

    label(&mut world, "node-0", "5");
    assert_eq!(world.dongles("node-0"), 5, "the first move waits for nothing");
    for slots in ["8", "9", "7"] {
        label(&mut world, "node-0", slots);
        wait(&mut world, 5);
        assert_eq!(world.dongles("node-0"), 5);
    }
    assert_eq!(world.ready("dongle"), "False Progressing");
    label(&mut world, "node-1", "5");
    assert_eq!(world.dongles("node-1"), 5, "it is another node");
    world.reset("node-0");
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 5, "repairs do not wait");
    wait(&mut world, 16);
    assert_eq!(world.dongles("node-0"), 7);
    wait(&mut world, 2);
    assert_eq!(world.ready("dongle"), "True Advertised");
    let statuses = world.statuses.len();
    wait(&mut world, 60);
    assert_eq!(world.statuses.len(), statuses, "a converged cluster costs no requests");
}

#[test]
fn derived_quantity_that_becomes_unknown_is_reported_and_stays() {
    let mut world = World::leading(2, &[]);
    for node in ["node-0", "node-1"] {
        label(&mut world, node, "4");
    }
    world.set_rule("dongle", from_label());
    wait(&mut world, 2);
    label(&mut world, "node-1", "four");
    wait(&mut world, 2);
    assert_eq!([world.dongles("node-0"), world.dongles("node-1")], [4, 4]);
    assert_eq!(world.ready("dongle"), "False QuantityUnknown");
    let (_, status) = world.statuses.last().unwrap();
    assert_eq!(status["total"], "8");
    assert_eq!(
        status["problems"][0]["message"],
        r#"stays at 4: the label example.com/slots is "four", which is not a quantity"#
    );
    label(&mut world, "node-1", "five");
    wait(&mut world, 2);
    let (_, status) = world.statuses.last().unwrap();
    assert!(status["problems"][0]["message"].as_str().unwrap().contains("\"five\""), "{status:#}");
    label(&mut world, "node-1", "5");
    wait(&mut world, 2);
    assert_eq!(world.dongles("node-1"), 5);
    assert_eq!(world.ready("dongle"), "True Advertised");
}

/// Only the label is in memory: the nodes are listed once more for the annotation, and not again.
#[test]
fn nodes_are_listed_again_for_what_no_rule_has_read_before() {
    let mut world = World::leading(2, &[]);
    for node in ["node-0", "node-1"] {
        world.edit_node(node, |node| node["metadata"]["annotations"][KEY] = json!("3"));
        world.run_until_idle();
    }
    let rule = |kind: &str| json!({"quantity": null, "quantityFrom": {kind: {"key": KEY}, "max": 100}, "shrinkPolicy": "Immediate"});
    world.set_rule("dongle", rule("nodeLabel"));
    wait(&mut world, 2);
    assert_eq!((world.relists, world.dongles("node-0")), (0, -1));
    world.set_rule("dongle", rule("nodeAnnotation"));
    wait(&mut world, 2);
    assert_eq!((world.relists, world.dongles("node-0"), world.dongles("node-1")), (1, 3, 3));
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.edit_node("node-0", |node| node["metadata"]["annotations"][KEY] = json!("2"));
    world.set_rule("dongle", rule("nodeLabel"));
    world.set_rule("dongle", rule("nodeAnnotation"));
    wait(&mut world, 40);
    assert_eq!((world.relists, world.dongles("node-0")), (1, 2));
}

/// Each list shows what kubelets have reset only once it comes to their nodes.
#[test]
fn rules_that_read_ever_new_annotations_do_not_keep_nodes_from_being_listed() {
    let mut world = World::leading(2, &[]);
    let rule = |key: &str| json!({"quantity": null, "quantityFrom": {"nodeAnnotation": {"key": key}, "max": 100}});
    for second in 0..240 {
        world.set_rule("dongle", rule(&format!("example.com/key-{second}")));
        wait(&mut world, 1);
    }
    assert!((1..=5).contains(&world.relists), "{} lists in four minutes", world.relists);
    // None is forgotten.
    world.edit_node("node-0", |node| node["metadata"]["annotations"][KEY] = json!("3"));
    let mut rule = rule(KEY);
    rule["shrinkPolicy"] = json!("Immediate");
    world.set_rule("dongle", rule);
    wait(&mut world, 300);
    assert_eq!(world.dongles("node-0"), 3);
}

/// Rules that take turns, as when somebody tries one and then the other, must not list all nodes each time.
#[test]
fn nodes_are_not_listed_again_for_what_a_rule_has_read_before() {
    let mut world = World::leading(2, &[]);
    let rule = |key: &str| json!({"quantity": null, "quantityFrom": {"nodeAnnotation": {"key": key}, "max": 100}});
    for turn in 0..5 {
        for key in [KEY, "example.com/others"] {
            world.set_rule("dongle", rule(key));
            wait(&mut world, 2);
        }
        assert_eq!(world.relists, 2, "turn {turn}");
    }
}
