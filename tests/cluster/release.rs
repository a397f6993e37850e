//! A release of the chart: installation, use, upgrade, rollback, loss of the leader, uninstallation.
//!
//! Method: run helm and kubectl as a user does, and check processes, containers, metrics, values
//! and the machine after each step.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use harness::documents::{self, Shell};
use harness::helm::{NAMESPACE, RELEASE, helm, helm_chart};
use harness::objects::{self, DONGLE, advertises, ledger};
use harness::{Cluster, isolated, project_file};
use serde_json::{Value, json};

use crate::host_state;
use crate::replicas::{self, events, logs, start_cluster, wait_leader, wait_logged};

const SERVICE: &str = "/api/v1/namespaces/advertising/services/node-resource-advertiser:http/proxy";

#[test]
fn chart_release_runs_on_a_real_node() {
    let machine = host_state::read();
    let outside = isolated("release::chart_release_runs_on_a_real_node", || {
        let (cluster, _node) = start_cluster(None);
        let before = cluster.node("node-1");
        install(&cluster);
        let pod = run_the_examples(&cluster);
        scrape(&cluster);
        run_the_documented_commands(&cluster);
        upgrade(&cluster);
        lose_the_leader(&cluster);
        assert_same_container(&cluster.get(&["pod", "dongle-user"]), &pod);
        // The state differs inside the namespaces; otherwise the comparison below proves nothing.
        assert_ne!(host_state::read(), machine);
        uninstall(&cluster, &before);
    });
    if outside {
        assert_eq!(host_state::read(), machine, "the machine is unchanged");
    }
}

fn install(cluster: &Cluster) {
    let wait = ["--create-namespace", "--wait", "--timeout=15m"];
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    });
    cluster.apply(&namespace.to_string());
    helm_or_events(cluster, "install", &wait);
    assert_eq!(replicas::ready(cluster).len(), 2, "both are Ready when helm returns");
    let (leader, standby) = wait_leader(cluster, None);
    wait_logged(cluster, &leader, "this process is now the leader");
    assert!(!logs(cluster, &standby).contains("is now the leader"), "{}", logs(cluster, &standby));
    for process in processes() {
        process.assert_confined();
    }
    assert_eq!(processes().len(), 2);
    assert_seccomp_is_requested(cluster);
    println!("installed: two replicas are Ready, and one leads");
}

/// Checks the pods, because without libseccomp's headers no process has a filter.
fn assert_seccomp_is_requested(cluster: &Cluster) {
    for name in replicas::ready(cluster) {
        let pod = cluster.get(&["pod", &name, "--namespace", NAMESPACE]);
        let containers = pod["spec"]["containers"].as_array().unwrap().iter();
        let profiles = containers.map(|container| &container["securityContext"]["seccompProfile"]["type"]);
        let of_pod = &pod["spec"]["securityContext"]["seccompProfile"]["type"];
        let mut in_force = profiles.map(|own| if own.is_null() { of_pod } else { own });
        assert!(in_force.all(|profile| profile == "RuntimeDefault"), "{:#}", pod["spec"]);
    }
}

/// A process of the controller's containers, as the kernel reports it.
struct Process {
    status: String,
}

fn processes() -> Vec<Process> {
    let folders = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let of_program = folders.filter(|folder| {
        // Only the container has the program at this path.
        fs::read(folder.join("cmdline")).is_ok_and(|command| command.starts_with(b"/node-resource-advertiser\0"))
    });
    // A process that ends at this moment is skipped.
    let statuses = of_program.filter_map(|folder| fs::read_to_string(folder.join("status")).ok());
    statuses.map(|status| Process { status }).collect()
}

impl Process {
    /// Checks that the process runs without root and capabilities, and cannot gain any.
    fn assert_confined(&self) {
        let field = |name: &str| {
            let line = self.status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {}", self.status)).trim().to_owned()
        };
        assert_eq!(field("Uid:"), ["65532"; 4].join("\t"));
        assert_eq!(field("Gid:"), ["65532"; 4].join("\t"));
        for capabilities in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(capabilities), "0".repeat(16), "{capabilities}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
        let filter = if std::env::var("SECCOMP").is_ok_and(|value| value == "1") { "2" } else { "0" };
        assert_eq!(field("Seccomp:"), filter, "2 stands for a seccomp filter");
    }
}

/// Applies the examples, and waits until the pod that requests dongles runs.
fn run_the_examples(cluster: &Cluster) -> Value {
    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle=true"]);
    cluster.kubectl(&["apply", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/examples/")]);
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_advertised("node-1", "example.com/build-license", "2");
    let pod = cluster.wait_for("the pod of the examples to run", &["pod", "dongle-user"], |pod| {
        pod["status"]["containerStatuses"][0]["ready"] == true
    });
    let too_many = objects::pod("too-many", DONGLE, "2");
    cluster.apply(&too_many.to_string());
    cluster.wait_event("too-many", "FailedScheduling", &format!("Insufficient {DONGLE}"));
    let (leader, _) = wait_leader(cluster, None);
    wait_logged(cluster, &leader, "node=node-1");
    println!("used: a pod of three dongles runs, and one of two more is Pending");
    pod
}

/// Reads the metrics of one replica through the Service.
fn scrape(cluster: &Cluster) {
    let slices = format!("--selector=kubernetes.io/service-name={RELEASE}");
    cluster.wait_for("two endpoints", &["endpointslices", "-n", NAMESPACE, &slices], |slices| {
        let endpoints = slices["items"][0]["endpoints"].as_array();
        endpoints
            .is_some_and(|all| all.len() == 2 && all.iter().all(|endpoint| endpoint["conditions"]["ready"] == true))
    });
    let metrics = cluster.kubectl(&["get", "--raw", &format!("{SERVICE}/metrics")]);
    assert!(metrics.contains("node_resource_advertiser_leader "), "{metrics}");
    println!("scraped: {} lines of metrics", metrics.lines().count());
}

/// Runs the commands of the pages and of the chart's notes that need a release.
fn run_the_documented_commands(cluster: &Cluster) {
    let variables = BTreeMap::from([("NS", NAMESPACE.to_owned())]);
    let mut shell = Shell::new(cluster, &project_file("."), variables).unwrap();
    shell.words.push(("-n node-resource-advertiser", format!("-n {NAMESPACE}")));
    let blocks = documents::blocks_run_by("release", &documents::pages().unwrap()).unwrap();
    let notes = helm(cluster, &["get", "notes", RELEASE, "--namespace", NAMESPACE]).stdout;
    // The pod of `helm test` finds the Service by its name, and this cluster has no DNS.
    let notes: String =
        notes.lines().filter(|line| !line.contains("helm test ")).map(|line| format!("{line}\n")).collect();
    let notes = documents::notes_blocks(&notes);
    assert!(blocks.len() > 3 && notes.len() > 2, "{blocks:#?}\n{notes:#?}");
    let count = shell.run(&blocks).unwrap() + shell.run(&notes).unwrap();
    println!("documented: {count} commands of the pages and the notes work");
}

fn upgrade(cluster: &Cluster) {
    let args = ["--reuse-values", "--set=controller.maxConcurrentPatches=8", "--wait", "--timeout=15m"];
    replace_the_replicas(cluster, || helm_or_events(cluster, "upgrade", &args));
    println!("upgraded: two new replicas, and the node as before");
    let args = ["rollback", RELEASE, "1", "--namespace", NAMESPACE, "--wait", "--timeout=15m"];
    replace_the_replicas(cluster, || {
        let output = helm(cluster, &args);
        assert_eq!(output.code, 0, "{}{}\n{}", output.stdout, output.stderr, events(cluster));
    });
    println!("rolled back: two new replicas, and the node as before");
}

/// Replaces every replica, and checks that the node keeps its values.
fn replace_the_replicas(cluster: &Cluster, by: impl FnOnce()) {
    let old = replicas::ready(cluster);
    let listed = |cluster: &Cluster| ledger(&cluster.node("node-1")).map(str::to_owned);
    let before = listed(cluster);
    by();
    let (leader, other) = wait_leader(cluster, None);
    assert!(!old.contains(&leader) && !old.contains(&other), "{old:?}, {leader}, {other}");
    assert!(advertises(&cluster.node("node-1"), DONGLE, "4"));
    assert_eq!(listed(cluster), before);
}

fn lose_the_leader(cluster: &Cluster) {
    let (leader, _) = wait_leader(cluster, None);
    cluster.kubectl(&["delete", "pod", &leader, "--namespace", NAMESPACE, "--wait=false"]);
    wait_leader(cluster, Some(&leader));
    // A lower value: with a higher one the pending pod would be scheduled.
    cluster.write_quantity("node-1", DONGLE, "3");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_event("node-1", "Repaired", DONGLE);
    println!("leader deleted: the other replica repairs");
}

pub(crate) fn assert_same_container(pod: &Value, before: &Value) {
    let container = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        ["containerID", "restartCount", "state"].map(|field| status[field].clone())
    };
    assert_eq!(container(pod), container(before), "the example pod was never restarted");
}

fn uninstall(cluster: &Cluster, before: &Value) {
    let args = ["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout=15m"];
    let output = helm(cluster, &args);
    assert_eq!(output.code, 0, "{}{}\n{}", output.stdout, output.stderr, events(cluster));
    let job = format!("{RELEASE}-prune");
    let namespace = ["events.events.k8s.io", "--namespace", NAMESPACE];
    cluster.wait_for("the hook's Job to have run", &namespace, |events| {
        events["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["regarding"]["name"] == job.as_str() && event["reason"] == "Completed")
    });
    let after = cluster.node("node-1");
    assert_eq!(ledger(&after), None);
    for map in ["capacity", "allocatable"] {
        assert_eq!(after["status"][map], before["status"][map], "{map}");
    }
    cluster.wait_for("no pod to be left", &["pods", "--namespace", NAMESPACE], |pods| pods["items"] == json!([]));
    assert!(processes().is_empty());
    println!("uninstalled: the hook's Job has run, and the node is as it was");
}

fn helm_or_events(cluster: &Cluster, command: &str, args: &[&str]) {
    let done = catch_unwind(AssertUnwindSafe(|| helm_chart(cluster, command, args)));
    done.unwrap_or_else(|_| panic!("helm {command} failed\n{}", events(cluster)));
}
