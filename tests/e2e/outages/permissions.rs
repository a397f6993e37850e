//! Permissions are revoked from a running controller, and granted again.
//!
//! Method: revoke one permission at a time while there is work to do; check what the controller reports, and that it
//! sends few requests; grant the permission, and wait until the work is done.

use std::time::{Duration, Instant};

use harness::objects::{DONGLE, condition, quantity};
use harness::{Cluster, wait_until};
use serde_json::json;

use super::{create_nodes, proxy_of, start_behind, wait_converged};
use crate::support::permissions::{grant, required, required_without};

const NODES: usize = 20;
const WINDOW: Duration = Duration::from_secs(2);
/// Limit for a watch or the Lease, which would send a hundred requests without a backoff.
const FEW: u64 = 20;
/// Limit for all nodes: each backs off for half a second to one second at first, and doubles it each time.
const FEW_OF_EACH_NODE: u64 = 3 * NODES as u64 + FEW;

/// Counts the requests that the API server has rejected for a missing permission. Its count of requests does not
/// include them.
fn refusals(cluster: &Cluster) -> u64 {
    let metrics = cluster.control_plane.get("/metrics").unwrap();
    let series = "authorization_attempts_total{result=\"no-opinion\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(series)?.parse().ok()).unwrap_or_default()
}

/// Fails if more requests are rejected within a window than backoffs allow.
fn assert_few_refusals(cluster: &Cluster, without: &str, most: u64) {
    let (start, before) = (Instant::now(), refusals(cluster));
    assert!(before > 0, "no request has been rejected so far");
    wait_until("the window to pass", || Ok((start.elapsed() >= WINDOW).then_some(()))).unwrap();
    let refused = refusals(cluster) - before;
    eprintln!("{refused} refused in {WINDOW:?} without {without}");
    assert!(refused <= most, "{refused} requests in {WINDOW:?} without {without}");
}

#[test]
fn revoked_permissions_are_reported_until_granted_again() {
    let cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    grant(&cluster, &required());
    let proxy = proxy_of(&cluster);
    let user = cluster.control_plane.kubeconfig_for("limited");
    let short_lease = ["--leader-elect-lease-duration", "3s"];
    let controller = start_behind(&proxy, &cluster, &user, &short_lease);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "20/20");

    // Patching nodes.
    grant(&cluster, &required_without("nodes/status"));
    cluster.wait_no_permission("limited", "patch", "nodes/status");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    controller.wait_unready("no permission to patch nodes/status");
    cluster.wait_status("dongle", "20 failures", |status| {
        condition(status, "Ready") == ("False", "PatchFailed") && status["nodes"]["failed"] == NODES
    });
    assert_few_refusals(&cluster, "nodes/status", FEW_OF_EACH_NODE);
    grant(&cluster, &required());
    wait_converged(&cluster, NODES, Some("5"));
    controller.wait_ready();
    cluster.wait_ready("dongle", "20/20");

    // Watching rules: checked when a watch begins.
    grant(&cluster, &required_without("nodeextendedresources"));
    cluster.wait_no_permission("limited", "watch", "nodeextendedresources");
    proxy.cut();
    controller.wait_log("rules: cannot be watched, retrying");
    controller.wait_log("grant the verbs list and watch");
    cluster.apply_rule("dongle", &json!({"quantity": 6}));
    // Meanwhile the controller repairs the values of the rules that it knows.
    cluster.write_quantity("node-0", DONGLE, "1");
    cluster.wait_advertised("node-0", DONGLE, "5");
    assert_few_refusals(&cluster, "nodeextendedresources", FEW);
    assert_eq!(quantity(&cluster.node("node-0"), "capacity", DONGLE), Some("5"));
    grant(&cluster, &required());
    wait_converged(&cluster, NODES, Some("6"));
    cluster.wait_ready("dongle", "20/20");

    // Holding the Lease.
    grant(&cluster, &required_without("leases"));
    controller.wait_unready("cannot write the lease");
    controller.wait_log("grant the verbs create and update on leases");
    cluster.apply_rule("dongle", &json!({"quantity": 7}));
    assert_few_refusals(&cluster, "leases", FEW);
    assert_eq!(quantity(&cluster.node("node-0"), "capacity", DONGLE), Some("6"), "no leader");
    grant(&cluster, &required());
    controller.wait_ready();
    wait_converged(&cluster, NODES, Some("7"));
    cluster.wait_ready("dongle", "20/20");
    controller.stop();
}
