//! Rollouts: a rule that is paused, and one whose patches fail.
//!
//! Method: edit a paused rule, and overwrite its value; reject all patches with a ValidatingAdmissionPolicy, and count
//! what is sent.

use harness::objects::{DONGLE, advertises, condition, quantity};
use harness::{Cluster, Controller};
use serde_json::{Value, json};

use crate::support::{interrupted_rollout, rejected_patches};

const NODES: usize = 100;

#[test]
fn paused_rule_is_repaired_and_changes_nothing_else() {
    let cluster = Cluster::shared();
    let labels = json!({"example.com/has-dongle": "true"});
    let selector = json!({ "matchLabels": labels });
    cluster.create_nodes(["node-1", "node-2"], &labels);
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({ "nodeSelector": selector }));
    cluster.wait_ready("dongle", "2/2");

    cluster.apply_rule("dongle", &json!({"nodeSelector": selector, "quantity": 9, "paused": true}));
    let is_paused = |status: &Value| condition(status, "Ready") == ("False", "Paused");
    let status = cluster.wait_status("dongle", "paused", is_paused);
    assert_eq!((&status["total"], &status["nodes"]["advertised"]), (&json!("8"), &json!(0)));
    assert_eq!(status["problems"][0]["message"], "stays at 4 while the rule is paused");
    assert_eq!(condition(&status, "Reconciling").0, "False");
    // What happens meanwhile.
    let before = cluster.node("node-2");
    cluster.create_nodes(["node-3"], &labels);
    let added = cluster.node("node-3");
    cluster.kubectl(&["label", "node", "node-2", "example.com/has-dongle-"]);
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.wait_event("node-1", "Repaired", "-> 4, as rule dongle");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_status("dongle", "one more node", |status| status["nodes"]["selected"] == 2);
    cluster.wait_planned(&["node-2", "node-3"]);
    cluster.assert_always(&before, "the value was withdrawn", |node| advertises(node, DONGLE, "4"));
    let is_absent = |node: &Value| quantity(node, "capacity", DONGLE).is_none();
    cluster.assert_always(&added, "a value was added", is_absent);

    cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "-p", r#"{"spec":{"paused":false}}"#]);
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_advertised("node-3", DONGLE, "9");
    cluster.wait_withdrawn("node-2", DONGLE);
    controller.stop();
}

#[test]
fn rollout_stops_while_patches_are_rejected() {
    let cluster = Cluster::shared();
    interrupted_rollout::create_nodes(&cluster, NODES);
    let controller = Controller::start_with(&cluster, &["--max-rollout-rate", "0"]);
    rejected_patches::start(&cluster, "node-0");
    let before = cluster.node_patches();
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_status("dongle", "all failed", |status| status["nodes"]["failed"] == NODES);
    let ready = status["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "Ready").unwrap();
    let message = ready["message"].as_str().unwrap();
    assert!(message.contains("waiting because patches of other nodes failed"), "{message}");
    cluster.wait_event("dongle", "RolloutStopped", rejected_patches::MESSAGE);
    // Ten that fail, those in flight by then, and the tries again of each.
    let sent = cluster.node_patches() - before;
    assert!((10..NODES as u64).contains(&sent), "{sent} patches");

    rejected_patches::stop(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_ready("dongle", "100/100");
    controller.stop();
}
