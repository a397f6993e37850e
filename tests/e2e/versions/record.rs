//! Records what this version leaves in a cluster: every kind of ledger entry, status and condition, and the Lease of a
//! leader that was killed.
//!
//! ```sh
//! cargo test --workspace --locked --test e2e -- --ignored versions::record
//! ```

use std::fs;

use harness::objects::{self, DONGLE, LEDGER, bound_pod, condition, ledger, quantity};
use harness::{Cluster, Controller, project_file};
use serde_json::{Value, json};

use super::{FLAGS, WINDOW, put};

pub const SLOT: &str = "example.com/slot";
pub const STORAGE: &str = "example.com/storage";
pub const KEY: &str = "example.com/key";
pub const OLD: &str = "example.com/old";
pub const PAUSED: &str = "example.com/paused";
/// A ledger that cannot be read.
pub const INVALID: &str = "not JSON";

/// The nodes, with the labels by which rules select them.
const NODES: [(&str, &[&str]); 10] = [
    ("plain", &["dongle"]),
    ("several", &["dongle", "storage", "licence"]),
    ("held", &["slot"]),
    ("conflicted", &["key"]),
    ("derived", &["seat"]),
    ("overridden", &["dongle"]),
    ("paused", &["paused"]),
    ("retained", &["storage"]),
    ("released", &[]),
    ("invalid", &["dongle"]),
];

/// The rules, in the order of their names, as objects of the same second have it.
fn rules() -> Vec<(&'static str, Value)> {
    let selected = |name: &str, spec: Value| {
        let mut full = spec;
        full["resourceName"] = json!(format!("example.com/{name}"));
        full["nodeSelector"] = json!({"matchExpressions": [{"key": label(name), "operator": "Exists"}]});
        full
    };
    vec![
        ("dongle", selected("dongle", json!({}))),
        ("dongle-more", json!({"quantity": 8, "priority": 10, "nodeNames": ["overridden", "missing"]})),
        ("key", selected("key", json!({}))),
        ("licence", selected("licence", json!({"quantity": 2, "conflictPolicy": "Overwrite"}))),
        ("paused", selected("paused", json!({}))),
        (
            "seat",
            selected(
                "seat",
                json!({"quantity": null, "quantityFrom": {"nodeLabel": {"key": label("seat")}, "max": 8}}),
            ),
        ),
        ("slot", selected("slot", json!({"quantity": 2}))),
        ("storage", selected("storage", json!({"quantity": "800Gi", "deletionPolicy": "Retain"}))),
    ]
}

fn rule(name: &str) -> Value {
    rules().into_iter().find(|rule| rule.0 == name).unwrap().1
}

fn label(name: &str) -> String {
    format!("example.com/{name}")
}

#[test]
#[ignore = "writes tests/testdata/versions/: see the comment of this file"]
fn record_what_this_version_leaves() {
    let cluster = Cluster::start();
    create_nodes(&cluster);
    let controller = Controller::start_with(&cluster, &FLAGS);
    for (name, spec) in rules() {
        cluster.apply_rule(name, &spec);
    }
    cluster.wait_advertised("paused", PAUSED, "4");
    let mut paused = rule("paused");
    (paused["quantity"], paused["paused"]) = (json!(5), json!(true));
    cluster.apply_rule("paused", &paused);
    release_value(&cluster);
    cluster.wait_advertised("invalid", DONGLE, "4");
    cluster.kubectl(&["annotate", "node", "invalid", "--overwrite", &format!("{LEDGER}={INVALID}")]);
    put(&cluster, &stalled_rule());
    wait_recordable(&cluster);
    controller.kill();

    let folder = project_file("tests/testdata/versions").join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(project_file("crds/noderesource.dev_nodeextendedresources.yaml"), folder.join("crd.yaml")).unwrap();
    // A line for each object.
    let items = all_objects(&cluster).iter().map(Value::to_string).collect::<Vec<_>>().join(",\n");
    let list = format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{items}\n]}}\n");
    fs::write(folder.join("objects.json"), list).unwrap();
}

fn create_nodes(cluster: &Cluster) {
    for (name, labels) in NODES {
        let labels = labels.iter().map(|name| (label(name), json!("6")));
        cluster.create_nodes([name], &Value::Object(labels.collect()));
        cluster.heartbeat(name, "kubelet");
    }
    cluster.write_quantity("conflicted", KEY, "7");
    cluster.write_quantity("several", "example.com/licence", "7");
    cluster.apply(&bound_pod("held", "held", SLOT, "3").to_string());
    let conditions = ["Initialized", "PodReadyToStartContainers", "Ready"];
    let conditions = conditions.map(|kind| json!({"type": kind, "status": "True"}));
    let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": conditions});
    let running = json!({"status": status});
    cluster.kubectl(&["patch", "pod", "held", "--subresource=status", "--type=merge", "-p", &running.to_string()]);
}

/// Leaves a value of a deleted rule, which no ledger records.
fn release_value(cluster: &Cluster) {
    let spec = json!({"resourceName": OLD, "nodeNames": ["released"], "deletionPolicy": "Retain"});
    cluster.apply_rule("old", &spec);
    cluster.wait_advertised("released", OLD, "4");
    cluster.kubectl(&["delete", "ner", "old"]);
    cluster.wait_for("the ledger to be removed", &["node", "released"], |node| ledger(node).is_none());
}

/// Returns a rule from before the CRD's validation.
fn stalled_rule() -> Value {
    let mut rule = objects::rule("stalled", &json!({"resourceName": "example.com/stalled", "nodeSelector": {}}));
    rule["metadata"]["uid"] = json!("6f0a4a52-4b3d-4f0e-9d5c-6a7b8c9d0e1f");
    rule["metadata"]["generation"] = json!(1);
    rule["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    rule
}

/// Waits until there is one of everything.
fn wait_recordable(cluster: &Cluster) {
    for (rule, reason) in [
        ("dongle", "InvalidLedger"),
        ("dongle-more", "Advertised"),
        ("key", "Conflict"),
        ("licence", "Advertised"),
        ("paused", "Paused"),
        ("seat", "Advertised"),
        ("slot", "Held"),
        ("stalled", "InvalidSpec"),
        ("storage", "Advertised"),
    ] {
        cluster.wait_status(rule, reason, |status| condition(status, "Ready").1 == reason);
    }
    cluster.wait_advertised("held", SLOT, "3");
    cluster.wait_idle(WINDOW);
    let retained = cluster.node("retained");
    assert!(ledger(&retained).unwrap().contains("Retain"), "{retained:#}");
    let released = cluster.node("released");
    assert_eq!(quantity(&released, "capacity", OLD), Some("4"));
}

/// Returns the objects as etcd has them.
fn all_objects(cluster: &Cluster) -> Vec<Value> {
    let nodes = NODES.map(|(name, _)| ["node", name]);
    let rules = cluster.get(&["ner"])["items"].take();
    let rules: Vec<_> =
        rules.as_array().unwrap().iter().map(|rule| rule["metadata"]["name"].as_str().unwrap()).collect();
    let rules = rules.iter().map(|name| ["ner", name]);
    let others = [["pod", "held"], ["lease", "node-resource-advertiser"]];
    let all = nodes.into_iter().chain(rules).chain(others).map(|args| {
        let mut object = cluster.get(&args);
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object
    });
    all.collect()
}
