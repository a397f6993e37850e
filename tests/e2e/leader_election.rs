//! Leader election between two controllers.
//!
//! Method: stop, kill or pause the leader during a rollout of one patch at a time, and check that the
//! standby completes it and that the old leader writes nothing more.

use std::time::Instant;

use harness::objects::DONGLE;
use harness::{Cluster, Controller, SharedCluster, Signal, wait_until};
use serde_json::{Value, json};

use crate::support::interrupted_rollout::{ONE_PATCH_AT_A_TIME, advertising_nodes, create_nodes, wait_first_patch};
use crate::support::{permissions, program};

const NODES: usize = 500;

/// Starts two controllers, the first of which leads and has begun a rollout. They use the default
/// lease duration, because a slow machine renews a shorter lease too late.
fn start_rollout() -> (SharedCluster, Controller, Controller) {
    let cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let start = |identity| {
        let args = [&ONE_PATCH_AT_A_TIME[..], &["--identity", identity]].concat();
        Controller::start_with(&cluster, &args)
    };
    let first = start("first");
    first.wait_log("this process is now the leader");
    let second = start("second");
    second.wait_log("standing by holder=first_");
    let (code, body) = second.get("/readyz").unwrap();
    assert!(code == 200 && body.starts_with("ready: first_"), "{code} {body}");
    cluster.apply_rule("dongle", &json!({}));
    wait_first_patch(&first);
    assert!(!second.log().contains("advertised"), "the standby writes:\n{}", second.log());
    (cluster, first, second)
}

/// Waits until the standby leads and has completed the rollout. Prints, for information only, how long
/// there was no leader and how far the rollout was.
fn wait_takeover(cluster: &Cluster, second: &Controller, what: &str, since: Instant) {
    let before = advertising_nodes(cluster, "4");
    assert!(before < NODES, "the rollout was over before it was interrupted");
    second.wait_log("this process is now the leader");
    let millis = since.elapsed().as_millis();
    eprintln!("{what} with {before} of {NODES} nodes patched: {millis} ms without a leader");
    cluster.wait_ready("dongle", &format!("{NODES}/{NODES}"));
}

fn resource_versions(cluster: &Cluster) -> Vec<Value> {
    let nodes = cluster.nodes().into_iter();
    nodes.map(|node| node["metadata"]["resourceVersion"].clone()).collect()
}

#[test]
fn standby_leads_at_once_after_graceful_stop() {
    let (cluster, first, second) = start_rollout();
    let since = Instant::now();
    first.stop();
    wait_takeover(&cluster, &second, "stopped", since);
    second.stop();
}

#[test]
fn standby_leads_after_leader_is_killed() {
    let (cluster, first, second) = start_rollout();
    let since = Instant::now();
    first.kill();
    wait_takeover(&cluster, &second, "killed", since);
    second.stop();
}

#[test]
fn paused_leader_writes_nothing_after_losing_its_lease() {
    let (cluster, first, second) = start_rollout();
    let since = Instant::now();
    first.signal(Signal::STOP);
    wait_takeover(&cluster, &second, "paused", since);
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_ready("dongle", &format!("{NODES}/{NODES}"));
    let (before, patches) = (resource_versions(&cluster), cluster.node_patches());
    first.signal(Signal::CONT);
    first.wait_log("this process is no longer the leader");
    first.wait_log("standing by holder=second_");
    assert!(resource_versions(&cluster) == before, "a node was written to");
    // What follows is work for the leader alone; every write of the other would be a violation of I6.
    cluster.apply_rule("dongle", &json!({"quantity": 6}));
    cluster.wait_ready("dongle", &format!("{NODES}/{NODES}"));
    // A patch that was in flight when the process was paused is rejected.
    let sent = cluster.node_patches() - patches;
    assert!(sent <= NODES as u64 + 1, "the paused leader sent patches: {sent} of both");
    assert_eq!(advertising_nodes(&cluster, "6"), NODES);
    // The first controller leads again when the other stops.
    second.stop();
    cluster.write_quantity("node-7", DONGLE, "9");
    cluster.wait_advertised("node-7", DONGLE, "6");
    first.stop();
}

#[test]
fn leader_keeps_leading_when_its_lease_is_annotated() {
    let cluster = Cluster::shared();
    let controller = Controller::start(&cluster);
    controller.wait_log("this process is now the leader");
    let lease = ["lease", "node-resource-advertiser"];
    let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
    for number in 0..3 {
        let annotation = format!("example.com/note={number}");
        cluster.kubectl(&["annotate", lease[0], lease[1], "--overwrite", &annotation]);
        let annotated = cluster.get(&lease);
        cluster.wait_for("the next renewal", &lease, |lease| version(lease) != version(&annotated));
    }
    let log = controller.log();
    assert!(!log.contains("is no longer the leader"), "{log}");
    controller.stop();
}

/// Makes the API server respond with 500 to patches of node statuses, as for an unreachable webhook.
/// Whoever may write the Lease can write any time that the API server accepts.
#[test]
fn lease_with_a_time_that_cannot_be_expressed_stops_no_controller() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    let far = "9999-12-31T23:59:59.000000Z";
    let lease = ["lease", "node-resource-advertiser"];
    for fields in [
        json!({"spec": {"renewTime": far}}),
        json!({"spec": {"renewTime": far, "acquireTime": far, "holderIdentity": "mallory"}}),
        json!({"metadata": {"managedFields": [{
            "manager": "mallory", "operation": "Update", "apiVersion": "coordination.k8s.io/v1", "time": far,
            "fieldsType": "FieldsV1", "fieldsV1": {},
        }]}, "spec": {"renewTime": far}}),
    ] {
        cluster.kubectl(&["patch", lease[0], lease[1], "--type=merge", "-p", &fields.to_string()]);
        cluster.wait_for("the Lease to be renewed by the controller", &lease, |lease| {
            let text = lease["spec"].to_string();
            !text.contains("9999") && !text.contains("mallory")
        });
        cluster.write_quantity("node-1", DONGLE, "0");
        cluster.wait_advertised("node-1", DONGLE, "4");
    }
    controller.stop();
}

fn fail_patches(cluster: &Cluster, node: &str) {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"],
    });
    let webhook = json!({
        "name": "absent.example.com", "rules": [rule], "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"},
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "absent"}, "webhooks": [webhook],
    });
    cluster.apply(&configuration.to_string());
    let patch = r#"{"status":{"phase":"Running"}}"#;
    let patch = ["patch", "node", node, "--subresource=status", "-p", patch];
    wait_until("the webhook to take effect", || {
        let output = cluster.control_plane.kubectl_output(&patch, None)?;
        Ok(output.stderr.contains("failed calling webhook").then_some(()))
    })
    .unwrap();
}

#[test]
fn stopped_leader_keeps_its_lease_while_a_patch_may_be_applied() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let first = Controller::start_with(&cluster, &["--identity", "first"]);
    first.wait_log("this process is now the leader");
    fail_patches(&cluster, "node-1");
    cluster.apply_rule("dongle", &json!({}));
    first.wait_log("cannot patch the node, retrying");
    first.stop();
    let lease = cluster.get(&["lease", "node-resource-advertiser"]);
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert!(holder.starts_with("first_"), "{lease:#}");

    cluster.kubectl(&["delete", "validatingwebhookconfiguration", "absent"]);
    let second = Controller::start_with(&cluster, &["--identity", "second"]);
    cluster.wait_advertised("node-1", DONGLE, "4");
    // Once every request has a response, the next process leads at once.
    second.stop();
    let lease = cluster.get(&["lease", "node-resource-advertiser"]);
    assert!(lease["spec"]["holderIdentity"].as_str().is_none_or(str::is_empty), "{lease:#}");
}

/// A person's kubeconfig rarely names the namespace of the controller in the cluster.
#[test]
fn controller_does_not_lead_beside_that_of_another_lease() {
    let cluster = Cluster::shared();
    let first = Controller::start_with(&cluster, &["--leader-elect-resource-namespace", "kube-system"]);
    first.wait_log("this process is now the leader");
    let kubeconfig = cluster.control_plane.kubeconfig();
    let run = ["run", "--bind-address", "127.0.0.1:0"];
    let output = program::run(&kubeconfig, &run, None);
    assert_eq!(output.code, 1, "{}", output.stdout);
    let error = "another controller leads, with the Lease kube-system/node-resource-advertiser";
    assert!(output.stderr.contains(error), "{}", output.stderr);
    let second = Controller::start_with(&cluster, &["--leader-elect-resource-namespace", "default"]);
    second.wait_log("this process is now the leader");
    second.stop();
    first.stop();
}

/// Nothing is known of the Leases of other namespaces: that is no reason not to lead.
#[test]
fn controller_that_may_not_list_all_leases_leads_with_its_own() {
    let cluster = Cluster::shared();
    let rules = [
        json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}),
        json!({"apiGroups": ["noderesource.dev"], "resources": ["nodeextendedresources"],
            "verbs": ["get", "list", "watch"]}),
    ];
    permissions::grant_to(&cluster, "leads", &rules);
    let leases = ["create", "role", "leads", "--resource", "leases", "--verb", "get,list,watch,create,update"];
    cluster.kubectl(&leases);
    cluster.kubectl(&["create", "rolebinding", "leads", "--role", "leads", "--user", "leads"]);
    cluster.wait_permission("leads", "list", "nodes");
    let controller = Controller::start_with(&cluster, &["--as", "leads"]);
    controller.wait_log("this process is now the leader");
    controller.stop();
}
