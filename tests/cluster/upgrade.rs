//! An upgrade from an earlier version and a rollback, with the chart and the image of that version.
//!
//! Method: while a pod uses a value, upgrade, change the rule, roll back, and change it again. After each step both
//! replicas are new, and the node has what the rule declares; upgrade and rollback themselves write nothing. A second rule
//! is edited right before each of them, so that its rollout to many nodes is continued by another version.

use std::env;
use std::path::Path;

use harness::helm::{NAMESPACE, RELEASE, helm};
use harness::objects::{DONGLE, quantity};
use harness::{Cluster, isolated, wait_until};
use serde_json::{Value, json};

use crate::release::assert_same_container;
use crate::replicas::{self, events, start_cluster, wait_leader};

/// Nodes without a kubelet.
const FLEET: usize = 60;
const SLOT: &str = "example.com/slot";

const NAME: &str = "upgrade::values_survive_an_upgrade_and_a_rollback";

#[test]
#[ignore = "needs an earlier version: `make test-upgrade FROM=<commit>` builds and tests it"]
fn values_survive_an_upgrade_and_a_rollback() {
    let [image, chart] = ["BEFORE_IMAGE", "BEFORE_CHART"]
        .map(|name| env::var(name).unwrap_or_else(|_| panic!("no {name}: run `make test-upgrade FROM=<commit>`")));
    let _outside = isolated(NAME, || upgrade_and_back(Path::new(&image), &chart));
}

fn upgrade_and_back(image: &Path, earlier: &str) {
    let (cluster, _node) = start_cluster(Some(image));
    let chart = harness::helm::chart();
    let chart = chart.to_str().unwrap();
    let run = |args: &[&str]| {
        let fixed = ["--namespace", NAMESPACE, "--wait", "--timeout=15m"];
        let output = helm(&cluster, &[args, &fixed[..]].concat());
        assert_eq!(output.code, 0, "{}{}\n{}", output.stdout, output.stderr, events(&cluster));
    };
    run(&["install", RELEASE, earlier, "--create-namespace", "--set=image.tag=before"]);
    wait_leader(&cluster, None);
    let pod = use_dongles(&cluster);
    create_fleet(&cluster);
    println!("installed: the earlier version, and a pod that uses three of four dongles");

    // Two patches per second: a rollout to the fleet takes longer than its replicas do.
    let upgrade = ["upgrade", RELEASE, chart, "--reset-values", "--set=controller.maxRolloutRate=2"];
    edit_fleet(&cluster, 2);
    replace(&cluster, "4", || run(&upgrade));
    wait_fleet(&cluster, 2);
    set_quantity(&cluster, "5");
    edit_fleet(&cluster, 3);
    let done = fleet_with(&cluster, 3);
    println!("a rollout has reached {done} of {FLEET} nodes when the rollback begins");
    assert!(done < FLEET);
    println!("upgraded: two new replicas, the node as before, and a rule that changes");
    replace(&cluster, "5", || run(&["rollback", RELEASE, "1"]));
    wait_fleet(&cluster, 3);
    set_quantity(&cluster, "6");
    println!("rolled back: two old replicas, the node as before, and a rule that changes");
    edit_fleet(&cluster, 4);
    replace(&cluster, "6", || run(&upgrade));
    wait_fleet(&cluster, 4);
    assert_same_container(&cluster.get(&["pod", "dongle-user"]), &pod);
    cluster.kubectl(&["delete", "pod", "dongle-user", "--wait=true"]);
    run(&["uninstall", RELEASE]);
    assert_eq!(quantity(&cluster.node("node-1"), "capacity", DONGLE), None);
    println!("upgraded again and uninstalled: the pod ran all the time, and nothing is left");
}

/// Creates a rule of four dongles, and a pod that requests three.
fn use_dongles(cluster: &Cluster) -> Value {
    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle=true"]);
    for file in ["dongle.yaml", "pod.yaml"] {
        let path = format!("{}/examples/{file}", env!("CARGO_MANIFEST_DIR"));
        cluster.kubectl(&["apply", "-f", &path]);
    }
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_for("the pod of the examples to run", &["pod", "dongle-user"], |pod| {
        pod["status"]["containerStatuses"][0]["ready"] == true
    })
}

/// Creates nodes on which nothing can run, and a rule for them.
fn create_fleet(cluster: &Cluster) {
    let nodes = (0..FLEET).map(|number| {
        let metadata = json!({"name": format!("fleet-{number:02}"), "labels": {"fleet": "yes"}});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"unschedulable": true}})
    });
    let rule = json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "slot"},
        "spec": {"resourceName": SLOT, "quantity": 1, "shrinkPolicy": "Immediate",
            "nodeSelector": {"matchLabels": {"fleet": "yes"}}}});
    let items: Vec<_> = nodes.chain([rule]).collect();
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    wait_fleet(cluster, 1);
}

fn edit_fleet(cluster: &Cluster, quantity: usize) {
    let patch = json!({"spec": {"quantity": quantity}}).to_string();
    cluster.kubectl(&["patch", "ner", "slot", "--type=merge", "--patch", &patch]);
}

fn fleet_with(cluster: &Cluster, slots: usize) -> usize {
    let nodes = cluster.get(&["nodes", "-l", "fleet=yes"]);
    let expected = slots.to_string();
    let nodes = nodes["items"].as_array().unwrap().iter();
    nodes.filter(|node| quantity(node, "allocatable", SLOT) == Some(&expected)).count()
}

fn wait_fleet(cluster: &Cluster, slots: usize) {
    let has_all = || Ok((fleet_with(cluster, slots) == FLEET).then_some(()));
    wait_until("the fleet to have the quantity", has_all).unwrap();
}

/// Replaces every replica, and checks that no replica writes the node's quantities meanwhile.
fn replace(cluster: &Cluster, expected: &str, by: impl FnOnce()) {
    let old = replicas::ready(cluster);
    let before = last_write(cluster);
    by();
    let (leader, other) = wait_leader(cluster, None);
    assert!(!old.contains(&leader) && !old.contains(&other), "{old:?}, {leader}, {other}");
    let node = cluster.node("node-1");
    assert_eq!(quantity(&node, "capacity", DONGLE), Some(expected));
    assert_eq!(quantity(&node, "allocatable", DONGLE), Some(expected));
    assert_eq!(last_write(cluster), before, "the controller has written the node");
}

/// Returns when the controller last wrote the node's status.
fn last_write(cluster: &Cluster) -> Value {
    let node = cluster.node("node-1");
    let entries = node["metadata"]["managedFields"].as_array().unwrap().iter();
    let mut own = entries.filter(|entry| entry["manager"] == "node-resource-advertiser");
    own.next().expect("the controller has written the node")["time"].clone()
}

fn set_quantity(cluster: &Cluster, quantity: &str) {
    let number: u64 = quantity.parse().unwrap();
    let patch = json!({"spec": {"quantity": number}}).to_string();
    cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "--patch", &patch]);
    cluster.wait_advertised("node-1", DONGLE, quantity);
}
