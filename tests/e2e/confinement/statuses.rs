//! Statuses of rules, which the account may write: they stay small.
//!
//! Method: patch a status with the token of the chart's ServiceAccount, under a CRD without validation.

use std::path::Path;

use harness::helm::{NAMESPACE, RELEASE};
use harness::{Cluster, ControlPlane, Output};
use serde_json::{Value, json};

use super::assert_rejected;
use crate::admission_policy::install;
use crate::support::rejected_objects;

fn patch_as(cluster: &Cluster, kubeconfig: &Path, manager: &str, status: &Value) -> Output {
    let patch = json!([{"op": "add", "path": "/status", "value": status}]).to_string();
    let args = [
        ["--kubeconfig", kubeconfig.to_str().unwrap()],
        ["patch", "ner"],
        ["dongle", "--subresource=status"],
        ["--field-manager", manager],
        ["--type=json", "--patch-file=/dev/stdin"],
    ];
    cluster.control_plane.kubectl_output(&args.concat(), Some(&patch)).unwrap()
}

#[test]
fn policy_restricts_statuses_of_rules() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    cluster.wait_crds();
    cluster.apply_rule("dongle", &json!({}));
    // kubectl reads a status before it patches it, and the program does not.
    cluster.kubectl(&["create", "clusterrole", "reader", "--verb=get", "--resource=nodeextendedresources/status"]);
    let account = format!("--serviceaccount={NAMESPACE}:{RELEASE}");
    cluster.kubectl(&["create", "clusterrolebinding", "reader", "--clusterrole=reader", &account]);
    let condition = |message: usize| {
        json!({"type": "Ready", "status": "True", "reason": "Advertised", "message": "\u{e9}".repeat(message),
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let problem = |node: usize| json!({"node": "n".repeat(node), "reason": "Conflict", "message": "x".repeat(1024)});
    let small = json!({"conditions": [condition(1024)], "problems": [problem(253)], "total": "4", "requested": "3", "nodes": {"selected": 1}});
    let write = |status: &Value| patch_as(&cluster, &kubeconfig, RELEASE, status);
    let output = write(&small);
    assert_eq!(output.code, 0, "{output:?}");
    // The CRD has the same bounds.
    let output = write(&json!({"conditions": [condition(1025)]}));
    assert!(output.code != 0 && output.stderr.contains("Too long"), "{output:?}");

    rejected_objects::drop_validation(&cluster);
    let output = write(&small);
    assert_eq!(output.code, 0, "{output:?}");
    let short = "node-resource-advertiser may only write statuses with messages of at most 1024 characters";
    let many = |item: Value, count| Value::from(vec![item; count]);
    for status in [
        json!({"conditions": [condition(1025)]}),
        json!({"conditions": many(condition(1), 9)}),
        json!({"conditions": [{"type": "T".repeat(65), "message": ""}]}),
        json!({"conditions": [{"type": "Ready", "reason": "R".repeat(65)}]}),
        json!({"problems": many(problem(1), 11)}),
        json!({"problems": [problem(254)]}),
        json!({"problems": [{"reason": "R".repeat(65)}]}),
        json!({"problems": [{"message": "x".repeat(1025)}]}),
        json!({"total": "4".repeat(65)}),
        json!({"requested": "4".repeat(65)}),
        json!({"nodes": {"summary": "4".repeat(65)}}),
    ] {
        assert_rejected(&write(&status), short);
    }
    let manager = "node-resource-advertiser may write statuses only as the field manager of that name";
    assert_rejected(&patch_as(&cluster, &kubeconfig, "another", &small), manager);
}
