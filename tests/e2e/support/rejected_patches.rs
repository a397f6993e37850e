//! A ValidatingAdmissionPolicy that rejects patches of nodes' statuses.

use harness::{Cluster, wait_until};
use serde_json::json;

/// What the API server's rejection contains.
pub const MESSAGE: &str = "closed on Sundays";

/// Makes the API server reject every patch of a node's status, and waits until it does so for `node`.
pub fn start(cluster: &Cluster, node: &str) {
    start_where(cluster, node, "false", ANY);
}

/// Makes the API server reject every patch of this node's status, and waits until it does so.
pub fn start_for(cluster: &Cluster, node: &str) {
    start_where(cluster, node, &format!("object.metadata.name != '{node}'"), ANY);
}

/// Makes the API server reject every patch of a node's status that contains this resource, and waits until it
/// does so.
pub fn start_for_resource(cluster: &Cluster, node: &str, resource: &str) {
    let admitted = format!("!has(object.status.capacity) || !('{resource}' in object.status.capacity)");
    let patch = json!({"status": {"capacity": {resource: "1"}}}).to_string();
    start_where(cluster, node, &admitted, &patch);
}

/// A patch of a node's status that changes nothing.
const ANY: &str = r#"{"status":{"phase":"Running"}}"#;

fn start_where(cluster: &Cluster, node: &str, admitted: &str, rejected: &str) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "closed"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["nodes/status"],
            }]},
            "validations": [{"expression": admitted, "message": MESSAGE}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "closed"},
        "spec": {"policyName": "closed", "validationActions": ["Deny"]},
    });
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string());
    // Until then, the probe must not be stored.
    let patch = ["patch", "node", node, "--subresource=status", "--dry-run=server", "-p", rejected];
    wait_until("the policy to take effect", || {
        let output = cluster.control_plane.kubectl_output(&patch, None)?;
        Ok(output.stderr.contains(MESSAGE).then_some(()))
    })
    .unwrap();
}

/// Makes the API server accept them again.
pub fn stop(cluster: &Cluster) {
    cluster.kubectl(&["delete", "validatingadmissionpolicybinding", "closed"]);
}
