//! Values that the controller wrote and that no ledger lists any more.
//!
//! Method: remove the ledger entry with a deleted rule or with kubectl while the value stays; then compare
//! the ledger, the values and the field managers with those before.

use std::time::Duration;

use harness::objects::{DONGLE, LEDGER, condition, ledger, quantity};
use harness::{Cluster, Controller};
use serde_json::{Value, json};

/// The field managers of the node's status, without times.
fn managers(cluster: &Cluster, node: &str) -> Vec<(Value, Value)> {
    let node = cluster.get(&["node", node, "--show-managed-fields"]);
    let entries = node["metadata"]["managedFields"].as_array().unwrap().iter();
    let entries = entries.filter(|entry| entry["subresource"] == "status");
    entries.map(|entry| (entry["manager"].clone(), entry["fieldsV1"].clone())).collect()
}

/// Makes node-1 advertise a value of a deleted rule, which no ledger lists any more.
fn release_retained_value(cluster: &Cluster) {
    cluster.apply_rule("dongle", &json!({"deletionPolicy": "Retain"}));
    cluster.wait_ready("dongle", "1/1");
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_for("the ledger to be removed", &["node", "node-1"], |node| ledger(node).is_none());
}

#[test]
fn recreated_retain_rule_adopts_its_value() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"deletionPolicy": "Retain"}));
    cluster.wait_ready("dongle", "1/1");
    let before = managers(&cluster, "node-1");
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_for("the ledger to be removed", &["node", "node-1"], |node| ledger(node).is_none());

    // A rule with another quantity does not adopt: it conflicts with the controller's own old value.
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    let status = cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    assert_eq!(
        status["problems"][0]["message"],
        "already 4, last written by node-resource-advertiser; to take it over, set conflictPolicy: Overwrite"
    );
    assert_eq!(ledger(&cluster.node("node-1")), None);

    let patches = cluster.node_patches();
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    assert_eq!(cluster.node_patches() - patches, 1);
    assert_eq!(managers(&cluster, "node-1"), before, "no value is written");
    cluster.wait_event("node-1", "Adopted", "Adopted example.com/dongle on node-1: already 4");
    controller.wait_log("adopted example.com/dongle=4");
    assert!(
        controller.get("/metrics").unwrap().1.contains("node_resource_advertiser_repairs_total 0"),
        "an adoption is no repair"
    );

    // The controller owns what it adopted: the recreated rule has the policy Withdraw.
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_withdrawn("node-1", DONGLE);
    controller.stop();
}

#[test]
fn removed_annotation_is_restored() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    let node = cluster.node("node-1");
    let before = (ledger(&node).unwrap().to_owned(), managers(&cluster, "node-1"));
    cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}-")]);
    let node = cluster.wait_advertised("node-1", DONGLE, "4");
    assert_eq!(ledger(&node), Some(&*before.0));
    assert_eq!(managers(&cluster, "node-1"), before.1, "no value is written");
    cluster.wait_ready("dongle", "1/1");

    // The same while no controller runs.
    controller.stop();
    cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}-")]);
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_ready("dongle", "1/1");
    controller.stop();
}

#[test]
fn repeatedly_removed_annotation_is_contested() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    for _ in 0..5 {
        cluster.wait_advertised("node-1", DONGLE, "4");
        cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}-")]);
    }
    cluster.wait_status("dongle", "a contest", |status| condition(status, "Contested") == ("True", "Contested"));
    // The fifth adoption is immediate, and the sixth has to wait.
    cluster.wait_advertised("node-1", DONGLE, "4");
    let patches = cluster.node_patches();
    cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}-")]);
    cluster.wait_idle(Duration::from_secs(2));
    assert_eq!(cluster.node_patches(), patches, "adoption backs off");
    assert_eq!(quantity(&cluster.node("node-1"), "capacity", DONGLE), Some("4"));
    controller.stop();
}

#[test]
fn equal_value_of_another_manager_is_a_conflict() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    cluster.write_quantity("node-1", DONGLE, "4");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["summary"] == "1/2");
    let problem = json!({
        "node": "node-1", "reason": "Conflict",
        "message": "already 4, last written by kubectl-patch; to take it over, set conflictPolicy: Overwrite",
    });
    assert_eq!(status["problems"], json!([problem]));
    assert_eq!(ledger(&cluster.node("node-1")), None);

    // If another manager wrote only one of the maps, the value is not the controller's either.
    cluster.apply_rule("dongle", &json!({"deletionPolicy": "Retain"}));
    cluster.wait_for("the ledger with Retain", &["node", "node-2"], |node| {
        ledger(node).is_some_and(|ledger| ledger.contains("Retain"))
    });
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_for("the ledger to be removed", &["node", "node-2"], |node| ledger(node).is_none());
    for value in ["9", "4"] {
        let patch = json!({"status": {"allocatable": {DONGLE: value}}});
        cluster.patch_status("node-2", "merge", &patch);
    }
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "two conflicts", |status| status["nodes"]["conflicted"] == 2);
    assert_eq!(
        status["problems"][1]["message"],
        "already 4, last written by kubectl-patch; to take it over, set conflictPolicy: Overwrite"
    );

    cluster.apply_rule("dongle", &json!({"conflictPolicy": "Overwrite"}));
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_event("node-1", "TakenOver", "node-1: 4 (by kubectl-patch) -> 4");
    controller.stop();
}

#[test]
fn value_with_a_second_owner_is_adopted_once_that_owner_releases_it() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    release_retained_value(&cluster);
    let apply_as_helm = |status: Value| {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": status,
        });
        let args = ["apply", "--server-side", "--subresource=status", "--field-manager=helm"];
        let args = [&args[..], &["-f", "-"]].concat();
        cluster.control_plane.kubectl_stdin(&args, &node.to_string()).unwrap();
    };
    let amounts = json!({DONGLE: "4"});
    apply_as_helm(json!({"capacity": amounts, "allocatable": amounts}));
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    assert_eq!(
        status["problems"][0]["message"],
        "already 4, last written by helm; to take it over, set conflictPolicy: Overwrite"
    );
    assert_eq!(ledger(&cluster.node("node-1")), None);

    // No value changes, but now only the controller owns it.
    apply_as_helm(json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}

#[test]
fn value_without_managed_fields_is_not_adopted() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    release_retained_value(&cluster);
    let none = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    cluster.kubectl(&["patch", "node", "node-1", "--type=json", "-p", &none.to_string()]);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    assert_eq!(
        status["problems"][0]["message"],
        "already 4, last written by an unknown field manager; to take it over, set conflictPolicy: Overwrite"
    );
    assert_eq!(ledger(&cluster.node("node-1")), None);
    controller.stop();
}
