//! A healthy cluster, in which each trap is planted on its own.

mod guards;
mod pending;
mod traps;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::finding::{ObjectName, Severity};
use super::snapshot::{
    Account, Binding, GuardPolicies, GuardPolicy, Guards, NodeEntry, Policies, Policy, RuleEntry, Rules,
    SchedulerConfig, Snapshot, Version,
};
use super::{checks, read};
use crate::inspect::inventory::pods::{PodEntry, Pods};
use crate::inspect::overlays::overlay::NodeOverlay;
use crate::model::api;
use crate::model::node::{Interner, heartbeats};

pub(crate) const DONGLE: &str = "example.com/dongle";
const LISTED: &str = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;

fn parse<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// Returns a node on which `manager` has written these resources.
pub(crate) fn node(name: &str, amounts: &Value, ledger: Option<&str>, manager: &str) -> NodeEntry {
    let fields: BTreeMap<_, _> =
        amounts.as_object().unwrap().keys().map(|name| (format!("f:{name}"), json!({}))).collect();
    let object = json!({
        "metadata": {
            "name": name,
            "annotations": ledger.map(|ledger| json!({"noderesource.dev/advertised": ledger})),
            "managedFields": [heartbeats("k3s"), {"manager": manager, "fieldsV1": {
                "f:status": {"f:capacity": fields, "f:allocatable": fields},
            }}],
        },
        "status": {"capacity": amounts, "allocatable": amounts, "nodeInfo": {"kubeletVersion": "v1.37.1"}},
    });
    NodeEntry::new(parse(object), &mut Interner::default())
}

fn listed(name: &str, quantity: &str, manager: &str) -> NodeEntry {
    node(name, &json!({DONGLE: quantity}), Some(LISTED), manager)
}

pub(crate) fn rule(name: &str, resource: &str, quantity: Value, conditions: &[[&str; 3]]) -> RuleEntry {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|[kind, status, reason]| {
            json!({"type": kind, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    let object = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name, "generation": 1},
        "spec": {"resourceName": resource, "quantity": quantity, "allNodes": true},
        "status": {"observedGeneration": 1, "conditions": conditions},
    });
    read::rule(object).unwrap()
}

fn ready() -> RuleEntry {
    rule("dongle", DONGLE, json!(4), &[["Ready", "True", "Advertised"], ["Stalled", "False", "Advertised"]])
}

pub(crate) fn pods(requests: &[(&str, &str, &str)]) -> Vec<Arc<PodEntry>> {
    let mut pods = Pods::default();
    for (name, resource, quantity) in requests {
        pods.add(parse(json!({
            "metadata": {"namespace": "default", "name": name}, "status": {"phase": "Pending"},
            "spec": {"containers": [{"name": "a", "resources": {"requests": {*resource: quantity}}}]},
        })));
    }
    pods.finish()
}

pub(crate) fn quota(key: &str) -> ResourceQuota {
    parse(json!({"metadata": {"namespace": "team", "name": "quota"}, "spec": {"hard": {key: "8", "pods": "9"}}}))
}

fn lease<T: DeserializeOwned>(holder: &str, renewed: &str) -> T {
    parse(json!({
        "metadata": {"namespace": "system", "name": "nra"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }))
}

fn deployment<T: DeserializeOwned>(replicas: i32, ready: i32, version: &str) -> T {
    parse(json!({
        "metadata": {"namespace": "system", "name": "nra", "labels": {"app.kubernetes.io/version": version}},
        "spec": {"replicas": replicas, "selector": {}, "template": {}}, "status": {"readyReplicas": ready},
    }))
}

fn account(lacks: &[&'static str]) -> Account {
    let deployment = ObjectName::namespaced("Deployment", "system", "nra");
    Account { deployment, user: "system:serviceaccount:system:nra".to_owned(), lacks: lacks.to_vec() }
}

fn policies(warnings: &[&str], bindings: &[(&str, bool)]) -> Policies {
    let warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
    let bindings = bindings.iter().map(|(policy, denies)| Binding { policy: (*policy).to_owned(), denies: *denies });
    Policies { policies: vec![Policy { name: "policy".to_owned(), warnings }], bindings: bindings.collect() }
}

fn guard_policy(resource: &str) -> GuardPolicy {
    let pods = parse(json!({"matchLabels": {"app": "renderer"}}));
    let namespaces = parse(json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
    ]}));
    GuardPolicy { name: "guard".to_owned(), resource: Some(resource.to_owned()), pods, namespaces, warnings: vec![] }
}

/// Returns the two policies of a guard, with their bindings.
fn guards() -> Guards {
    let half = |denies| GuardPolicies {
        policies: vec![guard_policy(DONGLE)],
        bindings: vec![Binding { policy: "guard".to_owned(), denies }],
    };
    Guards { adding: half(false), rejecting: half(true) }
}

fn scheduler(text: &str) -> Vec<SchedulerConfig> {
    let config_map = ObjectName::namespaced("ConfigMap", "kube-system", "scheduler");
    vec![SchedulerConfig { config_map, text: format!("kind: KubeSchedulerConfiguration\n{text}") }]
}

/// Returns the NodeOverlay of a rule for all nodes.
fn overlay(name: &str, quantity: &str) -> NodeOverlay {
    parse(json!({
        "metadata": {
            "name": name, "annotations": {"noderesource.dev/rule": name},
            "labels": {"app.kubernetes.io/managed-by": "node-resource-advertiser"},
        },
        "spec": {"requirements": [], "capacity": {DONGLE: quantity}, "weight": 10_000},
    }))
}

fn foreign_overlay() -> NodeOverlay {
    parse(json!({"metadata": {"name": "spot"}, "spec": {"requirements": [], "priceAdjustment": "-50%"}}))
}

pub(crate) fn healthy() -> Snapshot {
    Snapshot {
        namespace: None,
        now: "2026-01-01T12:00:00Z".parse::<Timestamp>().unwrap(),
        version: Ok(Version::parse("v1.37.1").unwrap()),
        crd: Ok(Some(api::crd())),
        rules: Ok(Some(Rules::new(vec![ready()]))),
        nodes: Ok(vec![listed("node-1", "4", api::FIELD_MANAGER)]),
        waiting: Ok(pods(&[("fits", DONGLE, "4")])),
        bound: Ok(Vec::new()),
        rejected: Ok(Vec::new()),
        quotas: Ok(vec![quota("requests.example.com/dongle")]),
        classes: Ok(BTreeMap::from([("example.com/other".to_owned(), "class".to_owned())])),
        overlays: Ok(Some(vec![overlay("dongle", "4"), foreign_overlay()])),
        schedulers: Ok(scheduler("profiles: [{pluginConfig: [{name: Other, args: {}}]}]")),
        repairs: Ok(Vec::new()),
        leases: Ok(vec![lease("nra-1_0", "2026-01-01T11:59:50.000000Z")]),
        deployments: Ok(vec![deployment(2, 2, env!("CARGO_PKG_VERSION"))]),
        accounts: Ok(vec![account(&[])]),
        protection: Ok(policies(&[], &[("policy", false)])),
        confinement: Ok(policies(&[], &[("policy", true)])),
        guards: Ok(guards()),
        uncounted: Ok(Vec::new()),
    }
}

/// Runs all checks, and returns what they find: the check, the severity and the problem.
fn found(snapshot: &Snapshot) -> Vec<(&'static str, Severity, String)> {
    let mut found = Vec::new();
    for check in checks::ALL {
        for finding in (check.run)(snapshot).unwrap_or_else(|why| panic!("{}: {why}", check.name)) {
            assert!(!finding.fix.is_empty() && !finding.objects.is_empty(), "{finding:?}");
            let text = format!("{}: {}; {}", finding.objects(2), finding.problem, finding.fix);
            found.push((check.name, finding.severity, text));
        }
    }
    found
}

#[test]
fn healthy_cluster_has_no_findings() {
    assert_eq!(found(&healthy()), []);
}

/// Plants a trap in a healthy cluster: exactly this check finds it, with this text.
fn assert_found(check: &str, severity: Severity, text: &str, plant: impl FnOnce(&mut Snapshot)) {
    let mut snapshot = healthy();
    plant(&mut snapshot);
    let found = found(&snapshot);
    let [(by, how, problem)] = &found[..] else { panic!("{check}, {text}: {found:#?}") };
    assert_eq!((*by, *how), (check, severity), "{problem}");
    assert!(problem.contains(text), "{problem}\nlacks {text}");
    let outside: String = problem.split('`').step_by(2).collect();
    assert!(!outside.contains("kubectl "), "a command in no backticks may be broken over lines: {problem}");
    // Whoever is on call has the cluster, and not the repository.
    assert!(!problem.contains("deploy/") && !problem.contains("docs/"), "{problem}");
}
