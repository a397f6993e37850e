//! Others that write the values of rules.

use std::collections::BTreeMap;

use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{NodeEntry, Repair, Snapshot, known};
use crate::model::node::FieldManager;
use crate::model::quantity::Quantity;
use crate::planner::rules::Rule;

/// A value of a rule that another field manager has written.
struct Foreign<'s> {
    node: &'s NodeEntry,
    rule: &'s Rule,
    /// What the node has, if that is not as declared.
    instead: Option<Quantity>,
}

/// Finds field managers that write what rules declare, where they do.
pub(super) fn check(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let mut foreign = BTreeMap::<(&str, &str, bool), (&FieldManager, Vec<Foreign<'_>>)>::new();
    for node in known(&snapshot.nodes)? {
        for rule in rules.deciding(&node.node) {
            if let Some((manager, found)) = find(node, rule) {
                let key = (rule.resource.as_str(), &**manager.name(), found.instead.is_some());
                foreign.entry(key).or_insert_with(|| (manager, Vec::new())).1.push(found);
            }
        }
    }
    let findings = foreign.into_iter().filter_map(|((resource, ..), (manager, found))| {
        let nodes = found.iter().map(|found| found.node.object()).collect();
        let Foreign { node, rule, instead } = found.first()?;
        let fix = fix(manager, rule);
        Some(match instead {
            Some(instead) => {
                let problem = format!(
                    "{manager} writes {resource}: {} has {instead}, and rule {} declares {}",
                    node.node.name, rule.name, rule.quantity
                );
                Finding::error(nodes, problem, fix)
            }
            None => {
                let problem =
                    format!("{manager} has written {resource} too, with the value that rule {} declares", rule.name);
                Finding::warning(nodes, problem, fix)
            }
        })
    });
    Ok(findings.collect())
}

/// Returns the other manager of a rule's value on a node, if there is one.
fn find<'s>(node: &'s NodeEntry, rule: &'s Rule) -> Option<(&'s FieldManager, Foreign<'s>)> {
    let resource = rule.resource.as_str();
    let manager = node.node.other_manager(resource)?;
    let listed = node.ledger.as_ref().ok().and_then(|ledger| ledger.get(resource)?.quantity.parse().ok());
    let values = node.values(resource);
    let is = |wanted: Quantity| values == [Some(wanted); 2];
    // A value is higher than declared while pods use it; the annotation lists it then.
    let is_declared = rule.quantity.known_on(&node.node).is_some_and(is) || listed.is_some_and(is);
    let found = values.into_iter().flatten().max().unwrap_or_default();
    // managedFields also name the kubelet for a value that the policy has kept, and for a zero, which is no value; and
    // whoever wrote a value once, before the controller took it over.
    let is_harmless = match manager.is_kubelet() {
        true => is_declared || found.is_zero(),
        false => is_declared && listed.is_some() && !is_nfd(manager),
    };
    if is_harmless {
        return None;
    }
    Some((manager, Foreign { node, rule, instead: (!is_declared).then_some(found) }))
}

/// Returns whether this is Node Feature Discovery, which writes again and again.
fn is_nfd(manager: &FieldManager) -> bool {
    manager.name().starts_with("nfd")
}

fn fix(manager: &FieldManager, rule: &Rule) -> String {
    let Rule { name, .. } = rule;
    if manager.is_kubelet() {
        return format!(
            "a device plugin probably provides it: exclude these nodes from rule {name}, or rename its resource"
        );
    }
    let stop = match is_nfd(manager) {
        true => "remove it from the extendedResources of Node Feature Discovery's rules".to_owned(),
        false => format!("stop {manager}"),
    };
    format!("{stop}, or exclude these nodes from rule {name}; conflictPolicy: Overwrite takes over what stays")
}

/// Finds kubelets that have reset values that a rule declares.
pub(super) fn resets(snapshot: &Snapshot) -> Outcome {
    let mut resets = BTreeMap::<&str, BTreeMap<&str, usize>>::new();
    let kubelets: BTreeMap<_, _> =
        known(&snapshot.nodes)?.iter().map(|node| (&*node.node.name, &node.kubelets)).collect();
    let is_of_kubelet = |repair: &&Repair| {
        kubelets.get(&*repair.node).is_some_and(|kubelets| kubelets.iter().any(|name| **name == *repair.manager))
    };
    for reset in known(&snapshot.repairs)?.iter().filter(is_of_kubelet) {
        *resets.entry(&reset.resource).or_default().entry(&reset.node).or_default() += 1;
    }
    let findings = resets.into_iter().map(|(resource, nodes)| {
        let most = nodes.values().max().copied().unwrap_or_default();
        let times = match most {
            0 | 1 => String::new(),
            _ => format!(", on one node {most} times"),
        };
        let problem = format!(
            "the kubelet has reset {resource} to 0 within the last hour{times}, as Events report: pods that start \
             or run may be rejected"
        );
        let fix = "install the policy for reboots (helm upgrade with protect.enabled=true, Kubernetes 1.36 and later); if its kubelet \
                   does so at every restart, upgrade the kubelet";
        Finding::warning(nodes.into_keys().map(|node| ObjectName::new("Node", node)).collect(), problem, fix)
    });
    Ok(findings.collect())
}
