//! The other objects that the account may write: Events and its Lease.
//!
//! Method: create and update Events and Leases with the token of the chart's ServiceAccount, and compare the
//! rejections with SECURITY.md.

use harness::helm::{NAMESPACE, RELEASE};
use harness::{Cluster, Controller, wait_until};
use serde_json::{Map, Value, json};

use super::assert_rejected;
use crate::admission_policy::install;

#[test]
fn policy_restricts_events_and_leases() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    let create = |object: &Value| {
        let args = ["--kubeconfig", kubeconfig.to_str().unwrap(), "create", "-f", "-"];
        cluster.control_plane.kubectl_output(&args, Some(&object.to_string())).unwrap()
    };
    let (mut number, mut attempt) = (0, 0);
    let mut event = |change: &Value| {
        number += 1;
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": format!("event-{number}"), "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Repaired",
            "action": "Repair", "reportingInstance": "a",
            "reportingController": "noderesource.dev/node-resource-advertiser",
            "regarding": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        });
        merge(&mut event, change);
        event
    };
    let lease = |change: &Value| {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": RELEASE, "namespace": NAMESPACE},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
        });
        merge(&mut lease, change);
        lease
    };
    let own = "node-resource-advertiser may only report Events about nodes and rules, in its own name";
    let short_texts = "node-resource-advertiser may put at most 4 annotations of 256 characters and 8 labels on \
                       what it creates";
    let owners = "node-resource-advertiser may not put finalizers or ownerReferences on what it creates";
    let references = "node-resource-advertiser may put references of at most 253 characters on Events";
    let holder = "node-resource-advertiser may hold its Lease by a name of at most 512 characters";
    let one = "node-resource-advertiser may only write the Lease node-resource-advertiser";
    let short = "node-resource-advertiser may hold its Lease for at most 601 seconds";
    let large = "a".repeat(257);
    let many = |count| {
        let labels: Map<_, _> = (0..count).map(|it| (format!("a-{it}"), json!("b"))).collect();
        Value::from(labels)
    };
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"});
    wait_until("the policy to take effect", || {
        attempt += 1;
        let output = create(&lease(&json!({"metadata": {"name": format!("canary-{attempt}")}})));
        Ok(output.stderr.contains(one).then_some(()))
    })
    .unwrap();
    for (object, because) in [
        (event(&json!({"reportingController": "node-controller"})), own),
        (event(&json!({"regarding": {"kind": "Pod", "namespace": "default"}})), own),
        (event(&json!({"metadata": {"annotations": {"a": large}}})), short_texts),
        (event(&json!({"metadata": {"annotations": many(5)}})), short_texts),
        (event(&json!({"metadata": {"labels": many(9)}})), short_texts),
        (event(&json!({"metadata": {"finalizers": ["example.com/a"]}})), owners),
        (event(&json!({"metadata": {"ownerReferences": [owner]}})), owners),
        (event(&json!({"regarding": {"fieldPath": large}})), references),
        (lease(&json!({"metadata": {"name": "kube-scheduler"}})), one),
        (lease(&json!({"spec": {"leaseDurationSeconds": i32::MAX}})), short),
        (lease(&json!({"spec": {"holderIdentity": "a".repeat(513)}})), holder),
        (lease(&json!({"metadata": {"annotations": {"a": large}}})), short_texts),
        (lease(&json!({"metadata": {"labels": many(9)}})), short_texts),
        (lease(&json!({"metadata": {"finalizers": ["example.com/a"]}})), owners),
        (lease(&json!({"metadata": {"ownerReferences": [owner]}})), owners),
    ] {
        assert_rejected(&create(&object), because);
    }
    // A mutating webhook may label new objects. Nothing prevents a false Event, nor ten minutes of the Lease.
    let labelled = json!({"metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}}});
    let mut held = lease(&labelled);
    held["spec"]["leaseDurationSeconds"] = json!(601);
    for object in [event(&json!({})), event(&labelled), held] {
        let output = create(&object);
        assert_eq!(output.code, 0, "{object}: {output:?}");
    }
    let own = "--field-selector=reportingComponent=noderesource.dev/node-resource-advertiser";
    let deleted = cluster.kubectl(&["--namespace=default", "delete", "events", own]);
    assert_eq!(deleted.matches("deleted").count(), 2, "as SECURITY.md documents: {deleted}");
}

/// Without renewals there would never be a leader.
#[test]
fn lease_with_excess_metadata_is_still_renewed() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"});
    let annotations: Map<_, _> = (0..20).map(|it| (format!("example.com/{it}"), json!("a".repeat(2_000)))).collect();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": RELEASE, "namespace": NAMESPACE, "annotations": annotations,
            "finalizers": ["example.com/keep"], "ownerReferences": [owner],
        },
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 15},
    });
    let lease_args = ["lease", RELEASE, "--namespace", NAMESPACE];
    cluster.kubectl(&[&["delete", "--ignore-not-found"], &lease_args[..]].concat());
    cluster.control_plane.kubectl_stdin(&["create", "-f", "-"], &lease.to_string()).unwrap();
    let controller =
        Controller::start_unready(&cluster, &kubeconfig, &["--leader-elect-resource-namespace", NAMESPACE]);
    controller.wait_log("this process is now the leader");
    cluster.wait_for("the Lease to be renewed", &lease_args, |lease| {
        lease["spec"]["renewTime"] != lease["spec"]["acquireTime"]
    });
    let lease = cluster.get(&lease_args);
    assert_eq!(lease["metadata"]["finalizers"], json!(["example.com/keep"]));
    controller.stop();
    let edit = json!({"metadata": {"finalizers": null}}).to_string();
    cluster.kubectl(&[&["patch"], &lease_args[..], &["--type=merge", "-p", &edit]].concat());
}

fn merge(object: &mut Value, change: &Value) {
    let Value::Object(change) = change else { return *object = change.clone() };
    for (key, value) in change {
        merge(&mut object[key], value);
    }
}
