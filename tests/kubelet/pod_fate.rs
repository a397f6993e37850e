//! Pods on a real kubelet, and whether they survive its restart.

use std::time::Duration;

use harness::objects::{DONGLE, bound_pod, condition};
use harness::{Cluster, Kubelet, wait_until};
use serde_json::{Value, json};

/// Whether a pod survived a restart of its kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The pod is Running, with the same container.
    Survived,
    /// The kubelet rejected it and killed its container.
    Killed,
}

/// How often a kubelet writes its node's status, by default.
pub const TICK: Duration = Duration::from_secs(10);
/// The same for a test that waits for several writes.
pub const FAST_TICK: Duration = Duration::from_secs(1);

/// Starts a kubelet on a new node.
pub fn start_kubelet(cluster: &Cluster, node: &str, tick: Duration) -> Kubelet {
    Kubelet::start(&cluster.control_plane, node, tick).expect("the kubelet starts")
}

/// Runs a pod that requests three dongles on a node, and waits until it is Ready.
pub fn run_pod(cluster: &Cluster, name: &str, node: &str) {
    cluster.apply(&bound_pod(name, node, DONGLE, "3").to_string());
    cluster.wait_running(name);
    cluster.wait_for(&format!("pod {name} to be Ready"), &["pod", name], is_ready);
}

/// Writes the condition Ready of a node or a pod, as the node controller does when the node has been
/// down for 50 seconds.
pub fn write_ready(cluster: &Cluster, object: &[&str], ready: &str) {
    let condition = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
    let patch = ["--subresource=status", "--type=strategic", "-p", &condition.to_string()];
    cluster.kubectl(&[&["patch"], object, &patch].concat());
}

/// Kills a kubelet, restarts it with `restart`, and returns the fate of a pod that runs there.
pub fn fate_after(
    cluster: &Cluster,
    kubelet: &mut Kubelet,
    pod: &str,
    restart: impl FnOnce(&mut Kubelet) -> anyhow::Result<()>,
) -> Fate {
    let before = cluster.get(&["pod", pod]);
    assert!(is_ready(&before), "{}", before["status"]);
    kubelet.kill().expect("the kubelet is killed");
    // Only the kubelet makes it Ready again, once it has admitted the pod.
    write_ready(cluster, &["pod", pod], "False");
    restart(kubelet).expect("the kubelet restarts");
    let mut last = Value::Null;
    let decided = wait_until("the kubelet to admit the pod or to kill it", || {
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
    assert_eq!(container(&last), container(&before), "the container was replaced");
    Fate::Survived
}

/// Waits for the Event about a pod of three dongles that its kubelet killed because only `capacity` exist.
pub fn wait_rejected(cluster: &Cluster, pod: &str, capacity: u32) {
    let because = format!("requested: 3, used: 0, capacity: {capacity}");
    cluster.wait_event(pod, &format!("OutOf{DONGLE}"), &because);
}

/// Returns whether its kubelet reports a pod as Ready.
fn is_ready(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && condition(&pod["status"], "Ready").0 == "True"
}

/// Returns whether a pod has ended. A pod whose killed container exits with 0 is Succeeded.
fn has_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded"
}
