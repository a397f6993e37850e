//! The controller's pods: which are Ready, which is the leader, and what they log.

use std::env;
use std::path::{Path, PathBuf};

use harness::helm::{NAMESPACE, RELEASE};
use harness::objects::condition;
use harness::{Cluster, ControlPlane, Node, wait_until};
use serde_json::Value;

/// The image of the example pods, and of the pause container.
const PAUSE: &str = "registry.k8s.io/pause:3.10";

/// Starts a control plane and `node-1`, with the images that IMAGE and PAUSE_IMAGE name, and one more.
pub fn start_cluster(another: Option<&Path>) -> (Cluster, Node) {
    let images = [image("IMAGE"), image("PAUSE_IMAGE")];
    start(&images.iter().map(PathBuf::as_path).chain(another).collect::<Vec<_>>())
}

/// Does the same without the controller's image.
pub fn start_cluster_without_image() -> (Cluster, Node) {
    start(&[&image("PAUSE_IMAGE")])
}

fn image(variable: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).unwrap_or_else(|| panic!("no {variable}: `make test-cluster`")))
}

fn start(images: &[&Path]) -> (Cluster, Node) {
    let builder = ControlPlane::builder().reachable_from_pods().controller_manager().scheduler();
    let cluster = Cluster::start_without_crd(builder);
    let node = Node::start(&cluster.control_plane, "node-1", PAUSE, images);
    (cluster, node.expect("the node starts"))
}

/// Returns the names of the controller's pods that are Ready and not being deleted.
pub fn ready(cluster: &Cluster) -> Vec<String> {
    let selector = "--selector=app.kubernetes.io/component=controller";
    let pods = cluster.get(&["pods", "--namespace", NAMESPACE, selector]);
    let pods = pods["items"].as_array().unwrap().iter();
    let found = pods
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && condition(&pod["status"], "Ready").0 == "True");
    found.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until one of two Ready pods leads, other than `previous`; returns its name and the other's.
pub fn wait_leader(cluster: &Cluster, previous: Option<&str>) -> (String, String) {
    let mut last = Value::Null;
    let found = wait_until("one of two replicas to lead", || {
        let lease = ["get", "lease", RELEASE, "--namespace", NAMESPACE, "-o", "json"];
        last = serde_json::from_str(&cluster.control_plane.kubectl(&lease)?)?;
        let holder = last["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let replicas = ready(cluster);
        let leads = |pod: &&String| holder.starts_with(&format!("{pod}_")) && Some(pod.as_str()) != previous;
        let leader = replicas.iter().find(leads).cloned();
        let other = replicas.iter().find(|&pod| Some(pod) != leader.as_ref()).cloned();
        Ok(leader.zip(other).filter(|_| replicas.len() == 2))
    });
    found.unwrap_or_else(|error| panic!("{error:#}\nlast lease: {last:#}\n{}", events(cluster)))
}

/// Returns all Events, for the message of a failed test.
pub fn events(cluster: &Cluster) -> String {
    cluster.kubectl(&["get", "events", "--all-namespaces"])
}

/// Returns what a pod of the controller has logged.
pub fn logs(cluster: &Cluster, pod: &str) -> String {
    cluster.kubectl(&["logs", pod, "--namespace", NAMESPACE])
}

/// Waits until a pod of the controller has logged `text`.
pub fn wait_logged(cluster: &Cluster, pod: &str, text: &str) {
    wait_until(&format!("{pod} to log {text:?}"), || Ok(logs(cluster, pod).contains(text).then_some(())))
        .unwrap_or_else(|error| panic!("{error:#}\n{}", logs(cluster, pod)));
}
