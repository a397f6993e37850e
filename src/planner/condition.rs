//! The node's condition: whether the resource of every rule that selects the node is advertised there.
//!
//! It is written in the patch that changes values, so that it is never ahead of them, and seldom alone.

use k8s_openapi::jiff::{Timestamp, Unit};

use super::change::{Action, Change, Condition, Edit, Subject};
use super::observed::Observed;
use crate::model::ledger::Ledger;
use crate::model::node::Node;

/// Returns whether the node has a resource as the ledger records it, in both maps, once these changes are made.
#[must_use]
pub fn has_after(node: &Node, ledger: &Ledger, resource: &str, changes: &[Change]) -> bool {
    match changes.iter().find(|change| change.is_of(resource)) {
        Some(change) => change.recorded_quantity().is_some(),
        None => ledger.get(resource).is_some() && Observed::on(node, ledger, resource).is_as_recorded(),
    }
}

/// Returns the change to `desired`, at this time; `None` if the node has it. The change is the only one of its patch if
/// `is_alone`.
#[must_use]
pub fn change(node: &Node, desired: Option<Condition>, is_alone: bool, now: Timestamp) -> Option<Change> {
    let Some(desired) = desired else { return remove_from(node, is_alone) };
    let own = &node.conditions()?.own;
    let is_there = own.as_ref().is_some_and(|own| {
        *own.status == *desired.status() && *own.reason == *desired.reason.as_str() && *own.message == *desired.message
    });
    if is_there {
        return None;
    }
    // Times in conditions have whole seconds.
    let now = now.round(Unit::Second).unwrap_or(now);
    let edit = Edit::SetCondition(desired.clone(), now);
    Some(of_condition(Action::SetCondition(desired), edit, is_alone))
}

/// Returns the change that removes the condition, if the node has one.
pub(super) fn remove_from(node: &Node, is_alone: bool) -> Option<Change> {
    node.conditions()?.own.as_ref()?;
    Some(of_condition(Action::RemoveCondition, Edit::RemoveCondition, is_alone))
}

fn of_condition(action: Action, edit: Edit, is_alone: bool) -> Change {
    Change { subject: Subject::Condition, action, edit, step: None, was_recorded: false, moves: is_alone }
}
