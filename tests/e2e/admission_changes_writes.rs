//! Admission that changes what the controller writes to nodes.
//!
//! Method: install a policy that sets capacity to a fixed number in every write of a node's status, as policies that
//! advertise resources do, and compare what the controller and the commands name as the cause.

use harness::objects::{DONGLE, condition, ledger, quantity};
use harness::{Cluster, Controller, wait_until};
use serde_json::json;

use crate::support::program;

/// A policy that gives every node 2 dongles, whatever a client writes.
fn install_policy(cluster: &Cluster) {
    let group = "admissionregistration.k8s.io/v1";
    let rules = json!([
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]},
    ]);
    let set = "[JSONPatch{op: 'add', path: '/status/capacity/example.com~1dongle', value: '2'}]";
    let policy = json!({
        "apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "two-dongles"},
        "spec": {
            "matchConstraints": {"resourceRules": rules}, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": set}}],
        },
    });
    let binding = json!({
        "apiVersion": group, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "two-dongles"},
        "spec": {"policyName": "two-dongles"},
    });
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string());
}

#[test]
fn admission_that_changes_the_own_write_is_named() {
    let cluster = Cluster::start();
    for violation in ["I2: values and ledger do not agree", "I2: the values are not [None, None]"] {
        cluster.control_plane.excuse(violation, "the policy changes what the program writes");
    }
    cluster.create_nodes(["node-1"], &json!({}));
    install_policy(&cluster);
    wait_until("the policy to take effect", || {
        cluster.patch_status_as("kubelet", "node-1", &json!({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}));
        cluster.heartbeat("node-1", "kubelet");
        Ok((quantity(&cluster.node("node-1"), "capacity", DONGLE) == Some("2")).then_some(()))
    })
    .unwrap();
    // A kubelet copies it.
    cluster.patch_status_as("kubelet", "node-1", &json!({"allocatable": {DONGLE: "2"}}));
    let admin = cluster.control_plane.kubeconfig();
    let adopt = program::run(&admin, &["adopt"], None);
    let cause = "managedFields do not name its writer: an admission policy or webhook may add it";
    let text = format!("{}{}", adopt.stdout, adopt.stderr).replace("\n# ", " ").replace("\n#   ", " ");
    assert!(text.contains(cause), "{adopt:?}");

    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"conflictPolicy": "Overwrite"}));
    let status =
        cluster.wait_status("dongle", "a contest", |status| condition(status, "Contested") == ("True", "Contested"));
    let named = "an admission policy or webhook keeps changing what the controller writes";
    let contested = status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Contested").unwrap();
    let advice = "exempt the controller from that policy or webhook, or exclude the node from the rule";
    assert_eq!(contested["message"], format!("{named} on node-1; {advice}"));
    let event = format!("Backed off from example.com/dongle on node-1: {named} for rule dongle; {advice}");
    cluster.wait_event("node-1", "Contested", &event);
    controller.wait_log(&format!("backing off from example.com/dongle on node-1: {named}"));
    let plan = program::run(&admin, &["plan", "--all"], None);
    assert!(plan.stdout.contains(&format!("contested: {named}")), "{plan:?}");

    // The value differs from the ledger when the rule ends, so it stays.
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_event("node-1", "Released", "stays at 2 in capacity, 4 in allocatable (by admission, or an edit");
    let node = cluster.wait_for("the ledger to be removed", &["node", "node-1"], |node| ledger(node).is_none());
    assert_eq!(quantity(&node, "capacity", DONGLE), Some("2"));

    // An equal number shows no difference, until the rule ends: then it comes back in the same write. This leader has no
    // contest to remember.
    controller.stop();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 2, "conflictPolicy": "Overwrite"}));
    cluster.wait_ready("dongle", "1/1");
    cluster.kubectl(&["delete", "ner", "dongle"]);
    let event = "Failed to withdraw example.com/dongle on node-1, which rule dongle no longer declares there: an \
                 admission policy or webhook puts a value back";
    cluster.wait_event("node-1", "PatchFailed", event);
    controller.stop();
}
