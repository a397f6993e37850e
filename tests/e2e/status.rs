use std::time::{Duration, Instant};

use harness::wait_until;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, DEADLINE, condition};

const NODES: usize = 200;

#[test]
fn conditions_are_of_a_generation_and_keep_their_times() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    cluster.apply_rule("dongle", &json!({}));
    let rule = cluster.get(&["ner", "dongle"]);
    assert_eq!(rule["status"], json!({"observedGeneration": -1}), "nobody has looked at it");

    let controller = Controller::start(&cluster);
    let first = cluster.wait_ready("dongle", "1/1");
    assert_eq!(generations(&first), [1; 6]);
    let since = times(&first);
    // Kubernetes has them in whole seconds: what would move, has to move visibly.
    wait_until("the next second", DEADLINE, || {
        let now = Timestamp::now().as_second();
        let latest = since.iter().map(|(_, time)| time.as_second()).max();
        Ok((latest < Some(now - 1)).then_some(()))
    })
    .unwrap();

    // Another generation, which changes nothing.
    cluster.apply_rule("dongle", &json!({"priority": 7}));
    let second = cluster.wait_ready("dongle", "1/1");
    assert_eq!((generations(&second), times(&second)), (vec![2; 6], since.clone()));

    // Another controller, which finds what is there.
    controller.stop();
    let before = cluster.get(&["ner", "dongle"])["metadata"]["resourceVersion"].clone();
    let controller = Controller::start(&cluster);
    cluster.wait_quiet(Duration::from_secs(3));
    assert_eq!(cluster.get(&["ner", "dongle"])["metadata"]["resourceVersion"], before);

    // Only what changes moves: here nobody has to do with Ready.
    cluster.apply_rule("dongle-too", &json!({"quantity": 5, "priority": 9}));
    let third = cluster.wait_status("dongle", "Overlapping", |status| {
        condition(status, "Overlapping").0 == "True"
    });
    let moved: Vec<_> = times(&third).into_iter().filter(|time| !since.contains(time)).collect();
    assert_eq!(moved.iter().map(|(kind, _)| &**kind).collect::<Vec<_>>(), ["Overlapping"]);
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
fn while_two_hundred_nodes_move_a_status_is_written_once_a_second_at_most() {
    let cluster = Cluster::start();
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
    // kubectl labels one after the other.
    for label in ["example.com/has-dongle-", "example.com/has-dongle=true"] {
        cluster.kubectl(&["label", "nodes", "--all", label]);
    }
    cluster.wait_ready("dongle", "200/200");
    let (nodes, rules) = writes();
    let moved = usize::try_from(nodes - nodes_before).unwrap();
    assert_eq!(moved, 3 * NODES, "nodes are given it, lose it, and are given it again");
    // One may have begun before, and one end after.
    let (written, most) = (rules - rules_before, start.elapsed().as_secs() + 2);
    assert!((3..=most).contains(&written), "{written} writes in {most} seconds");
    controller.stop();
}
