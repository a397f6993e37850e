use serde_json::json;

use crate::cluster::{Cluster, Controller, amount, condition, ledger};

const DONGLE: &str = "example.com/dongle";

#[test]
fn a_foreign_edit_is_repaired_and_told() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    for (quantity, node) in [("7", "node-1"), ("0", "node-2")] {
        let before = cluster.node(node)["metadata"]["resourceVersion"].clone();
        cluster.write_amount(node, DONGLE, quantity);
        let after = cluster.wait_advertised(node, DONGLE, "4");
        assert_ne!(after["metadata"]["resourceVersion"], before);
        controller.wait_log(&format!("was {quantity}, written by kubectl-patch"));
    }
    let event = cluster.wait_for("an Event about the repair", &["events.events.k8s.io"], |list| {
        let events = list["items"].as_array().unwrap();
        events.iter().any(|event| event["reason"] == "Repaired")
    });
    let event = event["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["regarding"]["name"] == "node-1" && event["reason"] == "Repaired")
        .unwrap()
        .clone();
    let note = event["note"].as_str().unwrap();
    assert_eq!(
        note,
        "example.com/dongle was 7, written by kubectl-patch; it is 4 again, as rule dongle declares"
    );
    let description = cluster.kubectl(&["describe", "node", "node-1"]);
    assert!(description.contains("Repaired"), "{description}");

    // One map alone, and both keys removed.
    cluster.write_status(
        "node-1",
        &json!([
            {"op": "remove", "path": "/status/allocatable/example.com~1dongle"},
        ]),
    );
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.write_status(
        "node-1",
        &json!([
            {"op": "remove", "path": "/status/allocatable/example.com~1dongle"},
            {"op": "remove", "path": "/status/capacity/example.com~1dongle"},
        ]),
    );
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}

#[test]
fn what_was_there_before_is_left_alone() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    cluster.write_status(
        "node-1",
        &json!([
            {"op": "add", "path": "/status/capacity", "value": {DONGLE: "8"}},
            {"op": "add", "path": "/status/allocatable", "value": {DONGLE: "8"}},
        ]),
    );
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "a conflict", |status| {
        status["nodes"]["conflicted"] == 1 && status["nodes"]["advertised"] == 1
    });
    assert_eq!(condition(&status, "Ready"), ("False", "Conflict"));
    let problem = json!({
        "node": "node-1", "reason": "Conflict",
        "message": "already 8, last written by kubectl-patch",
    });
    assert_eq!(status["problems"], json!([problem]));
    let node = cluster.node("node-1");
    assert_eq!(amount(&node, "capacity", DONGLE), Some("8"));
    assert_eq!(ledger(&node), None);

    // Withdrawing takes away only what was given.
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_withdrawn("node-2", DONGLE);
    assert_eq!(amount(&cluster.node("node-1"), "capacity", DONGLE), Some("8"));

    // Once the other writer lets go, the place is taken.
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    cluster.write_amount("node-1", DONGLE, "0");
    cluster.wait_ready("dongle", "2/2");
    controller.stop();
}

#[test]
fn where_rules_overlap_the_highest_precedence_wins_and_the_next_takes_over() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("low", &json!({"quantity": 2}));
    cluster.wait_ready("low", "2/2");
    let high = json!({"quantity": 8, "priority": 1, "nodeNames": ["node-1"]});
    cluster.apply_rule("high", &high);
    cluster.wait_ready("high", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "8");
    cluster.wait_advertised("node-2", DONGLE, "2");
    let status = cluster.wait_ready("low", "1/2");
    assert_eq!(status["nodes"]["overridden"], 1);

    let before = cluster.node_patches();
    cluster.kubectl(&["delete", "ner", "high"]);
    cluster.wait_advertised("node-1", DONGLE, "2");
    assert_eq!(cluster.node_patches() - before, 1, "never through absence");
    cluster.wait_ready("low", "2/2");
    controller.stop();
}
