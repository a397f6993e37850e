//! The admission policies of the chart.

use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Binding, Policies, Policy, Snapshot, known};
use crate::model::api::FIELD_MANAGER;

/// Finds that no policy keeps values across reboots.
pub(super) fn protection(snapshot: &Snapshot) -> Outcome {
    snapshot.installed()?;
    let policies = known(&snapshot.protection)?;
    if policies.policies.is_empty() && is_expected_elsewhere(snapshot) {
        return Ok(Vec::new());
    }
    let fix = "helm upgrade with protect.enabled=true, or apply protect.yaml of the release";
    let consequence = "a node that reboots may lose its values for a moment, and pods with them";
    Ok(check(
        policies,
        ["MutatingAdmissionPolicy", "node-resource-advertiser-protect"],
        "keeps values across reboots",
        consequence,
        fix,
    ))
}

/// Returns whether a controller expects no policy in the API: a file has it, or nothing (`--protection`).
fn is_expected_elsewhere(snapshot: &Snapshot) -> bool {
    let specs =
        snapshot.deployments.iter().flatten().filter_map(|deployment| deployment.spec.as_ref()?.template.spec.as_ref());
    let variables = specs.flat_map(|spec| &spec.containers).flat_map(|container| container.env.iter().flatten());
    let mut protection = variables.filter(|variable| variable.name == "NRA_PROTECTION");
    protection.any(|variable| matches!(variable.value.as_deref(), Some("static" | "none")))
}

/// Finds that no policy confines the controller.
pub(super) fn confinement(snapshot: &Snapshot) -> Outcome {
    snapshot.installed()?;
    let policies = known(&snapshot.confinement)?;
    let fix = "helm upgrade with policy.enabled=true, or apply install.yaml of the release again";
    let consequence = "its permission to patch nodes/status lets it change nearly everything on a node";
    let kind = "ValidatingAdmissionPolicy";
    let mut findings = check(policies, [kind, FIELD_MANAGER], "confines the controller", consequence, fix);
    for policy in &policies.policies {
        let object = || vec![ObjectName::new(kind, &*policy.name)];
        if policies.is_bound(policy) && !policies.bindings_of(policy).any(|binding| binding.denies) {
            let problem = "no binding of it has the action Deny: it only reports".to_owned();
            findings.push(Finding::warning(object(), problem, "set policy.validationActions to [Deny]"));
        }
        if let Some(warning) = policy.warnings.first() {
            let problem = format!("its expressions do not fit the objects that they check: {warning}");
            findings.push(Finding::error(object(), problem, fix));
        }
    }
    Ok(findings)
}

/// Finds that there is no policy, or no binding of one.
fn check(
    policies: &Policies,
    [kind, name]: [&'static str; 2],
    does: &str,
    consequence: &str,
    fix: &str,
) -> Vec<Finding> {
    if policies.policies.is_empty() {
        let problem = format!("no policy in the API {does}: {consequence}, unless an API server has one in a file");
        return vec![Finding::warning(vec![ObjectName::new(kind, name)], problem, fix)];
    }
    let unbound = policies.policies.iter().filter(|policy| !policies.is_bound(policy));
    let findings = unbound.map(|policy| {
        let problem = format!("it has no binding, so it is not in force: {consequence}");
        Finding::error(vec![ObjectName::new(kind, &*policy.name)], problem, fix)
    });
    findings.collect()
}

impl Policies {
    fn bindings_of(&self, policy: &Policy) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(|binding| binding.policy == policy.name)
    }

    fn is_bound(&self, policy: &Policy) -> bool {
        self.bindings_of(policy).next().is_some()
    }
}
