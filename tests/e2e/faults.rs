//! Processes killed during a rollout, an unavailable API server, a missing CRD.
//!
//! Method: roll out to hundreds of nodes one patch at a time, interrupt the rollout after the first, and
//! check that no node is lost, patched twice or left with half a patch.

use harness::objects::{DONGLE, LEDGER, ledger, quantity};
use harness::{Cluster, Controller};
use serde_json::json;

use crate::support::SHORT_LEASE;
use crate::support::interrupted_rollout::{
    LONG_LEASE, ONE_PATCH_AT_A_TIME, advertising_nodes, create_nodes, wait_first_patch,
};

const NODES: usize = 200;

fn start_controller(cluster: &Cluster) -> Controller {
    Controller::start_with(cluster, &ONE_PATCH_AT_A_TIME)
}

#[test]
fn apiserver_killed_during_rollout_loses_no_node() {
    let mut cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let controller = Controller::start_with(&cluster, &[ONE_PATCH_AT_A_TIME, LONG_LEASE].concat());
    cluster.apply_rule("dongle", &json!({}));
    wait_first_patch(&controller);
    cluster.control_plane.kill_apiserver().unwrap();
    controller.wait_log("cannot be watched");
    cluster.control_plane.restart_apiserver().unwrap();
    cluster.wait_ready("dongle", "200/200");
    assert_eq!(advertising_nodes(&cluster, "4"), NODES);
    controller.assert_first_term();
    controller.stop();
}

#[test]
fn controller_killed_during_rollout_is_resumed_by_the_next() {
    let cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let controller = Controller::start_with(&cluster, &[ONE_PATCH_AT_A_TIME, SHORT_LEASE].concat());
    cluster.apply_rule("dongle", &json!({}));
    wait_first_patch(&controller);
    controller.kill();
    let patched = advertising_nodes(&cluster, "4");
    assert!((1..NODES).contains(&patched), "{patched}");

    // A patch is atomic: no node has a value without a ledger, or in one map only.
    for node in cluster.nodes() {
        let parts = [
            quantity(&node, "capacity", DONGLE).is_some(),
            quantity(&node, "allocatable", DONGLE).is_some(),
            ledger(&node).is_some(),
        ];
        assert!(parts == [true; 3] || parts == [false; 3], "{node:#}");
    }

    let before = cluster.node_patches();
    let controller = Controller::start(&cluster);
    cluster.wait_ready("dongle", "200/200");
    let patches = usize::try_from(cluster.node_patches() - before).unwrap();
    assert_eq!(patches, NODES - patched, "only the remaining nodes");
    controller.stop();
}

#[test]
fn controller_stopped_during_rollout_completes_in_flight_patch() {
    let cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let controller = start_controller(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    wait_first_patch(&controller);
    controller.stop();
    let patched = advertising_nodes(&cluster, "4");
    assert!(patched < NODES, "the controller stopped before the end of the rollout");
}

#[test]
fn crd_missing_withdraws_nothing_until_installed() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    // A value of an earlier installation, which a missing CRD must not withdraw.
    let ledger = json!({DONGLE: {"quantity": "4", "rule": "dongle"}}).to_string();
    cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}={ledger}")]);
    cluster.write_quantity("node-1", DONGLE, "4");
    let before = cluster.node("node-1");
    let kubeconfig = cluster.control_plane.kubeconfig();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("the CustomResourceDefinition is not installed");
    controller.wait_log("the CustomResourceDefinition is not installed");
    // It leads, and has planned the node without the CRD: a value that somebody lowers is repaired.
    cluster.write_quantity("node-1", DONGLE, "3");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.assert_always(&before, "the value was withdrawn", |node| quantity(node, "capacity", DONGLE).is_some());

    cluster.install_crd();
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    controller.wait_ready();
    cluster.wait_advertised("node-1", DONGLE, "5");
    controller.stop();
}

#[test]
fn apiserver_absent_at_start_is_waited_for() {
    let mut cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply_rule("dongle", &json!({}));
    cluster.control_plane.kill_apiserver().unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("cannot reach the API server");
    controller.wait_log("cannot reach the API server");
    cluster.control_plane.restart_apiserver().unwrap();
    controller.wait_ready();
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}
