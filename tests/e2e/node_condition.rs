//! The node's condition on a real API server, under the chart's policy.

use std::collections::BTreeMap;

use harness::documents::{self, Shell};
use harness::helm::{NAMESPACE, helm_chart};
use harness::objects::{DONGLE, condition, quantity};
use harness::{Cluster, Controller, project_file};
use serde_json::{Value, json};

use crate::admission_policy::{install, patch};
use crate::support::program;

const TYPE: &str = "noderesource.dev/Advertised";
const FLAGS: [&str; 2] = ["--leader-elect-resource-namespace", NAMESPACE];

fn types(node: &Value) -> Vec<&str> {
    let list = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|condition| condition["type"].as_str()).collect()
}

fn ready() -> Value {
    json!({"type": "Ready", "status": "True", "reason": "KubeletReady"})
}

fn wait_condition(cluster: &Cluster, node: &str, expected: (&str, &str)) -> Value {
    let what = format!("condition {expected:?}");
    cluster.wait_for(&what, &["node", node], |node| {
        let (status, reason) = condition(&node["status"], TYPE);
        (status, reason) == expected
    })
}

#[test]
fn node_condition_follows_the_rules_under_the_policy() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &["--set", "nodeCondition.enabled=true"]);
    cluster.create_nodes(["node-1", "node-2", "bare"], &json!({}));
    cluster.patch_status("node-1", "merge", &json!({"status": {"conditions": [ready()]}}));
    let flags = [&FLAGS[..], &["--node-condition=true"]].concat();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &flags);
    controller.wait_ready();

    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-1", "node-2"]}));
    cluster.kubectl(&[
        "wait",
        "--for=condition=noderesource.dev/Advertised",
        "node/node-1",
        "node/node-2",
        "--timeout=60s",
    ]);
    let node = cluster.node("node-1");
    assert_eq!((types(&node), quantity(&node, "allocatable", DONGLE)), (vec![TYPE, "Ready"], Some("4")));
    assert_eq!(types(&cluster.node("bare")), [""; 0], "no rule selects it");

    // One patch for each node: the condition came with the value.
    let patches = controller.log().matches("set the condition").count();
    assert_eq!(patches, 0, "{}", controller.log());

    cluster.patch_status(
        "node-2",
        "merge",
        &json!({"status": {"capacity": {"example.com/other": "7"},
        "allocatable": {"example.com/other": "7"}}}),
    );
    cluster.apply_rule("other", &json!({"resourceName": "example.com/other", "nodeNames": ["node-2"]}));
    let node = wait_condition(&cluster, "node-2", ("False", "Conflict"));
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["message"], "not advertised: other: Conflict");
    let blocks = documents::blocks_run_by("node-condition", &documents::pages().unwrap()).unwrap();
    Shell::new(&cluster, &project_file("."), BTreeMap::new()).unwrap().run(&blocks).unwrap();
    cluster.kubectl(&["delete", "ner", "other"]);
    wait_condition(&cluster, "node-2", ("True", "Advertised"));

    // What this account may not write.
    let before = types(&cluster.node("node-1")).len();
    let own = |status: &str, message: &str| json!({"type": TYPE, "status": status, "message": message});
    let replace = |value: Value| json!([{"op": "replace", "path": "/status/conditions/0", "value": value}]);
    for attempt in [
        json!([{"op": "replace", "path": "/status/conditions/1/status", "value": "False"}]),
        json!([{"op": "remove", "path": "/status/conditions/1"}]),
        json!([{"op": "remove", "path": "/status/conditions"}]),
        json!([{"op": "add", "path": "/status/conditions/-", "value": {"type": "DiskPressure", "status": "True"}}]),
        json!([{"op": "add", "path": "/status/conditions/-", "value": own("True", "")}]),
        replace(own("Maybe", "")),
        replace(own("True", &"m".repeat(1025))),
        replace(json!({"type": "Ready", "status": "False"})),
    ] {
        let output = patch(&cluster, &kubeconfig, "node-1", &attempt);
        let because = "may only change the condition noderesource.dev/Advertised";
        assert!(output.code != 0 && output.stderr.contains(because), "{attempt}: {output:?}");
    }
    assert_eq!(types(&cluster.node("node-1")).len(), before);
    assert_eq!(patch(&cluster, &kubeconfig, "node-1", &replace(own("False", "m"))).code, 0);
    wait_condition(&cluster, "node-1", ("True", "Advertised"));
    controller.stop();

    // With the defaults, the policy admits only that the condition is removed.
    cluster.apply(&helm_chart(&cluster, "template", &["--no-hooks"]));
    let controller = Controller::start_unready(&cluster, &kubeconfig, &FLAGS);
    controller.wait_ready();
    for (name, left) in [("node-1", vec!["Ready"]), ("node-2", vec![])] {
        let node = cluster.wait_for("no condition", &["node", name], |node| types(node) == left);
        assert_eq!(quantity(&node, "allocatable", DONGLE), Some("4"));
    }
    controller.stop();
}

/// The policy is that of another version of the chart, or the flag was set without it.
#[test]
fn node_condition_that_the_policy_rejects_delays_no_value() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    let flags = [&FLAGS[..], &["--node-condition=true"]].concat();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &flags);
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({}));
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.wait_log("may not change conditions");
    assert_eq!(types(&cluster.node("node-1")), [""; 0]);
    controller.stop();
}

#[test]
fn prune_removes_the_node_condition() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    cluster.patch_status(
        "node-2",
        "merge",
        &json!({"status": {"conditions": [ready()],
        "capacity": {DONGLE: "7"}, "allocatable": {DONGLE: "7"}}}),
    );
    let controller = Controller::start_with(&cluster, &["--node-condition=true"]);
    cluster.apply_rule("dongle", &json!({}));
    wait_condition(&cluster, "node-1", ("True", "Advertised"));
    wait_condition(&cluster, "node-2", ("False", "Conflict"));
    controller.stop();
    let output = program::run(&cluster.control_plane.kubeconfig(), &["prune", "--all", "--yes", "--force"], None);
    assert_eq!(output.code, 0, "{output:?}");
    println!("{}", output.stdout);
    assert_eq!(types(&cluster.node("node-1")), [""; 0]);
    assert_eq!(types(&cluster.node("node-2")), ["Ready"]);
}
