//! Permissions are taken away from a running controller, and returned.

use std::time::Duration;

use harness::objects::{DONGLE, condition, quantity};
use harness::{Cluster, ControlPlane};
use serde_json::json;

use super::{create_nodes, proxy_of, requests_within, start_behind, wait_settled};
use crate::support::permissions::{grant, required, required_without};

const NODES: usize = 20;
const WINDOW: Duration = Duration::from_secs(2);
/// Those of the test included. Without a backoff each of the nodes would have dozens.
const FEW: u64 = 20;

/// Fails where more requests are sent than backoffs leave over.
fn assert_few_requests(cluster: &Cluster, without: &str) {
    let sent = requests_within(cluster, WINDOW);
    eprintln!("{sent} requests in {WINDOW:?} without {without}");
    assert!(sent <= FEW, "{sent} requests in {WINDOW:?} without {without}");
}

#[test]
fn permissions_taken_away_are_reported_and_recovered_from() {
    let cluster = Cluster::start_with(ControlPlane::builder().user("limited"));
    create_nodes(&cluster, NODES);
    grant(&cluster, &required());
    let proxy = proxy_of(&cluster);
    let user = cluster.control_plane.kubeconfig_for("limited");
    let short_lease = ["--leader-elect-lease-duration", "3s"];
    let controller = start_behind(&proxy, &cluster, &user, &short_lease);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "20/20");

    // To patch nodes.
    grant(&cluster, &required_without("nodes/status"));
    cluster.wait_no_permission("limited", "patch", "nodes/status");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    controller.wait_unready("no right to patch nodes/status");
    cluster.wait_status("dongle", "20 failures", |status| {
        condition(status, "Ready") == ("False", "PatchFailed") && status["nodes"]["failed"] == NODES
    });
    assert_few_requests(&cluster, "nodes/status");
    grant(&cluster, &required());
    wait_settled(&cluster, &controller, NODES, Some("5"));
    controller.wait_ready();
    cluster.wait_ready("dongle", "20/20");

    // To watch rules: which counts when a watch begins.
    grant(&cluster, &required_without("nodeextendedresources"));
    cluster.wait_no_permission("limited", "watch", "nodeextendedresources");
    proxy.cut();
    controller.wait_log("rules: cannot be watched, trying again");
    controller.wait_log("grant the verbs list and watch");
    cluster.apply_rule("dongle", &json!({"quantity": 6}));
    // What is known of the rules is repaired meanwhile.
    cluster.write_quantity("node-0", DONGLE, "1");
    cluster.wait_advertised("node-0", DONGLE, "5");
    assert_few_requests(&cluster, "nodeextendedresources");
    assert_eq!(quantity(&cluster.node("node-0"), "capacity", DONGLE), Some("5"));
    grant(&cluster, &required());
    wait_settled(&cluster, &controller, NODES, Some("6"));
    cluster.wait_ready("dongle", "20/20");

    // To hold the Lease.
    grant(&cluster, &required_without("leases"));
    controller.wait_unready("the lease cannot be written");
    controller.wait_log("grant the verbs create and update on leases");
    cluster.apply_rule("dongle", &json!({"quantity": 7}));
    assert_few_requests(&cluster, "leases");
    assert_eq!(quantity(&cluster.node("node-0"), "capacity", DONGLE), Some("6"), "nobody leads");
    grant(&cluster, &required());
    controller.wait_ready();
    wait_settled(&cluster, &controller, NODES, Some("7"));
    cluster.wait_ready("dongle", "20/20");
    controller.stop();
}
