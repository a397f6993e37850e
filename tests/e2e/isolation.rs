//! Isolation: a failure of one resource or rule, or another version of the program, delays nothing else.
//!
//! Method: reject one resource with a ValidatingAdmissionPolicy; delete rules while no controller runs; write
//! an annotation with fields of a later version.

use harness::objects::{DONGLE, ledger, quantity};
use harness::{Cluster, Controller, wait_until};
use serde_json::{Value, json};

use crate::support::rejected_patches;

const KEY: &str = "example.com/key";

#[test]
fn rejected_resource_delays_no_other_on_its_node() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    rejected_patches::start_for_resource(&cluster, "node-1", KEY);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": KEY}));
    let controller = Controller::start(&cluster);
    cluster.wait_ready("dongle", "1/1");
    let status = cluster.wait_status("key", "failed", |status| status["nodes"]["failed"] == 1);
    let message = status["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains(rejected_patches::MESSAGE), "{message}");
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.wait_advertised("node-1", DONGLE, "4");
    rejected_patches::stop(&cluster);
    cluster.wait_ready("key", "1/1");
    controller.stop();
}

#[test]
fn mass_withdrawal_waits_for_its_delay() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": KEY}));
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_ready("key", "1/1");
    controller.stop();
    cluster.kubectl(&["delete", "ner", "--all"]);

    let controller = Controller::start_with(&cluster, &["--mass-withdrawal-delay", "1h"]);
    controller.wait_log("2 of the 2 rules named in node annotations are missing");
    wait_until("the held rules to be counted", || {
        let metrics = controller.get("/metrics")?.1;
        Ok(metrics.contains("node_resource_advertiser_rules_missing 2\n").then_some(()))
    })
    .unwrap();
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.wait_advertised("node-1", DONGLE, "4");
    // A recreated rule is like any other; the rule that is still missing is held.
    cluster.apply_rule("dongle", &json!({"quantity": 8}));
    let node = cluster.wait_advertised("node-1", DONGLE, "8");
    assert_eq!(quantity(&node, "capacity", KEY), Some("4"));
    cluster.kubectl(&["delete", "ner", "dongle"]);
    let node = cluster.wait_for("the dongle to be withdrawn", &["node", "node-1"], |node| {
        quantity(node, "capacity", DONGLE).is_none()
    });
    assert_eq!(quantity(&node, "capacity", KEY), Some("4"), "the value is still held");
    controller.stop();

    let controller = Controller::start_with(&cluster, &["--mass-withdrawal-delay", "1s"]);
    cluster.wait_withdrawn("node-1", KEY);
    controller.stop();
}

/// With the delay that is shipped. That it ends after five minutes is tested on a paused clock, and here with a second.
#[test]
fn mass_withdrawal_waits_for_five_minutes_by_default() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start_as_shipped(&cluster);
    for (name, resource) in [("dongle", DONGLE), ("key", KEY), ("disk", "example.com/disk")] {
        cluster.apply_rule(name, &json!({"resourceName": resource}));
        cluster.wait_ready(name, "1/1");
    }
    // One rule of three is withdrawn at once: the watch shows its deletion, or a list does.
    cluster.kubectl(&["delete", "ner", "disk"]);
    let is_absent = |resource: &'static str| move |node: &Value| quantity(node, "capacity", resource).is_none();
    cluster.wait_for("the disk to be withdrawn", &["node", "node-1"], is_absent("example.com/disk"));
    cluster.apply_rule("disk", &json!({"resourceName": "example.com/disk"}));
    cluster.wait_ready("disk", "1/1");
    controller.stop();
    cluster.kubectl(&["delete", "ner", "disk"]);
    let controller = Controller::start_as_shipped(&cluster);
    cluster.wait_for("the disk to be withdrawn", &["node", "node-1"], is_absent("example.com/disk"));
    controller.stop();

    cluster.kubectl(&["delete", "ner", "--all"]);
    let before = cluster.node("node-1");
    let controller = Controller::start_as_shipped(&cluster);
    controller.wait_log("2 of the 2 rules named in node annotations are missing: their values stay for 300s");
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_planned(&["node-1"]);
    for resource in [DONGLE, KEY] {
        let what = format!("{resource} was withdrawn");
        cluster.assert_always(&before, &what, |node| quantity(node, "capacity", resource).is_some());
    }
    let metrics = controller.get("/metrics").unwrap().1;
    assert!(metrics.contains("node_resource_advertiser_rules_missing 2\n"), "{metrics}");
    controller.stop();
}

#[test]
fn annotation_of_a_later_version_survives_a_rolling_update() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply_rule("dongle", &json!({}));
    let old = Controller::start(&cluster);
    cluster.wait_ready("dongle", "1/1");
    let later = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle","since":"2030"}}"#;
    let annotation = format!("noderesource.dev/advertised={later}");
    cluster.kubectl(&["annotate", "node", "node-1", &annotation, "--overwrite"]);
    let new = Controller::start(&cluster);
    let before = cluster.node_patches();
    old.stop();
    new.wait_log("this process is now the leader");
    cluster.write_quantity("node-1", DONGLE, "0");
    let node = cluster.wait_advertised("node-1", DONGLE, "4");
    assert_eq!(ledger(&node), Some(later));
    assert_eq!(cluster.node_patches() - before, 2, "the patch that wrote the 0, and its repair");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    let node = cluster.wait_advertised("node-1", DONGLE, "5");
    assert_eq!(ledger(&node), Some(later.replace("\"4\"", "\"5\"").as_str()));
    new.stop();
}
