//! The network between controller and API server fails during a rollout, in several ways.
//!
//! Method: put a faulty proxy between them, set one fault after the first patch, wait until connections meet it, and
//! clear it.

use harness::objects::DONGLE;
use harness::{Cluster, Controller, Fault};
use serde_json::json;

use super::{SLOW, create_nodes, proxy_of, reset, start_behind, wait_converged};
use crate::support::interrupted_rollout::{LONG_LEASE, ONE_PATCH_AT_A_TIME, advertising_nodes, wait_first_patch};

const NODES: usize = 50;

/// Breaks the network after the first patch of a rollout. Restores it after this number of connections met the
/// fault, and after `noticed`.
fn break_during_rollout(fault: Fault, hits: u64, noticed: impl Fn(&Controller)) {
    break_with(&LONG_LEASE, fault, hits, |controller| {
        noticed(controller);
        controller.assert_first_term();
    });
}

/// Does the same with a Lease of this duration. `noticed` runs before the network is restored, and at the end.
fn break_with(lease: &[&str], fault: Fault, hits: u64, noticed: impl Fn(&Controller)) {
    let cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let proxy = proxy_of(&cluster);
    let admin = cluster.control_plane.kubeconfig();
    // Missing responses time out soon.
    let args = [&ONE_PATCH_AT_A_TIME[..], lease, &["--request-timeout", "2s"]].concat();
    let controller = start_behind(&proxy, &cluster, &admin, &args);
    proxy.set(Some(SLOW));
    cluster.apply_rule("dongle", &json!({}));
    wait_first_patch(&controller);
    proxy.set(Some(fault));
    if fault == Fault::Refuse {
        // Existing connections would suffice for the rollout.
        proxy.cut();
    }
    let patched = advertising_nodes(&cluster, "4");
    assert!(patched < NODES, "the rollout was over before it was interrupted");
    // Watches meet the fault only if there are changes, and no patch arrives while no connection can be opened.
    cluster.kubectl(&["label", "nodes", "--all", "example.com/seen=now"]);
    proxy.wait_hits(hits).unwrap_or_else(|error| panic!("{error:#}\n{}", controller.log()));
    noticed(&controller);
    proxy.set(None);
    wait_converged(&cluster, NODES, Some("4"));
    cluster.wait_ready("dongle", "50/50");
    // Both watches work again.
    reset(&cluster, "node-0");
    cluster.wait_advertised("node-0", DONGLE, "4");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_ready("dongle", "50/50");
    cluster.wait_advertised("node-49", DONGLE, "5");
    noticed(&controller);
    controller.stop();
}

/// By then, several patches have failed one after the other.
fn wait_failures(controller: &Controller) {
    controller.wait_log("cannot be watched");
    controller.wait_log("cannot patch the node, retrying");
}

#[test]
fn refused_connections_during_rollout_lose_no_node() {
    break_during_rollout(Fault::Refuse, 10, wait_failures);
}

#[test]
fn reset_connections_during_rollout_lose_no_node() {
    break_during_rollout(Fault::Reset, 10, wait_failures);
}

#[test]
fn responses_cut_during_the_handshake_lose_no_node() {
    // The handshake of a resumed TLS session has some 250 bytes from the server.
    break_during_rollout(Fault::Truncate(100), 10, wait_failures);
}

/// A patch is applied, and half its response is lost. No later handshake succeeds, so a few hits are enough.
#[test]
fn responses_cut_halfway_lose_no_node() {
    break_during_rollout(Fault::Truncate(1_000), 4, wait_failures);
}

#[test]
fn late_responses_during_rollout_lose_no_node() {
    break_during_rollout(SLOW, NODES as u64, |_| {});
}

/// The server does not respond, and no connection ends: only deadlines detect that.
#[test]
fn stalled_responses_end_at_their_deadlines() {
    break_during_rollout(Fault::Stall, 2, |controller| controller.wait_log("cannot patch the node, retrying"));
}

#[test]
fn stalled_responses_end_the_term_of_the_leader() {
    break_with(&["--leader-elect-lease-duration", "4s"], Fault::Stall, 2, |controller| {
        controller.wait_log("cannot write the lease: no response within");
        controller.wait_log("this process is no longer the leader");
    });
}
