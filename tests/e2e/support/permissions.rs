//! The permissions of users who have only those that a test grants.

use harness::Cluster;
use serde_json::{Value, json};

/// Returns the RBAC rules that `docs/install.md` lists as required.
pub fn required() -> Vec<Value> {
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    vec![
        rule("", "nodes", &["get", "list", "watch"]),
        rule("", "nodes/status", &["patch"]),
        rule("", "pods", &["list", "watch"]),
        rule("noderesource.dev", "nodeextendedresources", &["list", "watch"]),
        rule("noderesource.dev", "nodeextendedresources/status", &["patch"]),
        rule("events.k8s.io", "events", &["create"]),
        rule("resource.k8s.io", "deviceclasses", &["list", "watch"]),
        rule("coordination.k8s.io", "leases", &["list", "watch", "create", "update"]),
    ]
}

/// Returns all RBAC rules except those for one resource.
pub fn required_without(resource: &str) -> Vec<Value> {
    let mut rules = required();
    rules.retain(|rule| rule["resources"] != json!([resource]));
    rules
}

/// Returns the RBAC rules for one resource.
pub fn required_for(resource: &str) -> Vec<Value> {
    let mut rules = required();
    rules.retain(|rule| rule["resources"] == json!([resource]));
    rules
}

/// Grants the user `limited` exactly these RBAC rules.
pub fn grant(cluster: &Cluster, rules: &[Value]) {
    grant_to(cluster, "limited", rules);
}

/// Grants a user exactly these RBAC rules.
pub fn grant_to(cluster: &Cluster, user: &str, rules: &[Value]) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": user}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string());
}
