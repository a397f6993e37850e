//! The status of a rule: its conditions, their times, and how often it is written.
//!
//! Method: list rules as kubectl does; change the cause of one condition at a time and compare the times of all; count
//! the API server's writes of the status while hundreds of nodes change.

use std::time::{Duration, Instant};

use harness::objects::condition;
use harness::{Cluster, Controller, wait_until};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const NODES: usize = 200;

#[test]
fn condition_times_change_only_with_their_status() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply_rule("dongle", &json!({}));
    let rule = cluster.get(&["ner", "dongle"]);
    assert_eq!(rule["status"], json!({"observedGeneration": -1}), "no controller has observed it");

    let controller = Controller::start(&cluster);
    let first = cluster.wait_ready("dongle", "1/1");
    assert_eq!(generations(&first), [1; 6]);
    let since = times(&first);
    // Times have whole seconds, so wait until a rewritten time would differ.
    wait_until("the next second", || {
        let now = Timestamp::now().as_second();
        let latest = since.iter().map(|(_, time)| time.as_second()).max();
        Ok((latest < Some(now - 1)).then_some(()))
    })
    .unwrap();

    // A new generation that changes no condition.
    cluster.apply_rule("dongle", &json!({"priority": 7}));
    let second = cluster.wait_ready("dongle", "1/1");
    assert_eq!((generations(&second), times(&second)), (vec![2; 6], since.clone()));

    // A new controller that observes the same state.
    controller.stop();
    let before = cluster.get(&["ner", "dongle"])["metadata"]["resourceVersion"].clone();
    let controller = Controller::start(&cluster);
    cluster.wait_idle(Duration::from_secs(3));
    assert_eq!(cluster.get(&["ner", "dongle"])["metadata"]["resourceVersion"], before);

    // Only a condition whose status changes gets a new time.
    cluster.apply_rule("dongle-too", &json!({"quantity": 5, "priority": 9}));
    let third = cluster.wait_status("dongle", "Overlapping", |status| condition(status, "Overlapping").0 == "True");
    let changed: Vec<_> = times(&third).into_iter().filter(|time| !since.contains(time)).collect();
    assert_eq!(changed.iter().map(|(kind, _)| &**kind).collect::<Vec<_>>(), ["Overlapping"]);
    controller.stop();
}

#[test]
fn kubectl_lists_totals_and_selects_rules_by_resource() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("disk", &json!({"resourceName": "example.com/disk", "quantity": "800Gi"}));
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key", "quantity": 3}));
    assert_eq!(cluster.wait_ready("disk", "2/2")["total"], "1600Gi");
    assert_eq!(cluster.wait_ready("key", "2/2")["total"], "6");
    let table = cluster.kubectl(&["get", "ner", "key"]);
    let columns = |line: usize| {
        let line = table.lines().nth(line).unwrap();
        line.split_whitespace().take(7).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(columns(0), ["NAME", "RESOURCE", "QUANTITY", "NODES", "TOTAL", "USED", "READY"]);
    assert_eq!(columns(1), ["key", "example.com/key", "3", "2/2", "6", "0", "True"]);

    let key = "nodeextendedresource.noderesource.dev/key\n";
    let of_key = "--field-selector=spec.resourceName=example.com/key";
    assert_eq!(cluster.kubectl(&["get", "ner", of_key, "-o", "name"]), key);
    let category = cluster.kubectl(&["get", "noderesource", "-o", "name"]);
    assert_eq!(category.lines().count(), 2, "{category}");

    // Nodes without the resource are no longer counted.
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key", "nodeNames": ["no"]}));
    cluster.wait_status("key", "a total of 0", |status| status["total"] == "0");
    controller.stop();
}

fn conditions(status: &Value) -> impl Iterator<Item = &Value> {
    status["conditions"].as_array().unwrap().iter()
}

fn generations(status: &Value) -> Vec<i64> {
    conditions(status).map(|condition| condition["observedGeneration"].as_i64().unwrap()).collect()
}

fn times(status: &Value) -> Vec<(String, Timestamp)> {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
    conditions(status)
        .map(|condition| {
            let time = text(condition, "lastTransitionTime").parse().unwrap();
            (text(condition, "type"), time)
        })
        .collect()
}

#[test]
fn status_is_written_at_most_once_a_second_during_rollout() {
    let cluster = Cluster::shared();
    let has_dongle = json!({"example.com/has-dongle": "true"});
    cluster.create_nodes((0..NODES).map(|number| format!("node-{number}")), &has_dongle);
    let controller = Controller::start(&cluster);
    let writes = || {
        let count = |resource, subresource| {
            let counts = cluster.control_plane.request_count("PATCH", resource, subresource);
            counts.expect("the API server's metrics")
        };
        (count("nodes", "status"), count("nodeextendedresources", "status"))
    };

    let (nodes_before, rules_before) = writes();
    let start = Instant::now();
    cluster.apply_rule("dongle", &json!({"nodeSelector": {"matchLabels": has_dongle}}));
    cluster.wait_ready("dongle", "200/200");
    cluster.kubectl(&["label", "nodes", "--all", "example.com/has-dongle-"]);
    cluster.wait_status("dongle", "no node", |status| status["nodes"]["summary"] == "0/0");
    cluster.kubectl(&["label", "nodes", "--all", "example.com/has-dongle=true"]);
    cluster.wait_ready("dongle", "200/200");
    let (nodes, rules) = writes();
    let patches = usize::try_from(nodes - nodes_before).unwrap();
    assert_eq!(patches, 3 * NODES, "advertised, withdrawn and advertised again");
    // One more at the start and one at the end of the period.
    let (written, most) = (rules - rules_before, start.elapsed().as_secs() + 2);
    assert!((3..=most).contains(&written), "{written} writes in {most} seconds");
    controller.stop();
}
