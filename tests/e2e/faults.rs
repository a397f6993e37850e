use harness::ControlPlane;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, advertises, amount, condition};

const DONGLE: &str = "example.com/dongle";
const NODES: usize = 200;

pub fn advertising(cluster: &Cluster, quantity: &str) -> usize {
    let nodes = cluster.get(&["nodes"]);
    let nodes = nodes["items"].as_array().unwrap();
    nodes.iter().filter(|node| advertises(node, DONGLE, quantity)).count()
}

/// Waits until the first node has been patched. The log tells it within milliseconds, and two hundred
/// nodes one by one take some hundred.
pub fn wait_for_the_middle(controller: &Controller) {
    controller.wait_log("advertised example.com/dongle=4");
}

fn two_hundred_nodes() -> Cluster {
    let cluster = Cluster::start();
    cluster.create_nodes((0..NODES).map(|number| format!("node-{number}")), &json!({}));
    cluster
}

/// One patch at a time is slow enough to be interrupted.
fn start_slowly(cluster: &Cluster) -> Controller {
    Controller::start_with(cluster, &["--concurrency", "1"])
}

#[test]
fn the_api_server_killed_in_the_middle_delays_and_loses_nothing() {
    let mut cluster = two_hundred_nodes();
    let controller = start_slowly(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    wait_for_the_middle(&controller);
    cluster.control_plane.kill_apiserver().unwrap();
    controller.wait_log("cannot be watched");
    cluster.control_plane.restart_apiserver().unwrap();
    cluster.wait_ready("dongle", "200/200");
    assert_eq!(advertising(&cluster, "4"), NODES);
    controller.stop();
}

#[test]
fn the_controller_killed_in_the_middle_is_caught_up_by_the_next() {
    let cluster = two_hundred_nodes();
    let controller = start_slowly(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    wait_for_the_middle(&controller);
    controller.kill();
    let patched = advertising(&cluster, "4");
    assert!((1..NODES).contains(&patched), "{patched}");

    // Whole or not at all: no node has a value without a ledger, or half of it.
    for node in cluster.get(&["nodes"])["items"].as_array().unwrap() {
        let parts = [
            amount(node, "capacity", DONGLE).is_some(),
            amount(node, "allocatable", DONGLE).is_some(),
            crate::cluster::ledger(node).is_some(),
        ];
        assert!(parts == [true; 3] || parts == [false; 3], "{node:#}");
    }

    let before = cluster.node_patches();
    let controller = Controller::start(&cluster);
    cluster.wait_ready("dongle", "200/200");
    let patches = usize::try_from(cluster.node_patches() - before).unwrap();
    assert_eq!(patches, NODES - patched, "only those that were left");
    controller.stop();
}

#[test]
fn a_controller_told_to_stop_in_the_middle_lets_what_is_under_way_end() {
    let cluster = two_hundred_nodes();
    let controller = start_slowly(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    wait_for_the_middle(&controller);
    controller.stop();
    let patched = advertising(&cluster, "4");
    assert!(patched < NODES, "it stopped, instead of going on to the end");
}

#[test]
fn without_the_crd_it_says_so_and_waits() {
    let cluster = Cluster::without_crd(ControlPlane::builder());
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    // A value that an earlier installation left: not to be withdrawn for want of a CRD.
    let ledger = json!({DONGLE: {"quantity": "4", "rule": "dongle"}}).to_string();
    cluster.kubectl(&[
        "annotate",
        "node",
        "node-1",
        &format!("noderesource.dev/advertised={ledger}"),
    ]);
    cluster.write_first_amount("node-1", DONGLE, "4");
    let kubeconfig = cluster.control_plane.kubeconfig();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("the CustomResourceDefinition is not installed");
    controller.wait_log("the CustomResourceDefinition is not installed");
    assert!(advertises(&cluster.node("node-1"), DONGLE, "4"), "nothing is withdrawn");

    cluster.install_crd();
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    controller.wait_ready();
    cluster.wait_advertised("node-1", DONGLE, "5");
    controller.stop();
}

#[test]
fn an_api_server_that_is_away_at_the_start_is_waited_for() {
    let mut cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    cluster.apply_rule("dongle", &json!({}));
    cluster.control_plane.kill_apiserver().unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("the API server cannot be reached");
    controller.wait_log("the API server cannot be reached");
    cluster.control_plane.restart_apiserver().unwrap();
    controller.wait_ready();
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}

/// The rights that the README lists.
pub fn rights() -> Vec<Value> {
    let of = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    vec![
        of("", "nodes", &["get", "list", "watch"]),
        of("", "nodes/status", &["patch"]),
        of("", "pods", &["list"]),
        of("noderesource.dev", "nodeextendedresources", &["list", "watch"]),
        of("noderesource.dev", "nodeextendedresources/status", &["patch"]),
        of("events.k8s.io", "events", &["create"]),
        of("resource.k8s.io", "deviceclasses", &["list", "watch"]),
        of("coordination.k8s.io", "leases", &["list", "watch", "create", "update"]),
    ]
}

pub fn grant(cluster: &Cluster, rules: &Value) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "limited"}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
    });
    cluster.apply(&role.to_string());
    cluster.apply(&binding.to_string());
}

#[test]
fn missing_rights_are_told_and_taken_up_when_they_come() {
    let cluster = Cluster::with(ControlPlane::builder().user("limited"));
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    let admin = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");
    admin.stop();

    let kubeconfig = cluster.control_plane.kubeconfig_for("limited");
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("grant the verbs list and watch");

    // Everything but the patch.
    let mut some = rights();
    some.retain(|right| right["resources"] != json!(["nodes/status"]));
    grant(&cluster, &json!(some));
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    controller.wait_unready("no right to patch nodes/status");
    controller.wait_log("grant the verb patch on nodes/status");
    let status = cluster.wait_status("dongle", "PatchFailed", |status| {
        condition(status, "Ready") == ("False", "PatchFailed") && status["nodes"]["failed"] == 2
    });
    let message = status["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("cannot patch resource \"nodes/status\""), "{message}");
    assert!(advertises(&cluster.node("node-1"), DONGLE, "4"), "nothing is withdrawn");
    for subject in ["node-1", "dongle"] {
        cluster.wait_event(subject, "PatchFailed", "rule dongle is not in force on node-1");
    }

    // Of a rule that is gone only the node can tell.
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_event("node-1", "PatchFailed", "example.com/dongle is still on node-1");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));

    grant(&cluster, &json!(rights()));
    controller.wait_ready();
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_advertised("node-1", DONGLE, "5");

    cluster.write_amount("node-1", DONGLE, "7");
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.wait_event("node-1", "Repaired", "was 7, written by kubectl-patch");

    // A right that is taken away is no evidence that anything is gone.
    grant(&cluster, &json!([]));
    controller.stop();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("grant the verbs list and watch");
    assert!(advertises(&cluster.node("node-1"), DONGLE, "5"), "nothing is withdrawn");
    controller.stop();
}
