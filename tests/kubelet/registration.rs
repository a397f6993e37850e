//! New nodes: whether they have the resource of a rule before they are Ready, when an autoscaler counts on it.
//!
//! Method: register nodes with kubelets that start for the first time, and observe each by a watch, with the condition
//! that the controller writes with the value.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use harness::objects::{DONGLE, condition, quantity};
use harness::{Cluster, Controller, DEADLINE};
use serde_json::json;

use crate::pod_fate::{TICK, start_kubelet};

const NODES: usize = 20;
const CONDITION: &str = "noderesource.dev/Advertised";

/// How long after its creation a node has the resource, and is Ready.
#[derive(Clone, Copy, Debug, Default)]
struct Registration {
    resource: Option<Duration>,
    ready: Option<Duration>,
}

/// Returns the registrations of nodes, each as soon as it is complete.
fn registrations(cluster: &Cluster) -> Receiver<(Duration, Duration)> {
    let (sender, receiver) = mpsc::channel();
    let events = cluster.control_plane.watch("/api/v1/nodes?watch=1").unwrap();
    // The watch ends with the control plane.
    thread::spawn(move || {
        let mut nodes = BTreeMap::new();
        for event in events {
            let node = &event["object"];
            let name = node["metadata"]["name"].to_string();
            let (created, registration) =
                nodes.entry(name).or_insert_with(|| (Instant::now(), Registration::default()));
            let was_complete = registration.resource.and(registration.ready).is_some();
            let is_advertised = condition(&node["status"], CONDITION) == ("True", "Advertised");
            let has_resource = quantity(node, "allocatable", DONGLE) == Some("4");
            assert_eq!(has_resource, is_advertised, "the condition comes with the value, and kubelets keep it: {node}");
            if has_resource {
                registration.resource.get_or_insert_with(|| created.elapsed());
            }
            if condition(&node["status"], "Ready").0 == "True" {
                registration.ready.get_or_insert_with(|| created.elapsed());
            }
            if let (Some(resource), Some(ready), false) = (registration.resource, registration.ready, was_complete) {
                sender.send((resource, ready)).expect("the test waits for it");
            }
        }
    });
    receiver
}

#[test]
fn new_nodes_have_the_resource_before_they_are_ready() {
    let cluster = Cluster::start();
    let controller = Controller::start_with(&cluster, &["--node-condition=true"]);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "no node", |status| status["nodes"]["selected"] == 0);
    let complete = registrations(&cluster);
    let mut times = Vec::new();
    for number in 1..=NODES {
        let _kubelet = start_kubelet(&cluster, &format!("node-{number}"), TICK);
        times.push(complete.recv_timeout(DEADLINE).unwrap());
    }
    let (mut resource, mut ready): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
    resource.sort_unstable();
    ready.sort_unstable();
    let summary = |times: &[Duration]| format!("{:.0?} to {:.0?}", times[0], times[NODES - 1]);
    let before = times.iter().filter(|(resource, ready)| resource < ready).count();
    println!(
        "{before} of {NODES} new nodes had the resource before they were Ready: {} after their creation (median {:.0?}), \
         and Ready after {} (median {:.0?})",
        summary(&resource),
        resource[NODES / 2],
        summary(&ready),
        ready[NODES / 2],
    );
    // A program that waits until nodes are Ready has none. The others may lack a processor at this moment.
    assert!(before > NODES / 2, "{times:.1?}");
    controller.stop();
}
