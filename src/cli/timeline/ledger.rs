//! The ledger: what the controller advertises now, and for which rule.

use k8s_openapi::api::core::v1::Node as K8sNode;

use super::entry::{Entry, Source, When};
use super::field_owners;
use super::records::RuleObject;
use crate::model::api::DeletionPolicy;
use crate::model::ledger::{self, Ledger};
use crate::model::node::Node;
use crate::model::quantity::Quantity;

/// Returns an entry for each resource in the ledger, or one that says why it cannot be read.
pub(super) fn entries(node: &Node, object: &K8sNode, rules: Option<&[RuleObject]>) -> Vec<Entry> {
    let annotation = format!("f:{}", ledger::ANNOTATION);
    let who = field_owners::of_field(&object.metadata, &["f:metadata", "f:annotations", &annotation]);
    let entry = |rule: Option<&str>, is_warning: bool, what: String| Entry {
        when: When::Now,
        source: Source::Ledger,
        rule: rule.map(str::to_owned),
        who: who.clone(),
        is_warning,
        what,
        owns: Vec::new(),
    };
    let ledger = match Ledger::parse(node.ledger.as_deref()) {
        Ok(ledger) => ledger,
        Err(error) => return vec![entry(None, true, error.to_string())],
    };
    let listed = ledger.entries().map(|(resource, listed)| {
        let ledger::Entry { quantity, rule, deletion_policy, .. } = listed;
        let is_gone = rules.is_some_and(|rules| rules.iter().all(|object| *object.name != **rule));
        let differs = difference(node, resource, quantity);
        let policy = if *deletion_policy == DeletionPolicy::Retain { ", to be retained" } else { "" };
        let gone = if is_gone { "; the rule does not exist" } else { "" };
        let what = format!("{resource} is {quantity}{policy}{}{gone}", differs.clone().unwrap_or_default());
        entry(Some(rule), is_gone || differs.is_some(), what)
    });
    listed.collect()
}

/// Returns what the node has, if that is not what the ledger lists.
fn difference(node: &Node, resource: &str, listed: &str) -> Option<String> {
    let listed = listed.parse::<Quantity>().ok();
    let values = node.values(resource);
    let is_listed = |value: Option<&str>| value.and_then(|value| value.parse().ok()) == listed;
    if values.into_iter().all(is_listed) {
        return None;
    }
    let [capacity, allocatable] = values.map(|value| value.unwrap_or("absent"));
    Some(format!("; the node has capacity {capacity}, allocatable {allocatable}"))
}
