//! Workloads, of each kind that `why` knows.

use harness::objects::{DONGLE, pod};
use serde_json::{Value, json};

/// Returns a workload whose pods request this number of dongles.
pub fn workload(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    let mut template = pod(name, DONGLE, "3");
    template["metadata"] = json!({"labels": {"app": name}});
    let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"metadata": template["metadata"], "spec": template["spec"]}},
    });
    match kind {
        "Job" => object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never"),
        _ => object["spec"]["selector"] = json!({"matchLabels": {"app": name}}),
    }
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object
}
