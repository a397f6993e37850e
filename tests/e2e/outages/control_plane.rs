//! Outages of etcd and the API server, and compaction in etcd.
//!
//! Method: kill the process during a rollout or a withdrawal and restart it; or compact the changes that a
//! disconnected controller has missed.

use harness::objects::{DONGLE, quantity};
use harness::{Cluster, Controller, Fault};
use serde_json::json;

use super::{SLOW, create_nodes, is_as_declared, proxy_of, reset, start_behind, wait_converged};
use crate::support::interrupted_rollout::{LONG_LEASE, ONE_PATCH_AT_A_TIME, wait_first_patch};

const NODES: usize = 200;
const KEY: &str = "example.com/key";

#[test]
fn etcd_killed_during_rollout_loses_no_node() {
    let mut cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let proxy = proxy_of(&cluster);
    let admin = cluster.control_plane.kubeconfig();
    let args = [&ONE_PATCH_AT_A_TIME[..], &LONG_LEASE, &["--request-timeout", "2s"]].concat();
    let controller = start_behind(&proxy, &cluster, &admin, &args);
    proxy.set(Some(SLOW));
    cluster.apply_rule("dongle", &json!({}));
    wait_first_patch(&controller);
    cluster.control_plane.kill_etcd().unwrap();
    controller.wait_log("cannot patch the node, retrying");
    proxy.set(None);
    cluster.control_plane.restart_etcd().unwrap();
    reset(&cluster, "node-0");
    wait_converged(&cluster, NODES, Some("4"));
    cluster.wait_ready("dongle", "200/200");
    controller.assert_first_term();
    controller.stop();
}

#[test]
fn apiserver_killed_during_withdrawal_and_reset_loses_no_node() {
    let mut cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": KEY}));
    cluster.wait_ready("dongle", "200/200");
    cluster.wait_ready("key", "200/200");
    controller.stop();

    let controller = Controller::start_with(&cluster, &[ONE_PATCH_AT_A_TIME, LONG_LEASE].concat());
    cluster.kubectl(&["delete", "ner", "key"]);
    controller.wait_log("withdrew example.com/key");
    cluster.control_plane.kill_apiserver().unwrap();
    controller.wait_log("cannot be watched");
    let withdrawn = |node: &serde_json::Value| quantity(node, "capacity", KEY).is_none();
    cluster.control_plane.restart_apiserver().unwrap();
    reset(&cluster, "node-199");
    cluster.wait_for("the key to be withdrawn from all nodes", &["nodes"], |list| {
        list["items"].as_array().unwrap().iter().all(withdrawn)
    });
    wait_converged(&cluster, NODES, Some("4"));
    let stray = cluster.nodes().into_iter().find(|node| node.to_string().contains(KEY));
    assert!(stray.is_none(), "{stray:#?}");
    controller.assert_first_term();
    controller.stop();
}

/// The changes that a watch has missed are compacted, so the controller must list again.
#[test]
fn compacted_changes_are_found_by_a_new_list() {
    let mut cluster = Cluster::shared();
    create_nodes(&cluster, 20);
    let proxy = proxy_of(&cluster);
    let admin = cluster.control_plane.kubeconfig();
    let controller = start_behind(&proxy, &cluster, &admin, &LONG_LEASE);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "20/20");

    proxy.set(Some(Fault::Refuse));
    proxy.cut();
    controller.wait_log("nodes: cannot be watched");
    reset(&cluster, "node-1");
    cluster.kubectl(&["delete", "node", "node-2", "node-3"]);
    cluster.apply(&super::node("node-3").to_string());
    cluster.apply(&super::node("node-20").to_string());
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    // The API server caches past changes too, until it is restarted.
    cluster.control_plane.kill_apiserver().unwrap();
    cluster.control_plane.compact_etcd().unwrap();
    cluster.control_plane.restart_apiserver().unwrap();
    let node = cluster.node("node-20");
    assert!(is_as_declared(&node, None), "the controller has not seen the change yet: {node:#}");
    proxy.set(None);
    for resource in ["nodes", "rules"] {
        controller.wait_log(&format!("{resource}: the watch is too old, listing again"));
    }
    wait_converged(&cluster, 20, Some("5"));
    cluster.wait_ready("dongle", "20/20");
    assert!(quantity(&cluster.node("node-20"), "capacity", DONGLE).is_some());
    controller.assert_first_term();
    controller.stop();
}
