//! Rules and nodes that are created, changed and deleted, with and without a running controller.
//!
//! Method: edit labels, rules and Node objects, and wait until values, ledgers and statuses follow.

use harness::objects::{DONGLE, advertises, ledger, quantity};
use harness::{Cluster, Controller, SharedCluster};
use serde_json::{Value, json};

fn start_cluster() -> SharedCluster {
    let cluster = Cluster::shared();
    let has_dongle = json!({"example.com/has-dongle": "true"});
    cluster.create_nodes(["node-1", "node-2"], &has_dongle);
    cluster
}

fn by_label() -> Value {
    json!({"nodeSelector": {"matchLabels": {"example.com/has-dongle": "true"}}})
}

#[test]
fn node_label_change_advertises_or_withdraws() {
    let cluster = start_cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &by_label());
    cluster.wait_ready("dongle", "2/2");

    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle-"]);
    let node = cluster.wait_withdrawn("node-1", DONGLE);
    assert!(node["metadata"]["annotations"].is_null(), "{node:#}");
    cluster.wait_ready("dongle", "1/1");

    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle=true"]);
    cluster.wait_ready("dongle", "2/2");

    cluster.create_nodes(["node-3"], &json!({"example.com/has-dongle": "true"}));
    cluster.wait_advertised("node-3", DONGLE, "4");
    cluster.wait_ready("dongle", "3/3");
    cluster.kubectl(&["delete", "node", "node-3"]);
    cluster.wait_ready("dongle", "2/2");
    controller.stop();
}

#[test]
fn rule_edit_moves_values_to_the_new_selection() {
    let cluster = start_cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &by_label());
    cluster.wait_ready("dongle", "2/2");

    let renamed = json!({"resourceName": "example.com/key", "nodeNames": ["node-1", "node-9"]});
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.apply_rule("dongle", &renamed);
    cluster.wait_advertised("node-1", "example.com/key", "4");
    cluster.wait_withdrawn("node-2", DONGLE);
    let status = cluster.wait_ready("dongle", "1/1");
    assert_eq!(status["nodes"]["missing"], 1);
    assert_eq!(quantity(&cluster.node("node-1"), "capacity", DONGLE), None);

    // The controller advertises on a named node when it is created.
    cluster.create_nodes(["node-9"], &json!({}));
    cluster.wait_advertised("node-9", "example.com/key", "4");
    let status = cluster.wait_ready("dongle", "2/2");
    assert_eq!(status["nodes"]["missing"], 0);

    // Another resource in the same rule: withdrawn and advertised in one patch.
    let patch = r#"{"spec":{"resourceName":"example.com/lock"}}"#;
    cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "-p", patch]);
    let node = cluster.wait_advertised("node-1", "example.com/lock", "4");
    assert_eq!(quantity(&node, "capacity", "example.com/key"), None);
    controller.stop();
}

#[test]
fn changes_while_controller_is_down_are_applied_at_start() {
    let cluster = start_cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &by_label());
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_ready("key", "2/2");
    controller.stop();

    cluster.apply_rule("dongle", &json!({"quantity": 5, "nodeNames": ["node-1"]}));
    cluster.kubectl(&["delete", "ner", "key", "--timeout=180s"]);
    cluster.kubectl(&["label", "node", "node-2", "example.com/has-dongle-"]);

    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.wait_withdrawn("node-2", DONGLE);
    let node = cluster.wait_for("example.com/key to be withdrawn", &["node", "node-1"], |node| {
        quantity(node, "capacity", "example.com/key").is_none()
    });
    assert!(!ledger(&node).unwrap().contains("example.com/key"));
    controller.stop();
}

#[test]
fn recreated_node_is_treated_as_new() {
    let cluster = start_cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &by_label());
    cluster.wait_ready("dongle", "2/2");

    for _ in 0..5 {
        let old = cluster.node("node-1")["metadata"]["uid"].clone();
        cluster.kubectl(&["delete", "node", "node-1"]);
        let labels = json!({"example.com/has-dongle": "true"});
        cluster.create_nodes(["node-1"], &labels);
        let node = cluster.wait_advertised("node-1", DONGLE, "4");
        assert_ne!(node["metadata"]["uid"], old);
    }

    // The same while no controller runs.
    controller.stop();
    cluster.kubectl(&["delete", "node", "node-1"]);
    cluster.create_nodes(["node-1"], &json!({"example.com/has-dongle": "true"}));
    assert!(!advertises(&cluster.node("node-1"), DONGLE, "4"));
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}
