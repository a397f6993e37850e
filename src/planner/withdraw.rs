//! Taking back what ledgers list, whatever rules there are.

use std::collections::BTreeSet;

use super::patch::patch;
use super::plan::Plan;
use super::resolve::Resolved;
use crate::model::ledger::Ledger;
use crate::model::node::Node;

/// What is to be taken back.
#[derive(Clone, Debug, Default)]
pub struct Withdrawal {
    /// What these rules declared; where none is named, all.
    pub rules: BTreeSet<String>,
    /// Also the zeros that a device plugin left behind which is gone: places where both maps are at 0.
    pub zeros: bool,
}

/// Plans the withdrawal of what a node's ledger lists. What was to be retained is released.
#[must_use]
pub fn withdraw(node: &Node, withdrawal: &Withdrawal) -> Plan {
    match Ledger::parse(node.ledger.as_deref()) {
        Ok(ledger) => plan(node, &ledger, withdrawal),
        Err(error) => Plan::untouched(&[], error),
    }
}

/// Plans the same for a node whose ledger cannot be read: what the controller has written by another
/// account (`own`: by the node's managedFields) is withdrawn, and the ledger removed.
#[must_use]
pub fn withdraw_unreadable(node: &Node, own: &[&str], withdrawal: &Withdrawal) -> Plan {
    let ledger = Ledger::from_unknown_rules(own.iter().copied());
    plan(node, &ledger, withdrawal)
}

fn plan(node: &Node, ledger: &Ledger, withdrawal: &Withdrawal) -> Plan {
    let Withdrawal { rules, zeros } = withdrawal;
    let mut resolved = Resolved::default();
    for (resource, entry) in ledger.entries() {
        if rules.is_empty() || rules.contains(&entry.rule) {
            resolved.withdraw(resource, entry);
        }
    }
    if *zeros {
        for resource in node.zeros().filter(|resource| ledger.get(resource).is_none()) {
            resolved.remove_zero(resource);
        }
    }
    let is_to_be_repaired = Ledger::parse(node.ledger.as_deref()).is_err();
    if resolved.mutations.is_empty() && !is_to_be_repaired {
        return Plan::default();
    }
    match patch(node, ledger, &resolved.mutations) {
        Ok(patch) => Plan { changes: resolved.changes, patch: Some(patch), ..Plan::default() },
        Err(error) => Plan::untouched(&[], error),
    }
}
