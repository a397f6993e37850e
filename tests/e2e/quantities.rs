//! Quantities that are read from nodes.
//!
//! Method: state facts on nodes of a real API server, run the page, and then state them wrongly in every way.

use harness::documents::{self, Shell};
use harness::objects::{DONGLE, advertises, condition, quantity};
use harness::{Cluster, Controller, project_file};
use serde_json::json;

use crate::support::program;

const KEY: &str = "example.com/slots";

#[test]
fn quantities_are_read_from_nodes_as_their_page_shows() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    for node in ["node-1", "node-2"] {
        cluster.patch_status(node, "merge", &json!({"status": {"capacity": {"memory": "16Gi"}}}));
    }
    let controller = Controller::start(&cluster);
    let shell = Shell::new(&cluster, &project_file("."), Default::default()).unwrap();
    let shell = program::with_plugin(shell, &cluster);
    let blocks = documents::blocks_run_by("quantities", &documents::pages().unwrap()).unwrap();
    println!("{} commands print what docs/quantities.md shows", shell.run(&blocks).unwrap());
    cluster.wait_advertised("node-1", "example.com/memory-slot", "4");
    cluster.wait_advertised("node-2", "example.com/license", "2");
    controller.stop();
}

/// Nothing is withdrawn, nothing else waits, and the condition says what is wrong.
#[test]
fn quantity_that_cannot_be_read_withdraws_nothing() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({ KEY: "4" }));
    let controller = Controller::start(&cluster);
    cluster.apply_rule(
        "slots",
        &json!({
            "resourceName": DONGLE, "quantity": null, "allNodes": true, "shrinkPolicy": "Immediate",
            "quantityFrom": {"nodeLabel": {"key": KEY}, "max": 10},
        }),
    );
    cluster.wait_ready("slots", "2/2");
    let long = "4".repeat(63);
    for (slots, why) in [
        ("four", "not a quantity"),
        ("1500m", "not a whole number"),
        ("11", "more than max, 10"),
        ("0", "too little for min"),
        ("", "not a quantity"),
        (&long, "too long for a quantity"),
    ] {
        cluster.kubectl(&["label", "--overwrite", "node", "node-2", &format!("{KEY}={slots}")]);
        let status = cluster.wait_status("slots", &format!("the label {slots:?} to be reported"), |status| {
            let problem = status["problems"][0]["message"].as_str().unwrap_or_default();
            condition(status, "Ready").1 == "QuantityUnknown" && problem.contains(why)
        });
        assert_eq!(status["total"], "8", "{status:#}");
        for node in cluster.nodes() {
            assert!(advertises(&node, DONGLE, "4"), "{slots:?}: {node:#}");
        }
        // What else changes does not wait.
        let name = format!("other-{}", slots.len());
        let rule = json!({"resourceName": format!("example.com/{name}"), "quantity": 1, "allNodes": true});
        cluster.apply_rule(&name, &rule);
        cluster.wait_ready(&name, "2/2");
    }
    cluster.kubectl(&["label", "node", "node-2", &format!("{KEY}-")]);
    cluster.wait_status("slots", "the missing label to be reported", |status| {
        status["problems"][0]["message"].as_str().unwrap_or_default().contains("the node has no label")
    });
    cluster.kubectl(&["label", "node", "node-2", &format!("{KEY}=7")]);
    cluster.wait_advertised("node-2", DONGLE, "7");
    cluster.wait_ready("slots", "2/2");

    // An annotation of 10 KB, and one that is known only after the nodes were listed again.
    let annotate =
        |value: &str| cluster.kubectl(&["annotate", "--overwrite", "node", "node-1", &format!("{KEY}={value}")]);
    annotate(&"9".repeat(10_000));
    cluster.kubectl(&["annotate", "node", "node-2", &format!("{KEY}=3")]);
    cluster.apply_rule(
        "annotated",
        &json!({
            "resourceName": "example.com/key", "quantity": null, "allNodes": true,
            "quantityFrom": {"nodeAnnotation": {"key": KEY}, "max": 10},
        }),
    );
    cluster.wait_advertised("node-2", "example.com/key", "3");
    let status = cluster.wait_status("annotated", "the long annotation to be reported", |status| {
        status["problems"][0]["message"].as_str().unwrap_or_default().contains("too long for a quantity")
    });
    assert!(status.to_string().len() < 3000, "{status:#}");
    assert_eq!(quantity(&cluster.node("node-1"), "capacity", "example.com/key"), None);
    annotate("2");
    cluster.wait_advertised("node-1", "example.com/key", "2");
    controller.stop();
}
