use harness::Cluster;
use serde_json::{Value, json};

/// The path of pods.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates a pod. Starting kubectl for each of many takes most of their time.
pub fn create(cluster: &Cluster, pod: &Value) {
    let (code, text) = cluster.control_plane.send("POST", PODS, "application/json", &pod.to_string()).unwrap();
    assert_eq!(code, 201, "{text}");
}

/// Deletes a pod at once, as if it had ended.
pub fn end(cluster: &Cluster, name: &str) {
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}).to_string();
    let path = format!("{PODS}/{name}");
    let (code, text) = cluster.control_plane.send("DELETE", &path, "application/json", &now).unwrap();
    assert_eq!(code, 200, "{text}");
}
