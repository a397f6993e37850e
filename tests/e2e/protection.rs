//! The policy by which the API server keeps what the controller advertises when a kubelet resets it:
//! `deploy/protect.yaml`, which is what the chart installs.
//!
//! Method: write a node's status with the credentials of its kubelet, as a kubelet that registers its node
//! does, or one that reports, and compare both maps before and after. `tests/kubelet` has a real one.

mod admission;
mod lifecycle;

use std::path::Path;

use harness::objects::{DONGLE, LEDGER};
use harness::{Cluster, Output, project_file, wait_until};
use serde_json::{Value, json};

const POLICY: &str = "mutatingadmissionpolicy/node-resource-advertiser-protect";
const BINDING: &str = "mutatingadmissionpolicybinding/node-resource-advertiser-protect";
/// Of the reports of one kubelet.
const EARLIER: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:00:10Z";

/// Installs the policy, and waits until it takes effect.
fn protect(cluster: &Cluster) {
    apply_policy(cluster);
    allow_kubectl(cluster);
    create_nodes(cluster, &[node("canary", &both("4"), DONGLE_LEDGER)]);
    wait_effect(cluster, "canary", true);
}

/// Waits until the policy is in force on a node, or no longer. The node has 4 again, or 0.
fn wait_effect(cluster: &Cluster, node: &str, in_force: bool) {
    let kubeconfig = cluster.control_plane.kubelet_kubeconfig(node).unwrap();
    let expected = both(if in_force { "4" } else { "0" });
    let mut last = None;
    let taken = wait_until("the policy to take effect", || {
        cluster.write_quantity(node, DONGLE, "4");
        let output = patch_as(cluster, &kubeconfig, &[], node, &json!({"status": both("0")}));
        let (output, observed) = last.insert((output, maps(&cluster.node(node))));
        Ok((output.code == 0 && *observed == expected).then_some(()))
    });
    taken.unwrap_or_else(|error| panic!("{error:#}\nlast observed: {last:?}"));
}

/// `kubectl patch` reads before it writes, which a kubelet does not.
fn allow_kubectl(cluster: &Cluster) {
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "test"},
        "rules": [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "test"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "test"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:nodes"}],
    });
    cluster.apply(&role.to_string());
    cluster.apply(&binding.to_string());
}

fn apply_policy(cluster: &Cluster) {
    let policy = project_file("deploy/protect.yaml");
    cluster.kubectl(&["apply", "--server-side", "-f", policy.to_str().unwrap()]);
}

const DONGLE_LEDGER: &str = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;

/// Returns maps with one value of the dongle in both.
fn both(value: &str) -> Value {
    dongles(Some(value), Some(value))
}

fn dongles(capacity: Option<&str>, allocatable: Option<&str>) -> Value {
    let map = |value: Option<&str>| value.map_or(json!({}), |value| json!({DONGLE: value}));
    json!({"capacity": map(capacity), "allocatable": map(allocatable)})
}

/// Returns a Node with these maps and this ledger, as its kubelet has reported it.
fn node(name: &str, maps: &Value, ledger: &str) -> Value {
    let mut status = maps.clone();
    status["conditions"] = conditions(EARLIER);
    json!({
        "apiVersion": "v1", "kind": "Node", "status": status,
        "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name},
            "annotations": {LEDGER: ledger},
        },
    })
}

fn conditions(time: &str) -> Value {
    json!([{
        "type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": time, "lastTransitionTime": EARLIER,
    }])
}

fn create_nodes(cluster: &Cluster, nodes: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes});
    cluster.control_plane.kubectl_stdin(&["create", "-f", "-"], &list.to_string()).unwrap();
}

/// Writes maps as the kubelet of a node does that registers it, and returns the node.
fn register(cluster: &Cluster, node: &str, maps: &Value) -> Value {
    write(cluster, node, &json!({"status": maps}))
}

/// Does the same as a kubelet that reports its node's status.
fn report(cluster: &Cluster, node: &str, maps: &Value) -> Value {
    let mut status = maps.clone();
    status["conditions"] = conditions(LATER);
    write(cluster, node, &json!({"status": status}))
}

fn write(cluster: &Cluster, node: &str, patch: &Value) -> Value {
    let kubeconfig = cluster.control_plane.kubelet_kubeconfig(node).unwrap();
    let output = patch_as(cluster, &kubeconfig, &[], node, patch);
    assert_eq!(output.code, 0, "{node}: {patch}: {output:?}");
    cluster.node(node)
}

/// Sends the patch that kubelets send: one strategic merge patch of the node's status.
fn patch_as(
    cluster: &Cluster,
    kubeconfig: &Path,
    args: &[&str],
    node: &str,
    patch: &Value,
) -> Output {
    let (kubeconfig, patch) = (kubeconfig.to_str().unwrap(), patch.to_string());
    let fixed = ["patch", "node", node, "--subresource=status", "--type=strategic", "-p", &patch];
    let user = ["--kubeconfig", kubeconfig, "--field-manager=kubelet"];
    cluster.control_plane.kubectl_output(&[&fixed[..], &user, args].concat(), None).unwrap()
}

/// Returns a node's two maps.
fn maps(node: &Value) -> Value {
    let map = |name: &str| match &node["status"][name] {
        Value::Null => json!({}),
        map => map.clone(),
    };
    json!({"capacity": map("capacity"), "allocatable": map("allocatable")})
}
