//! Values that kubelets reset while no replica leads.
//!
//! Method: kill the leader, reset values like a kubelet, and check that the standby repairs them before it leads.

use std::time::Instant;

use harness::objects::{DONGLE, quantity};
use harness::{Cluster, Controller};
use serde_json::json;

use crate::support::SHORT_LEASE;

/// Sets the dongles of a node to 0, like a kubelet that registers its node after a reboot.
fn reset(cluster: &Cluster, node: &str) {
    let map = json!({DONGLE: "0"});
    let patch = json!({"status": {"capacity": map, "allocatable": map}}).to_string();
    let manager = ["--field-manager=kubelet", "--subresource=status", "--type=strategic"];
    cluster.kubectl(&[&["patch", "node", node, "-p", &patch], &manager[..]].concat());
}

#[test]
fn standby_repairs_resets_while_no_replica_leads() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    // The lease does not expire within this test, even on a slow machine.
    let start = |identity| {
        let lease = ["--leader-elect-lease-duration", "120s"];
        Controller::start_with(&cluster, &[&["--identity", identity], &lease[..]].concat())
    };
    let first = start("first");
    first.wait_log("this process is now the leader");
    let second = start("second");
    second.wait_log("standing by holder=first_");
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    // With a leader, the leader repairs first.
    reset(&cluster, "node-1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    first.wait_log("repaired example.com/dongle=4");

    first.kill();
    // Only a leader decides about an administrator's value.
    cluster.write_quantity("node-2", DONGLE, "0");
    let since = Instant::now();
    reset(&cluster, "node-1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    let millis = since.elapsed().as_millis();
    // The response may arrive after others have seen the node.
    second.wait_log("repaired example.com/dongle=4");
    let (log, other) = (second.log(), cluster.node("node-2"));
    assert!(!log.contains("this process is now the leader"), "{log}");
    assert_eq!(quantity(&other, "allocatable", DONGLE), Some("0"));
    eprintln!("repaired {millis} ms after the reset, without a leader");
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
    reset(&cluster, "node-1");
    let reset = since.elapsed();
    cluster.wait_advertised("node-1", DONGLE, "4");
    let repaired = since.elapsed() - reset;
    eprintln!("reset {reset:.1?} after the API server was back, and repaired {repaired:.1?} later");
    controller.stop();
}
