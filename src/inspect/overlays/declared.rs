//! What a rule declares, for an autoscaler.

use super::label_keys::LabelKey;
use super::overlay::OverlayRequirement;
use crate::model::quantity::Quantity;
use crate::planner::declared::ByLabel;
use crate::planner::rules::Rule;
use crate::planner::selector::Requirement;

/// A quantity, and the nodes that have it, of those that a rule selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) quantity: Quantity,
    /// On a label by whose values the rule has a table.
    pub(super) only: Option<OverlayRequirement>,
    /// Distinguishes the part from others of the rule.
    pub(super) name: Option<String>,
}

/// Returns the quantities that a rule declares, on nodes that do not overlap, or why there are no such numbers.
///
/// Only here does the command read the quantity of a rule: for a node group, it plans a node instead.
pub(super) fn parts(rule: &Rule) -> Result<Vec<Part>, String> {
    if let Some(quantity) = rule.quantity.fixed() {
        return Ok(vec![Part { quantity, only: None, name: None }]);
    }
    let Some(by_label) = rule.quantity.by_label() else {
        return Err(format!(
            "it declares {}, and an overlay has one quantity: give the label a table in nodeLabel.values, write a rule \
             with a fixed quantity for each value, or an overlay by hand",
            rule.quantity
        ));
    };
    if LabelKey::of(by_label.key) == LabelKey::OfOfferings {
        return Err(format!(
            "Karpenter applies an overlay to an instance type with every value of {}, and the table has a quantity for \
             each; write a table by another label",
            by_label.key
        ));
    }
    let own: Vec<_> = rule.selection.requirements().iter().filter(|own| own.key() == by_label.key).collect();
    Ok(parts_of_table(&by_label, &own))
}

/// Returns a part for each quantity, and one for the default. `own` are the rule's requirements on the label: Karpenter
/// joins two that contradict each other to one that holds without the label.
fn parts_of_table(by_label: &ByLabel<'_>, own: &[&Requirement]) -> Vec<Part> {
    let admits = |value: &str| own.iter().all(|own| own.is_met_by(Some(value)));
    let only = |operator: &str, values: Vec<&str>| {
        let values = values.into_iter().map(str::to_owned).collect();
        Some(OverlayRequirement { key: by_label.key.to_owned(), operator: operator.to_owned(), values })
    };
    let mut parts = Vec::new();
    for (quantity, mut values) in by_label.table.by_quantity() {
        values.retain(|value| admits(value));
        if !values.is_empty() {
            let name = quantity.whole().map(|whole| whole.to_string());
            parts.push(Part { quantity, only: only("In", values), name });
        }
    }
    let has_others = |own: &Requirement| own.values().any(|value| admits(value) && by_label.table.get(value).is_none());
    let is_left = own.iter().find(|own| own.operator() == "In").is_none_or(|own| has_others(own));
    if let Some(quantity) = by_label.default.filter(|_| is_left) {
        parts.push(Part {
            quantity,
            only: only("NotIn", by_label.table.values().collect()),
            name: Some("default".into()),
        });
    }
    parts
}
