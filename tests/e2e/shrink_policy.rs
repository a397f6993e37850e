//! `shrinkPolicy`: a declared value that is lower than what pods on the node request.
//!
//! Method: run pods on kubemark's kubelet, lower the rule's quantity, delete the pods one by one, and
//! compare values, conditions and the number of pod lists.

use std::time::Duration;

use harness::objects::{DONGLE, condition, pod, quantity};
use harness::{Cluster, ControlPlane, Controller, SharedCluster, wait_next_second, wait_until};
use serde_json::{Value, json};

use crate::protection::presence::wait_metric;
use crate::support::{permissions, pods, program};

fn cluster() -> SharedCluster {
    Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(1))
}

fn pod_lists(cluster: &Cluster) -> u64 {
    cluster.control_plane.request_count("LIST", "pods", "").unwrap()
}

fn first_problem(status: &Value) -> &str {
    status["problems"][0]["message"].as_str().unwrap_or_default()
}

#[test]
fn held_value_follows_pods_down() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    for (name, dongles) in [("three", "3"), ("one", "1")] {
        cluster.apply(&pod(name, DONGLE, dongles).to_string());
        cluster.wait_running(name);
    }

    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    let held = |at: u32| {
        move |status: &Value| {
            status["nodes"]["held"] == 1 && first_problem(status) == format!("at {at}, which pods on the node request")
        }
    };
    let status = cluster.wait_status("dongle", "held at 4", held(4));
    assert_eq!(condition(&status, "Ready"), ("False", "Held"));
    assert_eq!(condition(&status, "Reconciling"), ("True", "Held"));
    cluster.wait_advertised("node-1", DONGLE, "4");

    cluster.kubectl(&["delete", "pod", "one", "--force", "--grace-period=0"]);
    cluster.wait_status("dongle", "held at 3", held(3));
    cluster.wait_advertised("node-1", DONGLE, "3");
    controller.wait_log("held example.com/dongle at 3, which pods request (rule dongle declares 2)");

    // A held value is repaired like a declared one, also by a controller that starts with it.
    controller.stop();
    cluster.write_quantity("node-1", DONGLE, "0");
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "3");

    cluster.kubectl(&["delete", "pod", "three", "--force", "--grace-period=0"]);
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "2");
    cluster.wait_idle(Duration::from_secs(5));
    let lists = pod_lists(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.wait_ready("dongle", "1/1");
    assert_eq!(pod_lists(&cluster), lists, "pods are watched, and listed once");
    controller.stop();
}

#[test]
fn immediate_shrink_and_withdrawal_ignore_running_pods() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    for name in ["dongle", "key"] {
        let resource = format!("example.com/{name}");
        cluster.apply_rule(name, &json!({"resourceName": resource}));
        cluster.wait_ready(name, "1/1");
        cluster.apply(&pod(name, &resource, "3").to_string());
        cluster.wait_running(name);
    }
    cluster.apply_rule("dongle", &json!({"quantity": 2, "shrinkPolicy": "Immediate"}));
    cluster.wait_advertised("node-1", DONGLE, "2");
    cluster.wait_ready("dongle", "1/1");
    cluster.kubectl(&["delete", "ner", "key"]);
    cluster.wait_for("example.com/key to be withdrawn", &["node", "node-1"], |node| {
        quantity(node, "capacity", "example.com/key").is_none()
    });
    cluster.wait_running("key");
    controller.stop();
}

/// While no new pod fits, and through a restart of the controller, which knows it from the ledger.
#[test]
fn value_that_leaves_when_it_is_unused_follows_pods_down_and_goes_with_the_last() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"deletionPolicy": "WhenUnused", "shrinkPolicy": "Immediate"}));
    cluster.wait_ready("dongle", "1/1");
    for (name, dongles) in [("two", "2"), ("one", "1")] {
        cluster.apply(&pod(name, DONGLE, dongles).to_string());
        cluster.wait_running(name);
    }
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_advertised("node-1", DONGLE, "3");
    let note = "Kept example.com/dongle on node-1 at 3, which pods request";
    cluster.wait_event("node-1", "Leaving", note);
    wait_metric(&controller, "values_leaving 1");
    let run = |args: &[&str]| program::run(&cluster.control_plane.kubeconfig(), args, None);
    let top = run(&["top"]);
    assert!(top.stdout.contains("<none> (leaving)"), "{top:?}");
    cluster.apply(&pod("late", DONGLE, "1").to_string());
    cluster.wait_for("the scheduler to find no node", &["pod", "late"], |pod| {
        condition(&pod["status"], "PodScheduled") == ("False", "Unschedulable")
    });

    controller.kill();
    cluster.write_quantity("node-1", DONGLE, "0");
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "3");
    wait_metric(&controller, "values_leaving 1");
    assert_eq!(cluster.get(&["pod", "late"])["spec"]["nodeName"], Value::Null);
    // When a pod ends, the scheduler may be faster than the controller.
    for pod in ["late", "one"] {
        cluster.kubectl(&["delete", "pod", pod, "--force", "--grace-period=0"]);
    }
    cluster.wait_advertised("node-1", DONGLE, "2");
    controller.stop();
    let prune = run(&["prune", "--all", "--yes"]);
    let kept = "node-1: kept example.com/dongle=2: pods request it (rule dongle, deletionPolicy: WhenUnused)";
    assert!(prune.stderr.contains(kept) && prune.code == 1, "{prune:?}");
    cluster.wait_advertised("node-1", DONGLE, "2");

    let controller = Controller::start(&cluster);
    cluster.kubectl(&["delete", "pod", "two", "--force", "--grace-period=0"]);
    cluster.wait_withdrawn("node-1", DONGLE);
    wait_metric(&controller, "values_leaving 0");
    controller.stop();
}

#[test]
fn pods_not_watchable_holds_values_and_is_reported() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    permissions::grant(&cluster, &permissions::required());
    let kubeconfig = cluster.control_plane.kubeconfig_for("limited");
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    // A watch that has begun goes on.
    controller.stop();
    permissions::grant(&cluster, &permissions::required_without("pods"));
    cluster.wait_no_permission("limited", "list", "pods");
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    let status = cluster.wait_status("dongle", "that pods cannot be watched", |status| {
        condition(status, "Ready") == ("False", "PodsUnavailable") && status["nodes"]["held"] == 2
    });
    let message = first_problem(&status);
    assert!(
        message.starts_with("stays at 4: pods: cannot be watched") && message.contains("is forbidden"),
        "{message}"
    );
    controller.wait_log("pods: ");
    cluster.wait_advertised("node-1", DONGLE, "4");

    // Repairs need no pods; neither does a node that is younger than its rule.
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    let status = cluster.wait_status("key", "that pods cannot be watched", |status| {
        condition(status, "Ready") == ("False", "PodsUnavailable")
    });
    assert!(first_problem(&status).starts_with("not written yet: pods: "), "{status}");
    wait_next_second().unwrap();
    cluster.create_nodes(["node-3"], &json!({}));
    cluster.wait_advertised("node-3", "example.com/key", "4");

    permissions::grant(&cluster, &permissions::required());
    cluster.wait_ready("dongle", "3/3");
    cluster.wait_ready("key", "3/3");
    cluster.wait_advertised("node-1", DONGLE, "2");
    controller.stop();
}

/// A pod of 1, with the resource as its label.
fn pod_of_one(resource: &str, number: usize) -> Value {
    let prefix = resource.rsplit('/').next().unwrap();
    let mut pod = pod(&format!("{prefix}-{number:03}"), resource, "1");
    pod["metadata"]["labels"] = json!({"resource": prefix});
    pod
}

/// Ends pods of a resource one by one until its value on the node is 2. More pods wait for it all the time, and the scheduler
/// gives each freed unit to the next. Two would do if the scheduler were always slower than the controller.
fn end_pods_until_lowered(cluster: &Cluster, resource: &str) {
    let label = format!("resource%3D{}", resource.rsplit('/').next().unwrap());
    let all = || {
        let pods = cluster.control_plane.get(&format!("{}?labelSelector={label}", pods::PODS)).unwrap();
        let mut pods: Value = serde_json::from_str(&pods).unwrap();
        pods["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
    };
    let mut ended = 0;
    wait_until(&format!("{resource} to be 2"), || {
        // A pod that was bound while the value was lowered raises it again if the kubelet admits it, and fails if not.
        let is_bound = |pod: &&Value| pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] != "Failed";
        let bound = all().iter().filter(is_bound).count();
        if quantity(&cluster.node("node-1"), "capacity", resource) == Some("2") && bound <= 2 {
            return Ok(Some(()));
        }
        pods::create(cluster, &pod_of_one(resource, ended + 8));
        let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
        let first = wait_until("a pod to run", || Ok(all().into_iter().find(is_running)))?;
        let first = first["metadata"]["name"].as_str().unwrap_or_default();
        pods::end(cluster, first);
        ended += 1;
        Ok(None)
    })
    .unwrap_or_else(|error| panic!("{error:#}; {ended} pods have ended"));
    println!("{resource} is 2 after {ended} pods have ended");
}

#[test]
fn lowered_value_takes_effect_although_pods_queue_for_it() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    let [edited, derived, outranked] = ["edited", "derived", "outranked"].map(|name| format!("example.com/{name}"));
    cluster.kubectl(&["label", "node", "node-1", "example.com/slots=4"]);
    cluster.apply_rule("edited", &json!({"resourceName": edited}));
    let from = json!({"nodeLabel": {"key": "example.com/slots"}, "max": 4});
    cluster.apply_rule("derived", &json!({"resourceName": derived, "quantity": null, "quantityFrom": from}));
    cluster.apply_rule("outranked", &json!({"resourceName": outranked}));
    for resource in [&edited, &derived, &outranked] {
        cluster.wait_advertised("node-1", resource, "4");
        (0..8).for_each(|number| pods::create(&cluster, &pod_of_one(resource, number)));
    }

    cluster.apply_rule("edited", &json!({"resourceName": edited, "quantity": 2}));
    end_pods_until_lowered(&cluster, &edited);
    cluster.kubectl(&["label", "node", "node-1", "--overwrite", "example.com/slots=2"]);
    end_pods_until_lowered(&cluster, &derived);
    cluster.apply_rule("first", &json!({"resourceName": outranked, "quantity": 2, "priority": 1}));
    end_pods_until_lowered(&cluster, &outranked);
    controller.stop();
}
