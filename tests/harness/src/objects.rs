//! Builds Kubernetes objects as JSON, and reads the fields that tests compare.

use serde_json::{Value, json};

/// The resource that most tests declare.
pub const DONGLE: &str = "example.com/dongle";

/// The annotation that holds a node's ledger.
pub const LEDGER: &str = "noderesource.dev/advertised";

/// Returns a rule for [`DONGLE`], of 4 on every node unless `spec` sets other fields.
#[must_use]
pub fn rule(name: &str, spec: &Value) -> Value {
    let mut full = json!({"resourceName": DONGLE, "quantity": 4});
    if spec["nodeNames"].is_null() && spec.get("nodeSelector").is_none() {
        full["allNodes"] = json!(true);
    }
    for (field, value) in spec.as_object().into_iter().flatten() {
        full[field] = value.clone();
    }
    json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name}, "spec": full,
    })
}

/// Returns a Node with the label that every kubelet sets. The API server keeps no managedFields of
/// an object that is created without any field.
#[must_use]
pub fn node(name: &str, labels: &Value) -> Value {
    let mut labels = labels.clone();
    labels["kubernetes.io/hostname"] = json!(name);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
    })
}

/// Returns a pod that requests `quantity` of a resource.
#[must_use]
pub fn pod(name: &str, resource: &str, quantity: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "app", "image": "pause",
            "resources": {"limits": {resource: quantity}},
        }]},
    })
}

/// Returns the same pod, already bound to a node, so that no scheduler is needed.
#[must_use]
pub fn bound_pod(name: &str, node: &str, resource: &str, quantity: &str) -> Value {
    let mut pod = pod(name, resource, quantity);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

/// Returns the quantity of a resource in one of a node's maps.
#[must_use]
pub fn quantity<'a>(node: &'a Value, map: &str, resource: &str) -> Option<&'a str> {
    node["status"][map][resource].as_str()
}

/// Returns the text of a node's ledger.
#[must_use]
pub fn ledger(node: &Value) -> Option<&str> {
    node["metadata"]["annotations"][LEDGER].as_str()
}

/// Returns whether a node has this quantity in both maps, and the resource in its ledger.
#[must_use]
pub fn advertises(node: &Value, resource: &str, quantity: &str) -> bool {
    self::quantity(node, "capacity", resource) == Some(quantity)
        && self::quantity(node, "allocatable", resource) == Some(quantity)
        && ledger(node).is_some_and(|ledger| ledger.contains(resource))
}

/// Returns the status and the reason of a condition, empty where there is no such condition.
#[must_use]
pub fn condition<'a>(status: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    let field = |name: &str| found.and_then(|found| found[name].as_str()).unwrap_or("");
    (field("status"), field("reason"))
}

/// Returns whether a list of Events holds one about `name`, with this reason and `text` in its note.
#[must_use]
pub fn has_event(events: &Value, name: &str, reason: &str, text: &str) -> bool {
    events["items"].as_array().into_iter().flatten().any(|event| {
        event["regarding"]["name"] == name
            && event["reason"] == reason
            && event["note"].as_str().is_some_and(|note| note.contains(text))
    })
}
