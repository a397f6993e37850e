//! The rules themselves.

use std::collections::HashSet;

use crate::inspect::doctor::finding::{Finding, FoundBy, ObjectName, Outcome, Severity};
use crate::inspect::doctor::snapshot::{RuleEntry, Snapshot, known};
use crate::inspect::hint;
use crate::model::api::Reason;
use crate::model::count::{NAMED, few, plural};
use crate::model::spelling::node_with_a_slip;

/// A merge patch that removes all finalizers.
const FINALIZERS: &str = r#"{"metadata":{"finalizers":null}}"#;

fn object(rule: &RuleEntry) -> ObjectName {
    ObjectName::new("NodeExtendedResource", &*rule.name)
}

/// Finds rules that are not as declared, as their status reports it.
pub(super) fn status(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let deleting = rules.deleting.iter().map(|(name, waits_for)| {
        let problem = format!("it is being deleted and declares nothing: it waits for {waits_for}");
        let patch = hint::kubectl(&format!("patch ner {name} --type=merge -p '{FINALIZERS}'"));
        let fix = format!("let the program whose finalizer it is finish, or remove all finalizers: {patch}");
        Finding::warning(vec![ObjectName::new("NodeExtendedResource", name)], problem, fix)
    });
    let mut findings: Vec<_> = rules.all.iter().flat_map(of_rule).chain(deleting).collect();
    // Without the nodes, their own checks are reported as not run.
    if let Ok(nodes) = &snapshot.nodes {
        let names: HashSet<_> = nodes.iter().map(|entry| &*entry.node.name).collect();
        findings.extend(rules.all.iter().filter_map(|rule| misspelled(rule, &names)));
    }
    Ok(findings)
}

/// Finds misspelled names of nodes, of a rule that selects others. One that resembles no node may be of a node that is yet
/// to come, or to come back.
fn misspelled(entry: &RuleEntry, nodes: &HashSet<&str>) -> Option<Finding> {
    let names = entry.rule.as_ref().ok()?.selection.names();
    let (present, absent): (Vec<&str>, Vec<_>) = names.map(|name| &**name).partition(|name| nodes.contains(name));
    if absent.is_empty() || present.is_empty() && !is_unseen(entry) {
        return None;
    }
    let present = present.into_iter().collect();
    let others: Vec<_> = nodes.difference(&present).copied().collect();
    let meant = absent.iter().filter_map(|name| {
        let node = node_with_a_slip(name, others.iter().copied())?;
        Some(format!("{name} (is it {node}?)"))
    });
    let meant: Vec<_> = meant.collect();
    let names = plural(meant.len(), "name that is probably misspelled", "names that are probably misspelled");
    let problem = format!("its nodeNames have {names}: {}", few(&meant, NAMED, ", "));
    (!meant.is_empty()).then(|| Finding::warning(vec![object(entry)], problem, "correct what is misspelled"))
}

/// Returns whether no controller has seen a rule as it is.
pub(super) fn is_unseen(rule: &RuleEntry) -> bool {
    rule.status.observed_generation != rule.generation
}

fn of_rule(rule: &RuleEntry) -> Vec<Finding> {
    if let Err(invalid) = &rule.rule {
        let problem = format!("it is invalid, and its values stay: {invalid}");
        return vec![Finding::error(vec![object(rule)], problem, "correct the rule, or delete it")];
    }
    if is_unseen(rule) {
        let problem = "no controller has seen it, or its last edit, yet".to_owned();
        let finding = Finding::warning(vec![object(rule)], problem, "see that a controller runs and leads");
        return vec![Finding { found_by: Some(FoundBy { check: "leader", resource: None }), ..finding }];
    }
    let conditions = rule.status.conditions.iter();
    let findings = conditions.filter_map(|condition| {
        let severity = severity(&condition.type_, &condition.status, &condition.reason)?;
        let problem =
            format!("{} is {}, {}: {}", condition.type_, condition.status, condition.reason, condition.message);
        let objects = vec![object(rule)];
        let found_by = found_by(&condition.reason, rule);
        Some(Finding { severity, objects, problem, fix: fix(&condition.reason, &rule.name), found_by })
    });
    findings.collect()
}

/// Returns what to do about a condition. Its message names the first nodes only.
fn fix(reason: &str, rule: &str) -> String {
    let describe = format!("see {}", hint::describe_rule(rule));
    match Reason::ALL.into_iter().find(|other| other.as_str() == reason).and_then(advice) {
        Some(advice) => format!("{advice}; {describe}"),
        None => describe,
    }
}

fn advice(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::NoNodesSelected => "compare what it selects with the labels of nodes",
        Reason::Overridden => "give it a higher priority if it is to decide, or leave it as it is",
        Reason::EqualPriority => "give the rule that is to decide a higher priority",
        Reason::PatchFailed => "see what rejects the patches",
        Reason::RolloutStopped => "correct what the patches fail for, which its Event RolloutStopped says",
        Reason::LedgerFull => "let fewer rules select these nodes",
        Reason::PodsUnavailable => "let the controller list and watch pods",
        Reason::Held => "wait until pods there end",
        Reason::Contested | Reason::Conflict => "do what its problems say of each node",
        Reason::Paused => "set paused: false for the values to follow the rule again",
        Reason::QuantityUnknown => {
            "set on these nodes what quantityFrom reads, or give a default in place of whenMissing"
        }
        Reason::InvalidSpec => "edit the rule as the message of Stalled asks",
        Reason::MemoryFull => "give the controller more memory",
        _ => return None,
    })
}

/// Returns the check that finds what a condition reports on the nodes themselves.
fn found_by(reason: &str, rule: &RuleEntry) -> Option<FoundBy> {
    let is = |other: Reason| other.as_str() == reason;
    let (check, resource) = match reason {
        _ if is(Reason::InvalidLedger) => ("ledger", None),
        _ if is(Reason::Conflict) || is(Reason::Contested) => {
            ("another-writer", rule.resource.as_ref().map(ToString::to_string))
        }
        _ if is(Reason::PodsUnavailable) => ("pods-permission", None),
        _ => return None,
    };
    Some(FoundBy { check, resource })
}

/// Returns how bad a condition is, if it is.
fn severity(kind: &str, status: &str, reason: &str) -> Option<Severity> {
    let is = |reasons: &[Reason]| reasons.iter().any(|other| other.as_str() == reason);
    match (kind, status) {
        // Work in progress; and what an administrator has decided.
        ("Ready", "False") if is(&[Reason::Progressing]) => None,
        ("Ready", "False") if is(&[Reason::Held, Reason::Paused]) => Some(Severity::Warning),
        ("Ready", "False") | ("Stalled", "True") => Some(Severity::Error),
        ("Ready", "True") if is(&[Reason::NoNodesSelected, Reason::Overridden]) => Some(Severity::Warning),
        ("Overlapping", "True") if is(&[Reason::EqualPriority]) => Some(Severity::Warning),
        _ => None,
    }
}

/// Finds rules of resources that DRA provides too.
pub(super) fn device_classes(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let findings = known(&snapshot.classes)?.iter().filter_map(|(resource, class)| {
        let declaring = rules.all.iter().filter(|rule| rule.resource.as_ref() == Some(resource));
        let declaring: Vec<_> = declaring.map(object).collect();
        let problem = format!(
            "DeviceClass {class} maps {resource} too: where a node has the value, the scheduler does not ask DRA, and \
             pods get no device"
        );
        let fix = "delete the rule, or rename its resource";
        (!declaring.is_empty()).then(|| Finding::error(declaring, problem, fix))
    });
    Ok(findings.collect())
}
