//! The number of requests and Events for two hundred nodes.
//!
//! Method: count requests with the API server's metrics, during a rollout, in a window without changes, and
//! after a restart; the windows have a fixed length on any machine.

use std::time::Duration;

use harness::objects::{DONGLE, advertises, condition};
use harness::{Cluster, Controller};
use serde_json::json;

use crate::support::{interrupted_rollout, rejected_patches};

const NODES: usize = 200;

#[test]
fn rollout_to_200_nodes_sends_one_patch_each() {
    let cluster = Cluster::shared();
    let has_dongle = json!({"example.com/has-dongle": "true"});
    cluster.create_nodes((0..NODES).map(|number| format!("node-{number}")), &has_dongle);
    cluster.create_nodes(["other"], &json!({}));
    let controller = Controller::start(&cluster);

    let before = cluster.node_patches();
    let spec = json!({"nodeSelector": {"matchLabels": has_dongle}});
    cluster.apply_rule("dongle", &spec);
    cluster.wait_ready("dongle", "200/200");
    assert_eq!(cluster.node_patches() - before, NODES as u64, "one PATCH per node");
    assert_eq!(interrupted_rollout::advertising_nodes(&cluster, "4"), NODES);
    assert!(!advertises(&cluster.node("other"), DONGLE, "4"));

    // A converged cluster costs no request.
    cluster.wait_idle(Duration::from_secs(5));

    // A starting controller lists, and writes nothing.
    controller.stop();
    let before = cluster.writes();
    let controller = Controller::start(&cluster);
    cluster.wait_idle(Duration::from_secs(3));
    assert_eq!(cluster.writes(), before, "a start in a converged cluster writes nothing");
    cluster.wait_ready("dongle", "200/200");
    controller.stop();
}

#[test]
fn similar_failures_of_200_nodes_create_few_events() {
    let cluster = Cluster::shared();
    interrupted_rollout::create_nodes(&cluster, NODES);
    rejected_patches::start(&cluster, "node-0");

    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "200 failures", |status| status["nodes"]["failed"] == NODES);
    assert_eq!(condition(&status, "Ready"), ("False", "RolloutStopped"));
    assert_eq!(status["problems"].as_array().unwrap().len(), 10);
    let message = status["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains(rejected_patches::MESSAGE), "{message}");
    cluster.wait_event("dongle", "PatchFailed", rejected_patches::MESSAGE);
    let events = cluster.get(&["events"]);
    let failures = events["items"].as_array().unwrap().iter();
    let failures = failures.filter(|event| event["reason"] == "PatchFailed").count();
    assert!((2..=20).contains(&failures), "{failures} Events");
    controller.stop();
}
