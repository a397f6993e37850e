//! The policy that keeps values across a kubelet's reset, and writes with a kubelet's credentials. Every
//! function panics if it fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // for tests, which panic on failure

use std::path::Path;

use serde_json::{Value, json};

use crate::objects::{DONGLE, LEDGER, quantity};
use crate::{Cluster, Output, project_file, wait_until};

/// A node's ledger that lists 4 dongles.
pub const DONGLE_LEDGER: &str = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;

/// Installs the policy, and waits until it takes effect.
pub fn install(cluster: &Cluster) {
    apply(cluster);
    allow_kubelets_to_read_status(cluster);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "canary", "annotations": {LEDGER: DONGLE_LEDGER}},
    });
    cluster.apply(&node.to_string());
    wait_effect(cluster, "canary", true);
    cluster.kubectl(&["delete", "node", "canary"]);
}

/// Applies the policy and its binding.
pub fn apply(cluster: &Cluster) {
    let policy = project_file("deploy/protect.yaml");
    cluster.kubectl(&["apply", "--server-side", "-f", policy.to_str().unwrap()]);
}

/// Waits until the policy is in force, or no longer, on a node whose ledger lists dongles. The node then has
/// 4 dongles, or 0.
pub fn wait_effect(cluster: &Cluster, node: &str, in_force: bool) {
    let expected = if in_force { "4" } else { "0" };
    let mut last = None;
    let taken = wait_until("the policy to take effect", || {
        cluster.write_quantity(node, DONGLE, "4");
        let output = reset(cluster, node, DONGLE);
        let (output, observed) = last.insert((output, cluster.node(node)));
        let maps = ["capacity", "allocatable"].map(|map| quantity(observed, map, DONGLE));
        Ok((output.code == 0 && maps == [Some(expected); 2]).then_some(()))
    });
    taken.unwrap_or_else(|error| panic!("{error:#}\nlast observed: {last:?}"));
}

/// Lets a kubelet's user run `kubectl patch`, which reads before it writes; a kubelet does not.
pub fn allow_kubelets_to_read_status(cluster: &Cluster) {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "kubelets-read-status"});
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": metadata["name"]},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:nodes"}],
    });
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string());
}

/// Sets a resource to 0 in both maps, like a kubelet that registers its node.
pub fn reset(cluster: &Cluster, node: &str, resource: &str) -> Output {
    let map = json!({resource: "0"});
    patch_as_kubelet(cluster, node, &json!({"status": {"capacity": map, "allocatable": map}}))
}

/// Patches a node's status with the credentials of its kubelet.
pub fn patch_as_kubelet(cluster: &Cluster, node: &str, patch: &Value) -> Output {
    let kubeconfig = cluster.control_plane.kubelet_kubeconfig(node).unwrap();
    patch_as(cluster, &kubeconfig, &[], node, patch)
}

/// Patches a node's status like a kubelet, with one strategic merge patch, as the user of a kubeconfig.
pub fn patch_as(cluster: &Cluster, kubeconfig: &Path, args: &[&str], node: &str, patch: &Value) -> Output {
    let (kubeconfig, patch) = (kubeconfig.to_str().unwrap(), patch.to_string());
    let fixed = ["patch", "node", node, "--subresource=status", "--type=strategic", "-p", &patch];
    let user = ["--kubeconfig", kubeconfig, "--field-manager=kubelet"];
    cluster.control_plane.kubectl_output(&[&fixed[..], &user, args].concat(), None).unwrap()
}
