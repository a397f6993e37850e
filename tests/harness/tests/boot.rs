//! Tests the harness itself: it starts what its builder describes, and leaves nothing behind.
//!
//! Method: each test starts its own control plane or process, and checks processes by their id in /proc.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

use harness::objects::{self, DONGLE, LEDGER};
use harness::{Cluster, ControlPlane, DEADLINE, Process, Signal, protection, wait_until};
use serde_json::{Value, json};

fn is_running(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

fn wait_gone(pid: i32) {
    wait_until(&format!("process {pid} to end"), || Ok((!is_running(pid)).then_some(()))).unwrap();
}

#[test]
fn kubemark_kubelet_runs_a_pod() {
    let control_plane = ControlPlane::builder().scheduler().kubelets(2).start().unwrap();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
        "spec": {"containers": [{"name": "app", "image": "pause"}]}}"#;
    control_plane.kubectl_stdin(&["apply", "-f", "-"], pod).unwrap();
    control_plane.kubectl(&["wait", "--for=jsonpath={.status.phase}=Running", "pod/pod", "--timeout=180s"]).unwrap();
}

#[test]
fn apiserver_keeps_its_data_across_a_restart() {
    let mut control_plane = ControlPlane::builder().start().unwrap();
    control_plane.kubectl(&["create", "configmap", "kept"]).unwrap();
    control_plane.kill_apiserver().unwrap();
    let killed = control_plane.kubectl_output(&["get", "configmap", "kept"], None).unwrap();
    assert_ne!(killed.code, 0);
    control_plane.restart_apiserver().unwrap();
    control_plane.kubectl(&["get", "configmap", "kept"]).unwrap();
}

#[test]
fn new_user_has_no_permissions() {
    let control_plane = ControlPlane::builder().user("nobody").start().unwrap();
    let kubeconfig = control_plane.kubeconfig_for("nobody");
    let args = ["--kubeconfig", kubeconfig.to_str().unwrap(), "get", "nodes"];
    let output = control_plane.kubectl_output(&args, None).unwrap();
    assert!(output.stderr.contains("User \"nobody\" cannot list"), "{}", output.stderr);
}

#[test]
fn request_count_matches_requests_sent() {
    let control_plane = ControlPlane::builder().start().unwrap();
    let before = control_plane.request_count("POST", "configmaps", "").unwrap();
    control_plane.kubectl(&["create", "configmap", "one"]).unwrap();
    let after = control_plane.request_count("POST", "configmaps", "").unwrap();
    assert_eq!(after - before, 1);
}

#[test]
fn control_plane_ends_when_its_owner_panics() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let owner = std::thread::spawn(move || {
        let control_plane = ControlPlane::builder().start().unwrap();
        sender.send(control_plane.apiserver_pid()).unwrap();
        panic!("as a failed test does");
    });
    let pid = receiver.recv_timeout(DEADLINE).unwrap();
    owner.join().unwrap_err();
    wait_gone(pid);
}

/// Changes something of every kind that a test may change.
fn disturb(cluster: &Cluster) {
    protection::install(cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply_rule("dongle", &json!({}));
    cluster.kubectl(&["create", "namespace", "left"]);
    cluster.kubectl(&["create", "clusterrolebinding", "left", "--clusterrole=cluster-admin", "--user=limited"]);
    cluster.wait_permission("limited", "list", "nodes");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "left"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"],
            }]},
            "validations": [{"expression": "false"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "left"}, "spec": {"policyName": "left", "validationActions": ["Deny"]},
    });
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string());
    wait_until("the policy to take effect", || Ok((!accepts_secrets(cluster)).then_some(()))).unwrap();
    let any = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }, {"op": "add", "path": "/spec/versions/0/selectableFields", "value": []}]);
    let crd = "nodeextendedresources.noderesource.dev";
    cluster.kubectl(&["patch", "crd", crd, "--type=json", "-p", &any.to_string()]);
    wait_until("the validation to be gone", || Ok(accepts_invalid_rules(cluster).then_some(()))).unwrap();
    std::fs::write(cluster.control_plane.logs().join("left.log"), "left").unwrap();
}

fn accepts_secrets(cluster: &Cluster) -> bool {
    let create = ["create", "secret", "generic", "canary", "--dry-run=server"];
    cluster.control_plane.kubectl_output(&create, None).unwrap().code == 0
}

fn accepts_invalid_rules(cluster: &Cluster) -> bool {
    let create = ["create", "--dry-run=server", "--validate=false", "-f", "-"];
    let invalid = objects::rule("canary", &json!({"quantity": 4.5})).to_string();
    cluster.control_plane.kubectl_output(&create, Some(&invalid)).unwrap().code == 0
}

/// Whether the policy keeps what a kubelet resets.
fn is_protected(cluster: &Cluster) -> bool {
    let mut node = objects::node("probe", &json!({}));
    node["metadata"]["annotations"] = json!({LEDGER: protection::DONGLE_LEDGER});
    cluster.apply(&node.to_string());
    cluster.write_quantity("probe", DONGLE, "4");
    protection::allow_kubelets_to_read_status(cluster);
    wait_until("the kubelet's write", || Ok((protection::reset(cluster, "probe", DONGLE).code == 0).then_some(())))
        .unwrap();
    objects::quantity(&cluster.node("probe"), "capacity", DONGLE) == Some("4")
}

/// Returns what is not as in a new cluster. Waits for nothing that could become so.
fn differences(cluster: &Cluster) -> Vec<&'static str> {
    let names = cluster.kubectl(&["get", "nodes,pods,ner,leases,namespaces", "--output=name"]);
    let limited = ["auth", "can-i", "list", "nodes", "--as=limited"];
    [
        ("validating policy", !accepts_secrets(cluster)),
        ("validation of rules", accepts_invalid_rules(cluster)),
        ("permissions", cluster.control_plane.kubectl_output(&limited, None).unwrap().code == 0),
        ("nodes and rules", names.contains("node-1") && names.contains("dongle")),
        ("namespaces", names.contains("namespace/left")),
        ("files", cluster.control_plane.logs().join("left.log").exists()),
        ("mutating policy", is_protected(cluster)),
    ]
    .into_iter()
    .filter_map(|(what, differs)| differs.then_some(what))
    .collect()
}

#[test]
fn shared_cluster_is_as_new_for_the_next_test() {
    let all = [
        "validating policy",
        "validation of rules",
        "permissions",
        "nodes and rules",
        "namespaces",
        "files",
        "mutating policy",
    ];
    let cluster = Cluster::shared();
    let pid = cluster.control_plane.apiserver_pid();
    disturb(&cluster);
    assert_eq!(differences(&cluster), all);
    drop(cluster);
    let cluster = Cluster::shared();
    assert_eq!(differences(&cluster), [""; 0]);
    drop(cluster);
    let cluster = Cluster::shared_without_crd();
    assert_ne!(cluster.control_plane.kubectl_output(&["get", "ner"], None).unwrap().code, 0);
    drop(cluster);
    let cluster = Cluster::shared();
    cluster.apply_rule("dongle", &json!({}));
    assert_eq!(cluster.control_plane.apiserver_pid(), pid, "it is the same API server");
}

/// Policies, each with what shows its effect. The API server lists them once a second, into a cache.
fn cached_policies() -> [(&'static str, Value, &'static str); 2] {
    let group = "admissionregistration.k8s.io/v1";
    let policy = |kind: &str, mut spec: Value, binding: &Value| {
        spec["matchConstraints"] = json!({"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
        }]});
        let object = |kind: &str, spec: &Value| json!({"apiVersion": group, "kind": kind, "metadata": {"name": "left"}, "spec": spec});
        json!([object(kind, &spec), object(&format!("{kind}Binding"), binding)])
    };
    let denies = json!({"validations": [{"expression": "false", "message": "left behind"}]});
    let binding = json!({"policyName": "left", "validationActions": ["Deny"]});
    let validating = policy("ValidatingAdmissionPolicy", denies, &binding);
    let label = "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'left': 'behind'}}]";
    let labels = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": label}}],
    });
    let mutating = policy("MutatingAdmissionPolicy", labels, &json!({"policyName": "left"}));
    [("validating policy", validating, "left behind"), ("mutating policy", mutating, r#""left": "behind""#)]
}

#[test]
fn policies_of_a_shared_cluster_have_no_effect_on_the_next_test() {
    for (what, objects, effect) in cached_policies() {
        let has_effect = |cluster: &Cluster| {
            let create = ["create", "configmap", "probe", "--dry-run=server", "--output=json"];
            let output = cluster.control_plane.kubectl_output(&create, None).unwrap();
            format!("{}{}", output.stdout, output.stderr).contains(effect)
        };
        // By chance, the cache may be up to date.
        for _ in 0..5 {
            let cluster = Cluster::shared();
            assert!(!has_effect(&cluster), "the {what} of the test before has an effect");
            cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
            wait_until(what, || Ok(has_effect(&cluster).then_some(()))).unwrap();
        }
        assert!(!has_effect(&Cluster::shared()), "the {what} of the test before has an effect");
    }
}

#[test]
fn process_ends_when_its_owner_is_killed() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let log = dir.join("owner.log");
    // The owner of a supervised sleep: this test program, running the test below.
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "process_owner_to_be_killed", "--ignored", "--nocapture"];
    std::fs::remove_file(&log).unwrap_or_default();
    let owner = Process::spawn("owner", &program, &args, &[], &log).unwrap();
    let pid = wait_until("the owner to print which process it holds", || {
        let log = owner.log();
        let pid = log.lines().find_map(|line| line.strip_prefix("holds "));
        Ok(pid.map(|pid| pid.parse::<i32>()).transpose()?)
    })
    .unwrap();
    assert!(is_running(pid));
    owner.signal(Signal::KILL).unwrap();
    wait_gone(pid);
}

#[test]
#[ignore = "it is the owner in process_ends_when_its_owner_is_killed"]
fn process_owner_to_be_killed() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("held.log");
    let sleep = std::path::Path::new("/bin/sleep");
    let mut held = Process::spawn("held", sleep, &["600"], &[], &log).unwrap();
    println!("\nholds {}", held.pid());
    held.wait_exit(DEADLINE).unwrap();
}

#[test]
fn process_reports_exit_code_and_log() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("exit.log");
    let shell = std::path::Path::new("/bin/sh");
    let mut process = Process::spawn("shell", shell, &["-c", "echo printed; exit 7"], &[], &log).unwrap();
    assert_eq!(process.wait_exit(DEADLINE).unwrap(), 7);
    assert!(process.log().contains("printed"));
    assert!(format!("{:#}", process.check_running().unwrap_err()).contains("printed"));
    let mut process = Process::spawn("shell", shell, &["-c", "sleep 600"], &[], &log).unwrap();
    process.signal(Signal::TERM).unwrap();
    assert_eq!(process.wait_exit(DEADLINE).unwrap(), 128 + 15);
}
