//! The ledger: what the controller advertises now, and for which rule.

use super::entry::{Entry, Source, When};
use super::field_owners;
use super::records::{NodeRecord, RuleObject};
use super::scope::Scope;
use crate::model::api::DeletionPolicy;
use crate::model::ledger::{self, Ledger};
use crate::model::node::Node;
use crate::model::quantity::Quantity;

/// Returns an entry for each resource in the ledger, or one that says why it cannot be read.
pub(super) fn entries(scope: &Scope, record: &NodeRecord, rules: Option<&[RuleObject]>) -> Vec<Entry> {
    let NodeRecord { node, object } = record;
    let annotation = format!("f:{}", ledger::ANNOTATION);
    let who = field_owners::of_field(&object.metadata, &["f:metadata", "f:annotations", &annotation]);
    let entry = |rule: Option<&str>, is_warning: bool, what: String| Entry {
        when: When::Now,
        source: Source::Ledger,
        nodes: Vec::new(),
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
    let recorded = ledger.entries().filter(|(resource, entry)| scope.has_rule(&entry.rule, Some(resource)));
    let recorded = recorded.map(|(resource, recorded)| {
        let ledger::Entry { quantity, rule, deletion_policy, .. } = recorded;
        let is_gone = rules.is_some_and(|rules| rules.iter().all(|object| *object.name != **rule));
        let differs = difference(node, resource, quantity);
        let policy = match deletion_policy {
            DeletionPolicy::Withdraw => "",
            DeletionPolicy::WhenUnused => ", to leave when it is unused",
            DeletionPolicy::Retain => ", to be retained",
        };
        let gone = if is_gone { "; the rule does not exist" } else { "" };
        let what = format!("{resource} is {quantity}{policy}{}{gone}", differs.clone().unwrap_or_default());
        entry(Some(rule), is_gone || differs.is_some(), what)
    });
    recorded.collect()
}

/// Returns what the node has, if that is not what the ledger records.
fn difference(node: &Node, resource: &str, recorded: &str) -> Option<String> {
    let recorded = recorded.parse::<Quantity>().ok();
    let values = node.values(resource);
    let is_recorded = |value: Option<&str>| value.and_then(|value| value.parse().ok()) == recorded;
    if values.into_iter().all(is_recorded) {
        return None;
    }
    let [capacity, allocatable] = values.map(|value| value.unwrap_or("absent"));
    Some(format!("; the node has capacity {capacity}, allocatable {allocatable}"))
}
