//! The network between controller and API server breaks during a rollout, in each of some ways.

use harness::objects::DONGLE;
use harness::{Cluster, Controller, Fault};
use serde_json::json;

use super::{SLOW, create_nodes, proxy_of, reset, start_behind, wait_settled};
use crate::support::interrupted_rollout::{
    ONE_PATCH_AT_A_TIME, advertising_nodes, wait_first_patch,
};

const NODES: usize = 50;

/// Breaks the network after the first patch of a rollout. Mends it after so many connections met the fault, and after
/// `noticed`.
fn break_during_rollout(fault: Fault, hits: u64, noticed: impl Fn(&Controller)) {
    let cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let proxy = proxy_of(&cluster);
    let admin = cluster.control_plane.kubeconfig();
    // Answers are missed soon. A leader is replaced late, since it plans every node again: that would find a lost one.
    let lease = if fault == Fault::Stall { "4s" } else { "60s" };
    let timeouts = ["--request-timeout", "2s", "--leader-elect-lease-duration", lease];
    let args = [&ONE_PATCH_AT_A_TIME[..], &timeouts].concat();
    let controller = start_behind(&proxy, &cluster, &admin, &args);
    proxy.set(Some(SLOW));
    cluster.apply_rule("dongle", &json!({}));
    wait_first_patch(&controller);
    proxy.set(Some(fault));
    if fault == Fault::Refuse {
        // Those that are open would do.
        proxy.cut();
    }
    let patched = advertising_nodes(&cluster, "4");
    assert!(patched < NODES, "the rollout was over before it was interrupted");
    // The watches meet it where there is something to watch: no patch arrives where no connection can be opened.
    cluster.kubectl(&["label", "nodes", "--all", "example.com/seen=now"]);
    proxy.wait_hits(hits).unwrap_or_else(|error| panic!("{error:#}\n{}", controller.log()));
    noticed(&controller);
    proxy.set(None);
    wait_settled(&cluster, &controller, NODES, Some("4"));
    cluster.wait_ready("dongle", "50/50");
    // Both watches are back.
    reset(&cluster, "node-0");
    cluster.wait_advertised("node-0", DONGLE, "4");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_ready("dongle", "50/50");
    cluster.wait_advertised("node-49", DONGLE, "5");
    controller.stop();
}

/// Several patches, one after the other, have failed by then.
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
    // One of a TLS session that is resumed has some 250 bytes from the server.
    break_during_rollout(Fault::Truncate(100), 10, wait_failures);
}

/// A patch is applied, and half its response is lost. No handshake succeeds from there on, so that a few times will do.
#[test]
fn responses_cut_halfway_lose_no_node() {
    break_during_rollout(Fault::Truncate(1_000), 4, wait_failures);
}

#[test]
fn late_responses_during_rollout_lose_no_node() {
    break_during_rollout(SLOW, NODES as u64, |_| {});
}

/// Nothing is answered, and no connection ends: only deadlines notice that.
#[test]
fn stalled_responses_end_at_their_deadlines() {
    break_during_rollout(Fault::Stall, 2, |controller| {
        controller.wait_log("cannot write the lease: no response within");
        controller.wait_log("this process is no longer the leader");
    });
}
