use serde_json::json;

use crate::cluster::{Cluster, Controller, LEDGER, amount, condition, ledger};

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
    let note = "example.com/dongle on node-1 was 7, written by kubectl-patch; it is 4 again, as rule \
                dongle declares";
    cluster.wait_event("node-1", "Repaired", note);
    cluster.wait_event("dongle", "Repaired", note);
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
    cluster.write_first_amount("node-1", DONGLE, "8");
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
    for subject in ["node-1", "dongle"] {
        let note = "example.com/dongle on node-1 is 8 already, last written by kubectl-patch";
        cluster.wait_event(subject, "Conflict", note);
    }
    let node = cluster.node("node-1");
    assert_eq!(amount(&node, "capacity", DONGLE), Some("8"));
    assert_eq!(ledger(&node), None);

    // Withdrawing takes away only what was given.
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_withdrawn("node-2", DONGLE);
    let note =
        "example.com/dongle is withdrawn from node-2: rule dongle declares it there no longer";
    cluster.wait_event("node-2", "Withdrawn", note);
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

#[test]
fn another_writers_value_is_taken_over_where_the_rule_says_so() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    cluster.write_first_amount("node-1", DONGLE, "8");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    cluster.apply_rule("dongle", &json!({"conflictPolicy": "Overwrite"}));
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_event("node-1", "TookOver", "was 8, written by kubectl-patch; it is 4 now");
    controller.stop();
}

#[test]
fn what_is_to_be_retained_stays_and_is_nobodys() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"deletionPolicy": "Retain"}));
    cluster.wait_ready("dongle", "1/1");
    // It holds also where the rule goes while nobody looks.
    controller.stop();
    cluster.kubectl(&["delete", "ner", "dongle"]);
    let controller = Controller::start(&cluster);
    let node = cluster
        .wait_for("the ledger to be gone", &["node", "node-1"], |node| ledger(node).is_none());
    assert_eq!(amount(&node, "capacity", DONGLE), Some("4"));
    assert_eq!(amount(&node, "allocatable", DONGLE), Some("4"));
    controller.stop();
}

#[test]
fn a_tie_between_rules_is_told_on_both() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("first", &json!({"quantity": 2}));
    cluster.wait_ready("first", "1/1");
    // Made in the same second or a later one: by age or by name, the first decides.
    cluster.apply_rule("second", &json!({"quantity": 8}));
    let status = cluster.wait_status("second", "Overlapping", |status| {
        condition(status, "Overlapping") == ("True", "EqualPriority")
    });
    assert_eq!(condition(&status, "Ready"), ("True", "Overridden"));
    cluster.wait_advertised("node-1", DONGLE, "2");
    for (rule, other) in [("first", "second"), ("second", "first")] {
        cluster.wait_event(rule, "EqualPriority", &format!("rule {other} declares another"));
    }

    cluster.apply_rule("second", &json!({"quantity": 8, "priority": 1}));
    cluster.wait_advertised("node-1", DONGLE, "8");
    let status = cluster.wait_status("first", "Overlapping", |status| {
        condition(status, "Overlapping") == ("True", "Overridden")
    });
    let conditions = status["conditions"].as_array().unwrap();
    let said = conditions.iter().find(|said| said["type"] == "Overlapping").unwrap();
    assert_eq!(said["message"], "another rule decides: rule second on 1");
    controller.stop();
}

#[test]
fn a_value_that_is_changed_back_again_and_again_is_given_way_to() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");
    let before = cluster.node_patches();
    for _ in 0..5 {
        cluster.write_amount("node-1", DONGLE, "7");
        cluster.wait_advertised("node-1", DONGLE, "4");
    }
    cluster.write_amount("node-1", DONGLE, "7");
    let status = cluster.wait_status("dongle", "Contested", |status| {
        condition(status, "Contested") == ("True", "Contested")
    });
    assert_eq!(condition(&status, "Ready"), ("False", "Contested"));
    assert_eq!(status["nodes"]["summary"], "1/2");
    let problem = json!({
        "node": "node-1", "reason": "Contested", "message": "kubectl-patch keeps changing it back",
    });
    assert_eq!(status["problems"], json!([problem]));
    for subject in ["node-1", "dongle"] {
        cluster.wait_event(subject, "Contested", "kubectl-patch keeps changing example.com/dongle");
    }
    // The other writer has made six patches, and the controller five.
    assert_eq!(cluster.node_patches() - before, 6 + 5);
    // Neither other nodes nor other resources of this one are slowed.
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_advertised("node-1", "example.com/key", "4");
    assert_eq!(amount(&cluster.node("node-1"), "capacity", DONGLE), Some("7"));
    cluster.write_amount("node-2", DONGLE, "7");
    cluster.wait_advertised("node-2", DONGLE, "4");
    controller.stop();
}

#[test]
fn a_node_whose_annotation_cannot_be_read_is_left_alone_and_the_others_go_on() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    let long = format!("{{{}}}", " ".repeat(64 * 1024));
    for bad in ["not json", r#"{"cpu":{"quantity":"4","rule":"dongle"}}"#, "[]", &long] {
        let annotation = format!("{LEDGER}={bad}");
        cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &annotation]);
        let status = cluster.wait_status("dongle", "LedgerUnreadable", |status| {
            status["problems"][0]["reason"] == "LedgerUnreadable"
        });
        assert_eq!(condition(&status, "Ready"), ("False", "LedgerUnreadable"));
    }
    cluster.wait_event("node-1", "LedgerUnreadable", "cannot be read");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_advertised("node-2", DONGLE, "5");
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_withdrawn("node-2", DONGLE);
    let node = cluster.node("node-1");
    assert_eq!(amount(&node, "capacity", DONGLE), Some("4"), "nothing is withdrawn");
    assert_eq!(ledger(&node), Some(long.as_str()), "its content is kept");

    // Mended by hand, it is as if nothing had been.
    let mended = format!(r#"{LEDGER}={{"{DONGLE}":{{"quantity":"4","rule":"dongle"}}}}"#);
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &mended]);
    cluster.wait_withdrawn("node-1", DONGLE);
    controller.stop();
}
