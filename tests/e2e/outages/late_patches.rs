//! Patches that arrive late.
//!
//! Method: hold the controller's requests in the network, let another client write to the node, and let the requests go
//! on. Each patch tests what the controller had read.

use harness::objects::{DONGLE, LEDGER, ledger, quantity};
use harness::{Cluster, Controller, Fault, FaultProxy, SharedCluster};
use serde_json::{Value, json};

use super::{proxy_of, start_behind};
use crate::support::interrupted_rollout::LONG_LEASE;

const KEY: &str = "example.com/key";

/// A controller behind a proxy, and three rules in force. The deletion of one of them waits for no other list of rules.
fn start() -> (SharedCluster, FaultProxy, Controller) {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let proxy = proxy_of(&cluster);
    let admin = cluster.control_plane.kubeconfig();
    let args = [&LONG_LEASE[..], &["--request-timeout", "60s"]].concat();
    let controller = start_behind(&proxy, &cluster, &admin, &args);
    for (rule, resource) in [("dongle", DONGLE), ("lamp", "example.com/lamp"), ("disk", "example.com/disk")] {
        cluster.apply_rule(rule, &json!({"resourceName": resource}));
        cluster.wait_ready(rule, "1/1");
    }
    (cluster, proxy, controller)
}

#[test]
fn withdrawal_that_arrives_after_another_clients_write_leaves_its_value() {
    let (cluster, proxy, controller) = start();
    proxy.set(Some(Fault::Hold));
    cluster.kubectl(&["delete", "ner", "dongle"]);
    proxy.wait_hits(1).unwrap();
    cluster.write_quantity("node-1", DONGLE, "8");
    proxy.set(None);
    cluster.wait_event("node-1", "Released", "stays at 8 (by kubectl-patch)");
    assert_eq!(quantity(&cluster.node("node-1"), "capacity", DONGLE), Some("8"));
    controller.stop();
}

#[test]
fn patch_that_arrives_after_an_edit_of_the_ledger_keeps_the_edit() {
    let (cluster, proxy, controller) = start();
    proxy.set(Some(Fault::Hold));
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    proxy.wait_hits(1).unwrap();
    // As a rule that is deleted by now has left it.
    cluster.write_quantity("node-1", KEY, "3");
    let node = cluster.node("node-1");
    let mut entries: Value = serde_json::from_str(ledger(&node).unwrap()).unwrap();
    entries[KEY] = json!({"quantity": "3", "rule": "key"});
    let edit = json!({"metadata": {"annotations": {LEDGER: entries.to_string()}}});
    cluster.kubectl(&["patch", "node", "node-1", "--patch", &edit.to_string()]);
    proxy.set(None);
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.wait_event("node-1", "Withdrawn", "Withdrew example.com/key from node-1: rule key no longer declares it");
    assert_eq!(quantity(&cluster.node("node-1"), "capacity", KEY), None);
    controller.stop();
}
