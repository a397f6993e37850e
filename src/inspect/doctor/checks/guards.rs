//! Guards, and the pods that they select.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{GuardPolicies, GuardPolicy, Guards, Snapshot, known};
use crate::inspect::hint;
use crate::model::pod::NodeRequests;
use crate::model::quantity::Quantity;
use crate::planner::overlap::Overlap;
use crate::planner::selector::Selection;

const ADDING: &str = "MutatingAdmissionPolicy";
const REJECTING: &str = "ValidatingAdmissionPolicy";

/// Finds guards that are not in force, or that count what no node can have.
pub(super) fn guards(snapshot: &Snapshot) -> Outcome {
    let guards = known(&snapshot.guards)?;
    let again = "print it again with guard, and apply it";
    let mut findings = Vec::new();
    for (kind, half) in [(ADDING, &guards.adding), (REJECTING, &guards.rejecting)] {
        for policy in &half.policies {
            let object = || vec![ObjectName::new(kind, &*policy.name)];
            let bindings: Vec<_> = half.bindings.iter().filter(|binding| binding.policy == policy.name).collect();
            if bindings.is_empty() {
                let problem = "it has no binding, so it is not in force".to_owned();
                findings.push(Finding::error(object(), problem, again));
            } else if kind == REJECTING && !bindings.iter().any(|binding| binding.denies) {
                let problem = "no binding of it has the action Deny: it only reports".to_owned();
                findings.push(Finding::warning(object(), problem, "set validationActions of the binding to [Deny]"));
            }
            if let Some(warning) = policy.warnings.first() {
                let problem = format!("its expressions do not fit the objects that they check: {warning}");
                findings.push(Finding::error(object(), problem, again));
            }
        }
    }
    findings.extend(guards.adding.policies.iter().filter_map(|adding| unlike(adding, &guards.rejecting, again)));
    findings.extend(half_deleted(guards, again));
    findings.extend(overlapping(&guards.adding.policies));
    let rules = snapshot.rules()?;
    for guard in guards.each() {
        let object = vec![ObjectName::new(kind_of(guards, guard), &*guard.name)];
        let Some(resource) = guard.resource.as_deref() else {
            let problem = "its annotation with the resource is missing, so it cannot be checked".to_owned();
            findings.push(Finding::warning(object, problem, again));
            continue;
        };
        if !rules.iter().any(|rule| rule.resource.as_deref() == Some(resource)) {
            let problem = format!("its pods request {resource}, which no rule declares, so they stay Pending");
            findings.push(Finding::error(
                object,
                problem,
                "create the rule, or delete the guard's policies and bindings",
            ));
        }
    }
    Ok(findings)
}

fn kind_of(guards: &Guards, guard: &GuardPolicy) -> &'static str {
    let rejects = guards.rejecting.policies.iter().any(|policy| policy.name == guard.name);
    if rejects { REJECTING } else { ADDING }
}

/// Finds that the policy that rejects is missing, or selects other pods.
fn unlike(adding: &GuardPolicy, rejecting: &GuardPolicies, fix: &str) -> Option<Finding> {
    let object = vec![ObjectName::new(ADDING, &*adding.name)];
    let Some(other) = rejecting.policies.iter().find(|policy| policy.name == adding.name) else {
        let problem = format!("there is no {REJECTING} of its name, so that pods can get around the count");
        return Some(Finding::warning(object, problem, fix));
    };
    let differs = [
        (adding.resource != other.resource, "count another resource"),
        (adding.pods != other.pods, "select pods by other labels"),
        (adding.namespaces != other.namespaces, "select other namespaces"),
    ];
    let (_, what) = differs.into_iter().find(|(differs, _)| *differs)?;
    Some(Finding::error(object, format!("it and the {REJECTING} of its name {what}"), fix))
}

/// Finds guards whose policy that adds the request has been deleted without its binding. One that never had it is complete:
/// templates state the request.
fn half_deleted(guards: &Guards, fix: &str) -> Vec<Finding> {
    let adding = &guards.adding;
    let is_present = |name: &str| adding.policies.iter().any(|policy| policy.name == name);
    let missing = guards.rejecting.policies.iter().filter(|policy| {
        let is_bound = adding.bindings.iter().any(|binding| binding.policy == policy.name);
        is_bound && !is_present(&policy.name)
    });
    let finding = |policy: &GuardPolicy| {
        let problem = format!("the {ADDING} of its name is gone, so that pods without the request are rejected");
        Finding::error(vec![ObjectName::new(REJECTING, &*policy.name)], problem, fix)
    };
    missing.map(finding).collect()
}

/// Finds guards of one resource that can select the same pod. Whichever is called first adds its request, and the other one
/// leaves that alone.
fn overlapping(policies: &[GuardPolicy]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, one) in policies.iter().enumerate() {
        let others = policies[place + 1..].iter().filter(|other| {
            let counts_same = one.resource.is_some() && one.resource == other.resource;
            counts_same && can_overlap(&one.pods, &other.pods) && can_overlap(&one.namespaces, &other.namespaces)
        });
        findings.extend(others.map(|other| {
            let objects = [one, other].map(|policy| ObjectName::new(ADDING, &*policy.name));
            let problem = "they can select the same pod, which then counts what either of them adds".to_owned();
            let fix = "let their labels exclude each other, such as size=large and size!=large";
            Finding::warning(objects.into(), problem, fix)
        }));
    }
    findings
}

fn can_overlap(one: &LabelSelector, other: &LabelSelector) -> bool {
    let [one, other] = [one, other].map(|selector| Selection::new(Some(selector), None, None));
    // Without requirements, or with more of them than a rule may have, nothing excludes the other.
    one.ok().zip(other.ok()).is_none_or(|(one, other)| one.overlap(&other) != Overlap::Never)
}

/// Finds pods that a guard selects and that do not count.
pub(super) fn uncounted(snapshot: &Snapshot) -> Outcome {
    let guards = known(&snapshot.guards)?;
    let mut pods = BTreeMap::<(&str, &str), Vec<ObjectName>>::new();
    for uncounted in known(&snapshot.uncounted)? {
        pods.entry((&uncounted.resource, &uncounted.guard)).or_default().push(uncounted.pod.clone());
    }
    let findings = pods.into_iter().map(|((resource, guard), pods)| {
        let problem = format!("guard {guard} selects it, and it requests no {resource}: it is not counted");
        // Without a policy that adds the request, the new pod would be rejected.
        let fix = if guards.adding.policies.iter().any(|policy| policy.name == guard) {
            "delete the pod, so that its controller creates it anew: a guard changes no pod that exists"
        } else {
            "state the request in its template, which replaces it; delete the pod only if Kyverno adds the request"
        };
        Finding::warning(pods, problem, fix)
    });
    Ok(findings.collect())
}

/// Finds nodes whose pods request more than the node has. Where a value that should be there is missing, other checks find
/// that.
pub(super) fn overcommitted(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let mut requests = BTreeMap::<&str, NodeRequests>::new();
    for pod in known(&snapshot.bound)? {
        if let Some(node) = &pod.node {
            requests.entry(&node.0).or_default().add(&pod.all_requests(), pod.has_started);
        }
    }
    let mut excess = BTreeMap::<&str, Vec<(ObjectName, Quantity, Quantity)>>::new();
    let declared: Vec<_> = rules.all.iter().filter_map(|entry| entry.rule.as_ref().ok()).collect();
    for node in known(&snapshot.nodes)? {
        let Some(requests) = requests.get(&*node.node.name) else { continue };
        for (resource, requested) in requests.bound.iter() {
            let [_, allocatable] = node.values(resource);
            let allocatable = allocatable.unwrap_or_default();
            let is_declared = declared.iter().any(|rule| rule.resource.as_str() == resource);
            let is_recorded = node.ledger.as_ref().is_ok_and(|ledger| ledger.get(resource).is_some());
            let is_due = || rules.deciding(&node.node).iter().any(|rule| rule.resource.as_str() == resource);
            let is_missing = allocatable.is_zero() && (is_recorded || is_due());
            if (is_declared || is_recorded) && requested > allocatable && !is_missing {
                excess.entry(resource).or_default().push((node.object(), requested, allocatable));
            }
        }
    }
    let findings = excess.into_iter().map(|(resource, nodes)| {
        let most = nodes.iter().max_by_key(|(_, requested, allocatable)| requested.saturating_sub(*allocatable));
        let most = most.map(|(node, requested, allocatable)| format!(": {requested} of {allocatable} on {node}"));
        let problem = format!("its pods request more {resource} than it has{}", most.unwrap_or_default());
        let nodes = nodes.into_iter().map(|(node, ..)| node).collect();
        let fix = format!(
            "see the pods with {}: one may name its node, or the value has gone down; a kubelet that restarts may reject \
             pods",
            hint::command(&format!("resource {resource}"))
        );
        Finding::warning(nodes, problem, fix)
    });
    Ok(findings.collect())
}
