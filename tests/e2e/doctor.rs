//! `doctor` on a cluster in which one trap at a time is planted.
//!
//! Method: start from a cluster in which all checks pass, plant a trap, compare what doctor finds, and remove the trap.

use std::fs;
use std::path::Path;

use harness::documents::{self, Shell};
use harness::objects::{DONGLE, LEDGER, bound_pod, pod, rule};
use harness::{Cluster, Controller, Output, SharedCluster, project_file};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::{golden, node_overlays, permissions, program};

const NAMESPACE: &str = "node-resource-advertiser";
const DEPLOYMENT: &str = "deployment/node-resource-advertiser";
const ACCOUNT: &str = "system:serviceaccount:node-resource-advertiser:node-resource-advertiser";

fn doctor(kubeconfig: &Path, args: &[&str]) -> Output {
    program::run(kubeconfig, &[&["doctor"], args].concat(), None)
}

/// Returns the names of the checks with this result.
fn checks<'a>(report: &'a Value, result: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["result"] == result).map(|check| check["check"].as_str().unwrap()).collect()
}

fn examine(cluster: &Cluster) -> (Value, i32) {
    let output = doctor(&cluster.control_plane.kubeconfig(), &["--strict", "-o", "json"]);
    let report = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stderr));
    (report, output.code)
}

/// A trap: the check that finds it, what it finds, and how it is planted and removed.
type Trap<'t> = (&'t str, &'t str, Step<'t>, Step<'t>);

/// Plants a trap, which exactly one check finds, and removes it, after which none finds anything. Returns what is printed.
fn try_trap(cluster: &Cluster, (check, text, plant, remove): Trap<'_>) -> String {
    plant();
    let printed = doctor(&cluster.control_plane.kubeconfig(), &["--strict"]);
    let (report, code) = examine(cluster);
    assert_eq!((checks(&report, "Failed"), code), (vec![check], 1), "{report:#}");
    assert!(report.to_string().contains(text), "{report:#}\nlacks {text}");
    remove();
    let (report, code) = examine(cluster);
    assert_eq!((checks(&report, "Failed"), code), (vec![], 0), "after {check}: {report:#}");
    format!("# {check}\n{}", golden::console("doctor --strict", &printed))
}

/// Patches an object; `args` name it.
fn patch(cluster: &Cluster, args: &[&str], kind: &str, patch: &Value) {
    let (kind, patch) = (format!("--type={kind}"), patch.to_string());
    cluster.kubectl(&[&["patch"], args, &[&kind, "-p", &patch]].concat());
}

fn patch_as(cluster: &Cluster, manager: &str, quantity: &str) {
    let (map, manager) = (json!({DONGLE: quantity}), format!("--field-manager={manager}"));
    let status = json!({"status": {"capacity": map, "allocatable": map}});
    patch(cluster, &["node", "node-1", "--subresource=status", &manager], "merge", &status);
}

fn set_ready_replicas(cluster: &Cluster, ready: u32) {
    let status = json!({"status": {"replicas": 2, "readyReplicas": ready}});
    patch(cluster, &["-n", NAMESPACE, DEPLOYMENT, "--subresource=status"], "merge", &status);
}

/// Makes a leader up, in place of one that would undo what is planted. It has renewed its Lease of ten minutes so many
/// seconds ago.
fn set_lease(cluster: &Cluster, seconds: i64) {
    let renewed = format!("{:.6}", Timestamp::now() - SignedDuration::from_secs(seconds));
    let spec = json!({"holderIdentity": "planted_0", "leaseDurationSeconds": 600, "renewTime": renewed});
    patch(cluster, &["-n", NAMESPACE, "lease/node-resource-advertiser"], "merge", &json!({"spec": spec}));
}

fn apply_file(cluster: &Cluster, path: &str) {
    cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", project_file(path).to_str().unwrap()]);
}

fn scheduler(field: &str) -> String {
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  \
         - name: NodeResourcesFit\n    args: {{{field}}}\n"
    );
    let metadata = json!({"namespace": "kube-system", "name": "scheduler"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": text}}).to_string()
}

fn quota(key: &str) -> String {
    let metadata = json!({"namespace": "research", "name": "dongles"});
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {key: "8"}}}).to_string()
}

/// Returns a cluster in which everything is as it should be, and its controller.
fn healthy() -> (SharedCluster, Controller) {
    let cluster = Cluster::shared_without_crd();
    for path in ["deploy/install.yaml", "deploy/protect.yaml"] {
        apply_file(&cluster, path);
    }
    // A binding that an administrator has written works without it.
    cluster.kubectl(&["label", "mutatingadmissionpolicybindings", "--all", "noderesource.dev/protection-"]);
    node_overlays::install(&cluster);
    set_ready_replicas(&cluster, 2);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.heartbeat("node-1", "k3s");
    // Keys and a quantity that the API server accepts.
    let odd = json!({"": "1", "BAD name!": "1", "a/b/c": "2", "example.com/most": "9223372036854775807"});
    cluster.patch_status("node-1", "merge", &json!({"status": {"capacity": odd, "allocatable": odd}}));
    cluster.apply(&scheduler(""));
    cluster.kubectl(&["create", "namespace", "research"]);
    let controller = Controller::start_with(&cluster, &["--leader-elect-resource-namespace", NAMESPACE]);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    let (report, code) = examine(&cluster);
    assert_eq!((checks(&report, "Failed"), checks(&report, "NotRun"), code), (vec![], vec![], 0), "{report:#}");
    (cluster, controller)
}

#[test]
fn doctor_finds_each_trap_that_is_planted() {
    let (cluster, controller) = healthy();
    let cluster = &cluster;
    let reset = || {
        patch_as(cluster, "k3s", "0");
        cluster.wait_event("node-1", "Repaired", "0 (by k3s)");
        cluster.wait_advertised("node-1", DONGLE, "4");
    };
    let forget = || drop(cluster.kubectl(&["delete", "events", "--all"]));
    let text = "the kubelet has reset example.com/dongle";
    let mut screens = vec![try_trap(cluster, ("kubelet-reset", text, Box::new(reset), Box::new(forget)))];
    controller.stop();
    set_lease(cluster, 0);
    let mut planted = vec!["kubelet-reset"];
    for trap in traps(cluster) {
        planted.push(trap.0);
        screens.push(try_trap(cluster, trap));
    }
    golden::check("doctor.console", &screens.join("\n"));
    planted.sort_unstable();
    planted.dedup();
    let (report, _) = examine(cluster);
    let mut all = checks(&report, "Passed");
    // An API server has the version that it has: a unit test plants others.
    all.retain(|check| *check != "kubernetes-version");
    all.sort_unstable();
    assert_eq!(planted, all, "every check has a trap");

    cluster.apply(&pod("misspelled", "example.com/dongel", "1").to_string());
    cluster.apply(&quota(DONGLE));
    cluster.write_quantity("node-1", "example.com/old", "0");
    let shell = Shell::new(cluster, &project_file("."), Default::default()).unwrap();
    let shell = program::with_plugin(shell, cluster);
    let blocks = documents::blocks_run_by("doctor", &documents::pages().unwrap()).unwrap();
    println!("{} commands print what docs/answers.md shows", shell.run(&blocks).unwrap());
}

/// Something that a test does.
type Step<'t> = Box<dyn Fn() + 't>;

fn apply(cluster: &Cluster, object: impl ToString) -> Step<'_> {
    let object = object.to_string();
    Box::new(move || cluster.apply(&object))
}

fn kubectl<'t>(cluster: &'t Cluster, args: &'t [&'t str]) -> Step<'t> {
    Box::new(move || drop(cluster.kubectl(args)))
}

/// Returns the patches to one value and to another.
fn patches<'t>(cluster: &'t Cluster, args: &'t [&'t str], values: [Value; 2]) -> [Step<'t>; 2] {
    values.map(|value| -> Step<'t> {
        let kind = if value.is_array() { "json" } else { "merge" };
        Box::new(move || patch(cluster, args, kind, &value))
    })
}

/// The traps that stay while no controller runs.
fn traps(cluster: &Cluster) -> Vec<Trap<'_>> {
    [of_users(cluster), of_guards(cluster), of_nodes(cluster), of_objects(cluster)].into_iter().flatten().collect()
}

/// What users of the resource do.
fn of_users(cluster: &Cluster) -> Vec<Trap<'_>> {
    let asks = |resource: &str, quantity: &str| apply(cluster, pod("asks", resource, quantity));
    let forget_pod = || kubectl(cluster, &["delete", "pod", "asks", "--force", "--grace-period=0"]);
    let quota = |key: &str| apply(cluster, quota(key));
    let delete_quota = || kubectl(cluster, &["delete", "quota", "dongles", "-n", "research"]);
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "dongles"}, "spec": {"extendedResourceName": DONGLE},
    });
    let delete_class = kubectl(cluster, &["delete", "deviceclass", "dongles"]);
    let limits = "limits.example.com/dongle";
    let ignores = apply(cluster, scheduler("ignoredResourceGroups: [example.com]"));
    let rejected = move || {
        cluster.apply(&bound_pod("asks", "node-1", DONGLE, "1").to_string());
        let started = Timestamp::now().to_string();
        let status = json!({"phase": "Failed", "reason": format!("OutOf{DONGLE}"), "startTime": started});
        patch(cluster, &["pod", "asks", "--subresource=status"], "merge", &json!({"status": status}));
    };
    vec![
        ("rejected-pod", "the kubelet of node-1 has rejected it", Box::new(rejected), forget_pod()),
        ("undeclared-request", "request example.com/dongle, if", asks("example.com/dongel", "1"), forget_pod()),
        ("oversized-request", "requests 9 of example.com/dongle", asks(DONGLE, "9"), forget_pod()),
        ("quota-key", "ignores the key example.com/dongle", quota(DONGLE), delete_quota()),
        ("quota-key", "ignores the key limits.example.com/dongle", quota(limits), delete_quota()),
        ("quota-key", "limits example.com/dongel", quota("requests.example.com/dongel"), delete_quota()),
        ("device-class", "DeviceClass dongles maps", apply(cluster, class), delete_class),
        ("scheduler-ignores", "because of ignoredResourceGroups", ignores, apply(cluster, scheduler(""))),
    ]
}

/// What gets around a guard, or the scheduler.
fn of_guards(cluster: &Cluster) -> Vec<Trap<'_>> {
    let guard = || {
        let args = ["guard", "-f", "-", "--pods", "app=renderer", "--reject-only", "--name", "guard", "-o", "json"];
        let rule = rule("dongle", &json!({})).to_string();
        let output = program::run(&cluster.control_plane.kubeconfig(), &args, Some(&rule));
        assert_eq!(output.code, 0, "{}", output.stderr);
        cluster.apply(&output.stdout);
    };
    let unbound = move || {
        guard();
        cluster.kubectl(&["delete", "validatingadmissionpolicybinding", "guard"]);
    };
    let older = move || {
        let mut pod = pod("asks", "example.com/free", "0");
        pod["metadata"]["labels"] = json!({"app": "renderer"});
        cluster.apply(&pod.to_string());
        guard();
    };
    let delete_guard = || {
        drop(cluster.kubectl(&[
            "delete",
            "validatingadmissionpolicy,validatingadmissionpolicybinding",
            "guard",
            "--ignore-not-found",
        ]))
    };
    let delete_pod = || drop(cluster.kubectl(&["delete", "pod", "asks", "--force", "--grace-period=0"]));
    let delete_both = move || {
        delete_pod();
        delete_guard();
    };
    let bypass = apply(cluster, bound_pod("asks", "node-1", DONGLE, "9"));
    vec![
        ("guard", "it has no binding", Box::new(unbound), Box::new(delete_guard)),
        ("uncounted-pod", "it requests no example.com/dongle", Box::new(older), Box::new(delete_both)),
        ("overcommitted-node", "9 of 4 on node-1", bypass, Box::new(delete_pod)),
    ]
}

/// What happens to nodes.
fn of_nodes(cluster: &Cluster) -> Vec<Trap<'_>> {
    let status = |change: Value| json!({"status": change});
    let old = |value: Value| {
        let map = json!({"example.com/old": value});
        status(json!({"capacity": map, "allocatable": map}))
    };
    let kubelet = |version: &str| status(json!({"nodeInfo": {"kubeletVersion": version}}));
    let ledger = |text: Value| json!({"metadata": {"annotations": {LEDGER: text}}});
    let annotation = cluster.node("node-1")["metadata"]["annotations"][LEDGER].clone();
    let of_status: &[_] = &["node", "node-1", "--subresource=status"];
    let [broken, repaired] = patches(cluster, &["node", "node-1"], [ledger(json!("{")), ledger(annotation.clone())]);
    let [zero, none] = patches(cluster, of_status, [old(json!("0")), old(json!(null))]);
    let [ancient, unknown] = patches(cluster, of_status, [kubelet("v1.30.0"), kubelet("")]);
    let writes = |manager: &'static str, quantity: &'static str| -> Step<'_> {
        Box::new(move || patch_as(cluster, manager, quantity))
    };
    let nfd = "nfd-master writes example.com/dongle: node-1 has 9";
    let lack = move || {
        cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}-")]);
        patch(
            cluster,
            of_status,
            "merge",
            &status(json!({
                "capacity": {DONGLE: null}, "allocatable": {DONGLE: null},
            })),
        );
    };
    let text = annotation.clone();
    let have = move || {
        patch_as(cluster, "node-resource-advertiser", "4");
        cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}={}", text.as_str().unwrap())]);
    };
    vec![
        ("missing-value", "its status says that all have it", Box::new(lack), Box::new(have)),
        ("another-writer", nfd, writes("nfd-master", "9"), writes("node-resource-advertiser", "4")),
        ("ledger", "prune --repair-ledger --node node-1", broken, repaired),
        ("leftover-zero", "prune --zeros --node node-1", zero, none),
        ("kubelet-version", "v1.30.0 is more than three", ancient, unknown),
    ]
}

/// What happens to the objects of the chart.
fn of_objects(cluster: &Cluster) -> Vec<Trap<'_>> {
    let led = |ago: i64| -> Step<'_> { Box::new(move || set_lease(cluster, ago)) };
    let ready = |count: u32| -> Step<'_> { Box::new(move || set_ready_replicas(cluster, count)) };
    let file = |path: &'static str| -> Step<'_> { Box::new(move || apply_file(cluster, path)) };
    let label = |version: &str| json!({"metadata": {"labels": {"app.kubernetes.io/version": version}}});
    let [other, same] =
        patches(cluster, &["-n", NAMESPACE, DEPLOYMENT], [label("0.0.1"), label(env!("CARGO_PKG_VERSION"))]);
    let unbind = kubectl(cluster, &["delete", "mutatingadmissionpolicybindings", "--all"]);
    let revoke: Step<'_> = Box::new(|| {
        cluster.kubectl(&["delete", "clusterrolebinding", "node-resource-advertiser"]);
        cluster.wait_no_permission(ACCOUNT, "watch", "pods");
    });
    let grant: Step<'_> = Box::new(|| {
        apply_file(cluster, "deploy/install.yaml");
        cluster.wait_permission(ACCOUNT, "watch", "pods");
    });
    let actions = |action: &str| json!({"spec": {"validationActions": [action]}});
    let binding: &[_] = &["validatingadmissionpolicybinding", NAMESPACE];
    let [audit, deny] = patches(cluster, binding, [actions("Audit"), actions("Deny")]);
    let warning = json!({"fieldRef": "spec.validations[0]", "warning": "undeclared reference"});
    let checked = |checked: Value| json!({"status": {"typeChecking": checked}});
    let policy: &[_] = &["validatingadmissionpolicy", NAMESPACE, "--subresource=status"];
    let [odd, fine] =
        patches(cluster, policy, [checked(json!({"expressionWarnings": [warning]})), checked(json!(null))]);
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/paused";
    let crd: &[_] = &["crd", "nodeextendedresources.noderesource.dev"];
    let [without, _] = patches(cluster, crd, [json!([{"op": "remove", "path": field}]), json!({})]);
    assert_eq!(cluster.get(&["ner", "dongle"])["status"]["conditions"][0]["type"], "Ready");
    let reports = |value: &str, reason: &str| {
        let set = |field: &str, value: &str| json!({"op": "replace", "path": format!("/status/conditions/0/{field}"), "value": value});
        json!([set("status", value), set("reason", reason)])
    };
    let overlay = |name: &str, quantity: &str| {
        // Without an overlay for it, the rule counts as one that Karpenter has nothing to do with.
        let own = node_overlays::overlay("dongle", "4");
        let list = json!([own, node_overlays::overlay(name, quantity)]);
        apply(cluster, json!({"apiVersion": "v1", "kind": "List", "items": list}))
    };
    let forget_overlays = || kubectl(cluster, &["delete", "nodeoverlays", "--all"]);
    let rule: &[_] = &["ner", "dongle", "--subresource=status"];
    let [contested, advertised] =
        patches(cluster, rule, [reports("False", "Contested"), reports("True", "Advertised")]);
    vec![
        ("leader", "when planted_0 stopped renewing it", led(601), led(0)),
        ("replicas", "1 of 2 replicas are ready", ready(1), ready(2)),
        ("program-version", "its version is 0.0.1", other, same),
        ("pods-permission", "lacks permission to list and watch pods", revoke, grant),
        ("protection", "it has no binding", unbind, file("deploy/protect.yaml")),
        ("confinement", "it only reports", audit, deny),
        ("confinement", "undeclared reference", odd, fine),
        ("crd", "drops these fields: spec.paused", without, file("deploy/install.yaml")),
        ("rule-status", "Ready is False, Contested", contested, advertised),
        ("node-overlay", "there is no rule gone", overlay("gone", "4"), forget_overlays()),
        ("node-overlay", "expected 4, found 5", overlay("dongle", "5"), forget_overlays()),
    ]
}

#[test]
fn doctor_lacks_only_what_a_user_may_not_read() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    let admin = cluster.control_plane.kubeconfig();
    let (report, code) = examine(&cluster);
    assert_eq!((checks(&report, "Failed"), code), (vec!["crd"], 1), "{report:#}");
    assert!(report.to_string().contains("it is not installed, so there are no rules"), "{report:#}");
    let name = doctor(&admin, &["-o", "name"]);
    assert_eq!((name.stdout.as_str(), name.code), ("crd\n", 1), "{}", name.stderr);

    let limited = cluster.control_plane.kubeconfig_for("limited");
    let nothing = doctor(&limited, &[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (2, ""));
    assert!(nothing.stderr.contains("nothing can be checked: you lack permission to list nodes"), "{}", nothing.stderr);
    for (args, message) in [
        (&["--kubeconfig", "/nowhere"][..], "/nowhere"),
        (&["--controller-namespace", "../nodes"], "is no namespace"),
        (&["-o", "nonsense"], "nonsense"),
        (&["--context", "none"], "none"),
    ] {
        let output = doctor(&admin, args);
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{args:?}: {}", output.stderr);
    }

    let cluster_of = json!({"name": "c", "cluster": {"server": "http://127.0.0.1:1"}});
    let context = json!({"name": "c", "context": {"cluster": "c", "user": "c"}});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [cluster_of], "contexts": [context], "users": [{"name": "c", "user": {}}],
    });
    let nowhere = cluster.control_plane.dir().join("nowhere.kubeconfig");
    fs::write(&nowhere, config.to_string()).unwrap();
    let refused = doctor(&nowhere, &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("nothing can be checked: cannot list nodes: "), "{}", refused.stderr);
    assert!(refused.stderr.contains("refused"), "{}", refused.stderr);

    cluster.install_crd();
    let nodes = json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]});
    permissions::grant(&cluster, &[nodes]);
    cluster.wait_permission("limited", "list", "nodes");
    let some = doctor(&limited, &[]);
    assert_eq!((some.code, some.stdout.as_str()), (3, "2 checks passed, 23 could not run.\n"));
    for action in ["list pods", "list resourcequotas", "list events in default", "get customresourcedefinitions"] {
        let note = some.stderr.lines().find(|line| line.contains(&format!("you lack permission to {action}")));
        assert!(note.is_some_and(|note| note.starts_with("note: ")), "{action}: {}", some.stderr);
    }

    // Those of the example are enough for everything.
    cluster.apply(&fs::read_to_string(project_file("examples/permissions/doctor.yaml")).unwrap());
    let role = "node-resource-advertiser-doctor";
    cluster.kubectl(&["create", "clusterrolebinding", role, "--user=limited", &format!("--clusterrole={role}")]);
    for namespace in ["kube-system", "default"] {
        let role_flag = format!("--role={role}");
        cluster.kubectl(&["create", "rolebinding", role, "--user=limited", &role_flag, "-n", namespace]);
    }
    for resource in ["pods", "events"] {
        cluster.wait_permission("limited", "list", resource);
    }
    let output = doctor(&limited, &["-o", "json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let lacking = checks(&report, "NotRun");
    assert_eq!(lacking, ["scheduler-ignores", "replicas", "program-version"], "{}", output.stderr);
    assert!(!output.stderr.contains("lack permission"), "{}", output.stderr);
}
