//! A program that is newer than the CRD, because whoever installed it has left the CRD.

use harness::objects::{DONGLE, condition};
use harness::{Controller, Output};
use node_resource_advertiser::model::api;
use serde_json::{Value, json};

use super::{WINDOW, restore, wait_considered};

/// The CRD of an earlier version, with fewer fields: the API server drops those that it does not have.
fn crd() -> Value {
    let mut crd = serde_json::to_value(api::crd()).unwrap();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for (part, fields) in [("spec", &["paused", "shrinkPolicy"][..]), ("status", &["total", "requested", "problems"])] {
        let properties = schema[part]["properties"].as_object_mut().unwrap();
        for field in fields {
            properties.remove(*field).unwrap_or_else(|| panic!("no field {part}.{field}"));
        }
    }
    crd
}

#[test]
fn older_crd_costs_no_write_at_rest_and_no_value() {
    let cluster = restore(&crd().to_string(), &[]);
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    cluster.write_quantity("node-2", DONGLE, "7");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-1", "node-2"]}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_status("dongle", "a conflict", |status| condition(status, "Ready") == ("False", "Conflict"));
    wait_considered(&cluster, 1);
    let before = cluster.node("node-1");

    // kubectl reports the fields that would be dropped.
    let paused = harness::objects::rule("paused", &json!({"paused": true})).to_string();
    let apply = ["apply", "-f", "-"];
    let Output { code, stderr, .. } = cluster.control_plane.kubectl_output(&apply, Some(&paused)).unwrap();
    assert!(code != 0 && stderr.contains("unknown field \"spec.paused\""), "{code}: {stderr}");

    cluster.install_crd();
    let status = cluster.wait_status("dongle", "the new fields", |status| !status["problems"].is_null());
    assert_eq!((&status["total"], &status["problems"][0]["reason"]), (&json!("4"), &json!("Conflict")));
    cluster.wait_idle(WINDOW);
    assert_eq!(cluster.node("node-1"), before, "a node was written");
    controller.stop();
}
