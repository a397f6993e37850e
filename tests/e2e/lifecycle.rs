use serde_json::json;

use crate::cluster::{Cluster, Controller, advertises, amount, ledger};

const DONGLE: &str = "example.com/dongle";

fn cluster() -> Cluster {
    let cluster = Cluster::start();
    let has_dongle = json!({"example.com/has-dongle": "true"});
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &has_dongle);
    cluster
}

fn by_label() -> serde_json::Value {
    json!({"nodeSelector": {"matchLabels": {"example.com/has-dongle": "true"}}})
}

#[test]
fn nodes_follow_their_labels() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &by_label());
    cluster.wait_ready("dongle", "2/2");

    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle-"]);
    let node = cluster.wait_withdrawn("node-1", DONGLE);
    assert!(node["metadata"]["annotations"].is_null(), "no trace is left: {node:#}");
    cluster.wait_ready("dongle", "1/1");

    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle=true"]);
    cluster.wait_ready("dongle", "2/2");

    cluster.create_nodes(["node-3".to_owned()], &json!({"example.com/has-dongle": "true"}));
    cluster.wait_advertised("node-3", DONGLE, "4");
    cluster.wait_ready("dongle", "3/3");
    cluster.kubectl(&["delete", "node", "node-3"]);
    cluster.wait_ready("dongle", "2/2");
    controller.stop();
}

#[test]
fn a_rule_follows_its_edits() {
    let cluster = cluster();
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
    assert_eq!(amount(&cluster.node("node-1"), "capacity", DONGLE), None);

    // A named node gets it when it appears.
    cluster.create_nodes(["node-9".to_owned()], &json!({}));
    cluster.wait_advertised("node-9", "example.com/key", "4");
    let status = cluster.wait_ready("dongle", "2/2");
    assert_eq!(status["nodes"]["missing"], 0);

    // In place: another resource, in one go.
    cluster.kubectl(&[
        "patch",
        "ner",
        "dongle",
        "--type=merge",
        "-p",
        r#"{"spec":{"resourceName":"example.com/lock"}}"#,
    ]);
    let node = cluster.wait_advertised("node-1", "example.com/lock", "4");
    assert_eq!(amount(&node, "capacity", "example.com/key"), None);
    controller.stop();
}

#[test]
fn edits_and_deletions_while_it_was_down_are_caught_up_with() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &by_label());
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_ready("key", "2/2");
    controller.stop();

    cluster.apply_rule("dongle", &json!({"quantity": 5, "nodeNames": ["node-1"]}));
    cluster.kubectl(&["delete", "ner", "key", "--timeout=10s"]);
    cluster.kubectl(&["label", "node", "node-2", "example.com/has-dongle-"]);

    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.wait_withdrawn("node-2", DONGLE);
    let node = cluster.wait_for("example.com/key to be withdrawn", &["node", "node-1"], |node| {
        amount(node, "capacity", "example.com/key").is_none()
    });
    assert!(!ledger(&node).unwrap().contains("example.com/key"));
    controller.stop();
}

#[test]
fn a_node_made_again_under_its_name_is_a_new_node() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &by_label());
    cluster.wait_ready("dongle", "2/2");

    for _ in 0..5 {
        let old = cluster.node("node-1")["metadata"]["uid"].clone();
        cluster.kubectl(&["delete", "node", "node-1"]);
        let labels = json!({"example.com/has-dongle": "true"});
        cluster.create_nodes(["node-1".to_owned()], &labels);
        let node = cluster.wait_advertised("node-1", DONGLE, "4");
        assert_ne!(node["metadata"]["uid"], old);
    }

    // Also while it was down.
    controller.stop();
    cluster.kubectl(&["delete", "node", "node-1"]);
    cluster.create_nodes(["node-1".to_owned()], &json!({"example.com/has-dongle": "true"}));
    assert!(!advertises(&cluster.node("node-1"), DONGLE, "4"));
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}
