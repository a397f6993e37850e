//! The commands in the documentation, with the outputs that it shows.
//!
//! Method: set up what a page starts from, then run its blocks with the marker of the test, in order, in
//! a shell with kubectl, helm and the program. `tests/cluster` runs those that need a release of the chart.

use std::collections::BTreeMap;

use harness::documents::{self, Block, Marker, Shell};
use harness::{Cluster, ControlPlane, Controller, project_file};
use serde_json::json;

/// The blocks that the test `name` runs.
fn blocks(name: &str) -> Vec<Block> {
    let blocks = documents::blocks(&documents::pages().unwrap()).unwrap();
    let marker = Marker::Runs(name.to_owned());
    blocks.into_iter().filter(|block| block.marker == marker).collect()
}

fn shell(cluster: &Cluster) -> Shell {
    Shell::new(cluster, &project_file("."), BTreeMap::new()).unwrap()
}

#[test]
fn quick_start_does_what_the_readme_shows() {
    let cluster = Cluster::start_with(ControlPlane::builder().scheduler().kubelets(2));
    let controller = Controller::start(&cluster);
    let count = shell(&cluster).run(&blocks("quick-start")).unwrap();
    println!("{count} commands of the quick start do what the README shows");
    cluster.wait_withdrawn("node-1", "example.com/dongle");
    controller.stop();
}

#[test]
fn commands_for_a_running_cluster_print_what_the_pages_show() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1"], &json!({"example.com/has-dongle": "true"}));
    cluster.create_nodes(["node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule(
        "dongle",
        &json!({
            "resourceName": "example.com/dongle", "quantity": 4,
            "nodeSelector": {"matchLabels": {"example.com/has-dongle": "true"}},
        }),
    );
    cluster.wait_ready("dongle", "1/1");
    cluster.write_quantity("node-1", "example.com/dongle", "9");
    cluster.wait_event("node-1", "Repaired", "was 9");
    cluster.wait_advertised("node-1", "example.com/dongle", "4");
    let count = shell(&cluster).run(&blocks("cluster")).unwrap();
    println!("{count} commands print what the pages show");
    controller.stop();
}
