//! The chart's admission policies: what they admit and what they reject.
//!
//! Method: patch nodes with the token of the chart's ServiceAccount, one field at a time, and compare
//! the rejection's message; run the controller with the same token, and expect no rejection.

use std::path::{Path, PathBuf};

use harness::helm::{NAMESPACE, RELEASE, apply_chart, service_account_kubeconfig};
use harness::objects::{DONGLE, LEDGER, bound_pod, quantity, rule};
use harness::{Cluster, ControlPlane, Controller, Output, wait_until};
use serde_json::{Value, json};

/// The resource whose value leaves when it is unused.
const KEY: &str = "example.com/key";

/// Installs the chart's objects with these arguments, and returns the kubeconfig of its ServiceAccount.
pub(crate) fn install(cluster: &Cluster, args: &[&str]) -> PathBuf {
    apply_chart(cluster, args);
    let kubeconfig = service_account_kubeconfig(cluster);
    wait_in_force(cluster, &kubeconfig, NAMESPACE, RELEASE);
    kubeconfig
}

/// Waits until the policy confines a ServiceAccount, whose kubeconfig this is, and creates the node `canary` for that.
pub(crate) fn wait_in_force(cluster: &Cluster, kubeconfig: &Path, namespace: &str, account: &str) {
    // kubectl patch reads before it writes; the controller does not.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "test"},
        "rules": [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "test"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    });
    cluster.apply(&role.to_string());
    cluster.apply(&binding.to_string());

    // A policy takes effect some hundred milliseconds after it is created.
    cluster.create_nodes(["canary"], &json!({}));
    let (mut last, mut attempt) = (String::new(), 0);
    let rejected = wait_until("the policy to take effect", || {
        // A new value for each attempt: setting the same label again would be no change.
        attempt += 1;
        let (path, value) = ("/metadata/labels/example.com~1canary", attempt.to_string());
        let label = json!([{"op": "add", "path": path, "value": value}]);
        last = patch(cluster, kubeconfig, "canary", &label).stderr;
        Ok(last.contains("may not change metadata").then_some(()))
    });
    rejected.unwrap_or_else(|error| panic!("{error:#}\nlast output: {last}"));
}

/// Patches a node's status as the user of a kubeconfig, and as the controller's field manager.
pub(crate) fn patch(cluster: &Cluster, kubeconfig: &Path, node: &str, patch: &Value) -> Output {
    patch_as(cluster, kubeconfig, RELEASE, node, patch)
}

/// Patches a node's status as the user of a kubeconfig, and as this field manager.
pub(crate) fn patch_as(cluster: &Cluster, kubeconfig: &Path, manager: &str, node: &str, patch: &Value) -> Output {
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let node = ["patch", "node", node, "--subresource=status", "--field-manager", manager];
    // Too long for a command-line argument.
    let from_stdin = ["--type=json", "--patch-file=/dev/stdin"];
    let args = [&kubeconfig[..], &node, &from_stdin].concat();
    cluster.control_plane.kubectl_output(&args, Some(&patch.to_string())).unwrap()
}

/// Creates a node with a value in every field that a patch could change.
fn create_full_node(cluster: &Cluster, name: &str) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name},
            "annotations": {"example.com/owner": "platform"}, "finalizers": ["example.com/keep"],
        },
        "spec": {"podCIDR": "10.0.0.0/24"},
    });
    cluster.control_plane.kubectl_stdin(&["create", "-f", "-"], &node.to_string()).unwrap();
    // In notations that no API server writes: the policy must ignore what a patch does not change.
    let amounts = json!({
        "cpu": "4000m", "memory": "16384Ki", "hugepages-2Mi": "0", "kubernetes.io/batch": "007",
        "not/a/name": "1", "example.com/foreign": "8",
    });
    let status = json!({"status": {
        "capacity": amounts, "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "images": [{"names": ["example.com/app:1"], "sizeBytes": 1}],
        "volumesInUse": ["kubernetes.io/csi/example"],
    }});
    cluster.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status.to_string()]);
}

#[test]
fn policy_admits_everything_the_controller_writes() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    create_full_node(&cluster, "full");
    cluster.create_nodes(["empty"], &json!({}));
    let controller =
        Controller::start_unready(&cluster, &kubeconfig, &["--leader-elect-resource-namespace", NAMESPACE]);
    controller.wait_ready();

    cluster.apply_rule("dongle", &json!({"nodeNames": ["full", "empty"]}));
    cluster.wait_ready("dongle", "2/2");
    cluster.apply_rule("dongle", &json!({"nodeNames": ["full", "empty"], "quantity": "800Gi"}));
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_advertised("full", DONGLE, "800Gi");

    cluster.write_quantity("full", DONGLE, "7");
    cluster.wait_advertised("full", DONGLE, "800Gi");
    cluster.wait_event("full", "Repaired", ": 7 (by kubectl-patch) -> ");

    // An adoption writes only the annotation.
    cluster.kubectl(&["annotate", "node", "full", &format!("{LEDGER}-")]);
    cluster.wait_advertised("full", DONGLE, "800Gi");

    let take_over = json!({"resourceName": "example.com/foreign", "conflictPolicy": "Overwrite",
        "nodeNames": ["full"], "quantity": 9_223_372_036_854_775_u64});
    cluster.apply_rule("foreign", &take_over);
    cluster.wait_ready("foreign", "1/1");

    let leaving = json!({"resourceName": KEY, "deletionPolicy": "WhenUnused", "nodeNames": ["empty"]});
    cluster.apply_rule("leaving", &leaving);
    cluster.wait_ready("leaving", "1/1");
    cluster.apply(&bound_pod("uses", "empty", KEY, "3").to_string());

    cluster.kubectl(&["delete", "ner", "--all"]);
    cluster.wait_advertised("empty", KEY, "3");
    cluster.kubectl(&["delete", "pod", "uses", "--force", "--grace-period=0"]);
    cluster.wait_withdrawn("empty", KEY);
    cluster.wait_withdrawn("empty", DONGLE);
    cluster.wait_withdrawn("full", DONGLE);
    let node = cluster.wait_withdrawn("full", "example.com/foreign");
    assert_eq!(quantity(&node, "capacity", "kubernetes.io/batch"), Some("007"));
    assert!(!controller.log().contains("forbidden"), "{}", controller.log());
    controller.stop();
}

#[test]
fn policy_rejects_every_other_change_by_the_controller() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    create_full_node(&cluster, "node-1");
    let before = cluster.node("node-1");

    let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let remove = |path: &str| json!([{"op": "remove", "path": path}]);
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"}]);
    let too_long = format!("example.com/{}", "a".repeat(64));
    let metadata = "may not change metadata, such as labels, apart from its annotation";
    let annotation = "may only change the annotation noderesource.dev/advertised";
    let no_condition = "may not change conditions, except to remove noderesource.dev/Advertised";
    let maps_only = "may only change allocatable and capacity in status";
    let extended_only = "may only change extended resources";
    let whole_only = "may only set whole numbers from 1 to 9223372036854775";
    let rejected = [
        (set("/metadata/labels/a", json!("b")), metadata),
        (remove("/metadata/labels"), metadata),
        (set("/metadata/annotations/a", json!("b")), annotation),
        (remove("/metadata/annotations/example.com~1owner"), annotation),
        (remove("/metadata/annotations"), annotation),
        (set("/metadata/finalizers/-", json!("a/b")), metadata),
        (remove("/metadata/finalizers"), metadata),
        (set("/metadata/ownerReferences", owner), metadata),
        (set("/metadata/generateName", json!("a")), metadata),
        (set("/status/conditions/0/status", json!("False")), no_condition),
        (set("/status/conditions/0", json!({"type": "noderesource.dev/Advertised", "status": "True"})), no_condition),
        (remove("/status/conditions/0"), no_condition),
        (remove("/status/conditions"), no_condition),
        (set("/status/addresses/0/address", json!("10.0.0.2")), maps_only),
        (set("/status/images", json!([])), maps_only),
        (set("/status/nodeInfo/osImage", json!("other")), maps_only),
        (set("/status/volumesInUse", json!([])), maps_only),
        (set("/status/phase", json!("Running")), maps_only),
        (set("/status/daemonEndpoints/kubeletEndpoint/Port", json!(1)), maps_only),
        (set("/status/capacity/cpu", json!("5")), extended_only),
        (set("/status/allocatable/cpu", json!("5")), extended_only),
        (remove("/status/capacity/memory"), extended_only),
        (remove("/status/allocatable/memory"), extended_only),
        (set("/status/capacity/ephemeral-storage", json!("5")), extended_only),
        (set("/status/capacity/hugepages-2Mi", json!("2Mi")), extended_only),
        (set("/status/capacity/kubernetes.io~1new", json!("5")), extended_only),
        (remove("/status/capacity/kubernetes.io~1batch"), extended_only),
        (set("/status/capacity/a.kubernetes.io~1new", json!("5")), extended_only),
        (set("/status/capacity/requests.example.com~1a", json!("5")), extended_only),
        (set("/status/capacity/Example.com~1a", json!("5")), extended_only),
        (set("/status/capacity/example.com~1-a", json!("5")), extended_only),
        (set(&format!("/status/capacity/{}", too_long.replace('/', "~1")), json!("5")), extended_only),
        (remove("/status/capacity/not~1a~1name"), extended_only),
        (set("/status/capacity/example.com~1dongle", json!("0")), whole_only),
        (set("/status/allocatable/example.com~1dongle", json!("0")), whole_only),
        (set("/status/capacity/example.com~1dongle", json!("007")), whole_only),
        // The API server itself accepts these, because its arithmetic overflows.
        (set("/status/capacity/example.com~1dongle", json!("10E")), whole_only),
        (set("/status/capacity/example.com~1dongle", json!("1e99")), whole_only),
        (set("/status/capacity/example.com~1dongle", json!("9223372036854775807")), whole_only),
    ];
    for (attempt, because) in &rejected {
        let output = patch(&cluster, &kubeconfig, "node-1", attempt);
        let by_policy = "ValidatingAdmissionPolicy 'node-resource-advertiser' with binding";
        let message = &output.stderr;
        assert!(output.code != 0 && message.contains(by_policy), "{attempt}: {output:?}");
        assert!(message.trim_end().ends_with(because), "{attempt}: {message}, not {because}");
    }
    // The API server rejects these before it evaluates the policy.
    for (quantity, because) in [("-1", "greater than or equal to 0"), ("0.5", "an integer")] {
        let attempt = set("/status/capacity/example.com~1dongle", json!(quantity));
        let output = patch(&cluster, &kubeconfig, "node-1", &attempt);
        assert!(output.code != 0 && output.stderr.contains(because), "{attempt}: {output:?}");
    }
    assert_eq!(cluster.node("node-1"), before, "the node is unchanged");

    // One change that is not allowed is enough for a rejection.
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let listed = set("/metadata/annotations/noderesource.dev~1advertised", json!(ledger));
    let four = set("/status/capacity/example.com~1dongle", json!("4"));
    let allowed = json!([listed[0], four[0]]);
    let mixed = [allowed.as_array().unwrap().clone(), vec![rejected[0].0[0].clone()]].concat();
    assert_ne!(patch(&cluster, &kubeconfig, "node-1", &Value::from(mixed)).code, 0);
    assert_eq!(patch(&cluster, &kubeconfig, "node-1", &allowed).code, 0);
    // The policy applies only to this ServiceAccount.
    let admin = cluster.control_plane.kubeconfig();
    assert_eq!(patch(&cluster, &admin, "node-1", &rejected[0].0).code, 0);
}

/// The controller manager type-checks the policies' expressions, and records warnings.
#[test]
fn policies_pass_type_checking() {
    let cluster = Cluster::shared_with(ControlPlane::builder().controller_manager());
    apply_chart(&cluster, &["--set", "policy.allowedResources={example.com/*}"]);
    for suffix in ["", "-objects", "-rules"] {
        let policy = format!("{RELEASE}{suffix}");
        let what = format!("the types of the policy {policy} to be checked");
        let args = ["validatingadmissionpolicy", &policy];
        let policy = cluster.wait_for(&what, &args, |policy| policy["status"]["typeChecking"].is_object());
        assert_eq!(policy["status"]["typeChecking"], json!({}), "no warnings");
    }
}

#[test]
fn rule_policy_rejects_resources_not_in_the_allow_list() {
    let cluster = Cluster::shared();
    let before = json!({"resourceName": "example.net/old"});
    cluster.apply_rule("old", &before);
    apply_chart(&cluster, &["--set", "policy.allowedResources={example.com/*,example.org/license}"]);
    let try_rule = |name: &str, spec: &Value| {
        let (object, args) = (rule(name, spec).to_string(), ["apply", "--dry-run=server", "-f", "-"]);
        cluster.control_plane.kubectl_output(&args, Some(&object)).unwrap()
    };
    let because = "may not be declared in this cluster, only example.com/*, example.org/license";
    wait_until("the policy to take effect", || {
        let output = try_rule("canary", &json!({"resourceName": "example.net/canary"}));
        Ok(output.stderr.contains(because).then_some(()))
    })
    .unwrap();

    for name in ["example.org/license2", "example.community/dongle", "sub.example.com/dongle"] {
        let output = try_rule("rejected", &json!({"resourceName": name}));
        assert!(output.code != 0 && output.stderr.contains(because), "{name}: {output:?}");
        assert!(output.stderr.contains(&format!("spec.resourceName: {name} ")), "{output:?}");
    }
    for name in ["example.com/dongle", "example.org/license"] {
        assert_eq!(try_rule("allowed", &json!({"resourceName": name})).code, 0, "{name}");
    }
    // An existing rule may be labelled and deleted, but its spec may not change.
    cluster.kubectl(&["label", "ner", "old", "example.com/team=platform"]);
    let changed = try_rule("old", &json!({"resourceName": "example.net/old", "quantity": 5}));
    assert!(changed.stderr.contains(because), "{changed:?}");
    cluster.kubectl(&["delete", "ner", "old"]);
}
