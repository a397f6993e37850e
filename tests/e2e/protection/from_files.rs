//! The policies that an API server loads from files: `deploy/static/`, and what differs from policies in the API.
//!
//! Method: start an API server with the folder, delete what the API shows, and write like a kubelet or like the
//! controller; kill it, and write as soon as it accepts writes again; give it files that it has to reject.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use harness::helm::{NAMESPACE, RELEASE, apply_chart, kubeconfig_of, service_account_kubeconfig};
use harness::objects::{DONGLE, LEDGER};
use harness::protection::{self, DONGLE_LEDGER};
use harness::{Builder, Cluster, ControlPlane, Controller, project_file, wait_until};
use serde_json::{Value, json};

use super::presence::{boot, wait_metric};
use super::{both, create_nodes, maps, node, register, report};
use crate::admission_policy::{patch, wait_in_force};

/// The kinds of policies and of their bindings.
const KINDS: &str = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,\
                     validatingadmissionpolicybindings";

fn with_files() -> Builder {
    ControlPlane::builder().static_policies(&project_file("deploy/static"))
}

/// Returns a cluster with the policies in files and a node that has 4 dongles.
fn cluster_with_files() -> Cluster {
    let cluster = Cluster::start_with(with_files());
    protection::allow_kubelets_to_read_status(&cluster);
    create_nodes(&cluster, &[node("node-1", &both("4"), DONGLE_LEDGER)]);
    cluster
}

/// Deletes each policy and binding, as an administrator.
fn delete_policies(cluster: &Cluster) {
    cluster.kubectl(&["delete", KINDS, "--all"]);
    assert_eq!(cluster.get(&[KINDS])["items"], json!([]));
}

#[test]
fn policies_in_files_outlive_everything_that_can_be_deleted() {
    let cluster = cluster_with_files();
    delete_policies(&cluster);
    // Like a kubelet after a reboot.
    assert_eq!(maps(&register(&cluster, "node-1", &both("0"))), both("4"));

    apply_chart(&cluster, &[]);
    protection::apply(&cluster);
    assert_eq!(maps(&register(&cluster, "node-1", &both("0"))), both("4"), "by both, or by the files alone");
    delete_policies(&cluster);
    assert_eq!(maps(&register(&cluster, "node-1", &both("0"))), both("4"), "by the files alone again");
    assert_eq!(maps(&report(&cluster, "node-1", &both("0"))), both("0"), "a device plugin's report");

    // An administrator can neither replace nor weaken them.
    let policy = fs::read_to_string(project_file("deploy/static/mutating/protect.yaml")).unwrap();
    let output = cluster.control_plane.kubectl_output(&["create", "-f", "-"], Some(&policy)).unwrap();
    let because = "reserved for static manifest-based configurations";
    assert!(output.code != 0 && output.stderr.contains(because), "{output:?}");
}

/// The controller works under both forms, and under the files alone, which its own test detects.
#[test]
fn both_forms_confine_the_controller_and_let_it_work() {
    let cluster = cluster_with_files();
    apply_chart(&cluster, &[]);
    protection::apply(&cluster);
    let kubeconfig = service_account_kubeconfig(&cluster);
    wait_in_force(&cluster, &kubeconfig, NAMESPACE, RELEASE);
    cluster.kubectl(&["delete", "node", "canary"]);
    for forms in ["both", "files"] {
        if forms == "files" {
            delete_policies(&cluster);
        }
        let controller =
            Controller::start_unready(&cluster, &kubeconfig, &["--leader-elect-resource-namespace", NAMESPACE]);
        controller.wait_ready();
        cluster.apply_rule("dongle", &json!({}));
        cluster.wait_ready("dongle", "1/1");
        assert_eq!(maps(&register(&cluster, "node-1", &both("0"))), both("4"), "{forms}");
        wait_until("the controller to be confined", || {
            let (_, body) = controller.get("/readyz?verbose")?;
            Ok(body.contains("confinement: the API server rejects changes by this account").then_some(()))
        })
        .unwrap_or_else(|error| panic!("{forms}: {error:#}\n{}", controller.log()));
        cluster.kubectl(&["delete", "ner", "dongle"]);
        cluster.wait_withdrawn("node-1", DONGLE);
        assert!(!controller.log().contains("forbidden"), "{}", controller.log());
        controller.stop();
        cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}={DONGLE_LEDGER}")]);
        cluster.write_quantity("node-1", DONGLE, "4");
    }
    let label = json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]);
    let output = patch(&cluster, &kubeconfig, "node-1", &label);
    let by_file = "ValidatingAdmissionPolicy 'node-resource-advertiser.static.k8s.io' with binding";
    assert!(output.code != 0 && output.stderr.contains(by_file), "{output:?}");
    // An account of that name in any namespace, without a release.
    cluster.kubectl(&["create", "namespace", "platform"]);
    cluster.kubectl(&["create", "serviceaccount", RELEASE, "--namespace", "platform"]);
    for (name, role) in [("moved", RELEASE), ("moved-reads", "test")] {
        let (role, account) = (format!("--clusterrole={role}"), format!("--serviceaccount=platform:{RELEASE}"));
        cluster.kubectl(&["create", "clusterrolebinding", name, &role, &account]);
    }
    let moved = kubeconfig_of(&cluster, "platform", RELEASE);
    let confined = wait_until("the moved account to be confined", || {
        let output = patch(&cluster, &moved, "node-1", &label);
        assert_ne!(output.code, 0, "{output:?}");
        Ok(output.stderr.contains(by_file).then_some(()))
    });
    confined.unwrap();
}

/// The API does not show a file: a kubelet that keeps its values after a reboot does.
#[test]
fn policy_in_a_file_is_reported_by_its_effect() {
    let cluster = Cluster::start_with(with_files());
    protection::allow_kubelets_to_read_status(&cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.heartbeat("node-1", "kubelet");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    wait_metric(&controller, r#"protection{state="absent"} 1"#);
    boot(&cluster, "first");
    assert_eq!(maps(&register(&cluster, "node-1", &both("0"))), both("4"));
    boot(&cluster, "second");
    wait_metric(&controller, r#"protection{state="static"} 1"#);
    wait_metric(&controller, r#"protection{state="absent"} 0"#);
    let (_, body) = controller.get("/readyz?verbose").unwrap();
    assert!(body.contains("the last kubelet that started kept its values: a file of the API server has"), "{body}");
    controller.stop();

    // Without the file, where one is expected.
    let cluster = Cluster::shared();
    protection::allow_kubelets_to_read_status(&cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.heartbeat("node-1", "kubelet");
    let controller = Controller::start_with(&cluster, &["--protection=static"]);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    wait_metric(&controller, r#"protection{state="static"} 1"#);
    boot(&cluster, "first");
    register(&cluster, "node-1", &both("0"));
    cluster.wait_advertised("node-1", DONGLE, "4");
    boot(&cluster, "second");
    controller.wait_log("reset recorded values despite the policy");
    let (_, body) = controller.get("/readyz?verbose").unwrap();
    assert!(body.contains("protection: not in force: a file"), "{body}");
    controller.stop();
}

/// Kills the API server, starts it again, and resets the dongles of node-1 as soon as it accepts a write. Returns how
/// many resets were stored.
fn stored_first_writes(cluster: &mut Cluster, starts: u32) -> u32 {
    let kubeconfig = cluster.control_plane.kubelet_kubeconfig("node-1").unwrap();
    let kubelet = cluster.control_plane.proxy_of(&kubeconfig).unwrap();
    let path = "/api/v1/nodes/node-1/status?fieldManager=kubelet";
    let reset = json!({"status": both("0")}).to_string();
    let mut stored = 0;
    for _ in 0..starts {
        cluster.control_plane.kill_apiserver().unwrap();
        let start = Instant::now();
        cluster.control_plane.spawn_apiserver().unwrap();
        let (attempts, written) =
            wait_write(|| kubelet.send("PATCH", path, "application/strategic-merge-patch+json", &reset));
        let kept = maps(&written) == both("4");
        eprintln!("accepted after {:?}, in attempt {attempts}: kept: {kept}", start.elapsed());
        cluster.control_plane.wait_apiserver().unwrap();
        if !kept {
            stored += 1;
            cluster.write_quantity("node-1", DONGLE, "4");
        }
    }
    stored
}

/// Sends a request until the API server accepts it. Returns the number of attempts, and the object in the response.
fn wait_write(mut send: impl FnMut() -> anyhow::Result<(u16, String)>) -> (u32, Value) {
    let mut attempts = 0;
    let written = wait_until("the API server to accept a write", || {
        attempts += 1;
        let (code, body) = send()?;
        Ok((code == 200).then_some(body))
    });
    (attempts, serde_json::from_str(&written.unwrap()).unwrap())
}

/// As few as show it; [`first_writes_after_twenty_starts_are_kept`] has those of docs/protection.md.
const STARTS: u32 = 2;

#[test]
fn first_write_after_a_start_is_kept_by_files() {
    let mut cluster = cluster_with_files();
    assert_eq!(stored_first_writes(&mut cluster, STARTS), 0);
}

#[test]
fn first_write_after_a_start_is_kept_by_the_api() {
    let mut cluster = Cluster::start();
    protection::install(&cluster);
    create_nodes(&cluster, &[node("node-1", &both("4"), DONGLE_LEDGER)]);
    assert_eq!(stored_first_writes(&mut cluster, STARTS), 0);
}

#[test]
#[ignore = "minutes: forty starts of an API server"]
fn first_writes_after_twenty_starts_are_kept() {
    let mut cluster = cluster_with_files();
    let by_files = stored_first_writes(&mut cluster, 20);
    let mut cluster = Cluster::start();
    protection::install(&cluster);
    create_nodes(&cluster, &[node("node-1", &both("4"), DONGLE_LEDGER)]);
    assert_eq!((by_files, stored_first_writes(&mut cluster, 20)), (0, 0));
}

/// Copies deploy/static/ into a folder of its own, with one file changed.
fn changed_files(name: &str, file: &str, change: impl Fn(&str) -> String) -> PathBuf {
    let folder = project_file("target/controlplane/static").join(format!("{}-{name}", std::process::id()));
    for path in ["admission.yaml", "mutating/protect.yaml", "validating/confine.yaml"] {
        let text = fs::read_to_string(project_file("deploy/static").join(path)).unwrap();
        let text = if path == file { change(&text) } else { text };
        write(&folder.join(path), &text);
    }
    folder
}

/// Writes a file, and then moves it into place: an API server that reads an empty one has no policy from then on.
fn write(path: &Path, text: &str) {
    let folder = path.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    let new = folder.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// The messages are those of docs/protection.md.
#[test]
fn api_server_does_not_start_with_a_file_that_it_rejects() {
    let (protect, confine) = ("mutating/protect.yaml", "validating/confine.yaml");
    let page = fs::read_to_string(project_file("docs/protection.md")).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    type Change = fn(&str) -> String;
    let cases: [(&str, &str, Change, &str); 5] = [
        ("name", protect, |text| text.replace(".static.k8s.io", ""), "must have a name ending with \".static.k8s.io\""),
        (
            "expression",
            protect,
            |text| text.replace(".startsWith(", ".startsWit("),
            "undeclared reference to 'startsWit'",
        ),
        (
            "folder",
            confine,
            |_| fs::read_to_string(project_file("deploy/static/mutating/protect.yaml")).unwrap(),
            "unsupported resource type *v1.MutatingAdmissionPolicy",
        ),
        ("field", confine, |text| text.replace("failurePolicy:", "failPolicy:"), "unknown field \"spec.failPolicy\""),
        (
            "parameters",
            confine,
            |text| {
                text.replacen("  failurePolicy:", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  failurePolicy:", 1)
            },
            "spec.paramKind is not supported for static manifests",
        ),
    ];
    for (name, file, change, because) in cases {
        let folder = changed_files(name, file, change);
        let error = ControlPlane::builder().static_policies(&folder).start().expect_err("the API server starts");
        // As the log quotes it.
        let error = format!("{error:#}").replace("\\\"", "\"");
        assert!(error.contains(because), "{name}: {error}");
        assert!(page.contains(because), "{name}: docs/protection.md does not quote {because}");
        fs::remove_dir_all(folder).unwrap();
    }
}

/// A file that is edited while the API server runs takes effect, and a broken edit leaves the policies in force.
#[test]
fn edited_files_take_effect_unless_they_are_broken() {
    let folder = changed_files("edited", "", str::to_owned);
    let cluster = Cluster::start_with(ControlPlane::builder().static_policies(&folder));
    protection::allow_kubelets_to_read_status(&cluster);
    create_nodes(&cluster, &[node("node-1", &both("4"), DONGLE_LEDGER)]);
    let protect = folder.join("mutating/protect.yaml");
    write(&protect, "kind: Unknown\n");
    wait_reload(&cluster, "failure");
    assert_eq!(maps(&register(&cluster, "node-1", &both("0"))), both("4"));

    fs::remove_file(&protect).unwrap();
    protection::wait_effect(&cluster, "node-1", false);
    fs::copy(project_file("deploy/static/mutating/protect.yaml"), &protect).unwrap();
    protection::wait_effect(&cluster, "node-1", true);
    fs::remove_dir_all(folder).unwrap();
}

/// Waits until the API server has read the folder of the policy that keeps values again, with this result.
fn wait_reload(cluster: &Cluster, status: &str) {
    let status = format!("status=\"{status}\"");
    wait_until("the API server to read the files again", || {
        let metrics = cluster.control_plane.get("/metrics")?;
        let series = "apiserver_manifest_admission_config_controller_automatic_reloads_total{";
        let mut lines = metrics.lines().filter(|line| line.starts_with(series));
        Ok(lines.any(|line| line.contains("MutatingAdmissionPolicy") && line.contains(&status)).then_some(()))
    })
    .unwrap();
}
