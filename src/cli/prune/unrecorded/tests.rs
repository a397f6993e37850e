//! One value that may be removed, in a cluster in which one thing at a time speaks against it.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{Found, Snapshot, chosen, found, last_writes, listed};
use super::removal::{Removed, patch};
use super::report::Report;
use super::scope::Scope;
use super::survey::{Stays, Survey};
use crate::cli::printer::Line;
use crate::cli::prune::choice::NodeChoice;
use crate::inspect::doctor::read::rule;
use crate::inspect::doctor::snapshot::{RuleEntry, Rules};
use crate::inspect::inventory::pods::Pods;
use crate::model::api::FIELD_MANAGER;
use crate::model::ledger::ANNOTATION;
use crate::model::node::{Interner, heartbeats};
use crate::planner::tests::try_apply;

const SLOTS: &str = "example.com/slots";
const NOW: &str = "2026-01-04T12:00:00Z";
const LONG_AGO: &str = "2026-01-01T12:00:00Z";

/// Returns the entry of managedFields of a manager that wrote these maps.
fn written(manager: &str, maps: &[&str], time: &str) -> Value {
    let maps: BTreeMap<_, _> = maps.iter().map(|map| (*map, json!({format!("f:{SLOTS}"): {}}))).collect();
    json!({
        "manager": manager, "operation": "Update", "subresource": "status", "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": maps},
    })
}

/// Returns a node with 4 slots, which somebody wrote with curl three days ago.
fn node(name: &str) -> Value {
    let amounts = json!({SLOTS: "4", "cpu": "8"});
    json!({
        "metadata": {
            "name": name, "uid": "u", "resourceVersion": "1", "annotations": {},
            "managedFields": [heartbeats("kubelet"), written("curl", &["f:capacity", "f:allocatable"], LONG_AGO)],
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

fn read(object: &Value) -> Found {
    found(object.clone(), SLOTS, &mut Interner::default()).unwrap().1.unwrap()
}

fn rule_of(spec: &Value) -> RuleEntry {
    let mut object = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource", "metadata": {"name": "r"},
        "spec": {"resourceName": SLOTS, "quantity": 2, "nodeNames": ["node-1"]},
    });
    json_patch::merge(&mut object["spec"], spec);
    rule(object).unwrap()
}

fn snapshot(nodes: &[Value]) -> Snapshot {
    let found: Vec<_> = nodes.iter().map(read).collect();
    let writers = last_writes(found.iter());
    let now = NOW.parse::<Timestamp>().unwrap();
    Snapshot { nodes: nodes.len(), found, writers, rules: Some(Rules::default()), pods: Vec::new(), now }
}

fn pods(pods: &[(&str, Option<&str>)]) -> Vec<std::sync::Arc<crate::inspect::inventory::pods::PodEntry>> {
    let mut entries = Pods::default();
    for (name, node) in pods {
        let object = json!({
            "metadata": {"namespace": "default", "name": name}, "status": {"phase": "Pending"},
            "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {SLOTS: "1"}}}]},
        });
        entries.add(serde_json::from_value(object).unwrap());
    }
    entries.finish()
}

/// Returns why the value of the first node stays; `None` if it is removed.
fn stays(snapshot: &Snapshot) -> Option<Stays> {
    let first = snapshot.found[0].entry.node.name.clone();
    let survey = Survey::new(snapshot, SLOTS);
    match survey.removals.iter().any(|removal| removal.node.name == first) {
        true => None,
        false => survey.left.into_keys().next(),
    }
}

#[test]
fn value_that_somebody_left_is_removed() {
    assert_eq!(stays(&snapshot(&[node("node-1")])), None);
    let mut own = node("node-1");
    own["metadata"]["managedFields"][1] = written(FIELD_MANAGER, &["f:capacity", "f:allocatable"], NOW);
    assert_eq!(stays(&snapshot(&[own])), None, "Retain has left it: the controller writes it no more");
    let mut copied = node("node-1");
    copied["metadata"]["managedFields"] =
        json!([written("curl", &["f:capacity"], LONG_AGO), written("kubelet", &["f:allocatable"], NOW)]);
    assert_eq!(stays(&snapshot(&[copied])), None, "a kubelet copies capacity to allocatable");
    let mut absent = node("node-1");
    absent["status"]["allocatable"] = json!({});
    assert_eq!(stays(&snapshot(&[absent])), None, "a part is left");
}

#[test]
fn value_that_anything_may_own_stays() {
    let with = |path: &str, value: Value| {
        let mut node = node("node-1");
        *node.pointer_mut(path).unwrap() = value;
        Some(stays(&snapshot(&[node])))
    };
    let annotated = |key: &str, text: &str| with("/metadata/annotations", json!({key: text})).unwrap();
    let managed = |entries: Value| with("/metadata/managedFields", entries).unwrap();
    let ledger = json!({SLOTS: {"quantity": "4", "rule": "gone"}}).to_string();
    for (stays, expected) in [
        (annotated(ANNOTATION, &ledger), Stays::Recorded("gone".to_owned())),
        (annotated(ANNOTATION, "{"), Stays::Ledger),
        (
            annotated("nfd.node.kubernetes.io/extended-resources", "example.com/slots"),
            Stays::Annotated("Node Feature Discovery"),
        ),
        (
            annotated("node.machine.sapcloud.io/last-applied-virtual-capacity", r#"{"example.com/slots":"4"}"#),
            Stays::Annotated("Gardener"),
        ),
        (managed(json!([])), Stays::UnknownWriter),
        (managed(json!([heartbeats("k3s"), written("k3s", &["f:capacity"], LONG_AGO)])), Stays::Kubelet("k3s".into())),
        (with("/status", json!({"capacity": {SLOTS: "0"}, "allocatable": {SLOTS: "0"}})).unwrap(), Stays::Zero),
    ] {
        assert_eq!(stays, Some(expected));
    }
}

#[test]
fn value_that_a_rule_declares_or_may_declare_stays() {
    let judged = |rules: Vec<RuleEntry>, name: &str| {
        let mut snapshot = snapshot(&[node(name)]);
        snapshot.rules = Some(Rules::new(rules));
        stays(&snapshot)
    };
    assert_eq!(judged(vec![rule_of(&json!({}))], "node-1"), Some(Stays::Declared("r".into())));
    assert_eq!(judged(vec![rule_of(&json!({"paused": true}))], "node-1"), Some(Stays::Declared("r".into())));
    assert_eq!(judged(vec![rule_of(&json!({}))], "node-2"), None, "the rule selects another node");
    assert_eq!(judged(vec![rule_of(&json!({"resourceName": "example.com/other"}))], "node-1"), None);
    let from = |when: &str| {
        let from = json!({"nodeLabel": {"key": "size", "values": {"big": 8}}, "whenMissing": when});
        vec![rule_of(&json!({"quantity": null, "quantityFrom": from}))]
    };
    assert_eq!(judged(from("None"), "node-1"), None, "it declares nothing there");
    assert_eq!(judged(from("Keep"), "node-1"), Some(Stays::Declared("r".into())), "it may");
    assert_eq!(judged(vec![rule_of(&json!({"quantity": 0}))], "node-2"), Some(Stays::Invalid("r".into())));
    let other = json!({"quantity": 0, "resourceName": "example.com/other"});
    assert_eq!(judged(vec![rule_of(&other)], "node-1"), None, "an invalid rule for another resource");
}

#[test]
fn value_stays_while_its_writer_is_alive_on_any_node() {
    let wrote = |time: &str| {
        let mut other = node("node-2");
        other["metadata"]["managedFields"][1]["time"] = json!(time);
        let mut snapshot = snapshot(&[node("node-1"), other]);
        // Of the nodes that are named, the other is none.
        snapshot.found.truncate(1);
        stays(&snapshot)
    };
    let recent = |age: &str| Some(Stays::Recent { manager: "curl".to_owned(), age: age.to_owned() });
    assert_eq!(wrote("2026-01-04T11:59:00Z"), recent("60s"));
    assert_eq!(wrote("2026-01-04T10:00:01Z"), recent("119m"));
    assert_eq!(wrote("2026-01-04T10:00:00Z"), None);
    assert_eq!(wrote("2026-01-04T12:00:30Z"), recent("<invalid>"), "a clock that went back");
}

#[test]
fn value_stays_while_pods_on_its_node_request_it() {
    let mut snapshot = snapshot(&[node("node-1"), node("node-2")]);
    snapshot.pods = pods(&[("runs", Some("node-1")), ("waits", None)]);
    assert_eq!(stays(&snapshot), Some(Stays::Used));
    let survey = Survey::new(&snapshot, SLOTS);
    assert_eq!(survey.removals.len(), 1, "the other node");
    let expected = [
        "example.com/slots stays on node-1: pods there request it (default/runs)",
        "pods that wait for example.com/slots no longer fit on these nodes: default/waits",
    ];
    assert_eq!(survey.notes(SLOTS, &NodeChoice::default()), expected);
}

#[test]
fn removal_changes_nothing_that_has_changed_since() {
    let plain = node("node-1");
    let mut bare = plain.clone();
    bare["metadata"].as_object_mut().unwrap().remove("annotations");
    bare["status"].as_object_mut().unwrap().remove("allocatable");
    for object in [&plain, &bare] {
        let patch = patch(&read(object).entry.node, SLOTS);
        let mut removed = object.clone();
        try_apply(&mut removed, &patch).unwrap();
        let mut expected = object.clone();
        for map in ["capacity", "allocatable"] {
            if let Some(map) = expected["status"].get_mut(map).and_then(Value::as_object_mut) {
                map.remove(SLOTS);
            }
        }
        assert_eq!(removed, expected, "it removes nothing else");
        for changed in [
            json!({"metadata": {"uid": "v"}}),
            json!({"metadata": {"annotations": {ANNOTATION: "{}"}}}),
            json!({"status": {"capacity": {SLOTS: "5"}}}),
            json!({"status": {"allocatable": {SLOTS: "5"}}}),
            json!({"status": {"capacity": {SLOTS: null}}}),
        ] {
            let mut object = object.clone();
            json_patch::merge(&mut object, &changed);
            assert!(try_apply(&mut object, &patch).is_err(), "{changed}");
        }
        let mut unrelated = object.clone();
        json_patch::merge(&mut unrelated, &json!({"status": {"capacity": {"cpu": "16"}, "phase": "a"}}));
        assert!(try_apply(&mut unrelated, &patch).is_ok(), "a kubelet's heartbeat delays nothing");
    }
}

#[test]
fn report_counts_what_is_left() {
    let mut snapshot = snapshot(&["node-1", "node-2", "node-3", "node-4", "node-5"].map(node));
    snapshot.pods = pods(&[("runs", Some("node-5"))]);
    let survey = Survey::new(&snapshot, SLOTS);
    let mut report = Report::new(SLOTS, false);
    let line = "node-1: has 4 example.com/slots, last written by curl 3d ago\n";
    assert!(report.announcement(&survey, snapshot.now).starts_with(line));
    let [one, two, three, _] = &survey.removals[..] else { panic!("four") };
    let removed = "node-1: removed 4 example.com/slots\n".to_owned();
    assert_eq!(report.add(one, Removed::Done), Line::Output(removed));
    assert!(matches!(report.add(two, Removed::Used), Line::Message(_)));
    assert!(matches!(report.add(three, Removed::Failed("etcd is full".to_owned())), Line::Message(_)));
    assert_eq!(report.total(snapshot.nodes), "1 value of example.com/slots on 5 nodes\n");
    let error = report.finish(4, &survey.left).unwrap_err().to_string();
    let expected = "values are left: 1 node that failed, 1 node that a signal left, 2 nodes whose value stays for now; run \
                    prune again";
    assert_eq!(error, expected);
    let of_plugin = node("node-1");
    let mut report = Report::new(SLOTS, false);
    let survey = Survey::new(&self::snapshot(&[of_plugin]), SLOTS);
    report.add(&survey.removals[0], Removed::Gone);
    assert!(report.finish(1, &survey.left).is_ok());
}

/// A selector that selects nothing may be misspelled, and is no success.
#[test]
fn value_on_a_node_without_the_labels_is_not_selected() {
    let selected = |labels: &str| {
        let scope = Scope {
            resource: SLOTS.parse().unwrap(),
            choice: NodeChoice { labels: labels.parse().unwrap(), ..NodeChoice::default() },
            dry_run: true,
            asks: false,
        };
        let mut node = node("node-1");
        node["metadata"]["labels"] = json!({"pool": "a"});
        let nodes = vec![listed(node, &scope, &mut Interner::default()).unwrap()];
        chosen(nodes, &scope.choice).map(|nodes| nodes.len()).map_err(|error| error.to_string())
    };
    for labels in ["", "pool=a", "!other"] {
        assert_eq!(selected(labels), Ok(1), "{labels}");
    }
    for labels in ["pool=b", "other"] {
        assert_eq!(selected(labels), Err(format!("no node has the labels {labels}")));
    }
    assert_eq!(chosen(Vec::new(), &NodeChoice::default()).unwrap().len(), 0, "a cluster without nodes");
}
