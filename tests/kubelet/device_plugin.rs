use std::collections::BTreeSet;

use harness::wait_until;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, DEADLINE, advertises, amount, condition, ledger};
use crate::machine::{DONGLE, FAST_TICK, start_kubelet};

/// Waits until the node has this much of the resource in its capacity and its allocatable.
fn wait_amounts(cluster: &Cluster, capacity: &str, allocatable: &str) -> Value {
    let what = format!("node-1 to have {capacity}/{allocatable}");
    cluster.wait_for(&what, &["node", "node-1"], |node| has(node, capacity, allocatable))
}

fn has(node: &Value, capacity: &str, allocatable: &str) -> bool {
    amount(node, "capacity", DONGLE) == Some(capacity)
        && amount(node, "allocatable", DONGLE) == Some(allocatable)
}

/// Waits until the kubelet has brought the node's status up to date two times more.
fn wait_two_ticks(cluster: &Cluster) -> Value {
    let mut seen = BTreeSet::new();
    wait_until("two more heartbeats of node-1", DEADLINE, || {
        let node = cluster.node("node-1");
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        seen.insert(ready["lastHeartbeatTime"].to_string());
        Ok((seen.len() == 3).then_some(node))
    })
    .unwrap()
}

/// Waits until the rule leaves the node alone, and says that this is there.
fn wait_conflict(cluster: &Cluster, present: &str) {
    let problem = json!({
        "node": "node-1", "reason": "Conflict",
        "message": format!("already {present}, last written by kubelet"),
    });
    let status = cluster.wait_status("dongle", &format!("that there is {present}"), |status| {
        status["problems"] == json!([problem])
    });
    assert_eq!(condition(&status, "Ready"), ("False", "Conflict"));
}

#[test]
fn under_keep_a_device_plugin_is_left_alone_and_its_place_taken_when_it_has_gone() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", FAST_TICK);
    let mut plugin = kubelet.device_plugin(DONGLE, 3, 1).unwrap();
    wait_amounts(&cluster, "3", "2");
    cluster.apply_rule("dongle", &json!({}));
    wait_conflict(&cluster, "3 in capacity, 2 in allocatable");
    plugin.set_devices(2, 0).unwrap();
    wait_amounts(&cluster, "2", "2");
    wait_conflict(&cluster, "2");

    plugin.kill().unwrap();
    wait_amounts(&cluster, "2", "0");
    wait_conflict(&cluster, "2 in capacity, 0 in allocatable");
    let node = wait_two_ticks(&cluster);
    assert!(has(&node, "2", "0"), "{node:#}");
    assert_eq!(ledger(&node), None);
    let managers = node["metadata"]["managedFields"].to_string();
    assert!(!managers.contains("node-resource-advertiser"), "{managers}");
    assert!(!controller.log().contains("node=node-1"), "{}", controller.log());

    // Restarted, the kubelet still knows the name, and has nothing of it. For five minutes it would
    // write that over what anybody else writes.
    controller.stop();
    kubelet.restart().unwrap();
    wait_amounts(&cluster, "0", "0");
    cluster.write_amount("node-1", DONGLE, "4");
    wait_amounts(&cluster, "0", "0");

    // After a reboot it knows the name no more.
    kubelet.restart_as_after_reboot().unwrap();
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "4");
    let node = wait_two_ticks(&cluster);
    assert!(advertises(&node, DONGLE, "4"), "{node:#}");
    assert!(!controller.log().contains("repaired"), "{}", controller.log());
    controller.stop();
}

#[test]
fn under_overwrite_a_device_plugin_is_fought_no_longer_than_the_contest_limit() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    let kubelet = start_kubelet(&cluster, "node-1", FAST_TICK);
    let _plugin = kubelet.device_plugin(DONGLE, 2, 0).unwrap();
    wait_amounts(&cluster, "2", "2");
    cluster.apply_rule("dongle", &json!({"conflictPolicy": "Overwrite"}));
    let status = cluster.wait_status("dongle", "Contested", |status| {
        condition(status, "Contested") == ("True", "Contested")
    });
    let problem = json!({
        "node": "node-1", "reason": "Contested", "message": "kubelet keeps changing it back",
    });
    assert_eq!(status["problems"], json!([problem]));
    wait_amounts(&cluster, "2", "2");
    let log = controller.log();
    let until_pause = log.split("repairs pause").next().unwrap();
    let times = |what: &str| until_pause.lines().filter(|line| line.contains(what)).count();
    let (taken, repaired) = (times("took over"), times("repaired"));
    println!("against a device plugin: took over {taken} time, repaired {repaired} times, paused");
    assert_eq!((taken, repaired), (1, 5), "{log}");
    controller.stop();
}
