//! What adopt writes for a cluster, case by case. [`random`] has what holds of every cluster.

mod random;
mod selectors;

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::{Output, render};
use crate::inspect::adopt::snapshot::{Entry, FeatureRule, Object, Rules, Snapshot};
use crate::inspect::adopt::survey::Filter;
use crate::inspect::diff::rules::{ClusterRule, Standing};
use crate::manifest::{Files, Limits, read_text};
use crate::model::api::{FIELD_MANAGER, NodeExtendedResource};
use crate::model::ledger;
use crate::model::node::{FactNames, Interner, heartbeats};
use crate::planner::rules::Rule;
use crate::validate::Validator;

const DONGLE: &str = "example.com/dongle";
const MAPS: [&str; 2] = ["capacity", "allocatable"];

/// Returns a node on which `manager` has written these amounts to both maps.
fn node(name: &str, labels: Value, manager: &str, amounts: Value) -> Value {
    let fields: Map<_, _> = amounts.as_object().unwrap().keys().map(|name| (format!("f:{name}"), json!({}))).collect();
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = json!(name);
    json!({
        "metadata": {
            "name": name, "uid": name, "labels": labels, "annotations": {},
            "managedFields": [heartbeats("k3s"), {"manager": manager, "fieldsV1": {
                "f:status": {"f:capacity": fields, "f:allocatable": fields},
            }}],
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

fn dongles(name: &str, labels: Value, quantity: &str) -> Value {
    node(name, labels, "kubectl-patch", json!({DONGLE: quantity}))
}

fn snapshot(nodes: &[Value], rules: &[Value]) -> Snapshot {
    let mut interner = Interner::keeping(FactNames::All);
    let entries = nodes.iter().map(|node| {
        let object: Object = serde_json::from_value(node.clone()).unwrap();
        Entry::new(object, &mut interner)
    });
    let mut nodes: Vec<_> = entries.collect();
    nodes.sort_by_key(Entry::name);
    let rules = rules.iter().map(|object| {
        let object: NodeExtendedResource = serde_json::from_value(object.clone()).unwrap();
        let name: Arc<str> = object.metadata.name.as_deref().unwrap().into();
        ClusterRule {
            name,
            created: None,
            rule: Rule::new(&object),
            contested: Vec::new(),
            standing: Standing::default(),
        }
    });
    Snapshot { nodes, rules: Rules::new(rules.collect()), ..Snapshot::default() }
}

fn rule(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn adopt(snapshot: &Snapshot) -> Output {
    Output::new(snapshot, &Filter::default())
}

/// Returns the rules of the output, as the controller reads them. `validate` finds nothing in it.
fn rules(yaml: &str) -> Vec<Rule> {
    static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| Validator::new().unwrap());
    if yaml.is_empty() {
        return Vec::new();
    }
    let validator = || {
        let mut validator = VALIDATOR.clone();
        read_text("adopted.yaml", yaml.to_owned(), &Limits::default(), &mut |read| validator.take(read));
        validator
    };
    let report = validator().finish(Files::default());
    let problems = report.render(crate::validate::Format::Text { colour: false });
    assert!(report.diagnostics.is_empty(), "{problems}\n{yaml}");
    validator().into_rules(Files::default()).0
}

#[test]
fn hand_patched_values_become_rules_with_reasons() {
    let nodes = [
        dongles("node-1", json!({"pool": "a"}), "4"),
        dongles("node-2", json!({"pool": "a"}), "4"),
        dongles("node-3", json!({"pool": "b"}), "2"),
        dongles("node-4", json!({"pool": "b"}), "0"),
        node("node-5", json!({"pool": "b"}), "k3s", json!({DONGLE: "4"})),
    ];
    let Output { yaml, notes } = adopt(&snapshot(&nodes, &[]));
    let expected = include_str!("tests/patched.yaml");
    assert_eq!(yaml, expected, "{yaml}");
    assert_eq!(rules(&yaml).len(), 2);
    assert_eq!(notes.last().map(String::as_str), Some("2 rules for 3 values on 3 nodes"));
    assert_eq!(notes.len(), 3, "{notes:?}");
}

#[test]
fn value_that_cannot_be_adopted_is_left_out_with_its_cause() {
    let amounts = |capacity: Value, allocatable: Value| {
        let mut node = node("node-1", json!({}), "kubectl-patch", json!({DONGLE: "4"}));
        node["status"] = json!({"capacity": {DONGLE: capacity}, "allocatable": {DONGLE: allocatable}});
        node
    };
    let equal = |quantity: &str| dongles("node-1", json!({}), quantity);
    let with_ledger = |text: &str| {
        let mut node = equal("4");
        node["metadata"]["annotations"][ledger::ANNOTATION] = json!(text);
        node
    };
    let mut unmanaged = equal("4");
    unmanaged["metadata"]["managedFields"] = Value::Null;
    let mut shared = node("node-1", json!({}), "k3s", json!({DONGLE: "4"}));
    let mut applied = shared["metadata"]["managedFields"][1].clone();
    applied["manager"] = json!("helm");
    applied["time"] = json!("2026-01-01T00:00:09Z");
    shared["metadata"]["managedFields"][1]["time"] = json!("2026-01-01T00:00:01Z");
    shared["metadata"]["managedFields"].as_array_mut().unwrap().push(applied);
    let mut absent = equal("4");
    absent["status"]["allocatable"] = json!({});
    let reserved = node("node-1", json!({}), "kubectl-patch", json!({"kubernetes.io/batch-cpu": "4", "cpu": "4"}));
    let odd = node("node-1", json!({}), "kubectl-patch", json!({"\u{1b}[2J\nkind: x": "4", "hugepages-2Mi": "4"}));
    for (node, cause) in [
        (equal("0"), "it is 0"),
        (equal("500m"), "500m is not a whole number"),
        (equal("9223372036854775807"), "is more than 9223372036854775"),
        (equal("1e2147483648"), "is more than"),
        (amounts(json!("4"), json!("2")), "capacity is 4 and allocatable is 2"),
        (absent, "capacity is 4 and allocatable is absent"),
        (
            node("node-1", json!({}), "k3s", json!({DONGLE: "4"})),
            "it may be a device plugin's, since k3s, which is the node's kubelet",
        ),
        (shared, "it may be a device plugin's"),
        (unmanaged, "managedFields do not name its writer: an admission policy or webhook may add it"),
        (with_ledger("{"), "repair it first, as doctor describes"),
        (
            with_ledger(r#"{"example.com/dongle":{"quantity":"4","rule":"r"}}"#),
            "rule r, which does not exist, so that the controller withdraws",
        ),
        (
            with_ledger(r#"{"example.com/dongle":{"quantity":"4","rule":"r","deletionPolicy":"Retain"}}"#),
            "removes the entry, and the value stays (deletionPolicy: Retain)",
        ),
        (reserved, "reserved"),
        (odd, "no prefix"),
    ] {
        let Output { yaml, notes } = adopt(&snapshot(std::slice::from_ref(&node), &[]));
        assert_eq!(yaml, "", "{node}");
        assert!(notes[0].contains(cause), "{notes:?} lacks {cause}");
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[1].starts_with("nothing to adopt"), "{notes:?}");
    }
    let mut mapped = snapshot(&[equal("4")], &[]);
    mapped.classes.insert(DONGLE.to_owned(), "dongles".to_owned());
    assert!(adopt(&mapped).notes[0].contains("DeviceClass dongles maps it"));
    let declared = rule("present", json!({"resourceName": DONGLE, "quantity": 4, "allNodes": true}));
    let declared = [declared];
    assert!(adopt(&snapshot(&[equal("4")], &declared)).notes[0].contains("rule present declares it"));
    let listed = with_ledger(r#"{"example.com/dongle":{"quantity":"4","rule":"present"}}"#);
    let advertised = "the controller advertises it already, for rule present";
    assert!(adopt(&snapshot(&[listed], &declared)).notes[0].contains(advertised));
}

#[test]
fn invalid_rule_is_named_since_its_values_look_undeclared() {
    let invalid = rule("typo", json!({"resourceName": DONGLE, "quantity": "0.5", "allNodes": true}));
    let Output { yaml, notes } = adopt(&snapshot(&[dongles("node-1", json!({}), "4")], &[invalid]));
    assert!(notes[0].starts_with("rule typo is invalid, so that it declares nothing ("), "{notes:?}");
    assert!(yaml.contains("# - rule typo is invalid"), "{yaml}");
    assert_eq!(rules(&yaml).len(), 1);
}

#[test]
fn output_explains_each_writer_and_what_to_stop() {
    let mut nfd = node("node-1", json!({"example.com/x": "1"}), "nfd-master", json!({DONGLE: "4"}));
    nfd["metadata"]["annotations"]["a.nfd.node.kubernetes.io/extended-resources"] = json!("example.com/dongle,sgx");
    let by_annotation = {
        let mut node = nfd.clone();
        node["metadata"]["managedFields"][1]["manager"] = json!("kubectl-patch");
        node
    };
    let mut gardener = node("node-1", json!({}), "machine-controller", json!({DONGLE: "4"}));
    gardener["metadata"]["annotations"]["node.machine.sapcloud.io/last-applied-virtual-capacity"] =
        json!(r#"{"example.com/dongle":"4"}"#);
    let other = node("node-1", json!({}), "license\n---\nmanager", json!({DONGLE: "4"}));
    let feature: FeatureRule = serde_json::from_value(json!({
        "metadata": {"name": "dongles"},
        "spec": {"rules": [{"name": "a"}, {"extendedResources": {DONGLE: "@usb.device.count", "sgx": "1"}}]},
    }))
    .unwrap();
    let features = feature.features();
    for (node, features, texts) in [
        (&nfd, &[][..], &["Node Feature Discovery has written it: remove it"][..]),
        (&by_annotation, &[], &["Node Feature Discovery has written it: remove it"]),
        (
            &nfd,
            &features,
            &[
                "declares it as @usb.device.count, a number that differs between nodes: if a label has it, use quantityFrom",
                "feature.node.",
            ],
        ),
        (&gardener, &[], &["Gardener's virtualCapacity declares it"]),
        (&other, &[], &["last written by license\\u{a}---\\u{a}manager", "still runs and writes it"]),
        (&dongles("node-1", json!({}), "4"), &[], &["last written by kubectl-patch"]),
    ] {
        let snapshot = Snapshot { features: features.to_vec(), ..snapshot(std::slice::from_ref(node), &[]) };
        let yaml = adopt(&snapshot).yaml;
        let unwrapped = yaml.replace("\n# ", " ").replace("\n#   ", " ");
        texts.iter().for_each(|text| assert!(unwrapped.contains(text), "{yaml}\nlacks {text}"));
        assert_eq!(rules(&yaml).len(), 1);
    }
    let nowhere = Snapshot { features, ..snapshot(&[node("node-1", json!({}), "x", json!({}))], &[]) };
    let notes = adopt(&nowhere).notes;
    assert!(notes[0].contains("no node has it now") && notes[1].contains("no rule can declare the name"), "{notes:?}");
}

#[test]
fn own_value_without_a_ledger_entry_needs_no_overwriting() {
    let own = node("node-1", json!({}), FIELD_MANAGER, json!({DONGLE: "4"}));
    let other = dongles("node-2", json!({}), "4");
    assert!(!adopt(&snapshot(std::slice::from_ref(&own), &[])).yaml.contains("Overwrite"));
    assert!(adopt(&snapshot(&[own, other], &[])).yaml.contains("conflictPolicy: Overwrite\n"));
}

#[test]
fn what_could_not_be_read_is_said_in_the_output_too() {
    let gaps = vec!["you lack permission to list x\nkind: y".to_owned()];
    let Output { yaml, notes } = adopt(&Snapshot { gaps, ..snapshot(&[dongles("node-1", json!({}), "4")], &[]) });
    assert!(yaml.contains("# Not known:\n# - you lack permission to list x\\u{a}kind: y\n"), "{yaml}");
    assert!(notes[0].starts_with("you lack permission"));
    assert_eq!(rules(&yaml).len(), 1);
}

#[test]
fn filters_select_values_and_rules_select_no_other_node() {
    let pool = json!({"pool": "a"});
    let nodes = [
        dongles("node-1", pool.clone(), "4"),
        node("node-2", pool.clone(), "script", json!({DONGLE: "4"})),
        node("node-3", pool, "kubectl-patch", json!({DONGLE: "4", "example.com/key": "1"})),
    ];
    let snapshot = snapshot(&nodes, &[]);
    let selected = |managers: &[&str], resources: &[&str], labels: &str| {
        let filter = Filter {
            managers: managers.iter().map(|name| (*name).to_owned()).collect(),
            resources: resources.iter().map(|name| name.parse().unwrap()).collect(),
            labels: labels.parse().unwrap(),
        };
        let Output { yaml, notes } = Output::new(&snapshot, &filter);
        let rules = rules(&yaml);
        let nodes = snapshot.nodes.iter().map(|entry| &entry.node);
        let nodes: Vec<_> = nodes
            .filter(|node| rules.iter().any(|rule| rule.selection.selects(node)))
            .map(|node| node.name.to_string())
            .collect();
        (nodes.join(" "), notes.join("\n"))
    };
    assert_eq!(selected(&["kubectl-patch"], &[DONGLE], "").0, "node-1 node-3");
    assert!(selected(&["kubectl-patch"], &[], "").1.contains("values of the field managers script"));
    assert_eq!(selected(&["script", "kubectl-patch"], &[], "").0, "node-1 node-2 node-3");
    assert_eq!(selected(&[], &["example.com/key"], "").0, "node-3");
    assert_eq!(selected(&[], &[], "kubernetes.io/hostname=node-2").0, "node-2");
    let (none, notes) = selected(&["none"], &[], "");
    assert_eq!(none, "");
    assert!(notes.contains("managers kubectl-patch, script") && notes.contains("nothing to adopt among"), "{notes}");
}

#[test]
fn quantities_and_labels_survive_yaml() {
    let odd = ["yes", "on", "null", "1_000", "0x10", "1e3", "1.10", "12.30", "", "007", "e5"];
    for value in odd {
        let nodes = [
            dongles("node-1", json!({"example.com/dongle": value}), "1e15"),
            dongles("1e3", json!({"example.com/dongle": "other"}), "9223372036854775"),
            dongles("true", json!({"y": "n"}), "800Gi"),
            node("node-4", json!({}), "x", json!({})),
        ];
        let snapshot = snapshot(&nodes, &[]);
        let yaml = adopt(&snapshot).yaml;
        let rules = rules(&yaml);
        assert_eq!(rules.len(), 3, "{yaml}");
        for Entry { node, .. } in &snapshot.nodes {
            let values = rules.iter().filter(|rule| rule.selection.selects(node)).map(|rule| rule.quantity.fixed());
            let present = node.resources().get(DONGLE).map(|values| values[0]);
            assert_eq!(values.collect::<Vec<_>>(), Vec::from_iter(present), "{yaml}");
        }
    }
}

#[test]
fn nodes_with_a_quantity_each_become_a_rule_each() {
    let labels = |at| json!({"asset": format!("a{}", at / 2), "serials": format!("s{at}"), "pool": "a"});
    let nodes = (0..1000).map(|at| dongles(&format!("node-{at}"), labels(at), &(at + 1).to_string()));
    let yaml = adopt(&snapshot(&Vec::from_iter(nodes), &[])).yaml;
    assert_eq!(rules(&yaml).len(), 1000);
}

#[test]
fn many_nodes_are_named_in_several_rules() {
    let nodes: Vec<_> = (0..2_500).map(|at| dongles(&format!("node-{at}"), json!({}), "4")).collect();
    let rules = rules(&adopt(&snapshot(&nodes, &[])).yaml);
    let names: Vec<_> = rules.iter().map(|rule| (&*rule.name, rule.selection.names().count())).collect();
    assert_eq!(names, [("dongle", 1000), ("dongle-2", 1000), ("dongle-3", 500)]);
    assert_eq!(render::list(&snapshot(&nodes, &[]), &[0, 1, 2, 3]), "node-0, node-1, node-2 and 1 more");
}

/// `rules` fails for a rule that the CRD does not allow.
#[test]
fn nodes_with_long_names_are_named_in_rules_that_are_legal() {
    let nodes: Vec<_> = (0..500).map(|at| dongles(&format!("node-{at:0200}"), json!({}), "4")).collect();
    let rules = rules(&adopt(&snapshot(&nodes, &[])).yaml);
    let names: Vec<_> = rules.iter().map(|rule| rule.selection.names().count()).collect();
    assert_eq!(names, [199, 199, 102]);
}
