//! What a rule declares, for an autoscaler.

use crate::model::quantity::Quantity;
use crate::planner::rules::Rule;

/// Returns the quantity on every node that the rule selects, or why there is no such number.
///
/// Only here does the command read the quantity of a rule: for a node group, it plans a node instead.
pub(super) fn quantity(rule: &Rule) -> Result<Quantity, String> {
    Ok(rule.quantity)
}
