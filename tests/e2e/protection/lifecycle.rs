//! How the controller handles values that the policy has kept: although their managedFields name the kubelet,
//! they are withdrawn, retained and taken over as usual.

use harness::objects::{DONGLE, advertises, ledger, quantity};
use harness::{Cluster, Controller, SharedCluster, protection};
use serde_json::{Value, json};

use super::{maps, register};
use crate::support::program;

const KEY: &str = "example.com/key";

/// Starts a cluster with the policy and a node that advertises 4 dongles, and 4 keys under `Retain`.
fn cluster_with_two_rules() -> (SharedCluster, Controller) {
    let cluster = Cluster::shared();
    protection::install(&cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.heartbeat("node-1", "kubelet");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": KEY, "deletionPolicy": "Retain"}));
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_ready("key", "1/1");
    (cluster, controller)
}

/// Resets everything like the kubelet of node-1 after a reboot, and checks that the values are kept.
fn reset(cluster: &Cluster) -> Value {
    let before = maps(&cluster.node("node-1"));
    let zeros = |map: &str| {
        let resources = before[map].as_object().unwrap().keys();
        resources.map(|name| (name.clone(), Value::from("0"))).collect::<Value>()
    };
    let zeros = json!({"capacity": zeros("capacity"), "allocatable": zeros("allocatable")});
    let node = register(cluster, "node-1", &zeros);
    assert_eq!(maps(&node), before);
    let managers = cluster.get(&["node", "node-1", "--show-managed-fields"]);
    let managers = managers["metadata"]["managedFields"].to_string();
    assert!(managers.contains(r#""manager":"kubelet""#), "{managers}");
    node
}

fn has_repaired_nothing(controller: &Controller) -> bool {
    let (_, metrics) = controller.get("/metrics").unwrap();
    metrics.contains("node_resource_advertiser_repairs_total 0")
}

#[test]
fn rule_deleted_after_a_kept_reset_is_withdrawn() {
    let (cluster, controller) = cluster_with_two_rules();
    let patches = cluster.node_patches();
    reset(&cluster);
    reset(&cluster);
    // First without a controller: the next one has nothing to do either.
    controller.stop();
    reset(&cluster);
    let controller = Controller::start(&cluster);
    cluster.wait_ready("dongle", "1/1");
    assert_eq!(cluster.node_patches() - patches, 3, "only the kubelet's patches");
    assert!(has_repaired_nothing(&controller), "{}", controller.log());

    cluster.kubectl(&["delete", "ner", "--all"]);
    let node = cluster.wait_withdrawn("node-1", DONGLE);
    let retained = json!({"capacity": {KEY: "4"}, "allocatable": {KEY: "4"}});
    assert_eq!(maps(&node), retained, "one value is withdrawn, and one retained");
    assert!(node["metadata"]["annotations"].is_null(), "{node:#}");

    // Values that no ledger lists any more are reset as usual.
    let zero = json!({"capacity": {KEY: "0"}, "allocatable": {KEY: "0"}});
    assert_eq!(maps(&register(&cluster, "node-1", &zero)), zero);
    controller.stop();
}

#[test]
fn prune_withdraws_what_was_kept() {
    let (cluster, controller) = cluster_with_two_rules();
    controller.stop();
    reset(&cluster);
    let output = program::run(&cluster.control_plane.kubeconfig(), &["prune", "--all", "--yes"], None);
    assert_eq!(output.code, 0, "{output:?}");
    let node = cluster.wait_withdrawn("node-1", DONGLE);
    assert_eq!(quantity(&node, "allocatable", KEY), Some("4"));
}

#[test]
fn kept_value_is_edited_repaired_and_released_as_before() {
    let (cluster, controller) = cluster_with_two_rules();
    reset(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 6}));
    cluster.wait_advertised("node-1", DONGLE, "6");
    reset(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 3}));
    cluster.wait_advertised("node-1", DONGLE, "3");
    reset(&cluster);
    cluster.write_quantity("node-1", DONGLE, "9");
    cluster.wait_advertised("node-1", DONGLE, "3");
    cluster.wait_event("node-1", "Repaired", "node-1: 9 (by kubectl-patch) -> 3");

    // A value that another client wrote while no controller ran is kept too, and still belongs to that client.
    controller.stop();
    cluster.write_quantity("node-1", DONGLE, "7");
    reset(&cluster);
    cluster.kubectl(&["delete", "ner", "dongle"]);
    let controller = Controller::start(&cluster);
    let node = cluster.wait_for("the dongle to be released", &["node", "node-1"], |node| {
        ledger(node).is_some_and(|ledger| !ledger.contains(DONGLE))
    });
    assert_eq!(quantity(&node, "allocatable", DONGLE), Some("7"));
    assert!(advertises(&node, KEY, "4"), "{node:#}");
    controller.stop();
}

#[test]
fn value_taken_over_is_kept_from_then_on() {
    let (cluster, controller) = cluster_with_two_rules();
    let foreign = "example.com/foreign";
    let of = |value: &str| json!({"capacity": {foreign: value}, "allocatable": {foreign: value}});
    cluster.write_quantity("node-1", foreign, "8");
    cluster.apply_rule("foreign", &json!({"resourceName": foreign}));
    cluster.wait_status("foreign", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    // The value is not listed, so the reset is admitted, and the controller can write the rule's value.
    register(&cluster, "node-1", &of("0"));
    cluster.wait_advertised("node-1", foreign, "4");
    cluster.kubectl(&["delete", "ner", "foreign"]);
    cluster.wait_for("the value to be withdrawn", &["node", "node-1"], |node| {
        quantity(node, "capacity", foreign).is_none()
    });

    cluster.write_quantity("node-1", foreign, "8");
    let overwrite = json!({"resourceName": foreign, "conflictPolicy": "Overwrite"});
    cluster.apply_rule("foreign", &overwrite);
    cluster.wait_advertised("node-1", foreign, "4");
    reset(&cluster);
    controller.stop();
}

/// A limit: managedFields name the kubelet, as for a device plugin's value, so nothing distinguishes a kept
/// value that is no longer listed from a device plugin's.
#[test]
fn kept_value_is_adopted_by_a_controller_that_saw_it_listed() {
    let (cluster, controller) = cluster_with_two_rules();
    let release = || {
        cluster.kubectl(&["delete", "ner", "key"]);
        cluster.wait_for("the key to be released", &["node", "node-1"], |node| {
            ledger(node).is_some_and(|ledger| !ledger.contains(KEY))
        });
    };
    let retain = json!({"resourceName": KEY, "deletionPolicy": "Retain"});
    reset(&cluster);
    release();
    cluster.apply_rule("key", &retain);
    cluster.wait_ready("key", "1/1");
    controller.wait_log("adopted example.com/key=4");

    // Another process cannot distinguish the value from a device plugin's.
    reset(&cluster);
    release();
    controller.stop();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("key", &retain);
    let status = cluster.wait_status("key", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    assert_eq!(
        status["problems"][0]["message"],
        "already 4, last written by kubelet; a device plugin probably provides it: exclude the node from the rule"
    );
    let mut take_over = retain;
    take_over["conflictPolicy"] = json!("Overwrite");
    cluster.apply_rule("key", &take_over);
    cluster.wait_advertised("node-1", KEY, "4");
    cluster.wait_ready("key", "1/1");
    controller.stop();
}
