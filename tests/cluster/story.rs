use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use harness::isolated;
use serde_json::{Value, json};

use crate::cluster::{Cluster, advertises, ledger};
use crate::helm::{NAMESPACE, RELEASE, helm, helm_chart};
use crate::machine;
use crate::pods::{events, logs, replicas, start, wait_leader, wait_logged};

const DONGLE: &str = "example.com/dongle";
const SERVICE: &str = "/api/v1/namespaces/advertising/services/node-resource-advertiser:http/proxy";

#[test]
fn installed_used_upgraded_and_uninstalled() {
    let machine = machine::state();
    let outside = isolated("story::installed_used_upgraded_and_uninstalled", || {
        let (cluster, _node) = start();
        let before = cluster.node("node-1");
        install(&cluster);
        let pod = run_the_examples(&cluster);
        scrape(&cluster);
        upgrade(&cluster);
        lose_the_leader(&cluster);
        assert_same_container(&cluster.get(&["pod", "dongle-user"]), &pod);
        // This is what the comparison below rests on: it does see what is changed.
        assert_ne!(machine::state(), machine);
        uninstall(&cluster, &before);
    });
    if outside {
        assert_eq!(machine::state(), machine, "the machine is left as it was");
    }
}

fn install(cluster: &Cluster) {
    let wait = ["--create-namespace", "--wait", "--timeout=90s"];
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    });
    cluster.apply(&namespace.to_string());
    helm_or_events(cluster, "install", &wait);
    assert_eq!(replicas(cluster).len(), 2, "both are Ready when helm is done");
    let (leader, standby) = wait_leader(cluster, None);
    wait_logged(cluster, &leader, "this process leads now");
    assert!(!logs(cluster, &standby).contains("leads now"), "{}", logs(cluster, &standby));
    for process in processes() {
        process.assert_confined();
    }
    assert_eq!(processes().len(), 2);
    println!("installed: two replicas are Ready, and one leads");
}

/// A process of the controller's containers, as the kernel tells of it.
struct Process {
    status: String,
}

fn processes() -> Vec<Process> {
    let folders = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let of_program = folders.filter(|folder| {
        // The program is there under this path in its container only.
        fs::read(folder.join("cmdline"))
            .is_ok_and(|command| command.starts_with(b"/node-resource-advertiser\0"))
    });
    // One that ends in this moment is none.
    let statuses = of_program.filter_map(|folder| fs::read_to_string(folder.join("status")).ok());
    statuses.map(|status| Process { status }).collect()
}

impl Process {
    /// That it is nobody, may do nothing, and can become nothing else.
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
        let filter =
            if std::env::var("SECCOMP").is_ok_and(|value| value == "1") { "2" } else { "0" };
        assert_eq!(field("Seccomp:"), filter, "a filter is 2");
    }
}

/// Applies the examples, and waits until the pod that requests dongles runs.
fn run_the_examples(cluster: &Cluster) -> Value {
    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle=true"]);
    cluster.kubectl(&["apply", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/examples/")]);
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_advertised("node-1", "example.com/licence", "2");
    let pod = cluster.wait_for("the pod of the examples to run", &["pod", "dongle-user"], |pod| {
        pod["status"]["containerStatuses"][0]["ready"] == true
    });
    let too_many = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "too-many"},
        "spec": {"containers": [{
            "name": "app", "image": "registry.k8s.io/pause:3.10",
            "resources": {"limits": {DONGLE: "2"}},
        }]},
    });
    cluster.apply(&too_many.to_string());
    cluster.wait_event("too-many", "FailedScheduling", &format!("Insufficient {DONGLE}"));
    let (leader, _) = wait_leader(cluster, None);
    wait_logged(cluster, &leader, "node=node-1");
    println!("used: a pod of three dongles runs, and one of two more waits");
    pod
}

/// Through the Service, to one of the replicas.
fn scrape(cluster: &Cluster) {
    let slices = format!("--selector=kubernetes.io/service-name={RELEASE}");
    cluster.wait_for("two endpoints", &["endpointslices", "-n", NAMESPACE, &slices], |slices| {
        let endpoints = slices["items"][0]["endpoints"].as_array();
        endpoints.is_some_and(|all| {
            all.len() == 2 && all.iter().all(|endpoint| endpoint["conditions"]["ready"] == true)
        })
    });
    let metrics = cluster.kubectl(&["get", "--raw", &format!("{SERVICE}/metrics")]);
    assert!(metrics.contains("node_resource_advertiser_leader "), "{metrics}");
    println!("scraped: {} lines of metrics", metrics.lines().count());
}

fn upgrade(cluster: &Cluster) {
    let old = replicas(cluster);
    let args = ["--reuse-values", "--set=controller.concurrency=8", "--wait", "--timeout=90s"];
    helm_or_events(cluster, "upgrade", &args);
    let (leader, other) = wait_leader(cluster, None);
    assert!(!old.contains(&leader) && !old.contains(&other), "{old:?}, {leader}, {other}");
    assert!(advertises(&cluster.node("node-1"), DONGLE, "4"));
    println!("upgraded: two new replicas, and the node as before");
}

fn lose_the_leader(cluster: &Cluster) {
    let (leader, _) = wait_leader(cluster, None);
    cluster.kubectl(&["delete", "pod", &leader, "--namespace", NAMESPACE, "--wait=false"]);
    wait_leader(cluster, Some(&leader));
    // No more than there were: the pod that waits would be let in.
    cluster.write_amount("node-1", DONGLE, "3");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_event("node-1", "Repaired", DONGLE);
    println!("its leader deleted: another one repairs");
}

fn assert_same_container(pod: &Value, before: &Value) {
    let container = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        ["containerID", "restartCount", "state"].map(|field| status[field].clone())
    };
    assert_eq!(container(pod), container(before), "the pod of the examples ran all the time");
}

fn uninstall(cluster: &Cluster, before: &Value) {
    let args = ["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout=90s"];
    let answer = helm(cluster, &args);
    assert_eq!(answer.code, 0, "{}{}\n{}", answer.stdout, answer.stderr, events(cluster));
    let job = format!("{RELEASE}-prune");
    let namespace = ["events.events.k8s.io", "--namespace", NAMESPACE];
    cluster.wait_for("the hook's Job to have run", &namespace, |events| {
        events["items"].as_array().unwrap().iter().any(|event| {
            event["regarding"]["name"] == job.as_str() && event["reason"] == "Completed"
        })
    });
    let after = cluster.node("node-1");
    assert_eq!(ledger(&after), None);
    for map in ["capacity", "allocatable"] {
        assert_eq!(after["status"][map], before["status"][map], "{map}");
    }
    cluster.wait_for("no pod to be left", &["pods", "--namespace", NAMESPACE], |pods| {
        pods["items"] == json!([])
    });
    assert!(processes().is_empty());
    println!("uninstalled: the hook's Job has run, and the node is as it was");
}

fn helm_or_events(cluster: &Cluster, command: &str, args: &[&str]) {
    let done = catch_unwind(AssertUnwindSafe(|| helm_chart(cluster, command, args)));
    done.unwrap_or_else(|_| panic!("helm {command} failed\n{}", events(cluster)));
}
