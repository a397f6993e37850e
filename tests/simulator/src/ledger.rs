//! A node's ledger, and the unrecorded values that count as the controller's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::quantity::Quantity;

pub(crate) const LEDGER: &str = "noderesource.dev/advertised";
pub(crate) const MAPS: [&str; 2] = ["capacity", "allocatable"];
const FIELD_MANAGER: &str = "node-resource-advertiser";

/// Quantity, rule and the rest, by resource.
pub type Ledger = BTreeMap<String, (i128, String, Value)>;

/// A quantity as a number.
#[must_use]
pub fn units(value: &Value) -> Option<i128> {
    Quantity::parse(value.as_str()?)?.units()
}

/// Returns the ledger of a node: quantity, rule and the rest, by resource; `None` if it is invalid.
#[must_use]
pub fn ledger(node: &Value) -> Option<Ledger> {
    let text = &node["metadata"]["annotations"][LEDGER];
    let Some(text) = text.as_str() else { return Some(BTreeMap::new()) };
    let entries: BTreeMap<String, Value> = serde_json::from_str(text).ok()?;
    let entries = entries.into_iter().map(|(name, mut entry)| {
        let quantity = units(&entry["quantity"])?;
        let rule = entry["rule"].as_str()?.to_owned();
        entry["quantity"] = json!(null);
        Some((name, (quantity, rule, entry)))
    });
    entries.collect()
}

/// Returns whether an unrecorded value may be adopted: only the controller wrote it, in both maps; or, if the same value
/// was listed before, the node's kubelet, whose reset admission has undone.
pub(crate) fn is_adoptable(node: &Value, history: &[Arc<Value>], resource: &str, quantity: i128) -> bool {
    let was_recorded = history.iter().any(|before| {
        let entry = ledger(before).and_then(|mut ledger| ledger.remove(resource));
        before["metadata"]["uid"] == node["metadata"]["uid"] && entry.is_some_and(|(listed, ..)| listed == quantity)
    });
    let is_own = |manager: &&str| *manager == FIELD_MANAGER || was_recorded && is_kubelet(node, manager);
    MAPS.iter().all(|map| {
        let managers = managers(node, map, resource);
        !managers.is_empty() && managers.iter().all(&is_own)
    })
}

/// Returns whether this manager writes the heartbeats of the node.
fn is_kubelet(node: &Value, manager: &str) -> bool {
    let mut entries = node["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.any(|entry| {
        let ready = &entry["fieldsV1"]["f:status"]["f:conditions"][r#"k:{"type":"Ready"}"#];
        entry["manager"] == manager && entry["subresource"] == "status" && !ready["f:lastHeartbeatTime"].is_null()
    })
}

/// Returns the field managers that own a value.
#[must_use]
pub fn managers<'a>(node: &'a Value, map: &str, resource: &str) -> Vec<&'a str> {
    let entries = node["metadata"]["managedFields"].as_array().into_iter().flatten();
    let owning = entries.filter(|entry| {
        let fields = &entry["fieldsV1"]["f:status"][format!("f:{map}")];
        !fields[format!("f:{resource}")].is_null()
    });
    owning.map(|entry| entry["manager"].as_str().unwrap_or_default()).collect()
}
