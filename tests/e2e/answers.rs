//! `top`, `node`, `resource`, `pod` and `why`, compared with what the scheduler does.
//!
//! Method: put nodes and pods into states that differ, let the scheduler decide, and compare what each command prints.

use std::path::Path;

use harness::objects::{DONGLE, bound_pod, pod};
use harness::{Cluster, ControlPlane, Controller, Output};
use serde_json::{Value, json};

use crate::support::program;

fn ask(kubeconfig: &Path, args: &[&str]) -> Output {
    program::run(kubeconfig, args, None)
}

fn ask_json(kubeconfig: &Path, args: &[&str]) -> Value {
    let output = ask(kubeconfig, &[args, &["-o", "json"]].concat());
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", output.stderr))
}

/// Waits until the scheduler has rejected a pod.
fn wait_unschedulable(cluster: &Cluster, pod: &str) -> String {
    let unschedulable = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = conditions.into_iter();
        conditions.find(|condition| condition["reason"] == "Unschedulable")
    };
    let found =
        cluster.wait_for(&format!("pod {pod} to be unschedulable"), &["pod", pod], |pod| unschedulable(pod).is_some());
    unschedulable(&found).unwrap()["message"].as_str().unwrap().to_owned()
}

#[test]
fn answers_agree_with_the_scheduler() {
    let cluster = Cluster::start_with(ControlPlane::builder().scheduler().kubelets(1));
    cluster.create_nodes(["node-2", "node-3"], &json!({"pool": "b"}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 4, "nodeNames": ["node-1", "node-2"]}));
    cluster.wait_ready("dongle", "2/2");
    cluster.apply(&pod("three", DONGLE, "3").to_string());
    cluster.wait_running("three");
    cluster.apply(&bound_pod("two", "node-2", DONGLE, "2").to_string());
    cluster.apply(&pod("waits", DONGLE, "3").to_string());
    cluster.apply(&pod("typo", "example.com/dongel", "1").to_string());
    let said = wait_unschedulable(&cluster, "waits");
    wait_unschedulable(&cluster, "typo");
    let kubeconfig = cluster.control_plane.kubeconfig();

    for args in [
        &["top"][..],
        &["top", "-o", "wide"],
        &["node", "node-1"],
        &["node", "node-3"],
        &["resource", DONGLE],
        &["pod", "three"],
        &["pod", "default/waits"],
        &["why", "waits"],
        &["why", "typo"],
        &["why", "three"],
        &["why", "nobody"],
        &["top", "-o", "yaml"],
    ] {
        let output = ask(&kubeconfig, args);
        eprintln!("$ {args:?}\n{}{}exit {}\n", output.stdout, output.stderr, output.code);
    }

    let top = ask_json(&kubeconfig, &["top"]);
    let dongle = &top["resources"].as_array().unwrap().iter().find(|row| row["resource"] == DONGLE).unwrap();
    assert_eq!((&dongle["total"], &dongle["requested"], &dongle["free"]), (&json!("8"), &json!("5"), &json!("3")));
    let why = ask(&kubeconfig, &["why", "waits"]);
    assert_eq!(why.code, 1, "{}", why.stdout);
    assert!(why.stdout.contains(said.trim_end_matches('.')), "{said} in {}", why.stdout);
    let typo = ask(&kubeconfig, &["why", "typo"]);
    assert!(typo.stdout.contains("is it example.com/dongle?"), "{}", typo.stdout);
    controller.stop();
}
