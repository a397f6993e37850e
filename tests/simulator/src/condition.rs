//! The node's condition, as far as the invariants need it: whether the node has the resource of every rule that selects
//! it.

use std::sync::Arc;

use serde_json::Value;

use crate::ledger::{MAPS, ledger, units};
use crate::rules::{Declared, declared, selects};

const CONDITION: &str = "noderesource.dev/Advertised";

/// Returns the conditions of this type on a node.
#[must_use]
pub fn conditions(node: &Value) -> Vec<&Value> {
    let all = node["status"]["conditions"].as_array().into_iter().flatten();
    all.filter(|condition| condition["type"] == CONDITION).collect()
}

/// Removes them.
pub(crate) fn remove_conditions(node: &mut Value) {
    if let Some(all) = node["status"]["conditions"].as_array_mut() {
        all.retain(|condition| condition["type"] != CONDITION);
    }
    if node["status"]["conditions"].as_array().is_none_or(Vec::is_empty) {
        node["status"]["conditions"] = Value::Null;
    }
}

/// Returns the status that the condition is to have on a node with these labels; `None` if no valid rule selects it.
#[must_use]
pub fn due_status(rules: &[Arc<Value>], node: &Value, labels: &Value) -> Option<&'static str> {
    let entries = ledger(node);
    let is_there = |rule: &Arc<Value>| {
        let resource = rule["spec"]["resourceName"].as_str().unwrap_or_default();
        let entry = entries.as_ref().and_then(|entries| entries.get(resource));
        let values = MAPS.map(|map| units(&node["status"][map][resource]));
        entry.is_some_and(|(listed, ..)| values == [Some(*listed); 2])
    };
    // What a rule declares is not asked of a node whose ledger is unreadable: every rule that selects it has to wait.
    let counts = |rule: &&Arc<Value>| match declared(rule, labels) {
        Declared::Invalid => false,
        Declared::Nothing => entries.is_none(),
        Declared::Quantity(_) | Declared::Unknown => true,
    };
    let selecting = rules.iter().filter(counts);
    let mut selecting = selecting.filter(|rule| selects(rule, &node["metadata"]["name"], labels)).peekable();
    selecting.peek()?;
    Some(if selecting.all(is_there) { "True" } else { "False" })
}
