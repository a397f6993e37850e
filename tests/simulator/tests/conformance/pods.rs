//! The list and the watch of pods that the controller has: a pod enters the selection when it is bound, and leaves it when
//! it ends.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use simulator::{Key, Kind, PatchBody, Subresource};

use crate::episode::World;
use crate::operation::{Operation, Query};

/// `BOUND` in `src/cluster/node_client.rs`.
pub(crate) const BOUND: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// The watch that the operations open, and one that is opened again.
const WATCH: usize = 0;
const LATER_WATCH: usize = 1;

/// What the watch shows of each pod.
const EVENTS: [(&str, &str); 11] = [
    ("ADDED", "pod-2"),
    ("ADDED", "pod-1"),
    ("MODIFIED", "pod-2"),
    ("DELETED", "pod-1"),
    ("DELETED", "pod-2"),
    ("ADDED", "pod-3"),
    ("MODIFIED", "pod-3"),
    ("DELETED", "pod-3"),
    ("ADDED", "pod-4"),
    ("ADDED", "pod-5"),
    ("ADDED", "pod-6"),
];

/// Compares what happens to pods, whatever the random operations are.
pub(crate) fn compare(world: &World) -> Result<()> {
    let trace = world.perform(&operations(world.compacts))?;
    ensure!(!trace.differs, "{}", trace.report());
    let shown: Vec<_> = trace.shown(WATCH).iter().map(summary).collect();
    let expected = EVENTS.map(|(event, pod)| (json!(event), json!(pod)));
    ensure!(shown == expected, "the watch shows {shown:?}\n{}", trace.report());
    if world.compacts {
        let expired = trace.shown(LATER_WATCH);
        let is_expired = expired.iter().any(|event| event["type"] == "ERROR" && event["object"]["code"] == 410);
        ensure!(is_expired, "the watch from a version that is compacted shows {expired:?}");
    }
    Ok(())
}

fn summary(event: &Value) -> (Value, Value) {
    (event["type"].clone(), event["object"]["metadata"]["name"].clone())
}

fn operations(compacts: bool) -> Vec<Operation> {
    let query = || Query { fields: BOUND.to_owned(), ..Query::default() };
    let watch = |slot, after| Operation::Watch { slot, kind: Kind::Pod, query: query(), after };
    let list = Operation::List { kind: Kind::Pod, query: query(), limit: 2, at: None };
    let read = |slot| Operation::ReadWatch { slot };
    let mut operations = vec![
        watch(WATCH, 0),
        create(1, None),
        create(2, Some("node-a")),
        bind(1, "node-b"),
        bind(1, "node-a"),
        bind(9, "node-a"),
        set_phase(2, "Running"),
        set_phase(1, "Succeeded"),
        set_phase(2, "Failed"),
        set_phase(2, "Failed"),
        create(3, Some("node-a")),
        delete(3),
        create(4, Some("node-a")),
        create(5, Some("node-b")),
        create(6, None),
        delete(1),
        delete(6),
        create(6, Some("node-b")),
        read(WATCH),
        list.clone(),
        Operation::NextPage,
        Operation::NextPage,
        list,
        delete(2),
    ];
    if compacts {
        operations.extend([
            Operation::Compact { at: 0 },
            Operation::NextPage,
            watch(LATER_WATCH, 8),
            read(LATER_WATCH),
        ]);
    } else {
        operations.push(Operation::NextPage);
    }
    operations
}

fn key(number: u32) -> Key {
    Key::namespaced("default", format!("pod-{number}"))
}

fn create(number: u32, node: Option<&str>) -> Operation {
    let limits = json!({"limits": {"example.com/dongle": "1"}, "requests": {"example.com/dongle": "1"}});
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": key(number).name, "namespace": "default"},
        "spec": {"containers": [{"name": "app", "image": "pause", "resources": limits}]},
    });
    if let Some(node) = node {
        object["spec"]["nodeName"] = json!(node);
    }
    Operation::Create { kind: Kind::Pod, object, manager: "kubectl" }
}

fn bind(number: u32, node: &'static str) -> Operation {
    Operation::Bind { key: key(number), node }
}

fn set_phase(number: u32, phase: &str) -> Operation {
    Operation::Patch {
        target: (Kind::Pod, Subresource::Status, key(number)),
        patch: PatchBody::Merge(json!({"status": {"phase": phase}})),
        manager: "kubelet",
        dry_run: false,
    }
}

fn delete(number: u32) -> Operation {
    Operation::Delete { kind: Kind::Pod, key: key(number), uid: None }
}
