//! New nodes: whether they have the resource of a rule before they are Ready, when an autoscaler counts on it.
//!
//! Method: register nodes with kubelets that start for the first time, and observe each by a watch, with the condition
//! that the controller writes with the value. A bare client writes to each node as soon as the watch shows it: where each
//! of its writes took a fraction of the time until the node was Ready, the machine is quick, and no node may be late.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use harness::objects::{DONGLE, condition, quantity};
use harness::{Cluster, Controller, DEADLINE};
use serde_json::{Value, json};

use crate::bare_client::timed_writes;
use crate::pod_fate::{TICK, start_kubelet};

const NODES: usize = 20;
const CONDITION: &str = "noderesource.dev/Advertised";

/// How long after its creation a node has the resource, and is Ready, and a bare client has written to it.
#[derive(Clone, Copy)]
struct Registration {
    resource: Duration,
    ready: Duration,
    write: Duration,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, ready, write } = self;
        write!(f, "{resource:.0?} of {ready:.0?} ({write:.0?})")
    }
}

impl Registration {
    fn is_in_time(&self) -> bool {
        self.resource < self.ready
    }

    /// Returns whether the machine left a bare client far more time than it needed.
    fn is_quick(&self) -> bool {
        self.write < self.ready / 10
    }
}

/// What is seen of a node, how long after its creation.
struct Seen {
    node: String,
    age: Duration,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It has the resource.
    Resource,
    Ready,
    /// A bare client has written to it.
    Written,
    /// It has the resource without the condition, or the condition without the resource.
    Wrong,
}

/// Returns what a watch shows of each node.
fn watch(cluster: &Cluster) -> Receiver<Seen> {
    let (sender, receiver) = mpsc::channel();
    let events = cluster.control_plane.watch("/api/v1/nodes?watch=1").unwrap();
    let write = timed_writes(cluster);
    // The watch ends with the control plane; until then, the test may have stopped to receive.
    thread::spawn(move || {
        let mut created = BTreeMap::new();
        for event in events {
            let object = &event["object"];
            let node = object["metadata"]["name"].as_str().unwrap_or_default();
            let created = created.entry(node.to_owned()).or_insert_with(|| {
                let (node, sender) = (node.to_owned(), sender.clone());
                write(&node.clone(), Box::new(move |age| drop(sender.send(Seen { node, age, what: What::Written }))));
                Instant::now()
            });
            for what in shown(object) {
                let _ = sender.send(Seen { node: node.to_owned(), age: created.elapsed(), what });
            }
        }
    });
    receiver
}

fn shown(node: &Value) -> Vec<What> {
    let is_advertised = condition(&node["status"], CONDITION) == ("True", "Advertised");
    let has_resource = quantity(node, "allocatable", DONGLE) == Some("4");
    let is_ready = condition(&node["status"], "Ready").0 == "True";
    let all = [(has_resource != is_advertised, What::Wrong), (has_resource, What::Resource), (is_ready, What::Ready)];
    all.into_iter().filter_map(|(is_shown, what)| is_shown.then_some(what)).collect()
}

/// Waits until all is known of a node.
fn wait_registration(seen: &Receiver<Seen>, name: &str) -> Registration {
    let mut first = BTreeMap::new();
    loop {
        let seen = seen.recv_timeout(DEADLINE).expect("the node has the resource, is Ready and was written");
        let Seen { node, age, what } = seen;
        assert!(what != What::Wrong, "{node}: the condition comes with the value, and kubelets keep it");
        if node == name {
            first.entry(what).or_insert(age);
        }
        let age = |what| first.get(&what).copied();
        if let (Some(resource), Some(ready), Some(write)) = (age(What::Resource), age(What::Ready), age(What::Written))
        {
            return Registration { resource, ready, write };
        }
    }
}

#[test]
fn new_nodes_have_the_resource_before_they_are_ready() {
    let cluster = Cluster::start();
    let controller = Controller::start_with(&cluster, &["--node-condition=true"]);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "no node", |status| status["nodes"]["selected"] == 0);
    let seen = watch(&cluster);
    let mut all = Vec::new();
    for number in 1..=NODES {
        let node = format!("node-{number}");
        let _kubelet = start_kubelet(&cluster, &node, TICK);
        all.push(wait_registration(&seen, &node));
    }
    let in_time = all.iter().filter(|node| node.is_in_time()).count();
    let median = |time: fn(&Registration) -> Duration| {
        let mut times: Vec<_> = all.iter().map(time).collect();
        times.sort_unstable();
        times[NODES / 2]
    };
    println!(
        "{in_time} of {NODES} new nodes had the resource before they were Ready: {:.0?} after their creation, and Ready \
         {:.0?} after it (medians); each, with a bare client's write: {all:.0?}",
        median(|node| node.resource),
        median(|node| node.ready),
    );
    assert!(are_in_time(&all), "the controller was late: {all:?}");
    controller.stop();
}

/// Returns whether enough nodes had the resource in time: all on a quick machine. Otherwise some may lack a processor at that
/// moment, but a program that waits until nodes are Ready has none.
fn are_in_time(all: &[Registration]) -> bool {
    let in_time = all.iter().filter(|node| node.is_in_time()).count();
    let is_quick = all.iter().all(Registration::is_quick);
    if is_quick { in_time == all.len() } else { in_time > all.len() / 2 }
}

#[test]
fn late_node_counts_unless_the_machine_is_slow() {
    let node = |resource, ready, write| {
        let [resource, ready, write] = [resource, ready, write].map(Duration::from_millis);
        Registration { resource, ready, write }
    };
    let (early, late, slow) = (node(20, 600, 10), node(700, 600, 10), node(700, 600, 300));
    assert!(are_in_time(&[early, early, early]));
    assert!(!are_in_time(&[early, early, late]), "the machine is quick");
    assert!(are_in_time(&[early, early, slow]));
    assert!(are_in_time(&[early, early, late, slow, early]), "one slow write shows that the machine is not quick");
    assert!(!are_in_time(&[late, slow, slow, early]));
}
