//! What a rule declares, for an autoscaler.

use crate::model::quantity::Quantity;
use crate::planner::rules::Rule;

/// Returns the quantity on every node that the rule selects, or why there is no such number.
///
/// Only here does the command read the quantity of a rule: for a node group, it plans a node instead.
pub(super) fn quantity(rule: &Rule) -> Result<Quantity, String> {
    rule.quantity.fixed().ok_or_else(|| {
        format!(
            "it declares {}, and an overlay has one quantity: write a rule with a fixed quantity for each value, or an \
             overlay by hand",
            rule.quantity
        )
    })
}
