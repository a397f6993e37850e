//! The controller: its Lease and its Deployment.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;

use crate::cli::doctor::finding::{Finding, NotRun, ObjectName, Outcome};
use crate::cli::doctor::snapshot::{Account, RuleEntry, Snapshot, known};
use crate::cluster::lease::holder::{self, Kind};
use crate::model::api::{FIELD_MANAGER, ShrinkPolicy};
use crate::model::count::{NAMED, few};

const NO_DEPLOYMENT: &str = "no Deployment has the labels that the chart gives to the controller's";

const CONSEQUENCE: &str = "nothing is written, repaired or withdrawn";

fn object(lease: &Lease) -> ObjectName {
    ObjectName::of("Lease", &lease.metadata)
}

/// Finds that no controller leads, or more than one.
pub(super) fn leader(snapshot: &Snapshot) -> Outcome {
    snapshot.installed()?;
    let leases = known(&snapshot.leases)?;
    let is_live = |lease: &&Lease| !holder::remaining(lease, snapshot.now).is_zero();
    let kind = |lease: &Lease| holder::holder(lease).map(Kind::of);
    let live: Vec<_> = leases.iter().filter(is_live).filter(|lease| kind(lease).is_some()).collect();
    let led: Vec<_> = live.iter().filter(|lease| kind(lease) == Some(Kind::Controller)).collect();
    let start = "start the controller: kubectl get deployments -A -l app.kubernetes.io/name=node-resource-advertiser";
    if led.len() > 1 {
        let leases = led.iter().map(|lease| object(lease)).collect();
        let problem = "controllers of several Leases lead at once, and undo each other's changes".to_owned();
        return Ok(vec![Finding::error(leases, problem, "uninstall all but one")]);
    }
    if !led.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(lease) = live.first() {
        let name = holder::holder(lease).unwrap_or_default();
        let problem = format!("{name} holds the Lease, so that no controller writes: {CONSEQUENCE}");
        let fix = format!("wait until it ends, or delete the Lease: kubectl delete lease {}", flags(lease));
        return Ok(vec![Finding::warning(vec![object(lease)], problem, fix)]);
    }
    if leases.is_empty() {
        let missing = vec![ObjectName::new("Lease", FIELD_MANAGER)];
        let within = snapshot.namespace.as_ref().map(|namespace| format!(" in the namespace {namespace}"));
        let within = within.unwrap_or_default();
        let problem = format!("no Lease of a controller exists{within}: {CONSEQUENCE}");
        return Ok(vec![Finding::error(missing, problem, "install the controller, see docs/install.md")]);
    }
    let findings = leases.iter().map(|lease| {
        let problem = match (holder::holder(lease), holder::expiry(lease)) {
            (Some(holder), Some(expiry)) => {
                format!("no controller leads since {expiry:.0}, when {holder} stopped renewing it: {CONSEQUENCE}")
            }
            _ => format!("it has no holder, so no controller leads: {CONSEQUENCE}"),
        };
        Finding::error(vec![object(lease)], problem, start)
    });
    Ok(findings.collect())
}

fn flags(lease: &Lease) -> String {
    let ObjectName { namespace, name, .. } = object(lease);
    format!("-n {} {name}", namespace.unwrap_or_default())
}

/// Finds Deployments without enough ready replicas.
pub(super) fn replicas(snapshot: &Snapshot) -> Outcome {
    snapshot.installed()?;
    let deployments = known(&snapshot.deployments)?;
    if deployments.is_empty() {
        return Err(NotRun::Unavailable(NO_DEPLOYMENT.to_owned()));
    }
    Ok(deployments.iter().filter_map(unready).collect())
}

/// Finds controllers that may not watch pods, where a rule depends on that.
pub(super) fn pods_permission(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let depends =
        |entry: &&RuleEntry| entry.rule.as_ref().is_ok_and(|rule| rule.shrink_policy == ShrinkPolicy::WhenFree);
    let depending: Vec<_> = rules.all.iter().filter(depends).map(|entry| &*entry.name).collect();
    if depending.is_empty() {
        return Ok(Vec::new());
    }
    let accounts = known(&snapshot.accounts)?;
    if accounts.is_empty() {
        return Err(NotRun::Unavailable(NO_DEPLOYMENT.to_owned()));
    }
    let lacking = accounts.iter().filter(|account| !account.lacks.is_empty());
    let findings = lacking.map(|Account { deployment, user, lacks }| {
        let problem = format!(
            "{user} has no right to {} pods: under shrinkPolicy WhenFree ({}), no value goes down, and none appears on a node \
             that is older than its rule",
            lacks.join(" and "),
            few(&depending, NAMED, ", "),
        );
        let fix = "set rbac.pods in the chart, or grant list and watch on pods; or set shrinkPolicy: Immediate";
        Finding::error(vec![deployment.clone()], problem, fix)
    });
    Ok(findings.collect())
}

fn unready(deployment: &Deployment) -> Option<Finding> {
    let object = ObjectName::of("Deployment", &deployment.metadata);
    let command = |verb: &str, flags: &str| {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        format!("kubectl -n {namespace} {verb} deployment/{}{flags}", object.name)
    };
    // Kubernetes defaults it to 1.
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    if wanted == 0 {
        let problem = format!("it is scaled to 0: {CONSEQUENCE}");
        let fix = command("scale", " --replicas=2");
        return Some(Finding::error(vec![object], problem, fix));
    }
    let problem = format!("{ready} of {wanted} replicas are ready");
    let fix = command("describe", ", and its pods' logs");
    match ready {
        0 => Some(Finding::error(vec![object], format!("{problem}: {CONSEQUENCE}"), fix)),
        _ if ready < wanted => Some(Finding::warning(vec![object], problem, fix)),
        _ => None,
    }
}
