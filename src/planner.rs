//! What is to be done on a node: pure, so that the controller, the command line and the tests all
//! decide alike.
//!
//! ```text
//! node, rules ─▶ rules::RuleSet::selecting ─▶ resolve ─▶ patch ─▶ Plan
//!                which rules, in which order   ▲ what to   one JSON
//!                                              │ do, by    Patch
//!                              circumstances ──┘ resource
//! ```

pub mod input;
pub mod overlap;
mod patch;
mod plan;
mod resolve;
pub mod rules;
pub mod selector;
pub mod withdraw;

use crate::model::ledger::Ledger;
use crate::model::node::Node;
use input::PlanningInput;
pub use plan::{Action, Change, Outcome, Plan};
use rules::RuleSet;

/// Plans one node. No clock, no I/O: the same arguments give the same plan.
#[must_use]
pub fn plan(node: &Node, rules: &RuleSet, input: &PlanningInput) -> Plan {
    let selecting = rules.selecting(node);
    let ledger = match Ledger::parse(node.ledger.as_deref()) {
        Ok(ledger) => ledger,
        Err(error) => return Plan::untouched(&selecting, error),
    };
    let resolved = resolve::resolve(node, &ledger, &selecting, rules, input);
    let patch = patch::patch(node, &ledger, &resolved.mutations);
    match patch {
        Ok(patch) => Plan {
            changes: resolved.changes,
            patch: Some(patch).filter(|_| !resolved.mutations.is_empty()),
            outcomes: resolved.outcomes,
            invalid_ledger: None,
            needs_pods: resolved.needs_pods,
        },
        Err(error) => Plan::untouched(&selecting, error),
    }
}

#[cfg(test)]
pub(crate) mod tests;
