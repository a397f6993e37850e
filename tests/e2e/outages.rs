//! Outages of the controller's dependencies: etcd, the API server, the network, credentials, permissions, the CRD.
//!
//! Method: break a dependency while there is work to do, and restore it. Each time, every node must converge (I8), the
//! values of other clients must stay unchanged, and requests must cease (I7).

mod control_plane;
mod crd;
mod credentials;
mod late_patches;
mod network;
mod permissions;
mod restore;

use std::path::Path;
use std::time::Duration;

use harness::objects::{self, DONGLE, advertises, ledger, quantity};
use harness::{Cluster, Controller, Fault, FaultProxy};
use serde_json::{Value, json};

/// A resource and an annotation of another client, on each node.
const FOREIGN: (&str, &str) = ("example.com/foreign", "7");

/// After this time without a request, requests have ceased.
const CALM: Duration = Duration::from_secs(2);

/// Slows a rollout of one patch at a time down to some seconds, so that it can be interrupted.
const SLOW: Fault = Fault::Delay(Duration::from_millis(20));

/// Creates the nodes `node-0` and so on, with another client's resource and annotation.
fn create_nodes(cluster: &Cluster, count: usize) {
    let items: Vec<_> = (0..count).map(|number| node(&format!("node-{number}"))).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.control_plane.kubectl_stdin(&["create", "-f", "-"], &list.to_string()).expect("the nodes are created");
}

fn node(name: &str) -> Value {
    let (resource, quantity) = FOREIGN;
    let mut node = objects::node(name, &json!({}));
    node["metadata"]["annotations"] = json!({resource: quantity});
    node["status"] = json!({"capacity": {resource: quantity}, "allocatable": {resource: quantity}});
    node
}

/// Waits until this number of nodes has this quantity of dongles, or none and no ledger, and until requests
/// cease. Nothing else on the nodes may have changed.
fn wait_converged(cluster: &Cluster, count: usize, expected: Option<&str>) {
    let what = format!("{count} nodes with {} dongles", expected.unwrap_or("no"));
    cluster.wait_for(&what, &["nodes"], |list| {
        let nodes = list["items"].as_array().unwrap();
        nodes.len() == count && nodes.iter().all(|node| is_as_declared(node, expected))
    });
    cluster.wait_idle(CALM);
    for node in cluster.nodes() {
        assert!(is_as_declared(&node, expected), "the node did not stay as declared: {node:#}");
        let (resource, quantity) = FOREIGN;
        let annotation = &node["metadata"]["annotations"][resource];
        let maps = ["capacity", "allocatable"].map(|map| objects::quantity(&node, map, resource));
        assert!(maps == [Some(quantity); 2] && annotation == quantity, "what others wrote: {node:#}");
    }
}

fn is_as_declared(node: &Value, expected: Option<&str>) -> bool {
    match expected {
        Some(quantity) => advertises(node, DONGLE, quantity),
        None => {
            let maps = ["capacity", "allocatable"].map(|map| quantity(node, map, DONGLE));
            maps == [None; 2] && !ledger(node).is_some_and(|ledger| ledger.contains(DONGLE))
        }
    }
}

/// Starts a controller that connects through the proxy as the user of a kubeconfig, and waits until it is ready.
fn start_behind(proxy: &FaultProxy, cluster: &Cluster, user: &Path, args: &[&str]) -> Controller {
    let kubeconfig = proxy.kubeconfig(user).unwrap();
    let controller = Controller::start_unready(cluster, &kubeconfig, args);
    controller.wait_ready();
    controller
}

fn proxy_of(cluster: &Cluster) -> FaultProxy {
    FaultProxy::start(cluster.control_plane.apiserver_address().unwrap()).unwrap()
}

/// Sets the dongles of a node to 0, like a kubelet that registers its node after a reboot.
fn reset(cluster: &Cluster, node: &str) {
    cluster.reset(node, "kubelet", DONGLE);
}
