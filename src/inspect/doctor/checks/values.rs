//! Values that rules declare, and that nodes do not have. It goes by the nodes and trusts no status: nobody may maintain it.

use std::collections::BTreeMap;

use super::controller;
use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{NodeEntry, RuleEntry, Snapshot, known};
use crate::inspect::hint;
use crate::model::api::Reason;
use crate::model::count::plural;

/// Finds values that a rule declares on nodes that have none of it, and whose annotation does not record it: what is recorded
/// and missing, `ledger` finds.
pub(super) fn missing(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let nodes = known(&snapshot.nodes)?;
    let mut missing = BTreeMap::<(&str, &str), Vec<ObjectName>>::new();
    for node in nodes {
        // Nothing on such a node changes, which `ledger` finds.
        let Ok(ledger) = &node.ledger else { continue };
        for rule in rules.deciding(&node.node) {
            let resource = rule.resource.as_str();
            // A paused rule adds nothing.
            let is_declared = !rule.paused && rule.quantity.known_on(&node.node).is_some();
            if is_declared && !has(node, resource) && ledger.get(resource).is_none() {
                missing.entry((&rule.name, resource)).or_default().push(node.object());
            }
        }
    }
    let leads = controller::leads(snapshot);
    let explained = |name: &str| rules.all.iter().any(|entry| *entry.name == *name && is_explained(entry));
    // A controller that leads says why, or is about to write the value.
    missing.retain(|(rule, _), _| leads != Some(true) || !explained(rule));
    Ok(missing.into_iter().map(|((rule, resource), nodes)| finding(rule, resource, nodes, leads)).collect())
}

fn has(node: &NodeEntry, resource: &str) -> bool {
    node.values(resource).iter().all(|value| value.is_some_and(|value| !value.is_zero()))
}

/// Returns whether a rule's status, as of its last edit, says that nodes lack something.
fn is_explained(entry: &RuleEntry) -> bool {
    let is_current = entry.status.observed_generation == entry.generation;
    let mut conditions = entry.status.conditions.iter();
    let is_fine = conditions.any(|condition| {
        condition.type_ == "Ready" && (condition.status == "True" && condition.reason != Reason::Overridden.as_str())
    });
    !(is_current && is_fine)
}

fn finding(rule: &str, resource: &str, nodes: Vec<ObjectName>, leads: Option<bool>) -> Finding {
    let count = plural(nodes.len(), "node that does not have it", "nodes that do not have it");
    let problem = format!("rule {rule} declares {resource} on {count}");
    let again = hint::command("doctor");
    match leads {
        Some(false) => {
            // A prune may hold the Lease, which a controller that starts waits for.
            let fix = "start the controller, or do what the check leader says of its Lease";
            Finding::error(nodes, format!("{problem}, and no controller leads"), fix)
        }
        Some(true) => {
            let fix = format!("run {again} again, since the controller may be about to write it; then see its log");
            Finding::warning(nodes, format!("{problem}, and its status says that all have it"), fix)
        }
        None => {
            let fix = format!("see that a controller runs and leads, and run {again} again");
            Finding::warning(nodes, format!("{problem}; whether a controller leads is unknown"), fix)
        }
    }
}
