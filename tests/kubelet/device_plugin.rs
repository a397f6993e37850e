//! A device plugin for the resource that a rule declares: before, alongside and after the rule.
//!
//! Method: run a device plugin on a real kubelet that writes its status every second, and compare
//! the node's values, the rule's status and the controller's log under each conflictPolicy.

use std::collections::BTreeSet;

use harness::objects::{DONGLE, advertises, condition, ledger, quantity};
use harness::{Cluster, Controller, wait_until};
use serde_json::{Value, json};

use crate::pod_fate::{FAST_TICK, start_kubelet};

/// Waits until the node has these quantities in its capacity and its allocatable.
fn wait_quantities(cluster: &Cluster, capacity: &str, allocatable: &str) -> Value {
    let what = format!("node-1 to have {capacity}/{allocatable}");
    cluster.wait_for(&what, &["node", "node-1"], |node| has(node, capacity, allocatable))
}

fn has(node: &Value, capacity: &str, allocatable: &str) -> bool {
    quantity(node, "capacity", DONGLE) == Some(capacity) && quantity(node, "allocatable", DONGLE) == Some(allocatable)
}

/// Waits until the kubelet has written the node's status twice more.
fn wait_two_heartbeats(cluster: &Cluster) -> Value {
    let mut seen = BTreeSet::new();
    wait_until("two more heartbeats of node-1", || {
        let node = cluster.node("node-1");
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        seen.insert(ready["lastHeartbeatTime"].to_string());
        Ok((seen.len() == 3).then_some(node))
    })
    .unwrap()
}

/// Waits until the rule reports a conflict with the existing value.
fn wait_conflict(cluster: &Cluster, present: &str) {
    let problem = json!({
        "node": "node-1", "reason": "Conflict",
        "message": format!(
            "already {present}, last written by kubelet; a device plugin probably provides it: exclude the node from the rule"
        ),
    });
    let status = cluster
        .wait_status("dongle", &format!("a conflict with {present}"), |status| status["problems"] == json!([problem]));
    assert_eq!(condition(&status, "Ready"), ("False", "Conflict"));
}

#[test]
fn keep_policy_leaves_device_plugin_value_until_reboot() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", FAST_TICK);
    let mut plugin = kubelet.device_plugin(DONGLE, 3, 1).unwrap();
    wait_quantities(&cluster, "3", "2");
    cluster.apply_rule("dongle", &json!({}));
    wait_conflict(&cluster, "3 in capacity, 2 in allocatable");
    plugin.set_devices(2, 0).unwrap();
    wait_quantities(&cluster, "2", "2");
    wait_conflict(&cluster, "2");

    plugin.kill().unwrap();
    wait_quantities(&cluster, "2", "0");
    wait_conflict(&cluster, "2 in capacity, 0 in allocatable");
    let node = wait_two_heartbeats(&cluster);
    assert!(has(&node, "2", "0"), "{node:#}");
    assert_eq!(ledger(&node), None);
    let managers = node["metadata"]["managedFields"].to_string();
    assert!(!managers.contains("node-resource-advertiser"), "{managers}");
    let log = controller.log();
    let mut lines = log.lines().filter(|line| line.contains("node=node-1"));
    assert!(lines.all(|line| line.contains("action=conflict")), "{log}");

    // After a restart the kubelet still knows the resource, but has no device for it. For five minutes it
    // overwrites other values with 0.
    controller.stop();
    kubelet.restart().unwrap();
    wait_quantities(&cluster, "0", "0");
    cluster.write_quantity("node-1", DONGLE, "4");
    wait_quantities(&cluster, "0", "0");

    // After a reboot the kubelet no longer knows the resource.
    kubelet.restart_as_after_reboot().unwrap();
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "4");
    let node = wait_two_heartbeats(&cluster);
    assert!(advertises(&node, DONGLE, "4"), "{node:#}");
    assert!(!controller.log().contains("repaired example.com"), "{}", controller.log());
    controller.stop();
}

#[test]
fn overwrite_policy_backs_off_from_device_plugin() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    let kubelet = start_kubelet(&cluster, "node-1", FAST_TICK);
    let _plugin = kubelet.device_plugin(DONGLE, 2, 0).unwrap();
    wait_quantities(&cluster, "2", "2");
    cluster.apply_rule("dongle", &json!({"conflictPolicy": "Overwrite"}));
    let status =
        cluster.wait_status("dongle", "Contested", |status| condition(status, "Contested") == ("True", "Contested"));
    let problem = json!({
        "node": "node-1", "reason": "Contested",
        "message": "kubelet keeps changing it back; a device plugin provides it: exclude the node from the rule, or rename the resource",
    });
    assert_eq!(status["problems"], json!([problem]));
    wait_quantities(&cluster, "2", "2");
    let log = controller.log();
    let until_pause = log.split("repairs pause").next().unwrap();
    let times = |what: &str| until_pause.lines().filter(|line| line.contains(what)).count();
    let (taken, repaired) = (times("took over"), times("repaired example.com"));
    println!("against a device plugin: took over {taken} time, repaired {repaired} times, backed off");
    assert_eq!((taken, repaired), (1, 5), "{log}");
    controller.stop();
}
