//! Values that kubelets reset while nobody leads.
//!
//! Method: kill the leader, reset values as a kubelet does, and see the standby repair them before it leads.

use std::thread;
use std::time::{Duration, Instant};

use harness::objects::{DONGLE, quantity};
use harness::{Cluster, Controller};
use serde_json::json;

/// Sets the dongles of a node to 0 as a kubelet does that registers after a reboot.
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
    // On a slow machine too it does not expire in this test.
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

    // The leader is faster.
    reset(&cluster, "node-1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    first.wait_log("repaired example.com/dongle=4");

    first.kill();
    // The administrator's is for a leader to judge.
    cluster.write_quantity("node-2", DONGLE, "0");
    let since = Instant::now();
    reset(&cluster, "node-1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    let millis = since.elapsed().as_millis();
    // Its response may come after what others see of the node.
    second.wait_log("repaired example.com/dongle=4");
    let (log, other) = (second.log(), cluster.node("node-2"));
    assert!(!log.contains("this process is now the leader"), "{log}");
    assert_eq!(quantity(&other, "allocatable", DONGLE), Some("0"));
    eprintln!("repaired {millis} ms after the reset, with nobody to lead");
    second.stop();
}

/// How long an API server is away: long enough for pauses that double to become long.
const OUTAGE: Duration = Duration::from_secs(15);

/// Nobody may be blind when the nodes' kubelets come back with the API server.
#[test]
fn reset_after_an_outage_is_repaired() {
    let mut cluster = Cluster::start();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.control_plane.kill_apiserver().unwrap();
    controller.wait_log("nodes: cannot be watched");
    thread::sleep(OUTAGE);
    cluster.control_plane.restart_apiserver().unwrap();
    let since = Instant::now();
    reset(&cluster, "node-1");
    let reset = since.elapsed();
    cluster.wait_advertised("node-1", DONGLE, "4");
    let repaired = since.elapsed() - reset;
    eprintln!("reset {reset:.1?} after the API server was back, and repaired {repaired:.1?} later");
    controller.stop();
}
