//! Rules, as far as the invariants need them: which rule decides on a node, and whether the node is as declared.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::invariants::{is_leaving, leaves_when_unused};
use crate::ledger::{Ledger, is_adoptable, ledger, units};
use crate::pods::{Amounts, Usage};

/// What a rule declares on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// This quantity.
    Quantity(i128),
    /// Something; the label does not say how much.
    Unknown,
    /// Nothing there.
    Nothing,
    /// Nothing anywhere: the rule is invalid, by its quantity, or because it does not select nodes in exactly one way.
    Invalid,
}

impl Declared {
    /// Returns the quantity, if it is known.
    #[must_use]
    pub fn quantity(self) -> Option<i128> {
        if let Self::Quantity(quantity) = self { Some(quantity) } else { None }
    }
}

/// Returns what a rule declares on a node with these labels. The rule reads labels only.
#[must_use]
pub fn declared(rule: &Value, labels: &Value) -> Declared {
    if selections(rule) != 1 {
        return Declared::Invalid;
    }
    let number = |value: &Value| value.as_i64().map(i128::from).or_else(|| units(value));
    let from = &rule["spec"]["quantityFrom"];
    if from.is_null() {
        let quantity = number(&rule["spec"]["quantity"]).filter(|quantity| *quantity > 0);
        return quantity.map_or(Declared::Invalid, Declared::Quantity);
    }
    let label = from["nodeLabel"]["key"].as_str().map_or(&Value::Null, |key| &labels[key]);
    let missing = match number(&from["default"]) {
        Some(default) => Declared::Quantity(default),
        None if from["whenMissing"] == "None" => Declared::Nothing,
        None => Declared::Unknown,
    };
    let table = &from["nodeLabel"]["values"];
    if !table.is_null() {
        let entry = label.as_str().and_then(|value| number(&table[value]));
        return entry.map_or(missing, Declared::Quantity);
    }
    match (label.is_null(), number(label)) {
        (true, _) => missing,
        (false, Some(0)) => missing,
        (false, Some(quantity)) if Some(quantity) <= number(&from["max"]) => Declared::Quantity(quantity),
        (false, _) => Declared::Unknown,
    }
}

/// Returns whether a rule reads its quantity from nodes.
#[must_use]
pub fn is_derived(rule: &Value) -> bool {
    !rule["spec"]["quantityFrom"].is_null()
}

/// Returns whether a rule may give a node with these labels the resource, and the label does not say how much.
#[must_use]
pub fn may_declare(rule: &Value, node: &Value, labels: &Value, resource: &str) -> bool {
    rule["spec"]["resourceName"] == resource
        && rule["spec"]["paused"] != true
        && declared(rule, labels) == Declared::Unknown
        && selects(rule, &node["metadata"]["name"], labels)
}

/// Returns whether a rule selects a node with this name and these labels.
#[must_use]
pub fn selects(rule: &Value, name: &Value, labels: &Value) -> bool {
    let spec = &rule["spec"];
    let mut names = spec["nodeNames"].as_array().into_iter().flatten();
    spec["allNodes"] == true || names.any(|other| other == name) || selects_labels(&spec["nodeSelector"], labels)
}

/// Returns whether a selector has requirements, and labels satisfy all of them.
fn selects_labels(selector: &Value, labels: &Value) -> bool {
    let mut required = selector["matchLabels"].as_object().into_iter().flatten().peekable();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten().peekable();
    (required.peek().is_some() || expressions.peek().is_some())
        && required.all(|(key, value)| labels[key] == *value)
        && expressions.all(|expression| {
            let label = expression["key"].as_str().map_or(&Value::Null, |key| &labels[key]);
            let is_one = expression["values"].as_array().is_some_and(|values| values.contains(label));
            match expression["operator"].as_str() {
                Some("In") => is_one,
                Some("NotIn") => !is_one,
                Some("Exists") => !label.is_null(),
                Some("DoesNotExist") => label.is_null(),
                _ => false,
            }
        })
}

/// Returns whether a rule only keeps what it has: it is paused or invalid.
#[must_use]
pub fn is_frozen(rule: &Value) -> bool {
    rule["spec"]["paused"] == true || declared(rule, &Value::Null) == Declared::Invalid
}

/// Returns in how many ways a rule selects nodes.
#[must_use]
pub fn selections(rule: &Value) -> usize {
    ["nodeSelector", "nodeNames", "allNodes"].into_iter().filter(|field| !rule["spec"][*field].is_null()).count()
}

/// Returns the rule that decides about a resource on a node, unless a frozen one keeps its value there.
#[must_use]
pub fn decider<'a>(rules: &'a [Arc<Value>], node: &Value, labels: &Value, resource: &str) -> Option<&'a Arc<Value>> {
    first_of(rules, |rule| {
        let declares = rule["spec"]["resourceName"] == resource && declared(rule, labels).quantity().is_some();
        declares && !is_frozen(rule) && selects(rule, &node["metadata"]["name"], labels)
    })
}

/// Returns the rule that precedes the others of these.
fn first_of(rules: &[Arc<Value>], is_one: impl Fn(&Value) -> bool) -> Option<&Arc<Value>> {
    rules.iter().filter(|rule| is_one(rule)).min_by_key(|rule| {
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
        let labels = &node["metadata"]["labels"];
        let decider = decider(&self.rules, node, labels, resource);
        let entry = ledger.get(resource);
        // A value whose quantity is unknown stays, unless a rule decides that precedes the one that lists it.
        let precedes = |rule: &Value| match decider {
            None => true,
            Some(decider) => {
                let is_listing = entry.is_some_and(|(_, by, _)| rule["metadata"]["name"] == by.as_str());
                let is_one = |other: &Value| other == rule || other == &**decider;
                is_listing && first_of(&self.rules, is_one).is_some_and(|first| **first == *rule)
            }
        };
        let stays = entry.is_some()
            && self.rules.iter().any(|rule| may_declare(rule, node, labels, resource) && precedes(rule));
        let priority = |rule: &Value| rule["spec"]["priority"].as_i64().unwrap_or_default();
        // The value of a frozen rule stays, unless a rule of a higher priority decides.
        let is_kept = |rule: &&Arc<Value>| {
            is_frozen(rule)
                && entry.is_some_and(|(_, by, rest)| rule["metadata"]["name"] == by.as_str() && !is_leaving(rest))
                && decider.is_none_or(|decider| priority(decider) <= priority(rule))
        };
        let values = ["capacity", "allocatable"].map(|map| units(&node["status"][map][resource]));
        if stays || self.rules.iter().any(|rule| is_kept(&rule)) {
            let listed = entry.map(|(listed, ..)| *listed);
            let is_as_recorded = values == [listed; 2];
            return if is_as_recorded { Ok(()) } else { Err(format!("is {values:?}, and kept at {listed:?}")) };
        }
        let Some(decider) = decider else {
            if let Some((listed, _, rest)) = entry
                && leaves_when_unused(rest)
            {
                return self.check_leaving(node, resource, (*listed, values));
            }
            let listed = entry.map(|(_, by, _)| format!("is listed by {by}, and no rule declares it"));
            return listed.map_or(Ok(()), Err);
        };
        let quantity = declared(decider, labels).quantity();
        let is_foreign = entry.is_none() && values.into_iter().flatten().any(|value| value != 0);
        // What the controller wrote before is no other client's value: it is recorded again.
        let is_own = values == [quantity; 2] && is_adoptable(node, &[], resource, quantity.unwrap_or_default());
        let is_left = is_foreign && !is_own && decider["spec"]["conflictPolicy"] != "Overwrite";
        if is_left {
            return Ok(());
        }
        let rule = decider["metadata"]["name"].as_str().unwrap_or_default();
        let (bound, started) = self.requested(&node["metadata"]["name"], resource);
        if Some(bound) > quantity && decider["spec"]["shrinkPolicy"] != "Immediate" {
            // It follows pods down, and is no less than what those request that have started, whoever leads (I5).
            let range = quantity.max(Some(started))..=Some(bound);
            let listed = entry.map(|(listed, ..)| *listed);
            if values == [listed; 2] && range.contains(&listed) || (quantity == listed && Some(started) <= quantity) {
                return Ok(());
            }
            return Err(format!(
                "is {values:?}, listed as {entry:?}, where pods request {bound}, started ones {started}"
            ));
        }
        let is_listed = entry.is_some_and(|(listed, by, _)| by == rule && Some(*listed) == quantity);
        if is_listed && values == [quantity; 2] {
            return Ok(());
        }
        Err(format!("is {values:?}, listed as {entry:?}, and {rule} declares {quantity:?}"))
    }

    /// A value that no rule declares is there for pods: no more than they request, and no less than those that have started.
    fn check_leaving(
        &self,
        node: &Value,
        resource: &str,
        (listed, values): (i128, [Option<i128>; 2]),
    ) -> Result<(), String> {
        let (bound, started) = self.requested(&node["metadata"]["name"], resource);
        if values == [Some(listed); 2] && (started..=bound).contains(&listed) {
            return Ok(());
        }
        Err(format!(
            "is {values:?}, listed as {listed} and to leave when it is unused, where pods request {bound}, started ones {started}"
        ))
    }

    /// Returns the requests of pods on a node: of all, and of those that have started.
    fn requested(&self, node: &Value, resource: &str) -> (i128, i128) {
        let pods = self.pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node);
        let usage: Usage = pods.map(|pod| &**pod).collect();
        let of = |amounts: &Amounts| amounts.get(resource).copied().unwrap_or_default();
        (of(&usage.bound), of(&usage.started))
    }
}
