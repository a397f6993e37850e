//! How the API server decodes and encodes a Node: decoding drops unknown fields, and encoding omits empty ones.

use serde_json::{Map, Value, json};

use crate::quantity::Quantity;

/// The maps of a node with quantities.
pub(crate) const QUANTITIES: [&str; 2] = ["capacity", "allocatable"];

const METADATA: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const SPEC: [&str; 5] = ["podCIDR", "podCIDRs", "providerID", "unschedulable", "taints"];
const STATUS: [&str; 8] =
    ["capacity", "allocatable", "phase", "conditions", "addresses", "daemonEndpoints", "nodeInfo", "images"];
/// The members of `status.nodeInfo`, which are written even if empty.
const NODE_INFO: [&str; 10] = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

/// Decodes a Node, or returns why it is invalid. Does not check the members of taints, conditions and addresses.
pub(crate) fn decode(node: &mut Value) -> Result<(), String> {
    keep(node, &["apiVersion", "kind", "metadata", "spec", "status"]);
    for (part, known) in [("metadata", &METADATA[..]), ("spec", &SPEC), ("status", &STATUS)] {
        if node[part].is_null() {
            node[part] = json!({});
        }
        if !node[part].is_object() {
            return Err(format!("{part} is no object"));
        }
        keep(&mut node[part], known);
    }
    for map in ["labels", "annotations"] {
        for value in members(&mut node["metadata"], map)?.into_iter().flat_map(Map::values_mut) {
            match value {
                Value::String(_) => {}
                Value::Null => *value = json!(""),
                _ => return Err(format!("metadata.{map} has {value}, which is no text")),
            }
        }
    }
    if !matches!(node["spec"]["unschedulable"], Value::Null | Value::Bool(_)) {
        return Err("spec.unschedulable is no bool".to_owned());
    }
    let status = &mut node["status"];
    for map in QUANTITIES {
        for value in members(status, map)?.into_iter().flat_map(Map::values_mut) {
            let text = match &*value {
                Value::Null => "0".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let quantity = Quantity::parse(&text);
            *value = json!(quantity.ok_or_else(|| format!("{text} is no quantity"))?.canonical());
        }
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        for (field, empty) in [
            ("type", json!("")),
            ("status", json!("")),
            ("lastHeartbeatTime", Value::Null),
            ("lastTransitionTime", Value::Null),
        ] {
            if condition[field].is_null() {
                condition[field] = empty;
            }
        }
    }
    // An empty map is kept for now.
    if status["allocatable"].is_null() {
        status["allocatable"] = status["capacity"].clone();
    }
    for part in ["metadata", "spec", "status"] {
        if let Some(members) = node[part].as_object_mut() {
            members.retain(|_, value| !is_empty(value));
        }
    }
    let status = &mut node["status"];
    if status["daemonEndpoints"].is_null() {
        status["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": 0}});
    }
    for name in NODE_INFO {
        if status["nodeInfo"][name].is_null() {
            status["nodeInfo"][name] = json!("");
        }
    }
    if node["spec"].as_object().is_some_and(Map::is_empty) {
        // Written even if empty.
        node["spec"] = json!({});
    }
    Ok(())
}

fn keep(value: &mut Value, known: &[&str]) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| known.contains(&name.as_str()));
    }
}

/// Returns the members of a map; `None` if there is no map.
fn members<'a>(parent: &'a mut Value, map: &str) -> Result<Option<&'a mut Map<String, Value>>, String> {
    match parent.get_mut(map) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(other) => Err(format!("{map} is {other}, which is no map")),
    }
}

/// Returns whether encoding omits a member.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
    }
}

/// Returns the values that validation rejects, each with field, value and explanation.
pub(crate) fn invalid_quantities(node: &Value) -> Vec<(String, String, &'static str)> {
    let mut causes = Vec::new();
    for map in QUANTITIES {
        for (name, value) in node["status"][map].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            let Some(quantity) = Quantity::parse(text) else { continue };
            let field = format!("status.{map}.{name}");
            if quantity.is_negative() {
                causes.push((field.clone(), text.to_owned(), "must be greater than or equal to 0"));
            }
            if is_extended(name) && !quantity.is_whole() {
                causes.push((field, text.to_owned(), "must be an integer"));
            }
        }
    }
    causes
}

/// Returns whether a resource allows only whole quantities: `IsIntegerResourceName`.
fn is_extended(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    matches!(name, "pods" | "services" | "secrets") || !is_native && !name.starts_with("requests.")
}
