//! Values that kubelets reset while no replica leads.
//!
//! Method: kill the leader, reset values like a kubelet, and check that the standby repairs them before it leads.

use std::time::Instant;

use harness::objects::{DONGLE, quantity};
use harness::{Cluster, Controller};
use serde_json::json;

use crate::support::SHORT_LEASE;

/// The field managers of kubelets: kubeadm's, those that are a part of k3s and MicroK8s, and kubemark's.
const KUBELETS: [(&str, &str); 4] =
    [("node-1", "kubelet"), ("node-2", "k3s"), ("node-3", "kubelite"), ("node-4", "hollow-kubelet")];

#[test]
fn standby_repairs_resets_while_no_replica_leads() {
    let cluster = Cluster::shared();
    cluster.create_nodes(KUBELETS.map(|(node, _)| node).into_iter().chain(["admin", "other"]), &json!({}));
    for (node, kubelet) in KUBELETS {
        cluster.heartbeat(node, kubelet);
    }
    cluster.heartbeat("other", "k3s");
    // The lease does not expire within this test, even on a slow machine.
    let start = |identity| {
        let lease = ["--leader-elect-lease-duration", "300s"];
        Controller::start_with(&cluster, &[&["--identity", identity], &lease[..]].concat())
    };
    let first = start("first");
    first.wait_log("this process is now the leader");
    let second = start("second");
    second.wait_log("standing by holder=first_");
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "6/6");

    // With a leader, the leader repairs first.
    cluster.reset("node-1", "kubelet", DONGLE);
    cluster.wait_advertised("node-1", DONGLE, "4");
    first.wait_log("repaired example.com/dongle=4");

    first.kill();
    // Only a leader decides about an administrator's value, and about one of a client that has a kubelet's name.
    cluster.write_quantity("admin", DONGLE, "0");
    cluster.reset("other", "kubelet", DONGLE);
    for (node, kubelet) in KUBELETS {
        let since = Instant::now();
        cluster.reset(node, kubelet, DONGLE);
        cluster.wait_advertised(node, DONGLE, "4");
        let millis = since.elapsed().as_millis();
        // The response may arrive after others have seen the node.
        second.wait_log(&format!("was 0, written by {kubelet}) node={node} "));
        eprintln!("repaired {millis} ms after the reset by {kubelet}, without a leader");
    }
    let log = second.log();
    assert!(!log.contains("this process is now the leader"), "{log}");
    for node in ["admin", "other"] {
        assert_eq!(quantity(&cluster.node(node), "allocatable", DONGLE), Some("0"), "{node}");
    }
    second.stop();
}

/// Watches must be restored quickly when the kubelets reconnect together with the API server.
#[test]
fn reset_after_an_outage_is_repaired() {
    let mut cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start_with(&cluster, &SHORT_LEASE);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.control_plane.kill_apiserver().unwrap();
    controller.wait_log("nodes: cannot be watched");
    // By then, pauses between attempts have doubled several times.
    controller.wait_log("this process is no longer the leader");
    cluster.control_plane.restart_apiserver().unwrap();
    let since = Instant::now();
    cluster.reset("node-1", "kubelet", DONGLE);
    let reset = since.elapsed();
    cluster.wait_advertised("node-1", DONGLE, "4");
    let repaired = since.elapsed() - reset;
    eprintln!("reset {reset:.1?} after the API server was back, and repaired {repaired:.1?} later");
    controller.stop();
}
