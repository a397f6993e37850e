//! What is known about the past of extended resources on one node or many, in one order. Pure, apart from [`read`].
//!
//! ```text
//! nodes ────┬▶ creation, conditions, taints ─┐
//!           ├▶ managedFields, with labels ───┤
//!           └▶ the ledger, which is now ─────┤
//! rules ────┬▶ creation, conditions ─────────┼─▶ Entry, by time
//!           ├▶ managedFields ────────────────┤
//!           └▶ what they do not select now ──┤
//! Events ────────────────────────────────────┤
//! Leases ────────────────────────────────────┘
//! ```
//!
//! Kubernetes keeps no history: this is what is left of it. Most of these times are in whole seconds, so that the order
//! within a second is a guess.

mod conditions;
pub(crate) mod entry;
mod events;
pub(crate) mod field_owners;
mod leases;
mod ledger;
mod objects;
pub(crate) mod read;
pub(crate) mod records;
pub(crate) mod scope;
mod selection;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use k8s_openapi::jiff::Timestamp;

use entry::Entry;
use records::{NodeRecord, Records};
use scope::Scope;

/// Returns what the records hold since `start`, the oldest first.
pub(crate) fn timeline(scope: &Scope, records: &Records, start: Option<Timestamp>, now: Timestamp) -> Vec<Entry> {
    let mut entries: Vec<_> = records.nodes.iter().flat_map(|record| of_node(scope, record, records)).collect();
    entries.extend(records.rules.iter().flatten().flat_map(objects::rule));
    entries.extend(events::entries(scope, records));
    entries.extend(records.leases.iter().flat_map(|lease| leases::entries(lease, now)));
    entries.retain(|entry| start.is_none_or(|start| entry.when.may_be_since(start)));
    // Stable: the objects' own order remains where the times are equal.
    entries.sort_by_key(|entry| (entry.when, entry.source));
    merged(entries)
}

fn of_node(scope: &Scope, record: &NodeRecord, records: &Records) -> Vec<Entry> {
    let rules = records.rules.as_deref();
    let mut entries = objects::node(scope, record, rules.unwrap_or_default());
    entries.extend(ledger::entries(scope, record, rules));
    entries.extend(selection::entries(record, rules.unwrap_or_default()));
    if scope.node.is_none() {
        entries.iter_mut().for_each(|entry| entry.nodes = vec![record.node.name.to_string()]);
    }
    entries
}

/// Puts what is equal on several nodes into one entry, the first of them.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    let mut merged = Vec::<Entry>::new();
    let mut places = HashMap::new();
    for mut entry in entries {
        let nodes = std::mem::take(&mut entry.nodes);
        if nodes.is_empty() {
            merged.push(entry);
            continue;
        }
        let place = *places.entry(entry.clone()).or_insert(merged.len());
        if place == merged.len() {
            merged.push(entry);
        }
        if let Some(entry) = merged.get_mut(place) {
            entry.nodes.extend(nodes);
        }
    }
    merged
}
