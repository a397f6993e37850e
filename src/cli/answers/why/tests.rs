use serde_json::{Value, json};

use super::*;
use crate::cli::inventory::pods::Pods;
use crate::cli::inventory::tests::{DONGLE, inventory, node, pod, rule};
use crate::model::pod::object::PodObject;

fn entry(pod: &Value) -> PodEntry {
    Pods::default().entry(serde_json::from_value::<PodObject>(pod.clone()).unwrap())
}

/// Returns a Pending pod about which the scheduler says this.
fn rejected(dongles: &str, message: &str) -> Value {
    let mut pod = pod("waits", "", dongles);
    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "message": message}]);
    pod
}

fn explained(inventory: &Inventory, pod: &Value) -> (Verdict, String) {
    let why = explain(inventory, &entry(pod));
    (why.verdict, why.remarks().join("\n"))
}

#[test]
fn scheduler_message_that_is_not_about_the_answer_is_remarked() {
    let nodes = [node("node-1", &json!({}), "4")];
    let yet = "or the scheduler has yet to try again";
    let ignores = "names none of these resources";
    for (dongles, message, verdict, remark) in [
        ("3", "0/1 nodes are available: 1 Insufficient example.com/dongle. preemption", Verdict::Enough, Some(yet)),
        ("3", "0/1 nodes are available: 1 Insufficient example.com/dongle.large.", Verdict::Enough, None),
        ("3", "0/1 nodes are available: 1 Insufficient example.com/dongle-2, 1 Too many pods.", Verdict::Enough, None),
        ("3", "0/1 nodes are available: 1 Too many pods.", Verdict::Enough, None),
        ("5", "0/1 nodes are available: 1 Insufficient example.com/dongle.", Verdict::NotEnough, None),
        ("5", "0/1 nodes are available: 1 node(s) had untolerated taint(s).", Verdict::NotEnough, Some(ignores)),
    ] {
        let pod = rejected(dongles, message);
        let (found, remarks) = explained(&inventory(&nodes, std::slice::from_ref(&pod), vec![]), &pod);
        assert_eq!(found, verdict, "{message}: {remarks}");
        for text in [yet, ignores] {
            assert_eq!(remarks.contains(text), remark == Some(text), "{message}: {remarks}");
        }
    }
}

#[test]
fn node_with_enough_shows_what_keeps_pods_off_it() {
    let mut closed = node("node-1", &json!({}), "4");
    let taints = json!([{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]);
    closed["spec"] = json!({"unschedulable": true, "taints": taints});
    closed["status"]["conditions"] = json!([]);
    let waits = pod("waits", "", "3");
    let inventory = inventory(&[closed], std::slice::from_ref(&waits), vec![]);
    let why = explain(&inventory, &entry(&waits));
    assert_eq!(why.nodes[0].obstacles, ["not ready", "cordoned", "tainted a:NoSchedule"]);
    assert_eq!(why.verdict, Verdict::Enough);
}

#[test]
fn sums_say_what_is_reserved_for_nominated_pods() {
    let mut promised = pod("promised", "", "2");
    promised["status"]["nominatedNodeName"] = json!("node-1");
    let waits = pod("waits", "", "3");
    let inventory = inventory(&[node("node-1", &json!({}), "4")], &[promised.clone(), waits.clone()], vec![]);
    let (verdict, remarks) = explained(&inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough);
    assert!(remarks.contains("4 of 4 free, 4 on one node (node-1); 2 of it reserved for nominated pods"), "{remarks}");
    let (_, remarks) = explained(&inventory, &promised);
    assert!(remarks.contains("has nominated the pod for node node-1, where it waits"), "{remarks}");
    assert!(!remarks.contains("reserved"), "for itself: {remarks}");
    let mut elsewhere = inventory;
    elsewhere.nodes.as_mut().unwrap().clear();
    elsewhere.is_part = true;
    let (_, remarks) = explained(&elsewhere, &waits);
    assert!(!remarks.contains("reserved"), "on a node that -l does not select: {remarks}");
}

#[test]
fn pod_that_waits_for_no_node_says_why() {
    let inventory = inventory(&[node("node-1", &json!({}), "")], &[], vec![]);
    let mut failed = pod("failed", "node-1", "3");
    failed["status"] = json!({"phase": "Failed", "reason": "OutOfexample.com/dongle", "message": "too little"});
    let mut deleted = pod("deleted", "", "3");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut class = pod("class", "", "0");
    class["spec"]["containers"][0]["resources"]["requests"] =
        json!({"deviceclass.resource.kubernetes.io/fast": "1", "cpu": "1"});
    for (pod, expected) in [
        (failed, "The pod has ended (Failed): OutOfexample.com/dongle: too little"),
        (deleted, "The pod is being deleted"),
        (class, "from DRA: it does not wait for those of nodes"),
    ] {
        let (verdict, remarks) = explained(&inventory, &pod);
        assert_eq!(verdict, Verdict::NotWaiting, "{remarks}");
        assert!(remarks.contains(expected), "{remarks}");
    }
}

#[test]
fn nothing_is_nowhere_while_a_source_of_it_is_unknown() {
    let waits = pod("waits", "", "3");
    let mut inventory = inventory(&[node("node-1", &json!({}), "")], std::slice::from_ref(&waits), vec![]);
    inventory.rules = Some(crate::cli::diff::rules::Rules::from_files(vec![rule(
        "other",
        &json!({"resourceName": "example.com/dongles", "allNodes": true}),
    )]));
    let (verdict, remarks) = explained(&inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
    assert!(remarks.contains("Nothing provides example.com/dongle: is it example.com/dongles?"), "{remarks}");
    let classes = inventory.classes.take();
    let (verdict, remarks) = explained(&inventory, &waits);
    assert_eq!(verdict, Verdict::Unknown, "{remarks}");
    inventory.classes = classes;
    inventory.rules = None;
    let (verdict, remarks) = explained(&inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
    assert!(!remarks.contains("Nothing provides") && !remarks.contains("no rule"), "{remarks}");
}

#[test]
fn resource_that_a_node_lists_is_not_misspelled() {
    let waits = pod("waits", "", "3");
    for (capacity, allocatable) in [("4", "0"), ("0", "0")] {
        let mut idle = node("node-1", &json!({}), capacity);
        idle["status"]["allocatable"] = json!({DONGLE: allocatable, "example.com/dongles": "1"});
        let (verdict, remarks) = explained(&inventory(&[idle], std::slice::from_ref(&waits), vec![]), &waits);
        assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
        assert!(!remarks.contains("is it example.com/dongles"), "its device plugin is down: {remarks}");
    }
}

#[test]
fn short_nodes_are_an_answer_without_a_list_of_pods() {
    let waits = pod("waits", "", "3");
    let mut inventory = inventory(&[node("node-1", &json!({}), "2")], std::slice::from_ref(&waits), vec![]);
    inventory.pods = None;
    let (verdict, remarks) = explained(&inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
    assert!(remarks.contains("the pod requests 3; nodes have 2 in all"), "{remarks}");
}
