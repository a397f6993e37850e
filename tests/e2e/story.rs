use harness::ControlPlane;
use serde_json::json;

use crate::cluster::{Cluster, Controller, DEADLINE};

/// A pod that asks for `amount` of a resource.
pub fn pod(name: &str, resource: &str, amount: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "app", "image": "pause",
            "resources": {"limits": {resource: amount}},
        }]},
    })
    .to_string()
}

fn cluster() -> Cluster {
    Cluster::with(ControlPlane::builder().scheduler().kubelets(1))
}

pub fn wait_running(cluster: &Cluster, pod: &str) {
    cluster.wait_for(&format!("pod {pod} to run"), &["pod", pod], |pod| {
        pod["status"]["phase"] == "Running"
    });
}

/// Waits until the scheduler says that a pod does not fit, and why.
fn wait_insufficient(cluster: &Cluster, pod: &str, resource: &str) {
    let what = format!("pod {pod} to be Pending for want of {resource}");
    let because = format!("Insufficient {resource}");
    cluster.wait_for(&what, &["pod", pod], |pod| {
        let conditions = pod["status"]["conditions"].as_array();
        pod["status"]["phase"] == "Pending"
            && conditions.into_iter().flatten().any(|condition| {
                condition["message"].as_str().is_some_and(|text| text.contains(&because))
            })
    });
}

/// The section of `kubectl describe node` that starts with `heading`.
fn section(description: &str, heading: &str) -> String {
    let lines = description.lines().skip_while(|line| !line.starts_with(heading));
    let section = lines.skip(1).take_while(|line| line.starts_with(' '));
    section.map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn four_dongles_from_the_rule_to_the_pods_and_back_to_nothing() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    let before = cluster.node("node-1")["metadata"]["annotations"].clone();

    cluster.apply_rule("dongle", &json!({"quantity": 4}));
    cluster.wait_ready("dongle", "1/1");
    let description = cluster.kubectl(&["describe", "node", "node-1"]);
    for heading in ["Capacity:", "Allocatable:"] {
        let section = section(&description, heading);
        let dongles = section.lines().find(|line| line.starts_with("example.com/dongle:"));
        let amount = dongles.and_then(|line| line.split_whitespace().nth(1));
        assert_eq!(amount, Some("4"), "{heading}\n{section}");
    }
    let table = cluster.kubectl(&["get", "ner"]);
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let headings = ["NAME", "RESOURCE", "QUANTITY", "NODES", "READY", "AGE"];
    assert_eq!(lines.next().unwrap(), headings);
    assert_eq!(lines.next().unwrap()[..5], ["dongle", "example.com/dongle", "4", "1/1", "True"]);

    cluster.apply(&pod("three", "example.com/dongle", "3"));
    wait_running(&cluster, "three");
    cluster.apply(&pod("two", "example.com/dongle", "2"));
    wait_insufficient(&cluster, "two", "example.com/dongle");

    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    wait_running(&cluster, "two");

    cluster.kubectl(&["delete", "ner", "dongle", "--wait=true", "--timeout=10s"]);
    let node = cluster.wait_withdrawn("node-1", "example.com/dongle");
    assert_eq!(node["metadata"]["annotations"], before, "no trace is left");
    for pod in ["three", "two"] {
        wait_running(&cluster, pod);
    }
    controller.stop();
}

#[test]
fn bytes_of_special_storage_are_counted_like_things() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    let resource = "example.com/special-storage";
    let spec = json!({"resourceName": resource, "quantity": "800Gi", "nodeNames": ["node-1"]});
    cluster.apply_rule("special-storage", &spec);
    cluster.wait_advertised("node-1", resource, "800Gi");

    cluster.apply(&pod("some", resource, "100Gi"));
    wait_running(&cluster, "some");
    cluster.apply(&pod("too-much", resource, "701Gi"));
    wait_insufficient(&cluster, "too-much", resource);
    cluster.kubectl(&["delete", "pod", "some", "--force", "--grace-period=0"]);
    wait_running(&cluster, "too-much");
    controller.stop();
}

#[test]
fn kubectl_explains_every_field_and_waits_for_ready() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    // The deadline covers the moment until the API server has the new schema in its OpenAPI.
    let explained = harness::wait_until("kubectl explain ner to work", DEADLINE, || {
        let explained = cluster.control_plane.kubectl(&["explain", "ner", "--recursive"])?;
        Ok(explained.contains("nodeSelector").then_some(explained))
    })
    .unwrap();
    for field in ["resourceName", "quantity", "nodeNames", "priority", "problems", "missing"] {
        assert!(explained.contains(field), "{field}\n{explained}");
    }
    for field in ["spec.quantity", "spec.nodeSelector", "spec.priority", "status.nodes.summary"] {
        let text = cluster.kubectl(&["explain", &format!("ner.{field}")]);
        assert!(!text.contains("<empty>"), "{field} has no description:\n{text}");
    }

    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.kubectl(&["wait", "--for=condition=Ready", "ner/dongle", "--timeout=30s"]);
    cluster.wait_advertised("node-1", "example.com/dongle", "4");
    controller.stop();
}
