//! Withdraws what ledgers record: what no rule declares anymore, or what is asked for regardless of rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::change::{Action, Change, Edit, LedgerEdit, ReleaseCause, Subject, ValueEdit};
use super::condition;
use super::input::PodUsage;
use super::observed::Observed;
use super::plan::{Leaving, NodePlan};
use crate::model::api::DeletionPolicy;
use crate::model::ledger::{Entry, Ledger};
use crate::model::node::Node;

/// The rule name for values of a ledger that cannot be read.
const UNKNOWN_RULE: &str = "unknown";

/// What to withdraw, regardless of existing rules. By default, nothing.
#[derive(Clone, Debug, Default)]
pub struct Withdrawal {
    /// Which values that the ledger records.
    pub recorded: Recorded,
    /// Whether to withdraw also what leaves when it is unused and pods request (`deletionPolicy: WhenUnused`).
    pub in_use: bool,
    /// Whether to remove zeros that a removed device plugin left behind: resources that are 0 in both maps.
    pub zeros: bool,
}

/// Values that a ledger records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Recorded {
    /// None.
    #[default]
    None,
    /// Those of these rules.
    OfRules(BTreeSet<String>),
    /// Those of all rules.
    All,
}

impl Recorded {
    fn includes(&self, rule: &str) -> bool {
        match self {
            Self::None => false,
            Self::OfRules(rules) => rules.contains(rule),
            Self::All => true,
        }
    }
}

/// Plans the withdrawal of what a node's ledger records. Values to retain, and values that another field manager has
/// overwritten, are released. A value that leaves when it is unused stays if pods request it, or may.
#[must_use]
pub fn withdraw(node: &Node, withdrawal: &Withdrawal, pods: &PodUsage) -> NodePlan {
    let ledger = match Ledger::parse(node.ledger.as_deref()) {
        Ok(ledger) => ledger,
        Err(error) => return NodePlan::blocked(&[], error),
    };
    let Withdrawal { recorded, in_use, zeros } = withdrawal;
    let (mut changes, mut leaving) = (Vec::new(), Vec::new());
    for (resource, entry) in ledger.entries().filter(|(_, entry)| recorded.includes(&entry.rule)) {
        let observed = Observed::on(node, &ledger, resource);
        match still_used(resource, entry, &observed, pods).filter(|_| !in_use) {
            Some(used) => leaving.push(used),
            None => changes.push(withdraw_entry(resource, entry, &observed)),
        }
    }
    if *zeros {
        let unlisted = node.zeros().filter(|resource| ledger.get(resource).is_none());
        changes.extend(unlisted.map(remove_zero));
    }
    if *recorded == Recorded::All && leaving.is_empty() {
        let is_alone = changes.is_empty();
        changes.extend(condition::remove_from(node, is_alone));
    }
    let needs_pods = !leaving.is_empty() && *pods == PodUsage::NotFetched;
    NodePlan { leaving, ..NodePlan::new(Vec::new(), changes, needs_pods) }
}

/// Returns what stays of an entry that leaves when it is unused; `None` if it may go.
fn still_used(resource: &str, entry: &Entry, observed: &Observed<'_>, pods: &PodUsage) -> Option<Leaving> {
    if entry.deletion_policy != DeletionPolicy::WhenUnused || observed.is_overwritten() {
        return None;
    }
    let pods_error = match pods {
        PodUsage::Known(requests) if requests.bound.get(resource).is_zero() => return None,
        PodUsage::Known(_) | PodUsage::NotFetched => None,
        PodUsage::Unavailable(error) | PodUsage::LastKnown { why: error, .. } => Some(Arc::clone(error)),
    };
    let at = observed.recorded_quantity();
    Some(Leaving { resource: resource.into(), rule: entry.rule.as_str().into(), at, pods_error })
}

/// Plans the withdrawal for a node whose ledger cannot be read: it withdraws the controller's values according to
/// managedFields (`own`) and removes the ledger. The changes belong together: a patch with only some of them would
/// leave values that no ledger records.
#[must_use]
pub fn withdraw_unreadable(node: &Node, own: &[&str], withdrawal: &Withdrawal) -> NodePlan {
    let edit = |value| Edit::of(LedgerEdit::Discard, value, true);
    let mut changes: Vec<_> = own
        .iter()
        .map(|resource| {
            let action = Action::Withdraw { rule: UNKNOWN_RULE.into() };
            change(resource, action, edit(ValueEdit::Remove), true)
        })
        .collect();
    if changes.is_empty() && node.ledger.is_some() {
        let change = change("", Action::RemoveLedger, edit(ValueEdit::Keep), false);
        changes.push(Change { subject: Subject::Ledger, ..change });
    }
    if withdrawal.zeros {
        let others = node.zeros().filter(|resource| !own.contains(resource));
        changes.extend(others.map(remove_zero));
    }
    let is_alone = changes.is_empty();
    changes.extend(condition::remove_from(node, is_alone));
    NodePlan::new(Vec::new(), changes, false)
}

/// Withdraws or releases a recorded value. Ownership follows the value, never the field manager: a value that is as
/// recorded, or 0, is the controller's to remove; any other value is not.
pub(super) fn withdraw_entry(resource: &str, entry: &Entry, observed: &Observed<'_>) -> Change {
    let rule = entry.rule.as_str().into();
    let (action, value) = if observed.is_overwritten() {
        let manager = observed.manager().cloned();
        let cause = ReleaseCause::Overwritten { observed: observed.to_string(), manager };
        (Action::Release { rule, cause }, ValueEdit::Keep)
    } else if entry.deletion_policy != DeletionPolicy::Retain {
        (Action::Withdraw { rule }, ValueEdit::Remove)
    } else {
        let restored = observed.is_zeroed().then(|| entry.quantity.clone());
        let value = restored.clone().map_or(ValueEdit::Keep, ValueEdit::Write);
        (Action::Release { rule, cause: ReleaseCause::Retained { restored } }, value)
    };
    change(resource, action, Edit::of(LedgerEdit::Forget, value, true), true)
}

/// Removes a zero that a device plugin left behind.
fn remove_zero(resource: &str) -> Change {
    let edit = Edit::of(LedgerEdit::Keep, ValueEdit::Remove, true);
    change(resource, Action::RemoveZero, edit, false)
}

fn change(resource: &str, action: Action, edit: Edit, was_recorded: bool) -> Change {
    Change { subject: Subject::Resource(resource.to_owned()), action, edit, step: None, was_recorded, moves: false }
}
