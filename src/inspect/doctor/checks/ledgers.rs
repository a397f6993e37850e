//! The annotations on nodes, and what is on nodes without being in one.

use std::collections::{BTreeMap, BTreeSet};

use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Snapshot, known};
use crate::inspect::hint;
use crate::model::api::DeletionPolicy;
use crate::model::quantity::Quantity;

/// Finds ledgers that cannot be read, entries of rules that are gone, and listed values that are not there.
pub(super) fn entries(snapshot: &Snapshot) -> Outcome {
    let deleting = known(&snapshot.rules)?.iter().flat_map(|rules| rules.deleting.keys().map(String::as_str));
    let names: BTreeSet<_> = snapshot.rules()?.iter().map(|rule| &*rule.name).chain(deleting).collect();
    let mut findings = Vec::new();
    let mut gone = BTreeMap::<&str, Vec<ObjectName>>::new();
    let mut missing = BTreeMap::<&str, Vec<ObjectName>>::new();
    for node in known(&snapshot.nodes)? {
        let ledger = match &node.ledger {
            Ok(ledger) => ledger,
            Err(invalid) => {
                let problem = format!("{invalid}: the controller changes nothing on this node");
                let fix = format!("repair it, or run {}", hint::repair_ledger(&node.node.name));
                findings.push(Finding::error(vec![node.object()], problem, fix));
                continue;
            }
        };
        let mut of_gone = BTreeSet::new();
        for (resource, entry) in ledger.entries() {
            // Pods keep what leaves when it is unused, for as long as they want.
            if !names.contains(&*entry.rule) && entry.deletion_policy != DeletionPolicy::WhenUnused {
                of_gone.insert(&*entry.rule);
            }
            let has = |value: &Option<Quantity>| value.is_some_and(|value| !value.is_zero());
            if !node.values(resource).iter().any(has) {
                missing.entry(resource).or_default().push(node.object());
            }
        }
        of_gone.into_iter().for_each(|rule| gone.entry(rule).or_default().push(node.object()));
    }
    findings.extend(missing.into_iter().map(|(resource, nodes)| {
        let problem = format!("{resource} is listed in the annotation, and the node has none of it");
        Finding::error(nodes, problem, "a controller repairs this at once: see that one runs and leads")
    }));
    findings.extend(gone.into_iter().map(|(rule, nodes)| {
        let problem = format!("the annotation lists values of rule {rule}, which does not exist");
        let names: Vec<_> = nodes.iter().map(|node| &node.name).collect();
        let fix = format!(
            "a controller withdraws them, or lets them stay where the entry says Retain, after five minutes if most \
             rules are gone: see that one runs and leads; or run {}",
            hint::withdraw_rule(rule, &hint::node_flags(&names))
        );
        Finding::warning(nodes, problem, fix)
    }));
    Ok(findings)
}

/// Finds zeros that something has left.
pub(super) fn zeros(snapshot: &Snapshot) -> Outcome {
    // An invalid rule may select any node.
    let rules = snapshot.rules()?;
    let invalid: BTreeSet<_> =
        rules.iter().filter(|rule| rule.rule.is_err()).filter_map(|rule| rule.resource.as_deref()).collect();
    // With DRA, the scheduler and the kubelet ignore it.
    let has_class = |resource: &str| snapshot.classes.as_ref().is_ok_and(|classes| classes.contains_key(resource));
    let set = known(&snapshot.rules)?.as_ref().map(|rules| &rules.set);
    let mut zeros = BTreeMap::<&str, Vec<ObjectName>>::new();
    for node in known(&snapshot.nodes)? {
        // What an annotation that cannot be read lists is unknown.
        let Ok(ledger) = &node.ledger else { continue };
        let declaring = set.map(|set| set.declaring(&node.node)).unwrap_or_default();
        let declared: BTreeSet<_> = declaring.iter().map(|rule| rule.resource.as_str()).collect();
        let left = node.node.zeros().filter(|resource| {
            let is_declared = declared.contains(resource) || invalid.contains(resource) || has_class(resource);
            ledger.get(resource).is_none() && !is_declared
        });
        left.for_each(|resource| zeros.entry(resource).or_default().push(node.object()));
    }
    let findings = zeros.into_iter().map(|(resource, nodes)| {
        let problem = format!(
            "{resource} is 0, and nothing declares it: a device plugin that is gone probably left it, and pods that \
             request it are rejected"
        );
        let names: Vec<_> = nodes.iter().map(|node| &node.name).collect();
        let flags = hint::node_flags(&names);
        let scope = if flags.is_empty() { "on all nodes" } else { "there" };
        let fix = format!("run {}, which removes all unrecorded zeros {scope}", hint::remove_zeros(&flags));
        Finding::warning(nodes, problem, fix)
    });
    Ok(findings.collect())
}
