//! Values of other field managers and of other rules.
//!
//! Method: write a value before a rule declares it, or declare it by two rules; then compare values,
//! conditions and Events under each policy.

use harness::objects::{DONGLE, condition, ledger, quantity};
use harness::{Cluster, Controller};
use serde_json::json;

#[test]
fn keep_policy_leaves_foreign_value() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2", "node-3"], &json!({}));
    // More than the rule declares, and less.
    cluster.write_quantity("node-1", DONGLE, "8");
    cluster.write_quantity("node-3", DONGLE, "2");
    let before = cluster.node("node-1");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "two conflicts", |status| {
        status["nodes"]["conflicted"] == 2 && status["nodes"]["advertised"] == 1
    });
    assert_eq!(condition(&status, "Ready"), ("False", "Conflict"));
    let problems = [("node-1", 8), ("node-3", 2)].map(|(node, value)| {
        let message =
            format!("already {value}, last written by kubectl-patch; to take it over, set conflictPolicy: Overwrite");
        json!({"node": node, "reason": "Conflict", "message": message})
    });
    assert_eq!(status["problems"], json!(problems));
    for subject in ["node-1", "dongle"] {
        let note = "Skipped example.com/dongle on node-1: already 8 (by kubectl-patch)";
        cluster.wait_event(subject, "Conflict", note);
    }
    let fields = "node=node-1 rule=dongle resource=example.com/dongle action=conflict quantity=8 \
                  manager=kubectl-patch";
    controller.wait_log(fields);

    // The controller withdraws only what it wrote.
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_withdrawn("node-2", DONGLE);
    let note = "Withdrew example.com/dongle from node-2: rule dongle no longer declares it there";
    cluster.wait_event("node-2", "Withdrawn", note);
    cluster.wait_planned(&["node-1"]);
    cluster.assert_always(&before, "another client's value was changed or recorded", |node| {
        quantity(node, "capacity", DONGLE) == Some("8") && !ledger(node).is_some_and(|ledger| ledger.contains(DONGLE))
    });

    // The controller writes as soon as the other field manager sets 0.
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "two conflicts", |status| status["nodes"]["conflicted"] == 2);
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.write_quantity("node-3", DONGLE, "0");
    cluster.wait_ready("dongle", "3/3");
    controller.stop();
}

/// A kubelet's own name decides nothing: it is the field manager of the node's heartbeats.
#[test]
fn conflict_with_a_kubelet_of_any_name_is_with_its_device_plugin() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2", "node-3"], &json!({}));
    let cpu = json!({"cpu": "4"});
    for node in ["node-1", "node-2", "node-3"] {
        cluster.heartbeat(node, "k3s");
        cluster.patch_status_as("k3s", node, &json!({"capacity": cpu, "allocatable": cpu}));
    }
    let map = json!({DONGLE: "2"});
    // A device plugin; what an administrator has written, and the kubelet has copied; and another client.
    cluster.patch_status_as("k3s", "node-1", &json!({"capacity": map, "allocatable": map}));
    cluster.patch_status_as("kubectl-edit", "node-2", &json!({ "capacity": map }));
    cluster.patch_status_as("k3s", "node-2", &json!({ "allocatable": map }));
    cluster.patch_status_as("kubelet", "node-3", &json!({"capacity": map, "allocatable": map}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "three conflicts", |status| status["nodes"]["conflicted"] == 3);
    let expected = [
        "already 2, last written by k3s; a device plugin probably provides it: exclude the node from the rule",
        "already 2, last written by kubectl-edit; to take it over, set conflictPolicy: Overwrite",
        "already 2, last written by kubelet; to take it over, set conflictPolicy: Overwrite",
    ];
    let problems = status["problems"].as_array().unwrap();
    assert_eq!(problems.iter().map(|problem| &problem["message"]).collect::<Vec<_>>(), expected);
    controller.stop();
}

#[test]
fn overwrite_policy_takes_over_foreign_value() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.write_quantity("node-1", DONGLE, "8");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    cluster.apply_rule("dongle", &json!({"conflictPolicy": "Overwrite"}));
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_event("node-1", "TakenOver", "node-1: 8 (by kubectl-patch) -> 4");
    controller.stop();
}

#[test]
fn overlapping_rules_apply_the_highest_priority() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
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
    assert_eq!(cluster.node_patches() - before, 1, "one patch: the value is never absent");
    cluster.wait_ready("low", "2/2");
    controller.stop();
}

#[test]
fn equal_priority_is_reported_on_both_rules() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("first", &json!({"quantity": 2}));
    cluster.wait_ready("first", "1/1");
    // Created in the same second or a later one: the first is older, or comes first by name.
    cluster.apply_rule("second", &json!({"quantity": 8}));
    let status = cluster
        .wait_status("second", "Overlapping", |status| condition(status, "Overlapping") == ("True", "EqualPriority"));
    assert_eq!(condition(&status, "Ready"), ("True", "Overridden"));
    cluster.wait_advertised("node-1", DONGLE, "2");
    for (rule, other) in [("first", "second"), ("second", "first")] {
        cluster.wait_event(rule, "EqualPriority", &format!("rule {other} declares another"));
        controller.wait_log(&format!("rule={rule} other={other} resource=example.com/dongle"));
    }

    cluster.apply_rule("second", &json!({"quantity": 8, "priority": 1}));
    cluster.wait_advertised("node-1", DONGLE, "8");
    let status = cluster
        .wait_status("first", "Overlapping", |status| condition(status, "Overlapping") == ("True", "Overridden"));
    let conditions = status["conditions"].as_array().unwrap();
    let overlapping = conditions.iter().find(|one| one["type"] == "Overlapping").unwrap();
    assert_eq!(overlapping["message"], "another rule decides: rule second on 1 node");
    controller.stop();
}

#[test]
fn retain_policy_releases_value_of_deleted_rule() {
    retained_value_is_released(|_| {});
}

/// A remaining 0 makes kubelets reject pods. A new leader repairs what ledgers list before it knows that the rule
/// is deleted.
#[test]
fn retained_value_that_was_reset_is_restored_with_its_release() {
    retained_value_is_released(|cluster| cluster.write_quantity("node-1", DONGLE, "0"));
}

/// A rule with `Retain` is deleted while no controller runs, and this happens before that.
fn retained_value_is_released(meanwhile: impl FnOnce(&Cluster)) {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"deletionPolicy": "Retain"}));
    cluster.wait_ready("dongle", "1/1");
    controller.stop();
    meanwhile(&cluster);
    cluster.kubectl(&["delete", "ner", "dongle"]);
    let controller = Controller::start(&cluster);
    wait_released(&cluster, "4");
    controller.stop();
}

/// Ownership depends on the value: one that differs from the ledger when its rule is deleted belongs to another client.
#[test]
fn overwritten_value_is_released_with_its_rule() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");
    controller.stop();
    cluster.write_quantity("node-1", DONGLE, "8");
    cluster.write_quantity("node-2", DONGLE, "0");
    cluster.kubectl(&["delete", "ner", "dongle"]);
    let controller = Controller::start(&cluster);
    cluster.wait_withdrawn("node-2", DONGLE);
    controller.wait_log("released example.com/dongle (rule dongle): kubectl-patch has written 8 since");
    wait_released(&cluster, "8");
    controller.stop();
}

/// Waits until the ledger of node-1 is removed, with this value in place.
fn wait_released(cluster: &Cluster, value: &str) {
    let node = cluster.wait_for("the ledger to be removed", &["node", "node-1"], |node| ledger(node).is_none());
    assert_eq!(quantity(&node, "capacity", DONGLE), Some(value));
    assert_eq!(quantity(&node, "allocatable", DONGLE), Some(value));
}
