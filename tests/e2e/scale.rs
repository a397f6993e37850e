use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, Controller, DEADLINE, advertises, condition};

const NODES: usize = 200;

#[test]
fn two_hundred_nodes_cost_a_patch_each_and_then_nothing() {
    let cluster = Cluster::start();
    let has_dongle = json!({"example.com/has-dongle": "true"});
    cluster.create_nodes((0..NODES).map(|number| format!("node-{number}")), &has_dongle);
    cluster.create_nodes(["other".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);

    let before = cluster.node_patches();
    let spec = json!({"nodeSelector": {"matchLabels": has_dongle}});
    cluster.apply_rule("dongle", &spec);
    cluster.wait_ready("dongle", "200/200");
    assert_eq!(cluster.node_patches() - before, NODES as u64, "one PATCH a node");
    let nodes = cluster.get(&["nodes"]);
    let carries = |node: &serde_json::Value| advertises(node, "example.com/dongle", "4");
    let advertising = nodes["items"].as_array().unwrap().iter().filter(|node| carries(node));
    assert_eq!(advertising.count(), NODES);
    assert!(!carries(&cluster.node("other")));

    // Idle: nothing at all is asked.
    cluster.wait_quiet(Duration::from_secs(5));

    // Started again: it lists, and writes nothing.
    controller.stop();
    let before = cluster.writes();
    let controller = Controller::start(&cluster);
    cluster.wait_quiet(Duration::from_secs(3));
    assert_eq!(cluster.writes(), before, "a start on a converged cluster writes nothing");
    cluster.wait_ready("dongle", "200/200");
    controller.stop();
}

#[test]
fn two_hundred_nodes_that_fail_alike_are_a_handful_of_events() {
    let cluster = Cluster::start();
    cluster.create_nodes((0..NODES).map(|number| format!("node-{number}")), &json!({}));
    close_nodes(&cluster, "node-0");

    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status =
        cluster.wait_status("dongle", "200 failures", |status| status["nodes"]["failed"] == NODES);
    assert_eq!(condition(&status, "Ready"), ("False", "PatchFailed"));
    assert_eq!(status["problems"].as_array().unwrap().len(), 10);
    let message = status["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("closed on Sundays"), "{message}");
    cluster.wait_event("dongle", "PatchFailed", "closed on Sundays");
    let events = cluster.get(&["events.events.k8s.io"]);
    let told = events["items"].as_array().unwrap().iter();
    let told = told.filter(|event| event["reason"] == "PatchFailed").count();
    assert!((2..=20).contains(&told), "{told} Events");
    controller.stop();
}

/// Has the API server refuse every patch of a node's status, and waits until it does so for `node`.
pub fn close_nodes(cluster: &Cluster, node: &str) {
    cluster.apply(
        &json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "closed"},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                    "resources": ["nodes/status"],
                }]},
                "validations": [{"expression": "false", "message": "closed on Sundays"}],
            },
        })
        .to_string(),
    );
    cluster.apply(
        &json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "closed"},
            "spec": {"policyName": "closed", "validationActions": ["Deny"]},
        })
        .to_string(),
    );
    let patch = r#"{"status":{"phase":"Running"}}"#;
    let patch = ["patch", "node", node, "--subresource=status", "-p", patch];
    harness::wait_until("the policy to be in force", DEADLINE, || {
        let answer = cluster.control_plane.kubectl_output(&patch, None)?;
        Ok(answer.stderr.contains("closed on Sundays").then_some(()))
    })
    .unwrap();
}

/// Has it take them again.
pub fn open_nodes(cluster: &Cluster) {
    cluster.kubectl(&["delete", "validatingadmissionpolicybinding", "closed"]);
}
