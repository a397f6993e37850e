//! Rules that somebody's finalizer keeps after their deletion.
//!
//! Method: add a finalizer to a rule, delete the rule, and compare its values, its status and what the commands report.

use harness::objects::{DONGLE, condition, rule};
use harness::{Cluster, Controller};
use serde_json::json;

use crate::support::program;

#[test]
fn rule_that_a_finalizer_keeps_is_withdrawn_and_reported() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("fallback", &json!({"quantity": 2, "priority": -1}));
    cluster.wait_ready("dongle", "1/1");
    let finalizers = |list: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{list}}}}}"#);
        cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "-p", &patch]);
    };
    finalizers(r#"["example.com/keep"]"#);
    cluster.kubectl(&["delete", "ner", "dongle", "--wait=false"]);

    // The finalizer keeps the rule, not its value: the next rule decides.
    cluster.wait_advertised("node-1", DONGLE, "2");
    cluster.wait_ready("fallback", "1/1");
    let status = cluster.wait_status("dongle", "Deleting", |status| condition(status, "Ready").1 == "Deleting");
    assert_eq!(condition(&status, "Ready"), ("False", "Deleting"));
    assert_eq!((&status["total"], &status["nodes"]["summary"]), (&json!("0"), &json!("0/0")));
    let table = cluster.kubectl(&["get", "ner", "dongle", "-o", "wide", "--no-headers"]);
    assert!(table.contains("the finalizer example.com/keep"), "{table}");

    let admin = cluster.control_plane.kubeconfig();
    let doctor = program::run(&admin, &["doctor", "-o", "wide"], None);
    let line = "it is being deleted and declares nothing: it waits for the finalizer example.com/keep";
    assert!(doctor.stdout.contains(line), "{doctor:?}");
    // A GitOps tool that applies the rule again changes nothing.
    let again = rule("dongle", &json!({}));
    cluster.apply(&again.to_string());
    let plan = program::run(&admin, &["plan", "-f", "-"], Some(&again.to_string()));
    let note = "rule dongle is being deleted and declares nothing, and its file has no effect until it is gone";
    assert!(plan.code == 0 && plan.stdout.contains(note), "{plan:?}");
    cluster.wait_advertised("node-1", DONGLE, "2");

    // A new leader finds the same.
    controller.stop();
    let controller = Controller::start(&cluster);
    controller.wait_log("all rules listed");
    cluster.wait_status("dongle", "Deleting", |status| condition(status, "Ready").1 == "Deleting");

    finalizers("null");
    cluster.wait_for("the rule to be gone", &["ner"], |rules| rules["items"].as_array().unwrap().len() == 1);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}
