mod recordings;

use serde_json::{Value, json};

use super::why::{Answer, Counted};
use super::*;
use crate::inspect::diff::cluster;
use crate::model::api::NodeExtendedResource;
use crate::model::node::object::NodeObject;
use crate::model::node::{FactNames, Interner};
use crate::model::pod::object::PodObject;
use crate::planner::rules::Rule;
use pods::Pods;

pub(crate) const DONGLE: &str = "example.com/dongle";

/// Returns a node with labels, and this number of dongles.
pub(crate) fn node(name: &str, labels: &Value, dongles: &str) -> Value {
    let amounts = if dongles.is_empty() { json!({}) } else { json!({DONGLE: dongles, "cpu": "4"}) };
    json!({"metadata": {"name": name, "uid": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Returns a pod that requests this number of dongles, on a node or on none (`""`).
pub(crate) fn pod(name: &str, node: &str, dongles: &str) -> Value {
    let mut spec = json!({"containers": [{"name": "a", "resources": {"requests": {DONGLE: dongles, "cpu": "1"}}}]});
    if !node.is_empty() {
        spec["nodeName"] = json!(node);
    }
    let phase = if node.is_empty() { "Pending" } else { "Running" };
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}})
}

pub(crate) fn rule(name: &str, spec: &Value) -> Rule {
    let mut object = json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name}, "spec": {"resourceName": DONGLE, "quantity": 4}});
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    Rule::new(&serde_json::from_value::<NodeExtendedResource>(object).unwrap()).unwrap()
}

pub(crate) fn inventory(nodes: &[Value], pods: &[Value], rules: Vec<Rule>) -> Inventory {
    let mut interner = Interner::keeping(FactNames::All);
    let nodes = nodes.iter().map(|value| {
        let entry = NodeEntry::new(serde_json::from_value(value.clone()).unwrap(), &mut interner);
        (NodeName(Arc::clone(&entry.node.name)), Arc::new(entry))
    });
    let nodes = Some(nodes.collect());
    let mut entries = Pods::default();
    pods.iter().for_each(|pod| entries.add(serde_json::from_value::<PodObject>(pod.clone()).unwrap()));
    let rules = Some(Rules::from_files(rules));
    Inventory { nodes, pods: Some(entries.finish()), rules, classes: Some(BTreeMap::new()), ..Inventory::default() }
}

/// Returns the answer for a pod of the inventory on each node, by name.
fn answers(inventory: &Inventory, pod: &str) -> Vec<(String, Answer)> {
    let pod = inventory.pods().find(|entry| *entry.name == *pod).unwrap();
    let answers = Counted::new(inventory).nodes(pod, None);
    answers.into_iter().map(|(node, answer)| (node.to_string(), answer)).collect()
}

fn reasons(inventory: &Inventory, pod: &str) -> String {
    let reasons = answers(inventory, pod).into_iter().map(|(node, answer)| match answer {
        Answer::Enough => format!("{node}: enough\n"),
        Answer::Short(short) => {
            let reasons: Vec<_> = short.into_iter().map(|shortage| shortage.reason).collect();
            format!("{node}: {}\n", reasons.join(" AND "))
        }
        Answer::Unknown(reasons) => format!("{node}: unknown: {}\n", reasons.join(" AND ")),
    });
    reasons.collect()
}

#[test]
fn use_counts_nodes_pods_and_the_largest_rest() {
    let none = json!({});
    let mut cordoned = node("node-10", &none, "9");
    cordoned["spec"] = json!({"unschedulable": true, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]});
    let nodes = [node("node-1", &none, "4"), node("node-2", &none, "4"), node("node-3", &none, ""), cordoned];
    let mut finished = pod("done", "node-1", "4");
    finished["status"]["phase"] = json!("Succeeded");
    let pods = [
        pod("b", "node-1", "1"),
        pod("a", "node-1", "2"),
        pod("c", "node-2", "1"),
        finished,
        pod("waits", "", "3"),
        pod("cpu-only", "node-1", "0"),
    ];
    let inventory = inventory(&nodes, &pods, vec![rule("dongle", &json!({"allNodes": true}))]);
    let uses = inventory.uses();
    let dongle = &uses[DONGLE];
    assert_eq!(uses.len(), 1, "cpu is no extended resource");
    assert_eq!([dongle.total(), dongle.requested(), dongle.free()].map(|sum| sum.to_string()), ["17", "4", "13"]);
    assert_eq!((dongle.nodes(), dongle.expected_nodes()), (3, 4), "node-3 is selected, and has none yet");
    assert_eq!(dongle.blocked().to_string(), "9");
    let (node, largest) = dongle.largest().unwrap();
    assert_eq!((&*node.0, largest.to_string().as_str()), ("node-2", "3"), "node-10 takes no pods");
    assert_eq!(dongle.waiting.len(), 1);
    let names = inventory.pods().map(|pod| &*pod.name);
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c", "waits"]);
}

#[test]
fn use_never_counts_less_than_nothing_as_free() {
    let nodes = [node("node-1", &json!({}), "2"), node("node-2", &json!({}), "3")];
    let inventory = inventory(&nodes, &[pod("a", "node-1", "4")], vec![]);
    let uses = inventory.uses();
    let dongle = &uses[DONGLE];
    assert_eq!(dongle.free().to_string(), "3", "the excess on node-1 takes nothing from node-2");
    let share = dongle.shares.values().next().unwrap();
    assert_eq!((share.free().to_string(), share.excess().to_string()), ("0".to_owned(), "2".to_owned()));
}

#[test]
fn use_has_requests_that_nobody_provides_and_huge_quantities() {
    let mut huge = node("node-1", &json!({}), "8Ei");
    huge["status"]["allocatable"][DONGLE] = json!("1E");
    let mut odd = pod("odd", "", "1");
    odd["spec"]["containers"][0]["resources"]["requests"] = json!({"example.com/dongel": "9E", DONGLE: "no number"});
    let inventory = inventory(&[huge], &[odd], vec![]);
    let uses = inventory.uses();
    assert_eq!(uses[DONGLE].total().to_string(), "1E");
    assert_eq!(uses["example.com/dongel"].nodes(), 0);
    assert_eq!(uses["example.com/dongel"].waiting[0].1.to_string(), "9E");
}

#[test]
fn use_of_selected_nodes_leaves_out_pods_elsewhere() {
    let nodes = [node("node-1", &json!({}), "4")];
    let pods = [pod("a", "node-1", "1"), pod("b", "node-2", "1")];
    let mut inventory = inventory(&nodes, &pods, vec![]);
    let uses = inventory.uses();
    let missing = uses[DONGLE].shares.iter().find(|(name, _)| &*name.0 == "node-2").unwrap().1;
    assert!(missing.is_missing && missing.requested.to_string() == "1", "{missing:?}");
    assert_eq!(uses[DONGLE].requested().to_string(), "1", "the scheduler counts no pods on node-2, which is deleted");
    drop(uses);
    inventory.is_part = true;
    assert_eq!(inventory.uses()[DONGLE].requested().to_string(), "1");
    inventory.nodes = None;
    inventory.is_part = false;
    assert_eq!(inventory.uses()[DONGLE].requested().to_string(), "2", "nodes cannot be listed");
}

/// A table that does not name a node declares nothing there.
#[test]
fn rule_that_declares_nothing_on_a_node_does_not_count_there() {
    let from = json!({"nodeLabel": {"key": "size", "values": {"big": 8}}, "whenMissing": "None"});
    let table = || rule("table", &json!({"quantity": null, "quantityFrom": from, "allNodes": true, "priority": 1}));
    let [big, bare] = [node("node-1", &json!({"size": "big"}), "8"), node("node-2", &json!({}), "")];
    let of_table = inventory(&[big, bare.clone()], &[], vec![table()]);
    let uses = of_table.uses();
    assert_eq!((uses[DONGLE].nodes(), uses[DONGLE].expected_nodes()), (1, 1));
    let other = rule("dongle", &json!({"quantity": 9, "allNodes": true}));
    let answers = answers(&inventory(&[bare], &[pod("waits", "", "5")], vec![table(), other]), "waits");
    let [(_, Answer::Short(short))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(short[0].most, 9.into(), "the other rule decides: {}", short[0].reason);
}

#[test]
fn leftover_zeros_are_only_those_that_nothing_declares_or_requests() {
    let nodes = [node("node-1", &json!({}), "0")];
    let is_leftover = |inventory: Inventory| inventory.uses()[DONGLE].is_leftover();
    assert!(is_leftover(inventory(&nodes, &[], vec![])));
    assert!(!is_leftover(inventory(&nodes, &[pod("a", "", "1")], vec![])));
    assert!(!is_leftover(inventory(&nodes, &[], vec![rule("dongle", &json!({"nodeNames": ["other"]}))])));
    let mut unhealthy = node("node-1", &json!({}), "4");
    unhealthy["status"]["allocatable"][DONGLE] = json!("0");
    assert!(!is_leftover(inventory(&[unhealthy], &[], vec![])), "a device plugin whose devices are all unhealthy");
}

#[test]
fn nothing_is_left_over_while_a_rule_is_invalid() {
    let mut inventory = inventory(&[node("node-1", &json!({}), "0")], &[], vec![]);
    assert!(inventory.knows_sources());
    let invalid = json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "typo"}, "spec": {"resourceName": DONGLE, "quantity": "0.5", "allNodes": true}});
    let rule = cluster::present(serde_json::from_value(invalid).unwrap());
    inventory.rules = Some(Rules::from_cluster(vec![rule], vec![], false));
    assert!(!inventory.knows_sources(), "it may provide anything once it is corrected");
    assert!(!inventory.knows_sources_of(DONGLE) && inventory.knows_sources_of("example.com/key"));
}

#[test]
fn use_of_selected_nodes_leaves_out_claims_elsewhere() {
    let mapping = json!({"containerName": "a", "resourceName": DONGLE, "requestName": "b"});
    let pods = ["node-1", "node-2"].map(|node| {
        let mut pod = pod(node, node, "2");
        pod["status"]["extendedResourceClaimStatus"] = json!({"requestMappings": [mapping]});
        pod
    });
    let mut inventory = inventory(&[node("node-1", &json!({}), "")], &pods, vec![]);
    assert_eq!(inventory.uses()[DONGLE].claimed.len(), 2, "one is on a node that is not in the list");
    inventory.is_part = true;
    assert_eq!(inventory.uses()[DONGLE].claimed.len(), 1);
}

#[test]
fn pod_with_a_node_is_nominated_for_none() {
    let mut bound = pod("bound", "node-1", "2");
    bound["status"]["nominatedNodeName"] = json!("node-2");
    let inventory = inventory(&[], &[bound], vec![]);
    assert_eq!(inventory.pods().next().unwrap().nominated_node, None, "before 1.35, binding leaves the field as it is");
}

#[test]
fn why_names_the_pods_that_use_a_node() {
    let nodes = [node("node-1", &json!({}), "4"), node("node-2", &json!({}), "2"), node("node-3", &json!({}), "3")];
    let pods = [pod("waits", "", "3"), pod("a", "node-1", "1"), pod("b", "node-1", "2"), pod("c", "node-3", "0")];
    let text = reasons(&inventory(&nodes, &pods, vec![]), "waits");
    let expected = "node-1: example.com/dongle: 1 of 4 free, used by default/b (2), default/a (1)\n\
                    node-2: example.com/dongle: 2 of 2 free; that is less than 3: no rule declares it\n\
                    node-3: enough\n";
    assert_eq!(text, expected);
}

#[test]
fn why_reserves_what_the_scheduler_promised_to_pods_of_no_lower_priority() {
    let nodes = [node("node-1", &json!({}), "4")];
    let mut promised = pod("promised", "", "2");
    promised["status"]["nominatedNodeName"] = json!("node-1");
    for (priority, own, enough) in [(10, 10, false), (10, 11, true), (11, 10, false), (0, 1, true)] {
        promised["spec"]["priority"] = json!(priority);
        let mut waiting = pod("waits", "", "3");
        waiting["spec"]["priority"] = json!(own);
        let text = reasons(&inventory(&nodes, &[promised.clone(), waiting], vec![]), "waits");
        assert_eq!(text == "node-1: enough\n", enough, "{text}");
        assert!(enough || text.contains("2 of 4 free, used by default/promised (2, nominated)"), "{text}");
    }
    assert_eq!(reasons(&inventory(&nodes, &[promised], vec![]), "promised"), "node-1: enough\n", "for itself");
}

#[test]
fn why_names_the_rule_that_would_provide_a_resource_and_why_it_does_not() {
    let zone = json!({"zone": "b"});
    let waits = [pod("waits", "", "3")];
    let reason = |rules: Vec<Rule>, dongles: &str| {
        reasons(&inventory(&[node("node-1", &zone, dongles)], &waits, rules), "waits")
    };
    let selector = |labels: Value| json!({"nodeSelector": {"matchLabels": labels}});
    for (spec, dongles, expected) in [
        (json!({"nodeNames": ["node-2"]}), "", "rule dongle names only node-2, which does not exist"),
        (selector(json!({"zone": "a"})), "", "it selects zone=a, and the node has zone=b"),
        (selector(json!({"rack": "7"})), "", "it selects rack=7, and the node has no label rack"),
        (json!({"allNodes": true}), "", "rule dongle declares 4, which is not on the node yet"),
        (json!({"allNodes": true, "paused": true}), "", "paused: not advertised; rule dongle declares 4"),
        (json!({"allNodes": true}), "1", "conflict: written by an unknown field manager; rule dongle declares 4"),
        (json!({"allNodes": true, "quantity": 2}), "2", "2 of 2 free; that is less than 3: "),
    ] {
        let text = reason(vec![rule("dongle", &spec)], dongles);
        let start = if dongles.is_empty() { "no example.com/dongle: " } else { "example.com/dongle: " };
        assert!(text.starts_with(&format!("node-1: {start}")) && text.contains(expected), "{text}");
    }
    assert_eq!(reason(vec![], ""), "node-1: no example.com/dongle: no rule declares it\n");
    let both = ["node-1", "node-2"].map(|name| node(name, &zone, ""));
    let text =
        reasons(&inventory(&both, &waits, vec![rule("dongle", &json!({"nodeNames": ["node-2", "node-3"]}))]), "waits");
    let expected =
        "node-1: no example.com/dongle: rule dongle does not select the node: nodeNames does not list the node\n";
    assert!(text.starts_with(expected), "{text}");
    let mut blocked = node("node-1", &zone, "");
    blocked["metadata"]["annotations"] = json!({"noderesource.dev/advertised": "{broken"});
    let text = reasons(&inventory(&[blocked], &waits, vec![rule("dongle", &json!({"allNodes": true}))]), "waits");
    assert!(text.contains("the annotation of the node cannot be read"), "{text}");
}

#[test]
fn why_does_not_know_what_dra_provides() {
    let nodes = [("node-1", ""), ("node-2", "1"), ("node-3", "0")];
    let nodes = nodes.map(|(name, dongles)| node(name, &json!({}), dongles));
    let mut inventory = inventory(&nodes, &[pod("waits", "", "3")], vec![]);
    inventory.classes = Some([(DONGLE.to_owned(), "fast".to_owned())].into());
    let text = reasons(&inventory, "waits");
    assert!(
        text.contains("node-1: unknown: no example.com/dongle: DeviceClass fast may provide it through DRA"),
        "{text}"
    );
    assert!(text.contains("node-2: example.com/dongle: 1 of 1 free; that is less than 3"), "{text}");
    assert!(text.contains("node-3: unknown: "), "{text}");
}

#[test]
fn why_says_what_it_cannot_know_without_rules_or_device_classes() {
    let nodes = [("node-1", ""), ("node-2", "1")].map(|(name, dongles)| node(name, &json!({}), dongles));
    let mut inventory = inventory(&nodes, &[pod("waits", "", "3")], vec![]);
    inventory.rules = None;
    let text = reasons(&inventory, "waits");
    assert!(text.contains("node-1: no example.com/dongle: who declares it is unknown\n"), "{text}");
    assert!(text.contains("less than 3: who declares it is unknown"), "{text}");
    inventory.classes = None;
    let text = reasons(&inventory, "waits");
    assert!(text.contains("node-1: unknown: no example.com/dongle"), "DRA may provide it: {text}");
    assert!(text.contains("node-2: example.com/dongle: 1 of 1 free"), "DRA provides none beside a node's own: {text}");
}

#[test]
fn why_names_the_writer_of_what_no_rule_declares() {
    let mut reset = node("node-1", &json!({}), "4");
    reset["status"]["allocatable"][DONGLE] = json!("0");
    reset["metadata"]["managedFields"] = json!([{"manager": "plugin", "operation": "Update", "subresource": "status",
        "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
        "fieldsV1": {"f:status": {"f:capacity": {format!("f:{DONGLE}"): {}}}}}]);
    let text = reasons(&inventory(&[reset], &[pod("waits", "", "3")], vec![]), "waits");
    let expected = "node-1: no example.com/dongle allocatable (capacity 4): no rule declares it; plugin wrote it\n";
    assert_eq!(text, expected);
}

#[test]
fn pod_that_is_deleted_waits_for_nothing() {
    let mut deleted = pod("deleted", "", "3");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut on_node = pod("on-node", "node-1", "1");
    on_node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let inventory = inventory(&[node("node-1", &json!({}), "4")], &[deleted, on_node], vec![]);
    let uses = inventory.uses();
    assert_eq!((uses[DONGLE].waiting.len(), uses[DONGLE].requested().to_string()), (0, "1".to_owned()));
}

#[test]
fn why_knows_no_node_with_enough_without_a_list_of_pods() {
    let nodes = [node("node-1", &json!({}), "4"), node("node-2", &json!({}), "2")];
    let mut inventory = inventory(&nodes, &[pod("waits", "", "3")], vec![]);
    let waits = inventory.pods.take().unwrap().remove(0);
    let answers = Counted::new(&inventory).nodes(&waits, None);
    let [(_, one), (_, two)] = answers.as_slice() else { panic!("{answers:?}") };
    assert!(matches!(one, Answer::Unknown(why) if why[0].contains("what pods on the node use")), "{one:?}");
    let expected = "example.com/dongle: 2 in all; that is less than 3: no rule declares it";
    let Answer::Short(short) = two else { panic!("{two:?}") };
    assert_eq!(short[0].reason, expected, "nothing is said of what is free");
    for entry in inventory.nodes.as_mut().unwrap().values_mut() {
        let entry = Arc::get_mut(entry).unwrap();
        (entry.node.allocatable, entry.node.capacity) = (None, None);
    }
    let answers = Counted::new(&inventory).nodes(&waits, None);
    assert!(answers.iter().all(|(_, answer)| matches!(answer, Answer::Short(_))), "{answers:?}: no node has any");
}

#[test]
fn pod_from_a_resource_claim_counts_only_on_a_node_with_a_value_of_its_own() {
    let mut claimed = pod("claimed", "node-1", "2");
    let mapping = json!({"containerName": "a", "resourceName": DONGLE, "requestName": "b"});
    claimed["status"]["extendedResourceClaimStatus"] = json!({"requestMappings": [mapping]});
    for (dongles, requested, from_claims, free) in [("", "0", 1, "0"), ("0", "0", 1, "0"), ("4", "2", 0, "2")] {
        let inventory = inventory(&[node("node-1", &json!({}), dongles)], &[claimed.clone()], vec![]);
        let uses = inventory.uses();
        let dongle = &uses[DONGLE];
        assert_eq!(dongle.requested().to_string(), requested, "{dongles}");
        assert_eq!(dongle.claimed.len(), from_claims, "{dongles}");
        assert_eq!(dongle.free().to_string(), free, "{dongles}: the scheduler counts every request (fitsRequest)");
    }
}

#[test]
fn objects_with_null_fields_are_read() {
    let node: NodeObject = serde_json::from_value(json!({"metadata": {"name": "a", "labels": null},
        "spec": {"taints": null, "unschedulable": null}, "status": {"conditions": null, "capacity": null}}))
    .unwrap();
    assert!(!node.readiness.takes_pods());
    let pod: PodObject = serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "b"},
        "spec": {"containers": [], "schedulingGates": null, "priority": null},
        "status": {"conditions": null, "nominatedNodeName": ""}}))
    .unwrap();
    assert_eq!((pod.is_gated, pod.nominated_node, pod.priority), (false, None, 0));
    let bare = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"resources": null}]}, "status": null});
    assert!(serde_json::from_value::<PodObject>(bare).is_ok());
    let gated: PodObject = serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "b"},
        "spec": {"schedulingGates": [{"name": "wait"}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "gated"}]}}))
    .unwrap();
    assert_eq!((gated.is_gated, gated.message.as_deref()), (true, Some("gated")));
}
