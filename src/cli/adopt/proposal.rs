//! The rules that adopt the values of a survey. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choice::{Part, choose};
use super::labels::LabelIndex;
use super::names::Names;
use super::snapshot::Snapshot;
use super::survey::{Group, Survey};
use crate::model::api::ConflictPolicy;
use crate::model::ledger::Ledger;
use crate::model::node::Node;
use crate::model::quantity::Quantity;

/// A rule that takes values over as they are.
#[derive(Debug)]
pub(super) struct Proposal<'s> {
    pub(super) name: String,
    pub(super) resource: Arc<str>,
    pub(super) quantity: Quantity,
    /// The nodes, and what selects them.
    pub(super) part: Part,
    pub(super) conflict_policy: ConflictPolicy,
    /// The nodes of all rules of this quantity.
    pub(super) group: &'s Group,
}

/// Returns the rules, by resource and quantity: together they select each value of the survey once, and no other node.
pub(super) fn proposals<'s>(snapshot: &Snapshot, survey: &'s Survey) -> Vec<Proposal<'s>> {
    let nodes: Vec<&Node> = snapshot.nodes.iter().map(|entry| &entry.node).collect();
    let index = LabelIndex::new(&nodes);
    let mut quantities = BTreeMap::<&str, BTreeSet<Quantity>>::new();
    for (resource, quantity) in survey.groups.keys() {
        quantities.entry(resource).or_default().insert(*quantity);
    }
    // A name in a ledger may be of a rule that cannot be read.
    let ledgers = snapshot.nodes.iter().filter_map(|entry| entry.ledger.as_ref().ok());
    let listed = ledgers.flat_map(Ledger::entries).map(|(_, entry)| entry.rule.as_str());
    let taken = snapshot.rules.names.iter().map(|name| &**name).chain(listed);
    let mut names = Names::new(taken, quantities.keys().copied());
    let mut proposals = Vec::new();
    for ((resource, quantity), group) in &survey.groups {
        let is_only = quantities.get(&**resource).is_none_or(|all| all.len() == 1);
        let text = quantity.to_string();
        for part in choose(&index, &nodes, resource, &group.nodes) {
            proposals.push(Proposal {
                name: names.next(resource, (!is_only).then_some(&text)),
                resource: Arc::clone(resource),
                quantity: *quantity,
                part,
                conflict_policy: match group.has_foreign {
                    true => ConflictPolicy::Overwrite,
                    false => ConflictPolicy::Keep,
                },
                group,
            });
        }
    }
    proposals
}
