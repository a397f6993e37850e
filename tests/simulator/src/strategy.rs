//! How the API server prepares an object of each kind before storing it: which part a request may change, which fields
//! are defaulted, and which values are rejected.

use serde_json::{Value, json};

use crate::failure::{Failure, invalid_value};
use crate::kind::{Key, Kind};
use crate::node;
use crate::server::Subresource;

/// Returns the part of an object that a request cannot change, and which is restored.
pub(crate) fn restored(kind: Kind, subresource: Subresource) -> &'static str {
    match (kind, subresource) {
        (Kind::Node | Kind::Rule | Kind::Pod, Subresource::None) => "status",
        (Kind::Node | Kind::Rule | Kind::Pod, Subresource::Status) => "spec",
        _ => "",
    }
}

/// Returns whether PUT creates a missing object.
pub(crate) fn creates_on_update(kind: Kind) -> bool {
    matches!(kind, Kind::Lease | Kind::Event)
}

/// Returns whether PUT without a `resourceVersion` replaces any version.
pub(crate) fn updates_unconditionally(kind: Kind) -> bool {
    matches!(kind, Kind::Node | Kind::Pod | Kind::Event)
}

/// Decodes an object: drops unknown fields and adds defaults. The error explains why it is invalid.
pub(crate) fn decode(kind: Kind, object: &mut Value) -> Result<(), String> {
    for map in ["labels", "annotations"] {
        if object["metadata"].get(map).is_some_and(is_empty) {
            remove(&mut object["metadata"], map);
        }
    }
    match kind {
        Kind::Node => node::decode(object)?,
        Kind::Rule => default_rule(object),
        Kind::Event => {
            for (field, value) in [
                ("deprecatedSource", json!({})),
                ("deprecatedFirstTimestamp", Value::Null),
                ("deprecatedLastTimestamp", Value::Null),
            ] {
                if object[field].is_null() {
                    object[field] = value;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The defaults of the CRD.
fn default_rule(rule: &mut Value) {
    if let Some(spec) = rule["spec"].as_object_mut() {
        spec.retain(|_, value| !value.is_null());
        for (field, value) in [
            ("conflictPolicy", json!("Keep")),
            ("deletionPolicy", json!("Withdraw")),
            ("priority", json!(0)),
            ("shrinkPolicy", json!("WhenFree")),
            ("paused", json!(false)),
        ] {
            spec.entry(field).or_insert(value);
        }
    }
    if let Some(nodes) = rule["status"].get_mut("nodes").and_then(Value::as_object_mut) {
        for count in ["advertised", "conflicted", "failed", "held", "missing", "overridden", "selected"] {
            nodes.entry(count).or_insert(json!(0));
        }
        nodes.entry("summary").or_insert(json!(""));
    }
}

/// Adds fields that are not stored but defaulted on each read; returns whether there are any.
pub(crate) fn default_on_read(kind: Kind, object: &mut Value) -> bool {
    let status = &object["status"];
    let (part, value) = match kind {
        Kind::Node => ("allocatable", status["capacity"].clone()),
        Kind::Rule => ("observedGeneration", json!(-1)),
        _ => return false,
    };
    let is_missing = if kind == Kind::Rule { status.is_null() } else { status[part].is_null() };
    if is_missing && !value.is_null() {
        object["status"][part] = value;
    }
    is_missing && !object["status"][part].is_null()
}

/// Prepares a new object.
pub(crate) fn prepare_create(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Rule => {
            object["metadata"]["generation"] = json!(1);
            remove(object, "status");
        }
        Kind::Node => {
            // As the admission plugin TaintNodesByCondition does.
            let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            let mut taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
            if !taints.iter().any(|taint| taint["key"] == not_ready["key"]) {
                taints.push(not_ready);
            }
            object["spec"]["taints"] = Value::Array(taints);
        }
        Kind::Pod => {
            object["metadata"]["generation"] = json!(1);
            object["status"]["phase"] = json!("Pending");
        }
        _ => {}
    }
}

/// Prepares an object that replaces another.
pub(crate) fn prepare_update(kind: Kind, subresource: Subresource, old: &Value, new: &mut Value) {
    let part = restored(kind, subresource);
    if !part.is_empty() {
        match old.get(part) {
            Some(value) => new[part] = value.clone(),
            None => remove(new, part),
        }
    }
    if kind == Kind::Rule && subresource == Subresource::Status {
        let fields = new["metadata"]["managedFields"].take();
        new["metadata"] = old["metadata"].clone();
        new["metadata"]["managedFields"] = fields;
    }
    match old["metadata"]["generation"].as_u64() {
        Some(generation) if kind == Kind::Rule && old["spec"] != new["spec"] => {
            new["metadata"]["generation"] = json!(generation + 1);
        }
        Some(generation) => new["metadata"]["generation"] = json!(generation),
        None => remove(&mut new["metadata"], "generation"),
    }
}

/// Rejects what the API server rejects. Updates are validated twice.
pub(crate) fn validate(kind: Kind, key: &Key, object: &Value, old: Option<&Value>) -> Result<(), Failure> {
    let mut causes = Vec::new();
    if let Some(old) = old {
        for field in ["name", "namespace", "uid"] {
            let value = &object["metadata"][field];
            if *value != old["metadata"][field] {
                causes.push(invalid_value(format!("metadata.{field}"), value, "field is immutable"));
            }
        }
    }
    if kind == Kind::Node {
        for (field, text, why) in node::invalid_quantities(object) {
            causes.push(invalid_value(field, &json!(text), why));
        }
    }
    if old.is_some() && kind == Kind::Rule {
        // For custom resources, two places check this.
        causes.extend(causes.clone());
    }
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid(kind, key, &causes)) }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

pub(crate) fn remove(object: &mut Value, field: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(field);
    }
}
