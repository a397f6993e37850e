//! A node that runs pods, and the pods of the chart.

use std::env;
use std::path::PathBuf;

use harness::{ControlPlane, Node, wait_until};
use serde_json::Value;

use crate::cluster::{Cluster, DEADLINE, condition};
use crate::helm::{NAMESPACE, RELEASE};

/// What the examples run, and what holds a pod's namespaces.
const PAUSE: &str = "registry.k8s.io/pause:3.10";

/// Boots a control plane and `node-1`, which has the images that IMAGE and PAUSE_IMAGE name.
pub fn start() -> (Cluster, Node) {
    let builder = ControlPlane::builder().reachable_from_pods().controller_manager().scheduler();
    let cluster = Cluster::without_crd(builder);
    let images = ["IMAGE", "PAUSE_IMAGE"].map(|name| {
        let path = env::var_os(name).unwrap_or_else(|| panic!("no {name}: `make test-cluster`"));
        PathBuf::from(path)
    });
    let images = [&*images[0], &*images[1]];
    let node = Node::start(&cluster.control_plane, "node-1", PAUSE, &images);
    (cluster, node.expect("the node starts"))
}

/// The names of the controller's pods that are Ready and not about to go.
pub fn replicas(cluster: &Cluster) -> Vec<String> {
    let selector = "--selector=app.kubernetes.io/component=controller";
    let pods = cluster.get(&["pods", "--namespace", NAMESPACE, selector]);
    let pods = pods["items"].as_array().unwrap().iter();
    let ready = pods.filter(|pod| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && condition(&pod["status"], "Ready").0 == "True"
    });
    ready.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until one of two Ready pods leads, and not `previous`: its name, and that of the other.
pub fn wait_leader(cluster: &Cluster, previous: Option<&str>) -> (String, String) {
    let mut last = Value::Null;
    let found = wait_until("one of two replicas to lead", DEADLINE, || {
        let lease = ["get", "lease", RELEASE, "--namespace", NAMESPACE, "-o", "json"];
        last = serde_json::from_str(&cluster.control_plane.kubectl(&lease)?)?;
        let holder = last["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let replicas = replicas(cluster);
        let leads = |pod: &&String| {
            holder.starts_with(&format!("{pod}_")) && Some(pod.as_str()) != previous
        };
        let leader = replicas.iter().find(leads).cloned();
        let other = replicas.iter().find(|&pod| Some(pod) != leader.as_ref()).cloned();
        Ok(leader.zip(other).filter(|_| replicas.len() == 2))
    });
    found.unwrap_or_else(|error| panic!("{error:#}\nlast lease: {last:#}\n{}", events(cluster)))
}

/// What has happened to the pods, for a test that fails.
pub fn events(cluster: &Cluster) -> String {
    cluster.kubectl(&["get", "events", "--all-namespaces"])
}

/// What a pod of the controller has logged.
pub fn logs(cluster: &Cluster, pod: &str) -> String {
    cluster.kubectl(&["logs", pod, "--namespace", NAMESPACE])
}

/// Waits until a pod of the controller has logged `text`.
pub fn wait_logged(cluster: &Cluster, pod: &str, text: &str) {
    wait_until(&format!("{pod} to log {text:?}"), DEADLINE, || {
        Ok(logs(cluster, pod).contains(text).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", logs(cluster, pod)));
}
