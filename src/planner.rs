//! What to do on a node. Planning is pure, so that the controller, the command line and the tests decide alike.
//!
//! ```text
//! node, rules ─▶ rules::RuleSet::selecting ─▶ desired ─▶ resolve ─▶ NodePlan ─▶ patch
//!                which rules, in which order   by         what to do  │           one JSON Patch, for
//!                                              resource   about each  │           all changes or some
//!                        PlanningInput ──────────────────▶ resource   └▶ outcomes, by rule
//! ```

mod change;
pub mod condition;
pub mod declared;
mod desired;
pub mod input;
mod memo;
pub(crate) mod observed;
pub mod overlap;
pub(crate) mod patch;
mod plan;
mod repairs;
mod resolve;
mod room;
pub mod rules;
pub mod selector;
pub mod withdraw;

use crate::model::node::Node;
pub use change::{Action, Change, Condition, ReleaseCause, Subject};
use input::PlanningInput;
pub(crate) use memo::Memo;
pub use patch::patch;
pub use plan::{Leaving, NodePlan, Outcome, Plan};
pub use repairs::{plan_repairs, plan_resets};
use rules::RuleSet;

/// Plans one node by the rules. It has no clock and no I/O: the same arguments give the same plan.
#[must_use]
pub fn plan(node: &Node, rules: &RuleSet, input: &PlanningInput) -> NodePlan {
    resolve::plan(node, rules, &rules.places_selecting(node), input)
}

#[cfg(test)]
pub(crate) mod tests;
