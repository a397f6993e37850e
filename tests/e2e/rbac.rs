//! The permissions that the program needs, and its behavior without them.
//!
//! Method: compare the API server's audit log of everything the program does with the chart's roles;
//! then run it as a user with some permissions, and grant the others while it runs.

use std::collections::BTreeSet;

use harness::helm::{NAMESPACE, RELEASE, apply_chart, service_account_kubeconfig};
use harness::objects::{DONGLE, condition, quantity};
use harness::{Cluster, ControlPlane, Controller};
use serde_json::{Value, json};

use crate::support::{permissions, program};

/// Returns `verb group/resource/subresource` for every permission that the chart's roles grant.
fn granted_permissions(cluster: &Cluster) -> BTreeSet<String> {
    let lease = format!("{RELEASE}-lease");
    let events = format!("{RELEASE}-events");
    let roles = [
        cluster.get(&["clusterrole", RELEASE]),
        cluster.get(&["role", &events, "--namespace", "default"]),
        cluster.get(&["role", &lease, "--namespace", NAMESPACE]),
    ];
    let mut permissions = BTreeSet::new();
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().unwrap().iter();
        items.map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs = texts(&rule["verbs"]).into_iter();
                permissions.extend(verbs.map(|verb| format!("{verb} {group}/{resource}")));
            }
        }
    }
    permissions
}

/// Returns the permission that a request in the audit log needs.
fn permission(request: &Value) -> Option<String> {
    let object = request["objectRef"].as_object()?;
    let field = |name: &str| object.get(name).and_then(Value::as_str);
    let resource = field("resource")?;
    let subresource = field("subresource").map(|name| format!("/{name}")).unwrap_or_default();
    let (verb, group) = (request["verb"].as_str()?, field("apiGroup").unwrap_or_default());
    Some(format!("{verb} {group}/{resource}{subresource}"))
}

#[test]
fn chart_grants_exactly_the_permissions_used() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder().scheduler().kubelets(1));
    apply_chart(&cluster, &[]);
    let kubeconfig = service_account_kubeconfig(&cluster);
    let lease = ["--leader-elect-resource-namespace", NAMESPACE];
    let controller = Controller::start_unready(&cluster, &kubeconfig, &lease);
    controller.wait_ready();

    // Everything the program does: advertise, repair, create Events, list pods to lower, withdraw.
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.write_quantity("node-1", DONGLE, "1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_event("node-1", "Repaired", ": 1 (by ");
    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    cluster.wait_advertised("node-1", DONGLE, "2");
    cluster.wait_ready("dongle", "1/1");
    controller.stop();
    let name = ["--leader-elect-resource-name", RELEASE];
    let args = [&["prune", "--all", "--yes", "--node", "node-1"], &lease[..], &name].concat();
    let output = program::run(&kubeconfig, &args, None);
    assert_eq!(output.code, 0, "{}", output.stderr);

    let user = format!("system:serviceaccount:{NAMESPACE}:{RELEASE}");
    let requests = cluster.control_plane.audit().unwrap();
    let requests: Vec<_> = requests.iter().filter(|request| request["user"]["username"] == user.as_str()).collect();
    let forbidden: Vec<_> = requests.iter().filter(|request| request["responseStatus"]["code"] == 403).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
    let used: BTreeSet<_> = requests.iter().filter_map(|request| permission(request)).collect();
    assert_eq!(used, granted_permissions(&cluster));
}

#[test]
fn missing_permissions_are_reported_until_granted() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let admin = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");
    admin.stop();
    let advertised = cluster.node("node-1");

    let kubeconfig = cluster.control_plane.kubeconfig_for("limited");
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("grant the verbs list and watch");

    permissions::grant(&cluster, &permissions::required_without("nodes/status"));
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    controller.wait_unready("no permission to patch nodes/status");
    controller.wait_log("grant the verb patch on nodes/status");
    let status = cluster.wait_status("dongle", "PatchFailed", |status| {
        condition(status, "Ready") == ("False", "PatchFailed") && status["nodes"]["failed"] == 2
    });
    let message = status["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("cannot patch resource \"nodes/status\""), "{message}");
    for subject in ["node-1", "dongle"] {
        cluster.wait_event(subject, "PatchFailed", "Not in force: example.com/dongle on node-1 for rule dongle");
    }

    // For a deleted rule, only the node has an Event.
    cluster.kubectl(&["delete", "ner", "dongle"]);
    cluster.wait_event("node-1", "PatchFailed", "Failed to withdraw example.com/dongle on node-1");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));

    permissions::grant(&cluster, &permissions::required());
    controller.wait_ready();
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_advertised("node-1", DONGLE, "5");

    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.wait_event("node-1", "Repaired", ": 7 (by kubectl-patch) -> ");

    // Revoking a permission withdraws nothing: neither all of them, nor that to list rules, without which the next
    // leader still repairs.
    permissions::grant(&cluster, &[]);
    controller.stop();
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_unready("grant the verbs list and watch");
    permissions::grant(&cluster, &permissions::required_without("nodeextendedresources"));
    cluster.write_quantity("node-1", DONGLE, "3");
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.assert_always(&advertised, "the value was withdrawn", |node| quantity(node, "capacity", DONGLE).is_some());
    controller.stop();
}
