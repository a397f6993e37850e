//! From a rule to running pods, as kubectl shows it.
//!
//! Method: run the scheduler and kubemark's kubelet, and compare what kubectl prints and which pods run
//! while a rule is applied, raised and deleted.

use std::time::{Duration, Instant};

use harness::objects::{DONGLE, pod};
use harness::{Cluster, ControlPlane, Controller, SharedCluster, wait_until};
use serde_json::json;

use crate::support::pods;

fn start_cluster() -> SharedCluster {
    Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(1))
}

/// Waits until the scheduler reports that a pod does not fit because a resource is insufficient.
fn wait_insufficient(cluster: &Cluster, pod: &str, resource: &str) {
    let what = format!("pod {pod} to be Pending because {resource} is missing");
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
    let headings = ["NAME", "RESOURCE", "QUANTITY", "NODES", "TOTAL", "USED", "READY", "AGE"];
    assert_eq!(lines.next().unwrap(), headings);
    assert_eq!(lines.next().unwrap()[..7], ["dongle", DONGLE, "4", "1/1", "4", "0", "True"]);

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

/// Returns what `kubectl get ner` has in the column USED.
fn used(cluster: &Cluster, rule: &str) -> anyhow::Result<Option<String>> {
    let table = cluster.control_plane.kubectl(&["get", "ner", rule])?;
    let mut lines = table.lines();
    let [headings, line] = [lines.next(), lines.next()].map(Option::unwrap_or_default);
    // The column may be empty.
    let [from, to] = ["USED", "READY"].map(|heading| headings.find(heading).unwrap_or(0));
    let text = line.get(from..to).unwrap_or_default().trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn wait_used(cluster: &Cluster, rule: &str, expected: Option<&str>) {
    cluster.wait_status(rule, &format!("requested {expected:?}"), |status| status["requested"].as_str() == expected);
    assert_eq!(used(cluster, rule).unwrap().as_deref(), expected);
}

/// The least time between two writes of a status for what pods request alone.
const MIN_USE_INTERVAL: Duration = Duration::from_secs(30);
/// So many pods come and go.
const PODS: u64 = 20;

#[test]
fn used_follows_pods_and_costs_few_writes() {
    let cluster = start_cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 4}));
    cluster.wait_ready("dongle", "1/1");
    wait_used(&cluster, "dongle", Some("0"));
    cluster.apply(&pod("three", DONGLE, "3").to_string());
    cluster.wait_running("three");
    wait_used(&cluster, "dongle", Some("3"));

    let writes = || cluster.control_plane.request_count("PATCH", "nodeextendedresources", "status").unwrap();
    let (before, start) = (writes(), Instant::now());
    for _ in 0..PODS {
        pods::create(&cluster, &pod("one", DONGLE, "1"));
        cluster.wait_running("one");
        pods::end(&cluster, "one");
    }
    // One may have been due when it began.
    let most = start.elapsed().as_secs() / MIN_USE_INTERVAL.as_secs() + 2;
    let written = writes() - before;
    assert!(written <= most, "{written} statuses for {PODS} pods, not {most}");

    cluster.kubectl(&["delete", "pod", "three", "--force", "--grace-period=0"]);
    wait_used(&cluster, "dongle", Some("0"));
    cluster.apply_rule("dongle", &json!({"quantity": 4, "shrinkPolicy": "Immediate"}));
    wait_used(&cluster, "dongle", None);
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
