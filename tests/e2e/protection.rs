//! The policy that keeps advertised values when a kubelet resets them: `deploy/protect.yaml`, which the
//! chart installs too.
//!
//! Method: write a node's status with its kubelet's credentials, like a kubelet that registers the node or
//! reports its status, and compare both maps before and after. `tests/kubelet` uses a real kubelet.

mod admission;
mod from_files;
mod lifecycle;
pub(crate) mod presence;

use harness::objects::{DONGLE, LEDGER};
use harness::{Cluster, protection};
use serde_json::{Value, json};

const POLICY: &str = "mutatingadmissionpolicy/node-resource-advertiser-protect";
const BINDING: &str = "mutatingadmissionpolicybinding/node-resource-advertiser-protect";
/// Of the reports of one kubelet.
const EARLIER: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:00:10Z";

/// Returns both maps with the same value of the dongle.
fn both(value: &str) -> Value {
    dongles(Some(value), Some(value))
}

fn dongles(capacity: Option<&str>, allocatable: Option<&str>) -> Value {
    let map = |value: Option<&str>| value.map_or(json!({}), |value| json!({DONGLE: value}));
    json!({"capacity": map(capacity), "allocatable": map(allocatable)})
}

/// Returns a Node with these maps and this ledger, as if its kubelet had reported it.
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

/// Writes maps like a kubelet that registers its node, and returns the node.
fn register(cluster: &Cluster, node: &str, maps: &Value) -> Value {
    write(cluster, node, &json!({"status": maps}))
}

/// Writes maps like a kubelet that reports its node's status, and returns the node.
fn report(cluster: &Cluster, node: &str, maps: &Value) -> Value {
    let mut status = maps.clone();
    status["conditions"] = conditions(LATER);
    write(cluster, node, &json!({"status": status}))
}

fn write(cluster: &Cluster, node: &str, patch: &Value) -> Value {
    let output = protection::patch_as_kubelet(cluster, node, patch);
    assert_eq!(output.code, 0, "{node}: {patch}: {output:?}");
    cluster.node(node)
}

/// Returns a node's two maps.
fn maps(node: &Value) -> Value {
    let map = |name: &str| match &node["status"][name] {
        Value::Null => json!({}),
        map => map.clone(),
    };
    json!({"capacity": map("capacity"), "allocatable": map("allocatable")})
}
