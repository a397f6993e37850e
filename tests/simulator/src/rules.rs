//! Rules, as far as the invariants need them: which rule decides on a node, and whether the node is as declared.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::ledger::{Ledger, ledger, units};

/// Returns the quantity that a rule declares; `None` if it is invalid.
#[must_use]
pub fn declared(rule: &Value) -> Option<i128> {
    let quantity = &rule["spec"]["quantity"];
    let units = match quantity.as_i64() {
        Some(number) => i128::from(number),
        None => units(quantity)?,
    };
    (units > 0).then_some(units)
}

/// Returns whether a rule selects a node with this name and these labels.
#[must_use]
pub fn selects(rule: &Value, name: &Value, labels: &Value) -> bool {
    let spec = &rule["spec"];
    let mut names = spec["nodeNames"].as_array().into_iter().flatten();
    let labelled = &spec["nodeSelector"]["matchLabels"];
    spec["allNodes"] == true
        || names.any(|other| other == name)
        || labelled
            .as_object()
            .is_some_and(|required| !required.is_empty() && required.iter().all(|(key, value)| labels[key] == *value))
}

/// Returns whether a rule only keeps what it has: it is paused or invalid.
#[must_use]
pub fn is_frozen(rule: &Value) -> bool {
    rule["spec"]["paused"] == true || declared(rule).is_none()
}

/// Returns the rule that decides about a resource on a node, unless a frozen one keeps its value there.
#[must_use]
pub fn decider<'a>(rules: &'a [Arc<Value>], node: &Value, labels: &Value, resource: &str) -> Option<&'a Arc<Value>> {
    let declaring = rules.iter().filter(|rule| {
        rule["spec"]["resourceName"] == resource && !is_frozen(rule) && selects(rule, &node["metadata"]["name"], labels)
    });
    declaring.min_by_key(|rule| {
        let text = |field: &str| rule["metadata"][field].as_str().unwrap_or_default().to_owned();
        let priority = rule["spec"]["priority"].as_i64().unwrap_or_default();
        (-priority, text("creationTimestamp"), text("name"))
    })
}

/// The objects of a converged cluster.
#[derive(Clone, Debug)]
pub struct Calm {
    /// All rules.
    pub rules: Vec<Arc<Value>>,
    /// All nodes.
    pub nodes: Vec<Arc<Value>>,
    /// All pods.
    pub pods: Vec<Arc<Value>>,
}

impl Calm {
    /// Checks that each resource of each node is as its deciding rule declares, and is not listed without one, except
    /// for nodes and resources that `is_excused` accepts.
    ///
    /// # Errors
    /// Returns the first difference.
    pub fn check(&self, is_excused: impl Fn(&str, &str) -> bool) -> Result<(), String> {
        for node in &self.nodes {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            let ledger = ledger(node).ok_or_else(|| format!("{name} has a spoilt ledger"))?;
            let declared = self.rules.iter().map(|rule| &rule["spec"]["resourceName"]);
            let mut resources: BTreeSet<&str> = declared.filter_map(Value::as_str).collect();
            resources.extend(ledger.keys().map(String::as_str));
            for resource in resources.into_iter().filter(|resource| !is_excused(name, resource)) {
                self.check_resource(node, &ledger, resource).map_err(|what| format!("{resource} on {name} {what}"))?;
            }
        }
        Ok(())
    }

    fn check_resource(&self, node: &Value, ledger: &Ledger, resource: &str) -> Result<(), String> {
        let decider = decider(&self.rules, node, &node["metadata"]["labels"], resource);
        let entry = ledger.get(resource);
        let priority = |rule: &Value| rule["spec"]["priority"].as_i64().unwrap_or_default();
        // The value of a frozen rule stays, unless a rule of a higher priority decides.
        let is_kept = |rule: &&Arc<Value>| {
            is_frozen(rule)
                && entry.is_some_and(|(_, by, _)| rule["metadata"]["name"] == by.as_str())
                && decider.is_none_or(|decider| priority(decider) <= priority(rule))
        };
        let values = ["capacity", "allocatable"].map(|map| units(&node["status"][map][resource]));
        if self.rules.iter().any(|rule| is_kept(&rule)) {
            let listed = entry.map(|(listed, ..)| *listed);
            let is_as_listed = values == [listed; 2];
            return if is_as_listed { Ok(()) } else { Err(format!("is {values:?}, and kept at {listed:?}")) };
        }
        let Some(decider) = decider else {
            let listed = entry.map(|(_, by, _)| format!("is listed by {by}, and no rule declares it"));
            return listed.map_or(Ok(()), Err);
        };
        let quantity = declared(decider);
        let is_foreign = entry.is_none() && values.into_iter().flatten().any(|value| value != 0);
        let is_left = is_foreign && decider["spec"]["conflictPolicy"] != "Overwrite";
        if is_left || Some(self.requested(&node["metadata"]["name"], resource)) > quantity {
            return Ok(());
        }
        let rule = decider["metadata"]["name"].as_str().unwrap_or_default();
        let is_listed = entry.is_some_and(|(listed, by, _)| by == rule && Some(*listed) == quantity);
        if is_listed && values == [quantity; 2] {
            return Ok(());
        }
        Err(format!("is {values:?}, listed as {entry:?}, and {rule} declares {quantity:?}"))
    }

    /// Returns the requests of pods on a node.
    fn requested(&self, node: &Value, resource: &str) -> i128 {
        let pods = self.pods.iter().filter(|pod| {
            let phase = pod["status"]["phase"].as_str();
            pod["spec"]["nodeName"] == *node && !matches!(phase, Some("Succeeded" | "Failed"))
        });
        let containers = pods.filter_map(|pod| pod["spec"]["containers"].as_array()).flatten();
        containers.filter_map(|it| units(&it["resources"]["requests"][resource])).sum()
    }
}
