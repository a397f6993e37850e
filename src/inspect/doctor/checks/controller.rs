//! The controller: its Lease and its Deployment.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;

use super::rules;
use crate::election::holder::{self, Kind};
use crate::inspect::doctor::finding::{Finding, NotRun, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Account, RuleEntry, Snapshot, known};
use crate::inspect::hint;
use crate::model::api::{DeletionPolicy, FIELD_MANAGER, ShrinkPolicy};
use crate::model::count::{NAMED, few};
use crate::model::ledger::Ledger;

const NO_DEPLOYMENT: &str = "no Deployment has the labels that the chart gives to the controller's";

const CONSEQUENCE: &str = "nothing is written, repaired or withdrawn";

fn object(lease: &Lease) -> ObjectName {
    ObjectName::of("Lease", &lease.metadata)
}

fn kind(lease: &Lease) -> Option<Kind> {
    holder::holder(lease).map(Kind::of)
}

/// Returns the Leases with a holder that have not expired.
fn live(snapshot: &Snapshot) -> Result<Vec<&Lease>, NotRun> {
    let is_live = |lease: &&Lease| kind(lease).is_some() && holder::is_live(lease, snapshot.now);
    Ok(known(&snapshot.leases)?.iter().filter(is_live).collect())
}

/// Returns whether a controller leads, if that can be seen. One namespace without a Lease is probably not the
/// controller's.
pub(super) fn leads(snapshot: &Snapshot) -> Option<bool> {
    if snapshot.namespace.is_some() && snapshot.leases.as_ref().is_ok_and(Vec::is_empty) {
        return None;
    }
    Some(live(snapshot).ok()?.into_iter().any(|lease| kind(lease) == Some(Kind::Controller)))
}

/// Finds that no controller leads, or more than one.
pub(super) fn leader(snapshot: &Snapshot) -> Outcome {
    snapshot.installed()?;
    let leases = known(&snapshot.leases)?;
    let live = live(snapshot)?;
    let led: Vec<_> = live.iter().filter(|lease| kind(lease) == Some(Kind::Controller)).collect();
    let deployments = hint::kubectl("get deployments -A -l app.kubernetes.io/name=node-resource-advertiser");
    let start = format!("start the controller: {deployments}");
    if led.len() > 1 {
        let leases = led.iter().map(|lease| object(lease)).collect();
        let problem = "controllers of several Leases lead at once, and undo each other's changes".to_owned();
        return Ok(vec![Finding::error(leases, problem, "uninstall all but one")]);
    }
    if !led.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(lease) = live.first() {
        return Ok(vec![held(lease, snapshot)?]);
    }
    if leases.is_empty() {
        return Ok(vec![without_lease(snapshot)]);
    }
    let findings = leases.iter().map(|lease| {
        let problem = match (holder::holder(lease), holder::expiry(lease)) {
            (Some(holder), Some(expiry)) if expiry > snapshot.now => {
                format!("{holder} has written a renewal in the future, until {expiry:.0}, which is none: {CONSEQUENCE}")
            }
            (Some(holder), None) => {
                format!("{holder} has written no time of a renewal that can be read: {CONSEQUENCE}")
            }
            (Some(holder), Some(expiry)) => {
                format!("no controller leads since {expiry:.0}, when {holder} stopped renewing it: {CONSEQUENCE}")
            }
            _ => format!("it has no holder, so no controller leads: {CONSEQUENCE}"),
        };
        Finding::error(vec![object(lease)], problem, &*start)
    });
    Ok(findings.collect())
}

/// Another program holds the Lease. Nothing is wrong as long as nothing is to be done.
fn held(lease: &Lease, snapshot: &Snapshot) -> Result<Finding, NotRun> {
    let name = holder::holder(lease).unwrap_or_default();
    let problem = format!("{name} holds the Lease, so that no controller writes: {CONSEQUENCE}");
    // A running one takes seconds.
    if kind(lease) == Some(Kind::Prune) {
        return Ok(Finding::warning(vec![object(lease)], problem, "wait until it ends"));
    }
    let delete = hint::kubectl(&format!("delete lease {}", flags(lease)));
    let fix = format!("wait until it expires, or delete the Lease: {delete}");
    let unseen: Vec<_> =
        snapshot.rules()?.iter().filter(|rule| rules::is_unseen(rule)).map(|rule| &*rule.name).collect();
    if unseen.is_empty() {
        return Ok(Finding::warning(vec![object(lease)], problem, fix));
    }
    let waiting = format!("{problem}, and no controller has seen the last edit of {}", few(&unseen, NAMED, ", "));
    Ok(Finding::error(vec![object(lease)], waiting, fix))
}

/// No controller has ever led, where it was looked for.
fn without_lease(snapshot: &Snapshot) -> Finding {
    let missing = vec![ObjectName::new("Lease", FIELD_MANAGER)];
    if let Some(namespace) = &snapshot.namespace {
        let problem = format!("no Lease of a controller is in the namespace {namespace}; others were not looked at");
        return Finding::error(
            missing,
            problem,
            "name the controller's namespace, or leave out --controller-namespace",
        );
    }
    let problem = format!("no Lease of a controller exists: {CONSEQUENCE}");
    let fix = match snapshot.deployments.as_deref().unwrap_or_default() {
        [] => format!("install the controller {}", by_release()),
        [deployment, ..] => describe(&ObjectName::of("Deployment", &deployment.metadata)),
    };
    Finding::error(missing, problem, fix)
}

/// Returns how to install what a release has.
pub(super) fn by_release() -> String {
    format!("with Helm, or {} of the release", hint::kubectl("apply -f install.yaml"))
}

/// Returns how to see why a Deployment does not run.
fn describe(object: &ObjectName) -> String {
    format!("{}, and its pods' logs", command(object, "describe", ""))
}

fn command(object: &ObjectName, verb: &str, flags: &str) -> String {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    hint::kubectl(&format!("-n {namespace} {verb} deployment/{}{flags}", object.name))
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

/// Finds controllers that may not watch pods, where a rule depends on that, or a value of one that may be gone.
pub(super) fn pods_permission(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let leaves = |policy: DeletionPolicy| policy == DeletionPolicy::WhenUnused;
    let depends = |entry: &&RuleEntry| {
        let rule = entry.rule.as_ref();
        rule.is_ok_and(|rule| rule.shrink_policy == ShrinkPolicy::WhenFree || leaves(rule.deletion_policy))
    };
    let declared = rules.all.iter().filter(depends).map(|entry| &*entry.name);
    let ledgers = snapshot.nodes.iter().flatten().filter_map(|node| node.ledger.as_ref().ok());
    let recorded = ledgers.flat_map(Ledger::entries).filter(|(_, entry)| leaves(entry.deletion_policy));
    let depending: BTreeSet<_> = declared.chain(recorded.map(|(_, entry)| &*entry.rule)).collect();
    let depending: Vec<_> = depending.into_iter().collect();
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
            "{user} lacks permission to {} pods, which shrinkPolicy WhenFree and deletionPolicy WhenUnused need ({}): \
             no value goes down or leaves, and none appears on a node that is older than its rule",
            lacks.join(" and "),
            few(&depending, NAMED, ", "),
        );
        let fix = "set rbac.pods in the chart, or grant list and watch on pods; or use neither policy";
        Finding::error(vec![deployment.clone()], problem, fix)
    });
    Ok(findings.collect())
}

fn unready(deployment: &Deployment) -> Option<Finding> {
    let object = ObjectName::of("Deployment", &deployment.metadata);
    // Kubernetes defaults it to 1.
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    if wanted == 0 {
        let problem = format!("it is scaled to 0: {CONSEQUENCE}");
        let fix = command(&object, "scale", " --replicas=2");
        return Some(Finding::error(vec![object], problem, fix));
    }
    let problem = format!("{ready} of {wanted} replicas are ready");
    let fix = describe(&object);
    match ready {
        0 => Some(Finding::error(vec![object], format!("{problem}: {CONSEQUENCE}"), fix)),
        _ if ready < wanted => Some(Finding::warning(vec![object], problem, fix)),
        _ => None,
    }
}
