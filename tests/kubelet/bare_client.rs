//! How fast this machine lets any client write: the evidence whether a slow result is the controller's.
//!
//! The bare client sends what the controller should send, at the moment at which the test's own watch shows the reason.
//! It sends a dry run, which costs the API server the same and changes nothing.

use std::thread;
use std::time::{Duration, Instant};

use harness::Cluster;
use harness::objects::DONGLE;
use serde_json::json;

/// Returns a function that writes a value to a node as a dry run, from a thread of its own, and passes on how long that
/// took. If there is no response, nothing is passed on.
pub fn timed_writes(cluster: &Cluster) -> impl Fn(&str, Box<dyn FnOnce(Duration) + Send>) + Send + use<> {
    let send = cluster.control_plane.sender();
    let map = json!({DONGLE: "4"});
    let patch = json!({"status": {"capacity": map, "allocatable": map}}).to_string();
    move |node, done| {
        let started = Instant::now();
        let path = format!("/api/v1/nodes/{node}/status?dryRun=All&fieldManager=bare-client");
        let (send, patch) = (send.clone(), patch.clone());
        thread::spawn(move || {
            if send("PATCH", &path, "application/merge-patch+json", &patch).is_ok_and(|(code, _)| code == 200) {
                done(started.elapsed());
            }
        });
    }
}
