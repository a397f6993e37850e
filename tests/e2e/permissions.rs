//! The permissions in the help of commands.
//!
//! Method: ask as a user who has exactly those that the help of a command names, and compare the requests in the API
//! server's audit log with them. Not here: `doctor`, whose permissions are a file that its own test grants, and
//! `autoscaler --check-cluster`, which needs the CRDs of Karpenter and Cluster API.

use std::collections::BTreeSet;

use harness::objects::{DONGLE, bound_pod, pod, rule};
use harness::{Cluster, ControlPlane, Controller};
use serde_json::json;

use crate::support::workloads::workload;
use crate::support::{permissions, program};

/// The API group of a resource in the help of a command.
fn group(resource: &str) -> &'static str {
    match resource {
        "nodes" | "nodes/status" | "namespaces" | "pods" | "events" => "",
        "nodeextendedresources" => "noderesource.dev",
        "deviceclasses" => "resource.k8s.io",
        "leases" => "coordination.k8s.io",
        "deployments" | "daemonsets" | "statefulsets" | "replicasets" => "apps",
        "jobs" => "batch",
        "nodefeaturerules" => "nfd.k8s-sigs.io",
        _ if resource.ends_with("admissionpolicies") || resource.ends_with("admissionpolicybindings") => {
            "admissionregistration.k8s.io"
        }
        _ => panic!("{resource} is of no known API group"),
    }
}

/// Returns the permissions in the help of a command: the verb and the resource, as in `patch nodes/status`.
fn documented(command: &str, control_plane: &ControlPlane) -> BTreeSet<String> {
    let help = program::run(&control_plane.kubeconfig(), &[command, "--help"], None).stdout;
    let (_, section) = help.split_once("\nPermissions:\n").unwrap();
    let (section, _) = section.split_once("\n\n").unwrap();
    let words = section.split_whitespace().flat_map(|word| word.split_inclusive(','));
    let (mut verb, mut is_purpose, mut found) = ("", false, BTreeSet::new());
    for word in words {
        is_purpose |= word.starts_with('(');
        match word.trim_end_matches(',') {
            _ if is_purpose => {}
            known @ ("get" | "list" | "watch" | "patch" | "update") => verb = known,
            resource => assert!(found.insert(format!("{verb} {resource}")), "{section}"),
        }
        is_purpose &= !word.ends_with(')');
    }
    assert!(!found.is_empty(), "{help}");
    found
}

/// Grants the permissions to a user.
fn grant(cluster: &Cluster, user: &str, expected: &BTreeSet<String>) {
    let rules: Vec<_> = expected
        .iter()
        .map(|permission| {
            let (verb, resource) = permission.split_once(' ').unwrap();
            json!({"apiGroups": [group(resource)], "resources": [resource], "verbs": [verb]})
        })
        .collect();
    permissions::grant_to(cluster, user, &rules);
    cluster.wait_permission(user, "list", "nodes");
}

#[test]
fn command_requests_what_its_help_names_and_nothing_else() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply_rule("dongle", &json!({}));
    let controller = Controller::start(&cluster);
    cluster.wait_ready("dongle", "1/1");
    cluster.apply(&bound_pod("user", "node-1", DONGLE, "3").to_string());
    cluster.apply(&pod("waits", DONGLE, "9").to_string());
    let workloads = ["Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job"];
    for kind in workloads {
        cluster.apply(&workload(kind, "default", "work", &json!({})).to_string());
    }
    controller.stop();
    // A pod that does not count, because it is older than the guard.
    let mut old = pod("old", "example.com/other", "1");
    old["metadata"]["labels"] = json!({"app": "old"});
    cluster.apply(&old.to_string());
    let guarded = rule("dongle", &json!({})).to_string();
    let guard = ["guard", "-f", "-", "--pods", "app=old", "--reject-only"];
    let guard = program::run(&cluster.control_plane.kubeconfig(), &guard, Some(&guarded));
    cluster.apply(&guard.stdout);
    // Nothing writes this one.
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    let mut new = pod("new", "example.com/key", "1");
    new["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    cluster.apply(&new.to_string());
    let lower = rule("dongle", &json!({"quantity": 1})).to_string();
    let names = workloads.map(|kind| format!("{}/work", kind.to_lowercase()));
    let mut why = vec![vec!["why"], vec!["why", "waits"], vec!["why", "new"]];
    why.extend(names.iter().map(|name| vec!["why", &**name]));
    let questions: Vec<Vec<Vec<&str>>> = vec![
        vec![vec!["top"], vec!["top", "--by", "namespace"]],
        vec![vec!["node", "node-1"]],
        vec![vec!["resource", DONGLE]],
        vec![vec!["pod", "user"], vec!["pod", "waits"]],
        why,
        vec![vec!["history", "node-1"], vec!["history", "--rule", "dongle"], vec!["history", "--resource", DONGLE]],
        vec![vec!["plan"], vec!["plan", "-f", "-"]],
        vec![vec!["adopt"]],
        vec![
            vec!["prune", "--all", "--dry-run"],
            vec!["prune", "--all", "--yes"],
            vec!["prune", "--resource", DONGLE, "--dry-run"],
        ],
    ];
    let mut wrong = Vec::new();
    for runs in questions {
        let command = runs[0][0];
        let user = format!("asks-{command}");
        let expected = documented(command, &cluster.control_plane);
        grant(&cluster, &user, &expected);
        for args in runs {
            let args = [&args[..], &["--as", &user]].concat();
            let output = program::run(&cluster.control_plane.kubeconfig(), &args, Some(&lower));
            assert!(!output.stderr.contains("permission"), "{args:?}: {}", output.stderr);
        }
        let requested = cluster.control_plane.requests_as(&user).unwrap();
        wrong.extend(requested.symmetric_difference(&expected).map(|permission| format!("{command}: {permission}")));
    }
    assert_eq!(wrong, [""; 0], "requests and the help of the command differ");
}
