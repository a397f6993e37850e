//! The CRD is deleted with all rules, and applied again together with them, as GitOps tools do.
//!
//! Method: do this while the controller is connected, and while it is not; compare values and resource versions.

use harness::{Cluster, Controller, Fault};
use serde_json::{Value, json};

use super::{create_nodes, proxy_of, start_behind, wait_converged};

const CRD: &str = "nodeextendedresources.noderesource.dev";

fn resource_versions(cluster: &Cluster) -> Vec<Value> {
    let nodes = cluster.nodes().into_iter();
    nodes.map(|node| node["metadata"]["resourceVersion"].clone()).collect()
}

fn apply_rules(cluster: &Cluster) {
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("idle", &json!({"resourceName": "example.com/key", "nodeNames": ["absent"]}));
}

/// A connected controller sees the deletion of every rule.
#[test]
fn crd_deleted_during_a_watch_withdraws_until_rules_are_applied_again() {
    let cluster = Cluster::shared();
    create_nodes(&cluster, 20);
    let controller = Controller::start_with(&cluster, &["--mass-withdrawal-delay", "1h"]);
    apply_rules(&cluster);
    cluster.wait_ready("dongle", "20/20");
    cluster.kubectl(&["delete", "crd", CRD]);
    wait_converged(&cluster, 20, None);
    controller.wait_log("the CustomResourceDefinition is not installed");

    cluster.install_crd();
    apply_rules(&cluster);
    wait_converged(&cluster, 20, Some("4"));
    cluster.wait_ready("dongle", "20/20");
    let status = cluster.wait_ready("idle", "0/0");
    assert_eq!(status["nodes"]["missing"], 1);
    controller.stop();
}

/// A disconnected controller later finds most rules missing, and waits: the values are never withdrawn.
#[test]
fn crd_recreated_while_disconnected_changes_no_node() {
    let cluster = Cluster::shared();
    create_nodes(&cluster, 20);
    let proxy = proxy_of(&cluster);
    let admin = cluster.control_plane.kubeconfig();
    let controller = start_behind(&proxy, &cluster, &admin, &["--mass-withdrawal-delay", "1h"]);
    apply_rules(&cluster);
    cluster.wait_ready("dongle", "20/20");
    let before = resource_versions(&cluster);

    proxy.set(Some(Fault::Refuse));
    proxy.cut();
    controller.wait_log("rules: cannot be watched");
    cluster.kubectl(&["delete", "crd", CRD]);
    cluster.install_crd();
    proxy.set(None);
    controller.wait_log("1 of the 1 rules named in node annotations are missing");
    apply_rules(&cluster);
    wait_converged(&cluster, 20, Some("4"));
    cluster.wait_ready("dongle", "20/20");
    assert!(before == resource_versions(&cluster), "a node was written to");
    controller.stop();
}
