//! Masks the parts of responses that cannot be equal on two servers.
//!
//! | masked | why |
//! |---|---|
//! | versions | compared by their order |
//! | uids | random; compared by their order of appearance |
//! | timestamps of the server | time |
//! | tokens of lists | opaque; their pages are compared |
//! | the order of `details.causes`, and the message with more than one | the server iterates maps in random order |
//! | the object, and the reason, in the message about an object or a patch that cannot be read | the object contains all of the above; the text comes from Go's decoder |
//! | `managedFields` of other kinds than Node | never read |
//! | defaults of pods | dozens of fields, never read |

use serde_json::{Map, Value, json};
use simulator::Kind;

use crate::history::History;

/// Returns an object without the masked parts.
pub(crate) fn object(object: &Value, kind: Kind, history: &History) -> Value {
    let mut object = if kind == Kind::Pod { pod(object) } else { object.clone() };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["creationTimestamp", "deletionTimestamp"] {
            mask_time(metadata.get_mut(field));
        }
        if let Some(version) = metadata.get_mut("resourceVersion") {
            *version = json!(history.number(version.as_str().unwrap_or_default()));
        }
        match metadata.get_mut("managedFields") {
            Some(fields) if kind == Kind::Node => managed_fields(fields),
            _ => {
                metadata.remove("managedFields");
            }
        }
    }
    strings(&mut object, &|text| history.mask_uids(text));
    object
}

/// Returns a `Status` without the masked parts.
pub(crate) fn status(status: &Value, history: &History) -> Value {
    let mut status = status.clone();
    let mask = |text: &str| {
        let unreadable = ["patch: Invalid value: ", "cannot be handled as a Node: ", "error decoding patch: "];
        let ends = unreadable.iter().filter_map(|start| Some(text.find(start)? + start.len()));
        let text = ends.min().map_or(text, |end| &text[..end]);
        let text = if text.starts_with("Invalid value: \"{") { "Invalid value: an object" } else { text };
        history.mask_uids(text)
    };
    strings(&mut status, &mask);
    if let Some(token) = status["metadata"].get_mut("continue") {
        *token = json!("a token");
    }
    let causes = status.get_mut("details").and_then(|details| details.get_mut("causes"));
    if let Some(causes) = causes.and_then(Value::as_array_mut) {
        causes.sort_by_key(Value::to_string);
        if causes.len() > 1 {
            let message = status["message"].as_str().unwrap_or_default();
            let end = message.find(": [").unwrap_or(message.len());
            status["message"] = json!(message[..end]);
        }
    }
    if let Some(details) = status.get("details")
        && details.as_object().is_some_and(Map::is_empty)
    {
        status.as_object_mut().map(|status| status.remove("details"));
    }
    status
}

fn mask_time(time: Option<&mut Value>) {
    if let Some(time) = time.filter(|time| time.is_string()) {
        *time = json!("a time");
    }
}

/// Returns a set of manager, operation and fields.
fn managed_fields(fields: &mut Value) {
    let Some(entries) = fields.as_array_mut() else { return };
    for entry in entries.iter_mut() {
        mask_time(entry.get_mut("time"));
    }
    entries.sort_by_key(Value::to_string);
}

fn pod(pod: &Value) -> Value {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let containers = spec["containers"].as_array().into_iter().flatten();
    let containers: Vec<_> =
        containers.map(|container| json!({"name": container["name"], "resources": container["resources"]})).collect();
    json!({
        "metadata": pod["metadata"],
        "spec": {"nodeName": spec["nodeName"], "containers": containers},
        "status": {"phase": status["phase"]},
    })
}

fn strings(value: &mut Value, mask: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = mask(text),
        Value::Array(items) => items.iter_mut().for_each(|item| strings(item, mask)),
        Value::Object(members) => members.values_mut().for_each(|member| strings(member, mask)),
        _ => {}
    }
}
