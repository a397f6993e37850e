//! Upgrade and rollback: what one version leaves in a cluster, under the program of another.
//!
//! Method: `tests/testdata/versions/` has the CRD and all objects of each version, as that version left them on a real
//! control plane; `record` has the command. They are written to etcd as they are, with the generations, times and field
//! managers of then. What a later version may leave is made from the newest of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::objects::{DONGLE, ledger, quantity};
use harness::{Cluster, ControlPlane, Controller, project_file};
use serde_json::{Value, json};

mod later;
mod older;
mod record;

/// How long nothing may happen.
const WINDOW: Duration = Duration::from_secs(2);
/// The flags with which the objects were written. Tests wait until the Lease among them expires.
const FLAGS: [&str; 2] = ["--node-condition=true", "--leader-elect-lease-duration=3s"];

/// Returns the folder of every version.
fn versions() -> Vec<PathBuf> {
    let folders = fs::read_dir(project_file("tests/testdata/versions")).unwrap();
    let mut folders: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// Reads the objects that a version has left.
fn objects(version: &Path) -> Vec<Value> {
    let text = fs::read_to_string(version.join("objects.json")).unwrap();
    let mut list: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

/// Starts a cluster with a CRD and objects.
fn restore(crd: &str, objects: &[Value]) -> Cluster {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    cluster.apply(crd);
    cluster.wait_crds();
    for object in objects {
        put(&cluster, object);
    }
    for (args, kind) in [("nodes", "Node"), ("ner", "NodeExtendedResource")] {
        let count = objects.iter().filter(|object| object["kind"] == kind).count();
        cluster.wait_for(&format!("{count} {args} to be served"), &[args], |list| {
            list["items"].as_array().is_some_and(|items| items.len() == count)
        });
    }
    cluster.create_nodes(["canary"], &json!({}));
    cluster
}

/// Writes an object to etcd, with everything that the API server would set.
fn put(cluster: &Cluster, object: &Value) {
    cluster.control_plane.put_in_etcd(&etcd_key(object), &object.to_string()).unwrap();
}

fn etcd_key(object: &Value) -> String {
    let folder = match object["kind"].as_str().unwrap() {
        "Node" => "minions",
        "Pod" => "pods/default",
        "Lease" => "leases/default",
        "NodeExtendedResource" => "noderesource.dev/nodeextendedresources",
        kind => panic!("no key of a {kind}"),
    };
    format!("/registry/{folder}/{}", object["metadata"]["name"].as_str().unwrap())
}

/// Returns all nodes, as they are, and all rules, without what every write of a status changes: a new leader may report
/// what it does not know yet. The canary's are left out.
fn state(cluster: &Cluster) -> Vec<Value> {
    let [nodes, mut rules] = [["nodes"], ["ner"]].map(|args| cluster.get(&args)["items"].take());
    for rule in rules.as_array_mut().unwrap() {
        rule["metadata"]["resourceVersion"].take();
        rule["metadata"]["managedFields"].take();
        // An older CRD drops it. With the newer one, it is written once the rules are listed again.
        rule["status"].as_object_mut().map(|status| status.remove("requested"));
    }
    let objects = [nodes, rules].into_iter().flat_map(|list| list.as_array().unwrap().clone());
    objects.filter(|object| object["metadata"]["name"] != "canary").collect()
}

/// Waits until the controller has done its work: it has written another rule, and is idle.
fn wait_considered(cluster: &Cluster, quantity: u32) {
    let spec = json!({"resourceName": "example.com/canary", "quantity": quantity, "nodeNames": ["canary"]});
    cluster.apply_rule("canary", &spec);
    cluster.wait_advertised("canary", "example.com/canary", &quantity.to_string());
    cluster.wait_ready("canary", "1/1");
    cluster.wait_idle(WINDOW);
}

fn assert_unwritten(before: &[Value], cluster: &Cluster, what: &str) {
    let after = state(cluster);
    assert_eq!(before.len(), after.len(), "{what}");
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after, "{what}: an object has changed\nbefore: {before:#}\nafter: {after:#}");
    }
}

/// Sets a resource of a node to 0, like a kubelet after a reboot, and waits for the repair.
fn assert_repaired(cluster: &Cluster, node: &str, resource: &str, expected: &str) {
    cluster.write_quantity(node, resource, "0");
    cluster.wait_advertised(node, resource, expected);
}

#[test]
fn objects_of_every_version_are_used_without_a_write() {
    assert!(!versions().is_empty());
    for version in versions() {
        let objects = objects(&version);
        let cluster = restore(&fs::read_to_string(version.join("crd.yaml")).unwrap(), &objects);
        let before = state(&cluster);
        let controller = Controller::start_with(&cluster, &FLAGS);
        wait_considered(&cluster, 1);
        assert_unwritten(&before, &cluster, "the program is newer");
        cluster.install_crd();
        wait_considered(&cluster, 2);
        assert_unwritten(&before, &cluster, "the CRD is newer");
        use_objects(&cluster);
        controller.stop();
        println!("{}: {} objects", version.display(), objects.len());
    }
}

/// Repairs and withdraws what the objects record.
fn use_objects(cluster: &Cluster) {
    assert_repaired(cluster, "plain", DONGLE, "4");
    assert_repaired(cluster, "held", record::SLOT, "3");
    assert_repaired(cluster, "paused", record::PAUSED, "4");
    cluster.kubectl(&["delete", "ner", "--all"]);
    for (node, resource) in [("plain", DONGLE), ("held", record::SLOT), ("paused", record::PAUSED)] {
        cluster.wait_withdrawn(node, resource);
    }
    for node in ["several", "retained"] {
        cluster.wait_for("the ledger to be removed", &["node", node], |node| ledger(node).is_none());
    }
    for (node, resource, kept) in [
        ("several", record::STORAGE, "800Gi"),
        ("retained", record::STORAGE, "800Gi"),
        ("released", record::OLD, "4"),
        ("conflicted", record::KEY, "7"),
        ("invalid", DONGLE, "4"),
    ] {
        assert_eq!(quantity(&cluster.node(node), "capacity", resource), Some(kept), "{node}");
    }
    assert_eq!(ledger(&cluster.node("invalid")), Some(record::INVALID));
}
