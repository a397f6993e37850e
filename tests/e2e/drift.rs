//! Values and ledgers that other field managers change.
//!
//! Method: write to nodes as the field manager `kubectl-patch`, and wait for the repair, its Event, and
//! the back-off after the fifth repair.

use std::time::{Duration, Instant};

use harness::objects::{DONGLE, LEDGER, condition, ledger, quantity};
use harness::{Cluster, Controller};
use serde_json::json;

/// The first back-off from a contested value.
const FIRST_BACK_OFF: Duration = Duration::from_secs(30);

#[test]
fn changed_value_is_repaired_and_reported() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    for (quantity, node) in [("7", "node-1"), ("0", "node-2")] {
        let before = cluster.node(node)["metadata"]["resourceVersion"].clone();
        cluster.write_quantity(node, DONGLE, quantity);
        let after = cluster.wait_advertised(node, DONGLE, "4");
        assert_ne!(after["metadata"]["resourceVersion"], before);
        controller.wait_log(&format!("was {quantity}, written by kubectl-patch"));
    }
    let note = "Repaired example.com/dongle on node-1: 7 (by kubectl-patch) -> 4, as rule dongle declares";
    cluster.wait_event("node-1", "Repaired", note);
    cluster.wait_event("dongle", "Repaired", note);
    let description = cluster.kubectl(&["describe", "node", "node-1"]);
    assert!(description.contains("Repaired"), "{description}");

    // A key removed from one map, and from both.
    let remove = |map: &str| json!({"op": "remove", "path": format!("/status/{map}/example.com~1dongle")});
    cluster.patch_status("node-1", "json", &json!([remove("allocatable")]));
    cluster.wait_advertised("node-1", DONGLE, "4");
    let both = json!([remove("allocatable"), remove("capacity")]);
    cluster.patch_status("node-1", "json", &both);
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}

#[test]
fn repeatedly_reverted_value_is_contested() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");
    let before = cluster.node_patches();
    for _ in 0..5 {
        cluster.write_quantity("node-1", DONGLE, "7");
        cluster.wait_advertised("node-1", DONGLE, "4");
    }
    let reverted = Instant::now();
    cluster.write_quantity("node-1", DONGLE, "7");
    let status =
        cluster.wait_status("dongle", "Contested", |status| condition(status, "Contested") == ("True", "Contested"));
    assert_eq!(condition(&status, "Ready"), ("False", "Contested"));
    assert_eq!(status["nodes"]["summary"], "1/2");
    let problem = json!({
        "node": "node-1", "reason": "Contested",
        "message": "kubectl-patch keeps changing it back; stop that client, or exclude the node from the rule",
    });
    assert_eq!(status["problems"], json!([problem]));
    for subject in ["node-1", "dongle"] {
        let note = "example.com/dongle on node-1: kubectl-patch keeps changing the value";
        cluster.wait_event(subject, "Contested", note);
    }
    let patches = cluster.node_patches() - before;
    // This affects neither other nodes nor other resources of this one.
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    let node = cluster.wait_advertised("node-1", "example.com/key", "4");
    // On a slow machine the controller may have retried by now: at most once in each back-off, none of which is shorter.
    let back_offs = reverted.elapsed().as_secs() / FIRST_BACK_OFF.as_secs();
    let expected = 6 + 5..=6 + 5 + back_offs;
    assert!(expected.contains(&patches), "kubectl patches six times, and the controller five: {patches}");
    assert!(back_offs > 0 || quantity(&node, "capacity", DONGLE) == Some("7"), "{node:#}");
    cluster.write_quantity("node-2", DONGLE, "7");
    cluster.wait_advertised("node-2", DONGLE, "4");
    controller.stop();
}

#[test]
fn invalid_ledger_blocks_its_node_only() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    let long = format!("{{{}}}", " ".repeat(64 * 1024));
    for bad in ["not json", r#"{"cpu":{"quantity":"4","rule":"dongle"}}"#, "[]", &long] {
        let annotation = format!("{LEDGER}={bad}");
        cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &annotation]);
        let status =
            cluster.wait_status("dongle", "InvalidLedger", |status| status["problems"][0]["reason"] == "InvalidLedger");
        assert_eq!(condition(&status, "Ready"), ("False", "InvalidLedger"));
    }
    cluster.wait_event("node-1", "InvalidLedger", "cannot be read");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_advertised("node-2", DONGLE, "5");
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_withdrawn("node-2", DONGLE);
    let node = cluster.node("node-1");
    assert_eq!(quantity(&node, "capacity", DONGLE), Some("4"), "nothing is withdrawn");
    assert_eq!(ledger(&node), Some(long.as_str()), "its content is kept");

    // An administrator repairs the ledger: the controller withdraws the value.
    let valid = format!(r#"{LEDGER}={{"{DONGLE}":{{"quantity":"4","rule":"dongle"}}}}"#);
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &valid]);
    cluster.wait_withdrawn("node-1", DONGLE);
    controller.stop();
}
