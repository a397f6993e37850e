//! Repairs from the ledger alone: for a leader that does not know the rules yet (I4), and for a standby (I6).

use super::change::{Action, Change, Edit, LedgerEdit, Subject, ValueEdit};
use super::input::Contested;
use super::observed::Observed;
use super::plan::NodePlan;
use crate::model::ledger::{Entry, Ledger};
use crate::model::node::Node;

/// Plans only repairs, from the ledger: values that were lost or lowered are restored as recorded, except contested
/// values that must not be repaired yet. A value above the recorded one stays until the rules are known: lowering it may
/// depend on pods (I5).
///
/// No rule has an outcome, and nothing is added, lowered, adopted, released or withdrawn.
#[must_use]
pub fn plan_repairs(node: &Node, contested: &Contested) -> NodePlan {
    let ledger = match Ledger::parse(node.ledger.as_deref()) {
        Ok(ledger) => ledger,
        Err(error) => return NodePlan::blocked(&[], error),
    };
    let repairs = ledger.entries().filter_map(|(resource, entry)| {
        let waits = contested.get(resource).is_some_and(|contest| !contest.may_repair);
        let observed = Observed::on(node, &ledger, resource);
        if waits || observed.is_as_recorded() {
            return None;
        }
        repair(resource, entry, &observed)
    });
    NodePlan::new(Vec::new(), repairs.collect(), false)
}

/// Plans what a standby may write: values that a kubelet has reset to 0 are restored as the ledger records them. The
/// patch requires that nothing has changed since, so it may be applied at any time, whatever the leader does (I6).
#[must_use]
pub fn plan_resets(node: &Node) -> NodePlan {
    let ledger = match Ledger::parse(node.ledger.as_deref()) {
        Ok(ledger) => ledger,
        Err(error) => return NodePlan::blocked(&[], error),
    };
    let resets = ledger.entries().filter_map(|(resource, entry)| {
        let observed = Observed::on(node, &ledger, resource);
        restore(resource, entry, &observed, true).filter(|_| observed.is_reset())
    });
    NodePlan::new(Vec::new(), resets.collect(), false)
}

/// Restores a value as recorded, unless that lowers it.
pub(super) fn repair(resource: &str, entry: &Entry, observed: &Observed<'_>) -> Option<Change> {
    restore(resource, entry, observed, false)
}

fn restore(resource: &str, entry: &Entry, observed: &Observed<'_>, guarded: bool) -> Option<Change> {
    if observed.most() > observed.recorded_quantity() {
        return None;
    }
    Some(Change {
        subject: Subject::Resource(resource.to_owned()),
        action: Action::Repair {
            quantity: entry.quantity.clone(),
            rule: entry.rule.as_str().into(),
            observed: observed.to_string(),
            manager: observed.manager().cloned(),
        },
        edit: Edit::of(LedgerEdit::Keep, ValueEdit::Write(entry.quantity.clone()), guarded),
        step: None,
        was_recorded: true,
        moves: false,
    })
}
