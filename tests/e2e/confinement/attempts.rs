//! What else a stolen token may try: every kind of patch, fields that the API server ignores, and other objects.
//!
//! Method: send raw requests with the token of the chart's ServiceAccount, and compare their codes, and the objects
//! before and after.

use harness::helm::{NAMESPACE, RELEASE, service_account_kubeconfig};
use harness::objects::DONGLE;
use harness::{Cluster, Proxy, SharedCluster};
use serde_json::{Value, json};

use super::advertise;
use crate::admission_policy::install;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const STATUS: &str = "/api/v1/nodes/node-1/status?fieldManager=node-resource-advertiser";
const RULE_STATUS: &str =
    "/apis/noderesource.dev/v1alpha1/nodeextendedresources/dongle/status?fieldManager=node-resource-advertiser";

/// A cluster with a labeled node and a rule, and the account that the chart's policies confine.
fn cluster_and_account(args: &[&str]) -> (SharedCluster, Proxy) {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, args);
    cluster.create_nodes(["node-1"], &json!({"example.com/pool": "a"}));
    cluster.kubectl(&["annotate", "node", "node-1", "example.com/owner=platform"]);
    let status = json!({
        "capacity": {"cpu": "4", "nvidia.com/gpu": "8"}, "allocatable": {"cpu": "4", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
    });
    cluster.patch_status("node-1", "merge", &json!({ "status": status }));
    cluster.apply_rule("dongle", &json!({}));
    let account = cluster.control_plane.proxy_of(&kubeconfig).unwrap();
    (cluster, account)
}

/// Returns an object without what changes with each write.
fn content(cluster: &Cluster, args: &[&str]) -> Value {
    let mut object = cluster.get(args);
    for field in ["managedFields", "resourceVersion"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

fn applied(change: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    for (key, value) in change.as_object().unwrap() {
        match object.get_mut(key).and_then(Value::as_object_mut) {
            Some(fields) => fields.extend(value.as_object().unwrap().clone()),
            None => object[key] = value.clone(),
        }
    }
    object
}

#[test]
fn every_kind_of_patch_is_confined() {
    let (cluster, account) = cluster_and_account(&[]);
    let before = content(&cluster, &["node", "node-1"]);
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"}]);
    for change in [
        json!({"metadata": {"labels": {"example.com/pool": "b"}}}),
        json!({"metadata": {"labels": {"example.com/other": "b"}}}),
        json!({"metadata": {"annotations": {"example.com/owner": "other"}}}),
        json!({"metadata": {"finalizers": ["example.com/keep"]}}),
        json!({"metadata": {"ownerReferences": owner}}),
        json!({"status": {"capacity": {"cpu": "5"}}}),
        json!({"status": {"capacity": {"hugepages-2Mi": "2Mi"}}}),
        json!({"status": {"capacity": {"foo.kubernetes.io/x": "1"}}}),
        json!({"status": {"capacity": {"nvidia.com/gpu": "9"}}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        json!({"status": {"images": [{"names": ["a"], "sizeBytes": 1}]}}),
        json!({"status": {"volumesAttached": [{"name": "a", "devicePath": "b"}]}}),
        json!({"status": {"nodeInfo": {"kubeletVersion": "v9"}}}),
    ] {
        for kind in [MERGE, STRATEGIC] {
            let (code, body) = account.send("PATCH", STATUS, kind, &change.to_string()).unwrap();
            assert!(code == 422 || code == 403, "{kind} {change}: {code} {body}");
        }
        let forced = format!("{STATUS}&force=true");
        let (code, body) = account.send("PATCH", &forced, APPLY, &applied(&change).to_string()).unwrap();
        assert!((400..500).contains(&code), "apply {change}: {code} {body}");
    }
    for (kind, change) in [
        (MERGE, json!({"metadata": {"labels": null}})),
        (MERGE, json!({"metadata": {"annotations": null}})),
        (MERGE, json!({"status": null})),
        (MERGE, json!({"status": {"conditions": null}})),
        (STRATEGIC, json!({"metadata": {"labels": {"$patch": "delete"}}})),
        (STRATEGIC, json!({"status": {"$patch": "replace", "capacity": {"cpu": "4"}}})),
        (STRATEGIC, json!({"status": {"$retainKeys": ["capacity"], "capacity": {"cpu": "4"}}})),
        (STRATEGIC, json!({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}})),
        (STRATEGIC, json!({"status": {"capacity": {"$patch": "replace", "nvidia.com/gpu": "8"}}})),
        (JSON, json!([{"op": "remove", "path": "/status/capacity/cpu"}])),
        (JSON, json!([{"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/a"}])),
        (JSON, json!([{"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"}])),
    ] {
        let (code, body) = account.send("PATCH", STATUS, kind, &change.to_string()).unwrap();
        assert!((400..500).contains(&code), "{kind} {change}: {code} {body}");
    }
    assert_eq!(content(&cluster, &["node", "node-1"]), before);
}

/// The API server itself rejects these, or stores nothing of them.
#[test]
fn fields_that_a_status_cannot_change_stay() {
    let (cluster, account) = cluster_and_account(&[]);
    let (node, rule) = (content(&cluster, &["node", "node-1"]), content(&cluster, &["ner", "dongle"]));
    for change in [
        json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
        json!({"spec": {"unschedulable": true}}),
        json!({"status": {"config": {"error": "a"}}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {"name": "other"}}),
        json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        json!({"metadata": {"generateName": "a"}}),
        json!({"metadata": {"selfLink": "/a"}}),
        json!({"metadata": {"resourceVersion": "1"}, "status": {"capacity": {"example.com/a": "1"}}}),
        json!({"status": {"capacity": {"example.com/a=b": "1"}}}),
    ] {
        let (code, body) = account.send("PATCH", STATUS, MERGE, &change.to_string()).unwrap();
        assert!(code < 500, "{change}: {code} {body}");
        assert_eq!(content(&cluster, &["node", "node-1"]), node, "{change}: {code}");
    }
    let (code, body) = account.send("PATCH", STATUS, APPLY, "{metadata: {name: node-1}}").unwrap();
    assert!((400..500).contains(&code), "without a kind: {code} {body}");
    // A name that only begins like the controller's.
    let four = advertise(&[(DONGLE, "4")], &[(DONGLE, "4")]).to_string();
    let (code, body) = account.send("PATCH", &format!("{STATUS}-2"), JSON, &four).unwrap();
    assert!(code == 422 && body.contains("as the field manager of that name"), "{code} {body}");

    for change in [
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["example.com/keep"]}}),
        json!({"spec": {"quantity": 9}}),
    ] {
        let (code, body) = account.send("PATCH", RULE_STATUS, MERGE, &change.to_string()).unwrap();
        assert!(code < 500, "{change}: {code} {body}");
        assert_eq!(content(&cluster, &["ner", "dongle"]), rule, "{change}: {code}");
    }
}

#[test]
fn token_may_write_nothing_else() {
    let (cluster, account) = cluster_and_account(&[]);
    let node = cluster.get(&["node", "node-1"]).to_string();
    let named = |name: &str| json!({"metadata": {"name": name}}).to_string();
    let lease = "/apis/coordination.k8s.io/v1/namespaces";
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let rules = "/apis/noderesource.dev/v1alpha1/nodeextendedresources";
    for (method, path, kind, body) in [
        ("PUT", "/api/v1/nodes/node-1/status", "application/json", node.clone()),
        ("PUT", "/api/v1/nodes/node-1", "application/json", node),
        ("PATCH", "/api/v1/nodes/node-1", MERGE, json!({"metadata": {"labels": {"a": "b"}}}).to_string()),
        ("DELETE", "/api/v1/nodes/node-1", "", String::new()),
        ("POST", "/api/v1/nodes", "application/json", named("node-2")),
        (
            "PATCH",
            "/api/v1/nodes/node-2?fieldManager=a",
            APPLY,
            applied(&json!({})).to_string().replace("node-1", "node-2"),
        ),
        ("GET", "/api/v1/nodes/node-1/proxy/", "", String::new()),
        ("GET", "/api/v1/secrets", "", String::new()),
        ("GET", "/api/v1/namespaces/default/configmaps", "", String::new()),
        ("POST", "/api/v1/namespaces/default/pods", "application/json", named("a")),
        ("POST", "/api/v1/namespaces/default/pods/a/portforward", "", String::new()),
        ("POST", "/api/v1/namespaces/default/pods/a/eviction", "application/json", named("a")),
        ("GET", "/api/v1/namespaces/default/pods/a/log", "", String::new()),
        ("DELETE", "/api/v1/namespaces/default/pods/a", "", String::new()),
        ("PUT", "/api/v1/namespaces/default/finalize", "application/json", named("default")),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "application/json", "{}".to_owned()),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "application/json", "{}".to_owned()),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", "{}".to_owned()),
        ("DELETE", &format!("{policies}/validatingadmissionpolicybindings/{RELEASE}"), "", String::new()),
        ("DELETE", &format!("{policies}/validatingadmissionpolicies/{RELEASE}"), "", String::new()),
        ("DELETE", &format!("{policies}/mutatingadmissionpolicies/{RELEASE}-protect"), "", String::new()),
        ("DELETE", &format!("{rules}/dongle"), "", String::new()),
        ("POST", rules, "application/json", named("a")),
        ("PATCH", &format!("{rules}/dongle"), MERGE, json!({"spec": {"quantity": 9}}).to_string()),
        ("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view", "", String::new()),
        (
            "DELETE",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeextendedresources.noderesource.dev",
            "",
            String::new(),
        ),
        ("POST", &format!("{lease}/kube-system/leases"), "application/json", named("kube-scheduler")),
        ("DELETE", &format!("{lease}/{NAMESPACE}/leases/{RELEASE}"), "", String::new()),
        ("PATCH", &format!("{lease}/{NAMESPACE}/leases/{RELEASE}"), MERGE, "{}".to_owned()),
        ("DELETE", &format!("{lease}/{NAMESPACE}/leases"), "", String::new()),
        (
            "POST",
            &format!("/apis/coordination.k8s.io/v1beta1/namespaces/{NAMESPACE}/leasecandidates"),
            "application/json",
            named(RELEASE),
        ),
        ("POST", "/apis/events.k8s.io/v1/namespaces/kube-system/events", "application/json", named("a")),
        ("POST", "/api/v1/namespaces/default/events", "application/json", named("a")),
        ("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events/a", "", String::new()),
    ] {
        let (code, body) = account.send(method, path, kind, &body).unwrap();
        assert!(code == 403 && body.contains(" cannot "), "{method} {path}: {code} {body}");
    }
    let kubeconfig = service_account_kubeconfig(&cluster);
    let administrator = ["--as=admin", "--as-group=system:masters", "get", "secrets"];
    let impersonate = [&["--kubeconfig", kubeconfig.to_str().unwrap()], &administrator[..]].concat();
    let output = cluster.control_plane.kubectl_output(&impersonate, None).unwrap();
    assert!(output.code != 0 && output.stderr.contains("cannot impersonate"), "{output:?}");
}

/// SECURITY.md has these among what remains.
#[test]
fn what_remains_is_accepted() {
    let (_cluster, account) = cluster_and_account(&["--set=nodeCondition.enabled=true"]);
    let (code, _) = account.send("GET", "/api/v1/pods", "", "").unwrap();
    assert_eq!(code, 200, "reading all pods");
    let ready = json!({"type": "Ready", "status": "True", "reason": "Advertised", "message": "", "observedGeneration": 99,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [ready]}}).to_string();
    let (code, body) = account.send("PATCH", RULE_STATUS, MERGE, &status).unwrap();
    assert_eq!(code, 200, "a false status of a rule: {body}");
    let retained = r#"{"example.com/dongle":{"deletionPolicy":"Retain","quantity":"4","rule":"none"}}"#;
    let mut retain = advertise(&[(DONGLE, "4")], &[]);
    retain[0]["value"] = json!(retained);
    let (code, body) = account.send("PATCH", STATUS, JSON, &retain.to_string()).unwrap();
    assert_eq!(code, 200, "a value that stays: {body}");
    let own = json!({"type": "noderesource.dev/Advertised", "status": "True"});
    let condition = json!([{"op": "add", "path": "/status/conditions/-", "value": own}]).to_string();
    let (code, body) = account.send("PATCH", STATUS, JSON, &condition).unwrap();
    assert_eq!(code, 200, "a false condition: {body}");
    // Their order means nothing, and the policy compares it.
    let order = json!([{"op": "move", "from": "/status/conditions/2", "path": "/status/conditions/0"}]).to_string();
    let (code, body) = account.send("PATCH", STATUS, JSON, &order).unwrap();
    assert_eq!(code, 200, "another order of its conditions: {body}");
    let order = json!([{"op": "move", "from": "/status/conditions/0", "path": "/status/conditions/2"}]).to_string();
    let (code, body) = account.send("PATCH", STATUS, JSON, &order).unwrap();
    assert_eq!(code, 200, "the order from before: {body}");
    for (what, operations) in [
        ("another condition", json!([{"op": "replace", "path": "/status/conditions/0/status", "value": "False"}])),
        ("none", json!([{"op": "remove", "path": "/status/conditions"}])),
        ("two", json!([{"op": "add", "path": "/status/conditions/-", "value": own}])),
        ("Unknown", json!([{"op": "replace", "path": "/status/conditions/2/status", "value": "Unknown"}])),
        ("a long text", json!([{"op": "add", "path": "/status/conditions/2/message", "value": "a".repeat(1025)}])),
    ] {
        let (code, body) = account.send("PATCH", STATUS, JSON, &operations.to_string()).unwrap();
        assert_eq!(code, 422, "{what}: {body}");
    }
}
