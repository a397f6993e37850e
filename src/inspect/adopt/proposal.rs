//! The rules that adopt the values of a survey. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choice::{Choice, Part, choose};
use super::few::Few;
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
pub(crate) struct Proposal<'s> {
    pub(crate) name: String,
    pub(crate) resource: Arc<str>,
    pub(crate) quantity: Quantity,
    /// The nodes, and what selects them.
    pub(crate) part: Part,
    pub(crate) conflict_policy: ConflictPolicy,
    /// Higher than that of other rules of the resource that may select the same nodes in future.
    pub(crate) priority: i32,
    /// The names of these.
    pub(crate) below: Few<String>,
    /// The nodes of all rules of this quantity.
    pub(crate) group: &'s Group,
}

/// Returns the rules, by resource and quantity: together they select each value of the survey once, and no other node.
pub(crate) fn proposals<'s>(snapshot: &Snapshot, survey: &'s Survey) -> Vec<Proposal<'s>> {
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
                priority: 0,
                below: Few { first: Vec::new(), count: 0 },
                conflict_policy: match group.has_foreign {
                    true => ConflictPolicy::Overwrite,
                    false => ConflictPolicy::Keep,
                },
                group,
            });
        }
    }
    for of_resource in proposals.chunk_by_mut(|one, other| one.resource == other.resource) {
        set_priorities(of_resource);
    }
    proposals
}

/// Makes one rule decide where rules of different quantities may select a node by labels that it gets later. A rule
/// that names nodes is above those that select by labels.
fn set_priorities(proposals: &mut [Proposal<'_>]) {
    let is_named = |proposal: &Proposal<'_>| matches!(proposal.part.choice, Choice::Names(_));
    let mut order: Vec<_> = (0..proposals.len()).collect();
    order.sort_by_key(|at| proposals.get(*at).is_some_and(is_named));
    let mut done: Vec<usize> = Vec::new();
    for at in order {
        let Some(proposal) = proposals.get(at) else { continue };
        let others = done.iter().filter_map(|other| proposals.get(*other));
        let shared: Vec<_> = others
            .filter(|other| other.quantity != proposal.quantity && may_share(&other.part.choice, &proposal.part.choice))
            .collect();
        let priority = shared.iter().map(|other| other.priority + 1).max().unwrap_or_default();
        let below = shared.iter().map(|other| other.name.clone()).collect();
        // Names are of different nodes.
        if !is_named(proposal) {
            done.push(at);
        }
        if let Some(proposal) = proposals.get_mut(at) {
            (proposal.priority, proposal.below) = (priority, below);
        }
    }
}

/// Returns whether one node can be selected by both.
fn may_share(one: &Choice, other: &Choice) -> bool {
    match (one, other) {
        (Choice::Names(_), Choice::Names(_)) => false,
        (Choice::Labels(one), Choice::Labels(other)) => one
            .iter()
            .all(|(key, values)| other.get(key).is_none_or(|others| others.iter().any(|value| values.contains(value)))),
        _ => true,
    }
}
