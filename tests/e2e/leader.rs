use std::time::Instant;

use harness::Signal;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller};
use crate::faults::{advertising, wait_for_the_middle};

const NODES: usize = 500;

/// Five hundred nodes and two controllers, of which the first leads and has begun with a rule. It
/// patches one node at a time, which is slow enough to be interrupted.
fn in_the_middle() -> (Cluster, Controller, Controller) {
    let cluster = Cluster::start();
    cluster.create_nodes((0..NODES).map(|number| format!("node-{number}")), &json!({}));
    let args = ["--concurrency", "1", "--lease-duration", "6", "--identity"];
    let first = Controller::start_with(&cluster, &[&args[..], &["first"]].concat());
    first.wait_log("this process leads now");
    let second = Controller::start_with(&cluster, &[&args[..], &["second"]].concat());
    second.wait_log("standing by holder=first_");
    let (code, says) = second.readiness().unwrap();
    assert!(code == 200 && says.starts_with("ready: first_"), "{code} {says}");
    cluster.apply_rule("dongle", &json!({}));
    wait_for_the_middle(&first);
    assert!(!second.log().contains("advertised"), "it stands by, and writes:\n{}", second.log());
    (cluster, first, second)
}

/// Waits until the second leads and all nodes are as declared; says how long nobody led, and on how
/// many nodes there was still something to do.
fn takes_over(cluster: &Cluster, second: &Controller, what: &str, since: Instant) {
    let before = advertising(cluster, "4");
    assert!(before < NODES, "it was not in the middle");
    second.wait_log("this process leads now");
    let millis = since.elapsed().as_millis();
    eprintln!("{what} with {before} of {NODES} nodes patched: {millis} ms without a leader");
    cluster.wait_ready("dongle", &format!("{NODES}/{NODES}"));
}

fn versions(cluster: &Cluster) -> Vec<Value> {
    let nodes = cluster.get(&["nodes"]);
    let nodes = nodes["items"].as_array().unwrap().iter();
    nodes.map(|node| node["metadata"]["resourceVersion"].clone()).collect()
}

#[test]
fn the_other_takes_over_at_once_from_one_that_is_told_to_stop() {
    let (cluster, first, second) = in_the_middle();
    let since = Instant::now();
    first.stop();
    takes_over(&cluster, &second, "stopped", since);
    second.stop();
}

#[test]
fn the_other_takes_over_from_one_that_is_killed() {
    let (cluster, first, second) = in_the_middle();
    let since = Instant::now();
    first.kill();
    takes_over(&cluster, &second, "killed", since);
    second.stop();
}

#[test]
fn one_that_was_paused_past_its_lease_writes_nothing_when_it_goes_on() {
    let (cluster, first, second) = in_the_middle();
    let since = Instant::now();
    first.signal(Signal::STOP);
    takes_over(&cluster, &second, "paused", since);
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_ready("dongle", &format!("{NODES}/{NODES}"));
    let (before, patches) = (versions(&cluster), cluster.node_patches());
    first.signal(Signal::CONT);
    first.wait_log("this process leads no longer");
    first.wait_log("standing by holder=second_");
    assert!(versions(&cluster) == before, "a node was written to");
    // One may have been on its way when it was stopped, and is refused.
    assert!(cluster.node_patches() <= patches + 1, "it has tried to write");
    assert_eq!(advertising(&cluster, "5"), NODES);
    // And it is ready to take its turn.
    second.stop();
    cluster.write_amount("node-7", "example.com/dongle", "9");
    cluster.wait_advertised("node-7", "example.com/dongle", "5");
    first.stop();
}
