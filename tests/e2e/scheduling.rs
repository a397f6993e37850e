//! From a rule to running pods, as kubectl shows it.
//!
//! Method: run the scheduler and kubemark's kubelet, and compare what kubectl prints and which pods run
//! while a rule is applied, raised and deleted.

use harness::objects::{DONGLE, pod};
use harness::{Cluster, ControlPlane, Controller, SharedCluster, wait_until};
use serde_json::json;

fn start_cluster() -> SharedCluster {
    Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(1))
}

/// Waits until the scheduler reports that a pod does not fit because a resource is insufficient.
fn wait_insufficient(cluster: &Cluster, pod: &str, resource: &str) {
    let what = format!("pod {pod} to be Pending for want of {resource}");
    let because = format!("Insufficient {resource}");
    cluster.wait_for(&what, &["pod", pod], |pod| {
        let conditions = pod["status"]["conditions"].as_array();
        pod["status"]["phase"] == "Pending"
            && conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["message"].as_str().is_some_and(|text| text.contains(&because)))
    });
}

/// Returns the section of `kubectl describe node` that starts with `heading`.
fn section(description: &str, heading: &str) -> String {
    let lines = description.lines().skip_while(|line| !line.starts_with(heading));
    let section = lines.skip(1).take_while(|line| line.starts_with(' '));
    section.map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn pods_run_on_advertised_resource_until_it_is_exhausted() {
    let cluster = start_cluster();
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
    let headings = ["NAME", "RESOURCE", "QUANTITY", "NODES", "TOTAL", "READY", "AGE"];
    assert_eq!(lines.next().unwrap(), headings);
    assert_eq!(lines.next().unwrap()[..6], ["dongle", DONGLE, "4", "1/1", "4", "True"]);

    cluster.apply(&pod("three", DONGLE, "3").to_string());
    cluster.wait_running("three");
    cluster.apply(&pod("two", DONGLE, "2").to_string());
    wait_insufficient(&cluster, "two", DONGLE);

    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_running("two");

    cluster.kubectl(&["delete", "ner", "dongle", "--wait=true", "--timeout=180s"]);
    let node = cluster.wait_withdrawn("node-1", DONGLE);
    assert_eq!(node["metadata"]["annotations"], before, "as before the rule");
    for pod in ["three", "two"] {
        cluster.wait_running(pod);
    }
    controller.stop();
}

#[test]
fn byte_quantities_are_scheduled_like_counts() {
    let cluster = start_cluster();
    let controller = Controller::start(&cluster);
    let resource = "example.com/special-storage";
    let spec = json!({"resourceName": resource, "quantity": "800Gi", "nodeNames": ["node-1"]});
    cluster.apply_rule("special-storage", &spec);
    cluster.wait_advertised("node-1", resource, "800Gi");

    cluster.apply(&pod("some", resource, "100Gi").to_string());
    cluster.wait_running("some");
    cluster.apply(&pod("too-much", resource, "701Gi").to_string());
    wait_insufficient(&cluster, "too-much", resource);
    cluster.kubectl(&["delete", "pod", "some", "--force", "--grace-period=0"]);
    cluster.wait_running("too-much");
    controller.stop();
}

#[test]
fn kubectl_explains_fields_and_waits_for_ready() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    // The API server publishes the schema a moment after the CRD is Established.
    let explained = wait_until("kubectl explain ner to work", || {
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
    cluster.kubectl(&["wait", "--for=condition=Ready", "ner/dongle", "--timeout=180s"]);
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}
