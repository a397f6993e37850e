//! Why a pod is Pending: each cause alone, and none in a large cluster in which all is well.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::guards::bound;
use super::{
    DONGLE, LISTED, account, deployment, found, guards, healthy, lease, listed, node, overlay, pods, ready, rule,
};
use crate::inspect::doctor::report::Report;
use crate::inspect::doctor::snapshot::{RuleEntry, Rules, Snapshot};
use crate::model::api;

const LIVE: &str = "2026-01-01T11:59:59.000000Z";

/// A cause: what it is, the check that finds it, what it says, and how it is planted.
type Cause = (&'static str, &'static str, &'static str, fn(&mut Snapshot));

fn set_rules(cluster: &mut Snapshot, rules: Vec<RuleEntry>) {
    cluster.rules = Ok(Some(Rules::new(rules)));
}

fn with_status(cluster: &mut Snapshot, condition: [&str; 3]) {
    set_rules(cluster, vec![rule("dongle", DONGLE, json!(4), &[condition])]);
}

/// The node does not have the value, and no annotation records it.
fn bare(cluster: &mut Snapshot) {
    cluster.nodes = Ok(vec![node("node-1", &json!({}), None, "k3s")]);
}

fn waits(cluster: &mut Snapshot, resource: &str, quantity: &str) {
    cluster.waiting = Ok(pods(&[("waits", resource, quantity)]));
}

const OF_REQUESTS: [Cause; 4] = [
    ("a misspelled name", "undeclared-request", "request example.com/dongle, if", |it| {
        waits(it, "example.com/dongel", "1");
    }),
    ("a resource that nothing has", "undeclared-request", "declare vendor.example/gpu", |it| {
        waits(it, "vendor.example/gpu", "1");
    }),
    ("more than any node has", "oversized-request", "requests 9 of example.com/dongle", |it| waits(it, DONGLE, "9")),
    ("a device plugin that is gone", "leftover-zero", "example.com/old is 0", |it| {
        waits(it, "example.com/old", "1");
        let amounts = json!({"example.com/old": "0", DONGLE: "4"});
        it.nodes = Ok(vec![node("node-1", &amounts, Some(LISTED), api::FIELD_MANAGER)]);
    }),
];

const OF_RULES: [Cause; 6] = [
    ("an invalid rule", "rule-status", "it is invalid", |it| {
        bare(it);
        set_rules(it, vec![rule("dongle", DONGLE, json!(0), &[])]);
    }),
    ("a rule that selects no node", "rule-status", "NoNodesSelected", |it| {
        with_status(it, ["Ready", "True", "NoNodesSelected"]);
    }),
    ("a paused rule", "rule-status", "Paused", |it| {
        bare(it);
        with_status(it, ["Ready", "False", "Paused"]);
        let rules = it.rules.as_mut().unwrap().as_mut().unwrap();
        Arc::make_mut(rules.all[0].rule.as_mut().unwrap()).paused = true;
        let mut rules = std::mem::take(&mut rules.all);
        rules[0].generation = Some(1);
        it.overlays = Ok(None);
        set_rules(it, rules);
    }),
    ("a rule of higher priority", "rule-status", "Overridden", |it| with_status(it, ["Ready", "True", "Overridden"])),
    ("a rule that waits to be deleted", "rule-status", "declares nothing: it waits for", |it| {
        bare(it);
        it.overlays = Ok(None);
        it.guards = Ok(Default::default());
        it.rules = Ok(Some(Rules {
            deleting: BTreeMap::from([("dongle".to_owned(), "the finalizer a.example/b".to_owned())]),
            ..Rules::new(vec![])
        }));
    }),
    ("a DeviceClass of the same name", "device-class", "DeviceClass dra maps example.com/dongle too", |it| {
        it.classes = Ok(BTreeMap::from([(DONGLE.to_owned(), "dra".to_owned())]));
    }),
];

const OF_NODES: [Cause; 4] = [
    ("a kubelet's reset", "ledger", "the node has none of it", |it| {
        it.nodes = Ok(vec![listed("node-1", "0", "k3s")]);
    }),
    ("another writer", "another-writer", "kubectl-patch writes example.com/dongle", |it| {
        it.nodes = Ok(vec![node("node-1", &json!({DONGLE: "1"}), None, "kubectl-patch")]);
    }),
    ("an annotation that cannot be read", "ledger", "changes nothing on this node", |it| {
        it.nodes = Ok(vec![node("node-1", &json!({}), Some("{"), "k3s")]);
    }),
    ("a NodeOverlay that differs", "node-overlay", "differs from rule dongle", |it| {
        it.overlays = Ok(Some(vec![overlay("dongle", "1")]));
    }),
];

const OF_CONTROLLERS: [Cause; 6] = [
    ("no controller", "missing-value", "does not have it, and no controller leads", |it| {
        bare(it);
        it.leases = Ok(vec![]);
    }),
    ("a controller that has stopped", "leader", "when nra-1_0 stopped", |it| {
        bare(it);
        it.leases = Ok(vec![lease("nra-1_0", "2026-01-01T11:59:00.000000Z")]);
    }),
    ("a prune that has kept the Lease", "leader", "kubectl delete lease -n system nra", |it| {
        bare(it);
        it.leases = Ok(vec![lease("prune_1767268800000000000_ended", LIVE)]);
    }),
    ("a Deployment without replicas", "replicas", "scale deployment/nra --replicas=2", |it| {
        bare(it);
        it.deployments = Ok(vec![deployment(0, 0, env!("CARGO_PKG_VERSION"))]);
    }),
    ("an account without permission", "pods-permission", "lacks permission to list and watch pods", |it| {
        bare(it);
        with_status(it, ["Ready", "False", "PodsUnavailable"]);
        it.accounts = Ok(vec![account(&["list", "watch"])]);
    }),
    ("a guard of what no rule declares", "guard", "which no rule declares, so they stay Pending", |it| {
        waits(it, "example.com/slots", "1");
        let mut edited = guards();
        for half in [&mut edited.adding, &mut edited.rejecting] {
            half.policies[0].resource = Some("example.com/slots".to_owned());
        }
        it.guards = Ok(edited);
    }),
];

#[test]
fn each_of_twenty_causes_of_a_pending_pod_is_found() {
    let causes: Vec<_> = [&OF_REQUESTS[..], &OF_RULES, &OF_NODES, &OF_CONTROLLERS].concat();
    assert_eq!(causes.len(), 20);
    let mut missed = Vec::new();
    for (cause, check, text, plant) in causes {
        let mut cluster = healthy();
        waits(&mut cluster, DONGLE, "4");
        plant(&mut cluster);
        // As it is reported: without what another check has found the cause of.
        let report = serde_json::to_value(Report::new(&cluster)).unwrap();
        let of_check = |it: &&Value| it["check"] == check;
        let found = report["checks"].as_array().unwrap().iter().find(of_check).unwrap().to_string();
        if !found.contains(text) {
            missed.push(format!("{cause}: {found}"));
        }
    }
    assert_eq!(missed, [""; 0]);
}

#[test]
fn healthy_cluster_of_800_nodes_has_no_findings() {
    let mut cluster = healthy();
    let names: Vec<_> = (1..=800).map(|number| format!("node-{number}")).collect();
    let (mut nodes, mut running) = (Vec::new(), Vec::new());
    for name in &names {
        // Admission has kept the value of every third across a reboot.
        let writer = if nodes.len() % 3 == 0 { "k3s" } else { api::FIELD_MANAGER };
        nodes.push(listed(name, "4", writer));
        running.extend(bound(name, &["1", "1", "2"]));
    }
    (cluster.nodes, cluster.bound) = (Ok(nodes), Ok(running));
    cluster.waiting = Ok(pods(&[("waits", DONGLE, "4"), ("too", DONGLE, "1")]));
    set_rules(&mut cluster, vec![ready()]);
    assert_eq!(found(&cluster), []);
    // It is no accident: one node of them that is not as it should be is found.
    cluster.nodes.as_mut().unwrap()[777] = listed("node-778", "3", api::FIELD_MANAGER);
    assert!(found(&cluster).iter().any(|(check, _, text)| *check == "overcommitted-node" && text.contains("node-778")));
}
