//! A rollout that is slow enough to be interrupted: one patch at a time.

use harness::objects::{DONGLE, advertises};
use harness::{Cluster, Controller};
use serde_json::json;

/// Arguments of a controller whose rollout can be interrupted.
pub const ONE_PATCH_AT_A_TIME: [&str; 2] = ["--max-concurrent-patches", "1"];

/// Arguments of a controller whose Lease does not expire in an outage, even on a slow machine: a new leader plans every
/// node again, which would hide one that was lost. See [`Controller::assert_first_term`].
pub const LONG_LEASE: [&str; 2] = ["--leader-elect-lease-duration", "300s"];

/// Creates the nodes `node-0` and so on.
pub fn create_nodes(cluster: &Cluster, count: usize) {
    cluster.create_nodes((0..count).map(|number| format!("node-{number}")), &json!({}));
}

/// Waits until the first node has been patched, which the log reports within milliseconds. Hundreds
/// of nodes one by one take hundreds of milliseconds.
pub fn wait_first_patch(controller: &Controller) {
    controller.wait_log("advertised example.com/dongle=4");
}

/// Counts the nodes that advertise this number of dongles.
pub fn advertising_nodes(cluster: &Cluster, quantity: &str) -> usize {
    cluster.nodes().iter().filter(|node| advertises(node, DONGLE, quantity)).count()
}
