//! Pods that no node can take.

use std::collections::{BTreeMap, BTreeSet};

use crate::inspect::doctor::finding::{Finding, NotRun, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Snapshot, known};
use crate::inspect::hint;
use crate::inspect::inventory::pods::PodEntry;
use crate::model::quantity::Quantity;
use crate::model::spelling::closest_resource;

/// The pods without a node that request a resource, each with its request, by resource.
type Waiting<'s> = BTreeMap<&'s str, Vec<(&'s PodEntry, Quantity)>>;

/// Returns what waits for resources that no DeviceClass maps: DRA may have any amount.
fn waiting(snapshot: &Snapshot) -> Result<Waiting<'_>, NotRun> {
    let classes = known(&snapshot.classes)?;
    let mut waiting = Waiting::new();
    for pod in known(&snapshot.waiting)? {
        for (resource, quantity) in &pod.requests {
            if !classes.contains_key(&**resource) {
                waiting.entry(resource).or_default().push((pod, *quantity));
            }
        }
    }
    Ok(waiting)
}

fn object(pod: &PodEntry) -> ObjectName {
    ObjectName::namespaced("Pod", &pod.namespace, &pod.name)
}

/// Finds pods that wait for a resource that nothing provides.
pub(super) fn undeclared(snapshot: &Snapshot) -> Outcome {
    let largest = snapshot.largest()?;
    let waiting = waiting(snapshot)?.into_iter().filter(|(resource, _)| !largest.contains_key(resource));
    let nodes = known(&snapshot.nodes)?;
    // A name that a node lists as 0 is not misspelled: its device plugin is gone.
    let is_listed = |resource| nodes.iter().any(|node| node.values(resource).iter().any(Option::is_some));
    let findings = waiting.map(|(resource, pods)| {
        let pods = pods.into_iter().map(|(pod, _)| object(pod)).collect();
        let problem = format!("requests {resource}, which no node has, no rule declares and no DeviceClass maps");
        match closest_resource(resource, largest.keys().copied()).filter(|_| !is_listed(resource)) {
            Some(close) => Finding::error(pods, problem, format!("request {close}, if that is meant")),
            None => Finding::warning(
                pods,
                problem,
                format!(
                    "declare {resource} with a rule; or start the device plugin that has it, or let the autoscaler \
                     add the node"
                ),
            ),
        }
    });
    Ok(findings.collect())
}

/// Finds pods that a kubelet has rejected because a resource is missing.
pub(super) fn rejected(snapshot: &Snapshot) -> Outcome {
    let mut rejected = BTreeMap::<(&str, &str), Vec<ObjectName>>::new();
    for pod in known(&snapshot.rejected)? {
        rejected.entry((&pod.resource, &pod.node)).or_default().push(pod.object.clone());
    }
    let findings = rejected.into_iter().map(|((resource, node), pods)| {
        let problem = format!(
            "the kubelet of {node} has rejected it within the last hour: the node had less {resource} than the scheduler, \
             or whoever named the node, assumed"
        );
        let fix = format!(
            "see who changed the value: {}; install the policy for reboots if it was reset",
            hint::command(&format!("history {node}"))
        );
        Finding::warning(pods, problem, fix)
    });
    Ok(findings.collect())
}

/// Finds pods that request more than any node can have.
pub(super) fn oversized(snapshot: &Snapshot) -> Outcome {
    let largest = snapshot.largest()?;
    // A rule that is invalid may declare anything once it is corrected.
    let invalid = snapshot.rules()?.iter().filter(|rule| rule.rule.is_err());
    let invalid: BTreeSet<_> = invalid.filter_map(|rule| rule.resource.as_deref()).collect();
    let mut findings = Vec::new();
    for (resource, pods) in waiting(snapshot)?.into_iter().filter(|(resource, _)| !invalid.contains(resource)) {
        let most = match largest.get(resource) {
            Some(most) if !most.is_zero() => most,
            Some(_) => {
                let pods = pods.into_iter().map(|(pod, _)| object(pod)).collect();
                findings.extend(unallocatable(snapshot, resource, pods)?);
                continue;
            }
            None => continue,
        };
        let mut by_quantity = BTreeMap::<Quantity, Vec<ObjectName>>::new();
        for (pod, quantity) in pods.into_iter().filter(|(_, quantity)| quantity > most) {
            by_quantity.entry(quantity).or_default().push(object(pod));
        }
        for (asked, objects) in by_quantity.into_iter().rev() {
            let problem = format!(
                "requests {asked} of {resource}; no node has more than {most} of it, and no rule declares more"
            );
            findings.push(Finding::error(objects, problem, "request less in one pod, or declare more on a node"));
        }
    }
    Ok(findings)
}

/// Finds a resource that somebody has written into capacity only. A kubelet does so for devices that may become healthy
/// again.
fn unallocatable(snapshot: &Snapshot, resource: &str, pods: Vec<ObjectName>) -> Result<Option<Finding>, NotRun> {
    let mut nodes = known(&snapshot.nodes)?.iter();
    let written = nodes.find_map(|node| {
        let capacity = node.values(resource)[0].filter(|capacity| !capacity.is_zero())?;
        let manager = node.node.other_manager(resource)?.name();
        let is_kubelet = node.kubelets.iter().any(|kubelet| **kubelet == **manager);
        (!is_kubelet).then_some((&node.node.name, capacity, manager))
    });
    Ok(written.map(|(node, capacity, manager)| {
        let problem = format!(
            "requests {resource}, of which {node} has {capacity} in status.capacity, by {manager}, and nothing in \
             status.allocatable, where the scheduler looks"
        );
        Finding::warning(pods, problem, format!("let {manager} write both, or declare {resource} with a rule"))
    }))
}
