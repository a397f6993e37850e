//! Rules, as far as the invariants read them: which of them decides on a node.

use std::sync::Arc;

use serde_json::Value;

use crate::invariants::units;

/// Returns how much a rule declares; `None` where it is invalid.
#[must_use]
pub fn declared(rule: &Value) -> Option<i128> {
    let quantity = &rule["spec"]["quantity"];
    let units = match quantity.as_i64() {
        Some(number) => i128::from(number),
        None => units(quantity)?,
    };
    (units > 0).then_some(units)
}

/// Whether a rule selects a node of this name with these labels.
#[must_use]
pub fn selects(rule: &Value, name: &Value, labels: &Value) -> bool {
    let spec = &rule["spec"];
    let mut names = spec["nodeNames"].as_array().into_iter().flatten();
    let labelled = &spec["nodeSelector"]["matchLabels"];
    spec["allNodes"] == true
        || names.any(|other| other == name)
        || labelled.as_object().is_some_and(|required| {
            !required.is_empty() && required.iter().all(|(key, value)| labels[key] == *value)
        })
}

/// The valid rule that decides about a resource on a node.
#[must_use]
pub fn decider<'a>(
    rules: &'a [Arc<Value>],
    node: &Value,
    labels: &Value,
    resource: &str,
) -> Option<&'a Arc<Value>> {
    let declaring = rules.iter().filter(|rule| {
        rule["spec"]["resourceName"] == resource
            && declared(rule).is_some()
            && selects(rule, &node["metadata"]["name"], labels)
    });
    declaring.min_by_key(|rule| {
        let text = |field: &str| rule["metadata"][field].as_str().unwrap_or_default().to_owned();
        let priority = rule["spec"]["priority"].as_i64().unwrap_or_default();
        (-priority, text("creationTimestamp"), text("name"))
    })
}
