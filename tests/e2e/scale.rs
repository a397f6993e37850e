use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, Controller, advertises};

const NODES: usize = 200;

#[test]
fn two_hundred_nodes_cost_a_patch_each_and_then_nothing() {
    let cluster = Cluster::start();
    let has_dongle = json!({"example.com/has-dongle": "true"});
    cluster.create_nodes((0..NODES).map(|number| format!("node-{number}")), &has_dongle);
    cluster.create_nodes(["other".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);

    let before = cluster.node_patches();
    let spec = json!({"nodeSelector": {"matchLabels": has_dongle}});
    cluster.apply_rule("dongle", &spec);
    cluster.wait_ready("dongle", "200/200");
    assert_eq!(cluster.node_patches() - before, NODES as u64, "one PATCH a node");
    let nodes = cluster.get(&["nodes"]);
    let carries = |node: &serde_json::Value| advertises(node, "example.com/dongle", "4");
    let advertising = nodes["items"].as_array().unwrap().iter().filter(|node| carries(node));
    assert_eq!(advertising.count(), NODES);
    assert!(!carries(&cluster.node("other")));

    // Idle: nothing at all is asked.
    cluster.wait_quiet(Duration::from_secs(5));

    // Started again: it lists, and writes nothing.
    controller.stop();
    let before = cluster.writes();
    let controller = Controller::start(&cluster);
    cluster.wait_quiet(Duration::from_secs(3));
    assert_eq!(cluster.writes(), before, "a start on a converged cluster writes nothing");
    cluster.wait_ready("dongle", "200/200");
    controller.stop();
}
