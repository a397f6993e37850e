//! What the API server makes of an object of each kind before it stores it: which part a request may change, what is
//! defaulted, and which values are rejected.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::kind::{Key, Kind};
use crate::quantity::Quantity;
use crate::server::Subresource;

/// The maps of a node that have quantities.
const QUANTITIES: [&str; 2] = ["capacity", "allocatable"];

/// The part of an object that a request cannot change, and which is restored.
pub(crate) fn restored(kind: Kind, subresource: Subresource) -> &'static str {
    match (kind, subresource) {
        (Kind::Node | Kind::Rule | Kind::Pod, Subresource::None) => "status",
        (Kind::Node | Kind::Rule | Kind::Pod, Subresource::Status) => "spec",
        _ => "",
    }
}

/// Prepares an object that is new.
pub(crate) fn prepare_create(kind: Kind, object: &mut Value) {
    decode(kind, object);
    match kind {
        Kind::Rule => {
            object["metadata"]["generation"] = json!(1);
            remove(object, "status");
        }
        Kind::Node => {
            // By the admission plugin TaintNodesByCondition.
            let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            let mut taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
            if !taints.iter().any(|taint| taint["key"] == not_ready["key"]) {
                taints.push(not_ready);
            }
            object["spec"]["taints"] = Value::Array(taints);
        }
        Kind::Pod if object["status"]["phase"].is_null() => {
            object["status"]["phase"] = json!("Pending")
        }
        _ => {}
    }
}

/// Prepares an object that is to take the place of another.
pub(crate) fn prepare_update(kind: Kind, subresource: Subresource, old: &Value, new: &mut Value) {
    decode(kind, new);
    let part = restored(kind, subresource);
    if !part.is_empty() {
        match old.get(part) {
            Some(value) => new[part] = value.clone(),
            None => remove(new, part),
        }
    }
    if kind == Kind::Rule {
        if subresource == Subresource::Status {
            new["metadata"] = old["metadata"].clone();
        }
        if old["spec"] != new["spec"] {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        } else {
            new["metadata"]["generation"] = old["metadata"]["generation"].clone();
        }
    }
}

/// What decoding drops and defaults.
fn decode(kind: Kind, object: &mut Value) {
    for map in ["labels", "annotations"] {
        if object["metadata"].get(map).is_some_and(is_empty) {
            remove(&mut object["metadata"], map);
        }
    }
    if kind != Kind::Node || !object["status"].is_object() {
        return;
    }
    let status = &mut object["status"];
    for map in QUANTITIES {
        for value in status[map].as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
            let text = match value {
                Value::Null => "0".to_owned(),
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            *value = json!(Quantity::parse(&text).map_or(text, Quantity::canonical));
        }
    }
    if status["allocatable"].is_null() && !status["capacity"].is_null() {
        status["allocatable"] = status["capacity"].clone();
    }
    for map in QUANTITIES {
        if is_empty(&status[map]) {
            remove(status, map);
        }
    }
}

/// Rejects what the API server rejects.
pub(crate) fn validate(kind: Kind, key: &Key, object: &Value) -> Result<(), Failure> {
    if kind != Kind::Node {
        return Ok(());
    }
    let mut causes = Vec::new();
    for map in QUANTITIES {
        for (name, value) in object["status"][map].as_object().into_iter().flatten() {
            let Some(text) = value.as_str() else {
                return Err(Failure::bad_request(format!("status.{map}: not a quantity: {value}")));
            };
            let field = format!("status.{map}.{name}");
            match Quantity::parse(text) {
                None => causes.push(("FieldValueInvalid", field, "must be an integer".to_owned())),
                Some(quantity) if quantity.is_negative() => {
                    let why = "must be greater than or equal to 0".to_owned();
                    causes.push(("FieldValueInvalid", field, why));
                }
                Some(_) => {}
            }
        }
    }
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid(kind, key, &causes)) }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn remove(object: &mut Value, field: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(field);
    }
}
