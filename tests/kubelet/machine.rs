//! A node with a real kubelet, and pods on it.

use std::time::Duration;

use harness::{Kubelet, wait_until};
use serde_json::{Value, json};

use crate::cluster::{Cluster, DEADLINE, condition};

pub const DONGLE: &str = "example.com/dongle";

/// Whether a pod came through a restart of its kubelet.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is Running, and its container is the same one.
    Survived,
    /// The kubelet has killed it.
    Killed,
}

/// How often a kubelet brings its node's status up to date, by default.
pub const TICK: Duration = Duration::from_secs(10);
/// The same where a test waits for it several times.
pub const FAST_TICK: Duration = Duration::from_secs(1);

/// Starts a kubelet on a new node.
pub fn start_kubelet(cluster: &Cluster, node: &str, tick: Duration) -> Kubelet {
    Kubelet::start(&cluster.control_plane, node, tick).expect("the kubelet starts")
}

/// Runs a pod of three dongles on a node.
pub fn run_pod(cluster: &Cluster, name: &str, node: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "app", "image": "pause",
                "resources": {"limits": {DONGLE: "3"}},
            }],
        },
    });
    cluster.apply(&pod.to_string());
    cluster.wait_for(&format!("pod {name} to run"), &["pod", name], |pod| {
        assert!(!has_ended(pod), "{}", pod["status"]);
        is_ready(pod)
    });
}

/// Writes the condition Ready of a node or a pod, as the node controller does when the node has
/// been away for 50 seconds.
pub fn mark(cluster: &Cluster, object: &[&str], ready: &str) {
    let condition = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
    let patch = ["--subresource=status", "--type=strategic", "-p", &condition.to_string()];
    cluster.kubectl(&[&["patch"], object, &patch].concat());
}

/// Kills a kubelet, starts it again by `restart`, and tells what becomes of a pod that runs there.
pub fn fate_after(
    cluster: &Cluster,
    kubelet: &mut Kubelet,
    pod: &str,
    restart: impl FnOnce(&mut Kubelet) -> anyhow::Result<()>,
) -> Fate {
    let before = cluster.get(&["pod", pod]);
    assert!(is_ready(&before), "{}", before["status"]);
    kubelet.kill().expect("the kubelet is killed");
    // Whoever says later that it is ready is the kubelet, once it has admitted the pod.
    mark(cluster, &["pod", pod], "False");
    restart(kubelet).expect("the kubelet restarts");
    let mut last = Value::Null;
    let decided = wait_until("the kubelet to admit the pod or to kill it", DEADLINE, || {
        last = cluster.get(&["pod", pod]);
        Ok((is_ready(&last) || has_ended(&last)).then_some(()))
    });
    decided.unwrap_or_else(|error| panic!("{error:#}\n{:#}\n{}", last["status"], kubelet.log()));
    if has_ended(&last) {
        return Fate::Killed;
    }
    assert_eq!(last["metadata"]["uid"], before["metadata"]["uid"]);
    let container = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        ["containerID", "restartCount", "state"].map(|field| status[field].clone())
    };
    assert_eq!(container(&last), container(&before), "the container is another one");
    Fate::Survived
}

/// Waits until the kubelet has told why it killed a pod of three dongles: there are only `capacity`.
pub fn wait_told(cluster: &Cluster, pod: &str, capacity: u32) {
    let because = format!("requested: 3, used: 0, capacity: {capacity}");
    cluster.wait_event(pod, &format!("OutOf{DONGLE}"), &because);
}

/// Whether a pod runs, as its kubelet says.
fn is_ready(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && condition(&pod["status"], "Ready").0 == "True"
}

/// Whether it runs no more: Succeeded is one whose container, when it was killed, ended with 0.
fn has_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded"
}
