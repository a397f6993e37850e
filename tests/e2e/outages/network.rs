//! The network between controller and API server breaks during a rollout, in each of some ways.

use harness::{Cluster, Controller, Fault};
use serde_json::json;

use super::{SLOW, create_nodes, proxy_of, start_behind, wait_settled};
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
    // Answers are missed soon, and so is a leader.
    let soon = ["--request-timeout", "2s", "--leader-elect-lease-duration", "4s"];
    let args = [&ONE_PATCH_AT_A_TIME[..], &soon].concat();
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
    proxy.wait_hits(hits).unwrap_or_else(|error| panic!("{error:#}\n{}", controller.log()));
    noticed(&controller);
    proxy.set(None);
    wait_settled(&cluster, &controller, NODES, Some("4"));
    cluster.wait_ready("dongle", "50/50");
    controller.stop();
}

#[test]
fn refused_connections_during_rollout_lose_no_node() {
    break_during_rollout(Fault::Refuse, 5, |controller| controller.wait_log("cannot be watched"));
}

#[test]
fn reset_connections_during_rollout_lose_no_node() {
    break_during_rollout(Fault::Reset, 5, |controller| controller.wait_log("cannot be watched"));
}

#[test]
fn responses_cut_within_the_handshake_lose_no_node() {
    break_during_rollout(Fault::Truncate(500), 5, |controller| {
        controller.wait_log("cannot be watched");
    });
}

/// The patch is applied, and half its response is lost: longer than a handshake, shorter than a list.
#[test]
fn responses_cut_in_their_middle_lose_no_node() {
    break_during_rollout(Fault::Truncate(4_000), 5, |_| {});
}

#[test]
fn late_responses_during_rollout_lose_no_node() {
    break_during_rollout(SLOW, NODES as u64, |_| {});
}

/// Nothing is answered, and no connection ends: only deadlines notice that.
#[test]
fn stalled_responses_are_noticed_by_their_deadlines() {
    break_during_rollout(Fault::Stall, 2, |controller| {
        controller.wait_log("the lease is not written: no answer in");
        controller.wait_log("this process leads no longer");
    });
}
