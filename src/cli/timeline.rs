//! What is known about the past of a node's extended resources, in one order. Pure, apart from [`read`].
//!
//! ```text
//! node ─────┬▶ creation, conditions, taints ─┐
//!           ├▶ managedFields ────────────────┤
//!           └▶ the ledger, which is now ─────┼─▶ Entry, by time
//! rules ────┬▶ creation, conditions ─────────┤
//!           └▶ managedFields ────────────────┤
//! Events ────────────────────────────────────┘
//! ```
//!
//! Kubernetes keeps no history: this is what is left of it. Most of these times are in whole seconds, so that the order
//! within a second is a guess.

mod conditions;
pub(super) mod entry;
mod events;
pub(super) mod field_owners;
mod ledger;
mod objects;
pub(super) mod read;
pub(super) mod records;
#[cfg(test)]
mod tests;

use k8s_openapi::jiff::Timestamp;

use crate::model::node::Node;
use entry::Entry;
use records::Records;

/// Returns what the records hold about the node since `start`, the oldest first.
pub(super) fn timeline(node: &Node, records: &Records, start: Option<Timestamp>) -> Vec<Entry> {
    let Records { object, rules, on_node, on_rules } = records;
    let mut entries = objects::node(object);
    entries.extend(rules.iter().flatten().flat_map(objects::rule));
    entries.extend(events::entries(object, rules.as_deref(), on_node, on_rules));
    entries.extend(ledger::entries(node, object, rules.as_deref()));
    entries.retain(|entry| start.is_none_or(|start| entry.when.may_be_since(start)));
    // Stable: the objects' own order remains where the times are equal.
    entries.sort_by_key(|entry| (entry.when, entry.source));
    entries
}
