//! What Events say.

use kube::runtime::events::EventType;

use crate::controller::standing::Standing;
use crate::model::api::FIELD_MANAGER;
use crate::model::ledger::InvalidLedger;
use crate::model::node::UNKNOWN_MANAGER;
use crate::planner::input::Lost;
use crate::planner::rules::InvalidRule;
use crate::planner::{Action, Change, ReleaseCause};

/// An Event without what it is about.
#[derive(Clone, Debug)]
pub(in crate::controller) struct EventTemplate {
    pub(super) kind: EventType,
    /// One word for machines.
    pub(super) reason: &'static str,
    /// What the controller was doing.
    pub(super) action: &'static str,
    pub(super) text: String,
}

fn warning(reason: &'static str, action: &'static str, text: String) -> EventTemplate {
    EventTemplate { kind: EventType::Warning, reason, action, text }
}

fn normal(reason: &'static str, action: &'static str, text: String) -> EventTemplate {
    EventTemplate { kind: EventType::Normal, reason, action, text }
}

impl EventTemplate {
    /// A change on a node that somebody may ask about. That a rule has come into force is in its
    /// status.
    pub(in crate::controller) fn for_change(node: &str, change: &Change) -> Option<Self> {
        let Change { resource, action, .. } = change;
        let was = |observed: &str, manager: &Option<_>| {
            let manager = name(manager.as_deref());
            format!("{resource} on {node} was {observed}, written by {manager}")
        };
        let template = match action {
            Action::Repair { quantity, rule, observed, manager } => {
                let was = was(observed, manager);
                let text = format!("{was}; it is {quantity} again, as rule {rule} declares");
                warning("Repaired", "Patch", text)
            }
            Action::TakeOver { quantity, rule, observed, manager } => {
                let was = was(observed, manager);
                let text = format!("{was}; it is {quantity} now, as rule {rule} declares");
                warning("TakenOver", "Patch", text)
            }
            Action::Hold { quantity, rule, declared } => {
                let text = format!(
                    "{resource} on {node} is held at {quantity}, which pods request; rule {rule} \
                     declares {declared}"
                );
                normal("Held", "Patch", text)
            }
            Action::Adopt { quantity, rule } => {
                let text = format!(
                    "{resource} on {node} is {quantity} already, as rule {rule} declares, and \
                     {FIELD_MANAGER} wrote it: it is in the annotation again"
                );
                normal("Adopted", "Patch", text)
            }
            Action::Withdraw { rule } => {
                let text = format!(
                    "{resource} is withdrawn from {node}: rule {rule} declares it there no longer"
                );
                normal("Withdrawn", "Patch", text)
            }
            Action::Release { rule, cause: ReleaseCause::Retained { .. } } => {
                let text = format!(
                    "{resource} on {node} stays and is released: rule {rule}, which retains it, declares \
                     it there no longer"
                );
                normal("Released", "Patch", text)
            }
            Action::Release { rule, cause: ReleaseCause::Overwritten { observed, manager } } => {
                let manager = name(manager.as_deref());
                let text = format!(
                    "{resource} on {node} stays at {observed}, written by {manager}, and is released: \
                     rule {rule} declares it there no longer"
                );
                warning("Released", "Patch", text)
            }
            Action::Advertise { .. } | Action::RemoveZero | Action::RemoveLedger => return None,
        };
        Some(template)
    }

    /// Where a rule stands on a node, where that has no Event of its own and somebody has to do something.
    pub(in crate::controller) fn for_standing(
        node: &str,
        rule: &str,
        resource: &str,
        standing: &Standing,
    ) -> Option<Self> {
        match standing {
            Standing::Conflicted { present, manager } => {
                let manager = name(manager.as_deref());
                let text = format!(
                    "{resource} on {node} is {present} already, last written by {manager}; rule {rule} \
                     leaves it. conflictPolicy: Overwrite would take it over"
                );
                Some(warning("Conflict", "Plan", text))
            }
            Standing::Failed(message) => {
                let text = format!(
                    "rule {rule} is not in force on {node}: the patch failed, and is sent again: \
                     {message}"
                );
                Some(warning("PatchFailed", "Patch", text))
            }
            Standing::LedgerFull => {
                let text = format!(
                    "rule {rule} is not in force on {node}: the annotation there has no room for \
                     {resource}. Delete rules, or select fewer for this node"
                );
                Some(warning("LedgerFull", "Plan", text))
            }
            _ => None,
        }
    }

    /// A withdrawal or release that did not go through.
    pub(in crate::controller) fn not_withdrawn(
        node: &str,
        change: &Change,
        message: &str,
    ) -> Option<Self> {
        let Change { resource, action, .. } = change;
        let (Action::Withdraw { rule } | Action::Release { rule, .. }) = action else {
            return None;
        };
        let text = format!(
            "{resource} is still on {node}, where rule {rule} declares it no longer: the patch failed, \
             and is sent again: {message}"
        );
        Some(warning("PatchFailed", "Patch", text))
    }

    /// A rule is invalid. Where it has not even the CRD's shape, the API server takes no status for it,
    /// and this is all there is to see.
    pub(in crate::controller) fn for_invalid(why: &InvalidRule) -> Self {
        let text = format!("{why}. What it advertised before stays as it is");
        warning("InvalidSpec", "Validate", text)
    }

    /// One of two rules about the other: both declare a quantity of their own on a node, with the same
    /// priority.
    pub(in crate::controller) fn equal_priority(other: &str) -> Self {
        let text = format!(
            "rule {other} declares another quantity of the same resource on the same node, with the \
             same priority; the older decides. Give one a higher priority"
        );
        warning("EqualPriority", "Resolve", text)
    }

    /// A change is undone again and again: a repair or an adoption, which pause now.
    pub(in crate::controller) fn contested(node: &str, change: &Change) -> Self {
        let text = format!(
            "{}; the controller backs off, and writes again after pauses",
            contest(node, change)
        );
        warning("Contested", "Patch", text)
    }

    /// A node does not change since its ledger cannot be read.
    pub(in crate::controller) fn invalid_ledger(why: &InvalidLedger) -> Self {
        let text = format!(
            "{why}; nothing on the node changes until you repair it, or remove it with `prune \
             --repair-ledger`"
        );
        warning("InvalidLedger", "Plan", text)
    }
}

/// Says what undoes a change.
pub(in crate::controller) fn contest(node: &str, change: &Change) -> String {
    let resource = &change.resource;
    let rule = change.rule().unwrap_or_default();
    if change.lost() == Lost::LedgerEntry {
        return format!(
            "the annotation on {node} loses {resource} again and again, which rule {rule} declares"
        );
    }
    let manager = name(change.manager());
    format!("{manager} keeps changing {resource} on {node} back from what rule {rule} declares")
}

fn name(manager: Option<&str>) -> &str {
    manager.unwrap_or(UNKNOWN_MANAGER)
}
