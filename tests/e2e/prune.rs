//! `prune`: what it withdraws, and when it refuses to run.
//!
//! Method: leave values on two nodes without a controller, run the command, and compare its lines, the
//! nodes and the number of patches.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::objects::{self, DONGLE, LEDGER, advertises, ledger, quantity};
use harness::{Cluster, Controller, Fault, FaultProxy, Output, SharedCluster, wait_until};
use serde_json::{Value, json};

use crate::support::{SHORT_LEASE, program, rejected_patches};

/// Everything, without a question.
const ALL: [&str; 2] = ["--all", "--yes"];

fn prune(cluster: &Cluster, args: &[&str]) -> Output {
    program::run(&cluster.control_plane.kubeconfig(), &[&["prune"], args].concat(), None)
}

/// Checks that the command succeeded and printed these lines, in any order.
fn assert_prints(output: &Output, lines: &[&str]) {
    let mut printed: Vec<_> = output.stdout.lines().collect();
    printed.sort_unstable();
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    assert_eq!((output.code, printed), (0, lines), "{}", output.stderr);
}

/// Starts a cluster of two nodes with the values of rules `dongle` and `key`, and no controller.
fn cluster_without_controller() -> SharedCluster {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let key = json!({"resourceName": "example.com/key", "deletionPolicy": "Retain"});
    cluster.apply_rule("key", &key);
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_ready("key", "2/2");
    controller.stop();
    cluster
}

fn is_withdrawn(node: &Value) -> bool {
    ledger(node).is_none() && quantity(node, "capacity", DONGLE).is_none()
}

#[test]
fn prune_withdraws_everything_but_retained_values() {
    let cluster = cluster_without_controller();
    let before = cluster.node_patches();
    let actions = "withdrew example.com/dongle (rule dongle), released example.com/key (rule key; retained)";
    assert_prints(
        &prune(&cluster, &["--all", "--dry-run"]),
        &[
            &format!("node-1: {actions} (dry run)"),
            &format!("node-2: {actions} (dry run)"),
            "4 changes on 2 of 2 nodes (dry run)",
        ],
    );
    assert_eq!(cluster.node_patches(), before, "a dry run writes nothing");

    assert_prints(
        &prune(&cluster, &ALL),
        &[&format!("node-1: {actions}"), &format!("node-2: {actions}"), "4 changes on 2 of 2 nodes"],
    );
    for name in ["node-1", "node-2"] {
        let node = cluster.node(name);
        assert!(is_withdrawn(&node), "{node:#}");
        assert_eq!(quantity(&node, "allocatable", "example.com/key"), Some("4"));
    }
    assert_prints(&prune(&cluster, &ALL), &["0 changes on 0 of 2 nodes"]);
    assert_eq!(cluster.node_patches() - before, 2, "one patch per node");
}

#[test]
fn prune_reports_a_rejected_patch_and_fails() {
    let cluster = cluster_without_controller();
    rejected_patches::start_for(&cluster, "node-1");
    let output = prune(&cluster, &ALL);
    rejected_patches::stop(&cluster);
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stdout.contains("node-2: withdrew"), "{}", output.stdout);
    assert!(!output.stdout.contains("node-1"), "{}", output.stdout);
    assert!(output.stderr.contains("node-1: failed: stopped after"), "{}", output.stderr);
    assert!(output.stderr.contains(rejected_patches::MESSAGE), "{}", output.stderr);
    assert!(advertises(&cluster.node("node-1"), DONGLE, "4"));
    assert!(ledger(&cluster.node("node-1")).is_some());
    assert!(is_withdrawn(&cluster.node("node-2")), "the other node is pruned");
}

#[test]
fn prune_is_limited_to_named_nodes_and_rules() {
    let cluster = cluster_without_controller();
    assert_prints(
        &prune(&cluster, &["--node", "node-1", "--rule", "dongle"]),
        &["node-1: withdrew example.com/dongle (rule dongle)", "1 change on 1 of 1 node"],
    );
    assert!(ledger(&cluster.node("node-1")).unwrap().contains("example.com/key"));
    assert!(advertises(&cluster.node("node-2"), DONGLE, "4"));
    let output = prune(&cluster, &["--all", "--yes", "--node", "node-9"]);
    assert_eq!(output.code, 1);
    assert_eq!(output.stderr.lines().last(), Some("error: cannot read node node-9: nodes \"node-9\" not found"));
}

#[test]
fn prune_with_active_controller_requires_force_or_take_over() {
    let cluster = cluster_without_controller();
    let controller = Controller::start(&cluster);
    controller.wait_log("this process is now the leader");
    let output = prune(&cluster, &ALL);
    assert_eq!(output.code, 1);
    assert!(output.stderr.starts_with("cluster: context "), "{}", output.stderr);
    assert!(output.stderr.contains("\nerror: a controller is active"), "{}", output.stderr);
    assert!(output.stderr.contains("holds the lease default/node-resource-advertiser"));
    assert!(advertises(&cluster.node("node-1"), DONGLE, "4"));

    // With --force it runs alongside, and the controller restores what its rules declare.
    assert_eq!(prune(&cluster, &["--all", "--yes", "--force"]).code, 0);
    cluster.wait_advertised("node-1", DONGLE, "4");

    let output = prune(&cluster, &["--all", "--yes", "--take-over"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("for the previous holder of the lease to stop writing"));
    let give_back = "kubectl --namespace default delete lease node-resource-advertiser";
    assert!(output.stderr.contains("the lease default/node-resource-advertiser is kept until"));
    assert!(output.stderr.contains(give_back), "{}", output.stderr);
    controller.wait_log("this process is no longer the leader");
    controller.wait_log("standing by holder=prune_");
    for name in ["node-1", "node-2"] {
        assert!(is_withdrawn(&cluster.node(name)), "the controller has restored it");
    }

    // No client writes under the lease of the first run: neither run waits for it, and both keep it.
    for args in [&["--all", "--yes", "--take-over"][..], &ALL] {
        let output = prune(&cluster, args);
        assert_eq!(output.code, 0, "{args:?}: {}", output.stderr);
        assert!(!output.stderr.contains("waiting"), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(give_back), "{args:?}: {}", output.stderr);
        let lease = cluster.get(&["lease", "node-resource-advertiser"]);
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap();
        assert!(holder.starts_with("prune_") && holder.ends_with("_ended"), "{lease:#}");
        assert!(lease["spec"]["leaseDurationSeconds"].as_i64().unwrap() > 60, "{lease:#}");
    }
    // The printed command works for a controller that has seen the lease.
    cluster.kubectl(&["delete", "lease", "node-resource-advertiser"]);
    cluster.wait_advertised("node-1", DONGLE, "4");
    controller.stop();
}

#[test]
fn prune_take_over_after_a_failure_needs_no_waiting() {
    let cluster = cluster_without_controller();
    let controller = Controller::start_with(&cluster, &SHORT_LEASE);
    controller.wait_log("this process is now the leader");
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &format!("{LEDGER}=not json")]);
    let output = prune(&cluster, &["--all", "--yes", "--take-over"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("is kept until"), "{}", output.stderr);
    cluster.kubectl(&["annotate", "node", "node-1", &format!("{LEDGER}-")]);
    let output = prune(&cluster, &["--all", "--yes", "--take-over"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("waiting"), "{}", output.stderr);
    controller.stop();
}

#[test]
fn controller_started_after_the_lease_of_prune_expired_leads_at_once() {
    let cluster = cluster_without_controller();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "node-resource-advertiser", "namespace": "default"},
        "spec": {
            "holderIdentity": "prune_1795279958295983672_ended", "leaseDurationSeconds": 86400,
            "renewTime": "2020-01-01T00:00:00.000000Z", "acquireTime": "2020-01-01T00:00:00.000000Z",
        },
    });
    cluster.kubectl(&["delete", "lease", "node-resource-advertiser"]);
    cluster.apply(&lease.to_string());
    let controller = Controller::start(&cluster);
    controller.wait_log("this process is now the leader");
    controller.stop();
}

#[test]
fn prune_finds_the_lease_of_a_controller_by_its_label() {
    let cluster = cluster_without_controller();
    cluster.kubectl(&["delete", "lease", "node-resource-advertiser"]);
    let controller = Controller::start_with(&cluster, &["--leader-elect-resource-name", "of-another-name"]);
    controller.wait_log("this process is now the leader");
    let output = prune(&cluster, &ALL);
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stderr.contains("holds the lease default/of-another-name"), "{}", output.stderr);
    controller.stop();
    cluster.kubectl(&["delete", "lease", "of-another-name"]);
}

#[test]
fn prune_of_an_unlisted_rule_reports_it() {
    let cluster = cluster_without_controller();
    let output = prune(&cluster, &["--rule", "nosuch"]);
    assert_eq!((output.code, output.stdout.trim()), (0, "0 changes on 0 of 2 nodes"));
    assert!(output.stderr.contains("rule nosuch: no node lists it"), "{}", output.stderr);
}

#[test]
fn prune_into_a_closed_pipe_is_no_error() {
    let cluster = cluster_without_controller();
    for flag in ["--dry-run", "--yes"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(harness::program().unwrap())
            .args(["prune", "--all", flag])
            .env("KUBECONFIG", cluster.control_plane.kubeconfig())
            .stdout(writer)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    for name in ["node-1", "node-2"] {
        assert!(is_withdrawn(&cluster.node(name)), "it finishes all the same");
    }
    assert_eq!(cluster.get(&LEASE)["spec"]["holderIdentity"], Value::Null);
}

#[test]
fn prune_without_output_changes_nothing_and_releases_its_lease() {
    let cluster = cluster_without_controller();
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &format!("{LEDGER}=not json")]);
    let output = Command::new(harness::program().unwrap())
        .args(["prune", "--repair-ledger"])
        .env("KUBECONFIG", cluster.control_plane.kubeconfig())
        .stdout(File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.ends_with("(os error 28)\n"), "{stderr}");
    assert_eq!(ledger(&cluster.node("node-1")), Some("not json"), "it is not announced");
    let lease = cluster.get(&["lease", "node-resource-advertiser"]);
    assert_eq!(lease["spec"]["holderIdentity"], Value::Null, "{lease:#}");
}

/// Creates nodes that differ from an empty one as `change` makes them, and the Lease of a controller that is gone.
fn create_nodes_and_lease(cluster: &Cluster, count: usize, change: impl Fn(&mut Value)) {
    let nodes = (0..count).map(|number| {
        let mut object = objects::node(&format!("node-{number}"), &json!({}));
        change(&mut object);
        object
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes.collect::<Vec<_>>()});
    cluster.apply(&list.to_string());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "node-resource-advertiser", "namespace": "default"},
    });
    cluster.apply(&lease.to_string());
}

fn start_prune(kubeconfig: &Path, flags: &[&str]) -> Child {
    Command::new(harness::program().unwrap())
        .args(["prune", "--yes"])
        .args(flags)
        .env("KUBECONFIG", kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(program: &Child) {
    assert!(Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap().success());
}

/// A `prune` of 60 nodes whose output, which no pipe holds, is not read, as behind a pager.
struct Unread {
    program: Child,
    /// The Lease that it has taken.
    lease: Value,
}

const LEASE: [&str; 2] = ["lease", "node-resource-advertiser"];

impl Unread {
    /// Starts it on nodes like this one.
    fn start(cluster: &Cluster, node: impl Fn(&mut Value), flags: &[&str]) -> Self {
        create_nodes_and_lease(cluster, 60, node);
        let program = start_prune(&cluster.control_plane.kubeconfig(), flags);
        // It is released again before it is seen.
        let lease = cluster.wait_for("prune to take the lease", &LEASE, |lease| !lease["spec"]["renewTime"].is_null());
        Self { program, lease }
    }

    /// Waits for the next renewal of the Lease.
    fn wait_renewal(&mut self, cluster: &Cluster) {
        let renewed = |lease: &Value| lease["spec"]["renewTime"].as_str().map(str::to_owned);
        self.lease = cluster.wait_for("prune to renew the lease", &LEASE, |lease| {
            let is_same = lease["spec"]["holderIdentity"] == self.lease["spec"]["holderIdentity"];
            is_same && renewed(lease) > renewed(&self.lease)
        });
    }
}

fn wait_released(cluster: &Cluster) {
    cluster.wait_for("prune to release the lease", &LEASE, |lease| lease["spec"]["holderIdentity"].is_null());
}

/// Ten names whose lines for 60 nodes are more than the 64 KiB that a pipe holds.
fn long_names() -> impl Iterator<Item = String> {
    (0..10).map(|number| format!("{}.example.com/{}-{number}", "d".repeat(60), "n".repeat(50)))
}

#[test]
fn prune_finishes_and_releases_its_lease_while_its_output_is_not_read() {
    let cluster = Cluster::shared();
    let entries = long_names().map(|resource| (resource, json!({"quantity": "4", "rule": "r".repeat(60)})));
    let ledger = Value::Object(entries.collect()).to_string();
    let node = |node: &mut Value| node["metadata"]["annotations"] = json!({LEDGER: ledger});
    let prune = Unread::start(&cluster, node, &["--all"]);
    wait_released(&cluster);
    let left = cluster.get(&["nodes"])["items"].as_array().unwrap().iter().filter(|node| !is_withdrawn(node)).count();
    assert_eq!(left, 0, "the lease is released");
    let output = prune.program.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.len() > 1 << 16, "the output fits the pipe: {}", output.stdout.len());
    assert!(output.stdout.ends_with(b"\n600 changes on 60 of 60 nodes\n"));
}

/// It waits until somebody has read what it is about to remove.
#[test]
fn prune_renews_its_lease_until_it_is_interrupted_while_its_announcement_is_not_read() {
    let cluster = Cluster::shared();
    // Nodes with the same zeros would share their lines.
    let zeros = |node: &Value| {
        let name = node["metadata"]["name"].as_str().unwrap();
        Value::Object(long_names().map(|resource| (format!("{resource}-{name}"), json!("0"))).collect())
    };
    let node = |node: &mut Value| {
        let zeros = zeros(node);
        node["status"] = json!({"capacity": zeros, "allocatable": zeros});
    };
    let mut prune = Unread::start(&cluster, node, &["--all", "--zeros"]);
    prune.wait_renewal(&cluster);
    interrupt(&prune.program);
    wait_released(&cluster);
    let output = prune.program.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.ends_with("error: nothing has changed: stopped by a signal\n"), "{stderr}");
    let nodes = cluster.get(&["nodes"]);
    let kept =
        nodes["items"].as_array().unwrap().iter().filter(|node| node["status"]["capacity"] == zeros(node)).count();
    assert_eq!(kept, 60);
}

#[test]
fn prune_that_is_interrupted_finishes_what_it_has_sent_and_says_what_is_left() {
    const NODES: usize = 150;
    let cluster = Cluster::shared();
    let recorded = json!({DONGLE: {"quantity": "4", "rule": "dongle"}}).to_string();
    create_nodes_and_lease(&cluster, NODES, |node| {
        node["metadata"]["annotations"] = json!({LEDGER: recorded});
        node["status"] = json!({"capacity": {DONGLE: "4"}, "allocatable": {DONGLE: "4"}});
    });
    // Responses take long enough that patches are on their way whenever the signal comes.
    let proxy = FaultProxy::start(cluster.control_plane.apiserver_address().unwrap()).unwrap();
    let kubeconfig = proxy.kubeconfig(&cluster.control_plane.kubeconfig()).unwrap();
    let interrupted = start_prune(&kubeconfig, &["--all"]);
    proxy.set(Some(Fault::Delay(Duration::from_millis(300))));
    let withdrawn =
        || cluster.get(&["nodes"])["items"].as_array().unwrap().iter().filter(|node| is_withdrawn(node)).count();
    wait_until("prune to withdraw from a node", || Ok((withdrawn() > 0).then_some(()))).unwrap();
    interrupt(&interrupted);
    let output = interrupted.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    wait_released(&cluster);

    // Nothing lands after the end, each node is withdrawn whole or not at all, and the numbers are true.
    let left = NODES - withdrawn();
    let whole = cluster.get(&["nodes"])["items"].as_array().unwrap().iter().all(|node| {
        is_withdrawn(node) || advertises(node, DONGLE, "4") && ledger(node).is_some_and(|text| text == recorded)
    });
    assert!(whole && (1..NODES).contains(&left), "{left} of {NODES}");
    assert_eq!(stdout.matches(": withdrew example.com/dongle").count(), NODES - left, "{stdout}");
    let says = format!("stopped by a signal: {left} nodes are left; run prune again to withdraw the rest");
    assert!(stderr.contains(&says), "{stderr}");

    proxy.set(None);
    let rest = prune(&cluster, &ALL);
    assert_eq!(
        rest.stdout.lines().last(),
        Some(&*format!("{left} changes on {left} of {NODES} nodes")),
        "{}",
        rest.stderr
    );
}

#[test]
fn prune_zeros_removes_leftovers_of_device_plugins() {
    let cluster = Cluster::shared();
    cluster.control_plane.excuse("I1: an unlisted resource is changed", "--zeros removes what no ledger records");
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let recorded = json!({"example.com/key": {"quantity": "4", "rule": "key"}}).to_string();
    cluster.kubectl(&["annotate", "node", "node-2", &format!("{LEDGER}={recorded}")]);
    cluster.write_quantity("node-2", "example.com/key", "4");
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.write_quantity("node-1", "cpu", "0");
    cluster.write_quantity("node-1", "example.com/free", "0");
    let more = json!([{"op": "replace", "path": "/status/capacity/example.com~1free", "value": "2"}]);
    cluster.patch_status("node-1", "json", &more);

    let left = "node-1: has 0 example.com/dongle";
    assert_prints(
        &prune(&cluster, &["--rule", "nope"]),
        &[&format!("{left}, probably left by a device plugin"), "0 changes on 0 of 2 nodes"],
    );
    let output = prune(&cluster, &["--zeros"]);
    assert_prints(
        &output,
        &[left, "node-1: removed the 0 that was left of example.com/dongle", "1 change on 1 of 2 nodes"],
    );
    assert!(output.stdout.starts_with(left), "the zeros are listed first");
    assert_eq!(ledger(&cluster.node("node-2")), Some(&*recorded), "nothing else is removed");
    assert!(advertises(&cluster.node("node-2"), "example.com/key", "4"));
    let node = cluster.node("node-1");
    assert_eq!(quantity(&node, "capacity", DONGLE), None);
    assert_eq!(quantity(&node, "allocatable", DONGLE), None);
    assert_eq!(quantity(&node, "capacity", "cpu"), Some("0"));
    assert_eq!(quantity(&node, "allocatable", "example.com/free"), Some("0"));
}

/// Sets the time of everything that a manager has written on a node.
fn set_last_write(cluster: &Cluster, node: &str, manager: &str, time: &str) {
    let mut entries = cluster.get(&["node", node, "--show-managed-fields"])["metadata"]["managedFields"].clone();
    for entry in entries.as_array_mut().unwrap() {
        if entry["manager"] == manager {
            entry["time"] = json!(time);
        }
    }
    // The API server drops an update that changes nothing but times.
    let patch = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "add", "path": "/metadata/labels/dated", "value": ""},
    ]);
    let patch = patch.to_string();
    cluster.kubectl(&["patch", "node", node, "--type=json", "-p", &patch]);
}

/// What somebody left on some nodes, beside what is in use, lately written, or a rule's, while a controller leads.
#[test]
fn prune_resource_removes_only_what_nobody_keeps() {
    const SLOTS: &str = "example.com/slots";
    let cluster = Cluster::shared();
    cluster.control_plane.excuse("I1: an unlisted resource is changed", "--resource removes what no ledger records");
    cluster.create_nodes(["left", "used", "fresh", "ruled", "plugin", "none"], &json!({}));
    let map = json!({SLOTS: "4", DONGLE: "2"});
    for (node, manager, time) in [
        ("left", "curl", "2025-01-01T00:00:00Z"),
        ("used", "curl", "2025-01-01T00:00:00Z"),
        ("ruled", "curl", "2025-01-01T00:00:00Z"),
        ("fresh", "agent", ""),
        ("plugin", "kubelet", "2025-01-01T00:00:00Z"),
    ] {
        cluster.heartbeat(node, "kubelet");
        cluster.patch_status_as(manager, node, &json!({"capacity": map, "allocatable": map}));
        if !time.is_empty() {
            set_last_write(&cluster, node, manager, time);
        }
    }
    cluster.apply(&objects::bound_pod("runs", "used", SLOTS, "1").to_string());
    cluster.apply(&objects::pod("waits", SLOTS, "1").to_string());
    let controller = Controller::start(&cluster);
    let spec = json!({"resourceName": SLOTS, "quantity": 8, "nodeNames": ["ruled"], "nodeSelector": null});
    cluster.apply_rule("slots", &spec);
    cluster.wait_status("slots", "the conflict", |status| status["nodes"]["conflicted"] == 1);
    let before = cluster.node_patches();

    let output = prune(&cluster, &["--resource", SLOTS]);
    assert!(output.stderr.contains("there is no terminal to ask on: add --yes"), "{}", output.stderr);
    let output = prune(&cluster, &["--resource", SLOTS, "--dry-run"]);
    let lines: Vec<_> = output.stdout.lines().collect();
    let [has, removed, total] = &lines[..] else { panic!("{}{}", output.stdout, output.stderr) };
    assert!(has.starts_with("left: has 4 example.com/slots, last written by curl "), "{has}");
    assert_eq!(*removed, "left: removed 4 example.com/slots (dry run)");
    assert_eq!(*total, "1 value of example.com/slots on 6 nodes (dry run)");
    for note in [
        "stays on used: pods there request it (default/runs)",
        "stays on fresh: agent has changed it there or elsewhere ",
        "stays on ruled: rule slots declares it: to replace the value, set conflictPolicy: Overwrite",
        "stays on plugin: kubelet, which is the node's kubelet, has written it",
        "pods that wait for example.com/slots no longer fit on these nodes: default/waits",
    ] {
        assert!(output.stderr.contains(note), "{}\nlacks {note}", output.stderr);
    }
    assert_eq!(cluster.node_patches(), before, "a dry run writes nothing");

    let output = prune(&cluster, &["--resource", SLOTS, "--yes"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert_eq!(output.stdout.lines().nth(1), Some("left: removed 4 example.com/slots"));
    let left = "\nerror: values are left: 2 nodes whose value stays for now; run prune again\n";
    assert!(output.stderr.ends_with(left), "{}", output.stderr);
    assert_eq!(cluster.node_patches() - before, 1, "one patch for the one value");
    assert!(quantity(&cluster.node("left"), "capacity", SLOTS).is_none());
    for (node, resource, amount) in [
        ("left", DONGLE, "2"),
        ("used", SLOTS, "4"),
        ("fresh", SLOTS, "4"),
        ("ruled", SLOTS, "4"),
        ("plugin", SLOTS, "4"),
    ] {
        let object = cluster.node(node);
        let values = ["capacity", "allocatable"].map(|map| quantity(&object, map, resource));
        assert_eq!(values, [Some(amount); 2], "{resource} stays on {node}");
    }
    assert_prints(
        &prune(&cluster, &["--resource", SLOTS, "--yes", "--node", "left"]),
        &["0 values of example.com/slots on 1 node"],
    );
    controller.stop();
}

#[test]
fn prune_repair_ledger_removes_invalid_annotation() {
    let cluster = cluster_without_controller();
    let violation = "I1: a ledger that cannot be read is written";
    cluster.control_plane.excuse(violation, "--repair-ledger removes it, and what the program wrote");
    cluster.write_quantity("node-1", "example.com/foreign", "7");
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &format!("{LEDGER}=not json")]);
    let output = prune(&cluster, &ALL);
    assert_eq!(output.code, 1);
    let lines: Vec<_> = output.stderr.lines().collect();
    let [_, first, last] = &lines[..] else { panic!("{}", output.stderr) };
    assert!(first.starts_with("node-1: skipped: annotation noderesource.dev/advertised cannot be read"));
    let repair = "begin with: `node-resource-advertiser prune --repair-ledger --node node-1 --force --dry-run`";
    assert!(first.ends_with(repair), "{first}");
    assert!(last.ends_with("nodes that failed: 0; nodes whose annotation cannot be read: 1"), "{last}");
    assert_eq!(ledger(&cluster.node("node-1")), Some("not json"));
    assert!(is_withdrawn(&cluster.node("node-2")), "the other node is pruned");

    assert_prints(
        &prune(&cluster, &["--repair-ledger"]),
        &[
            "node-1: unreadable annotation: not json",
            "node-1: withdrew example.com/dongle (rule unknown), withdrew example.com/key (rule unknown)",
            "2 changes on 1 of 2 nodes",
        ],
    );
    let node = cluster.node("node-1");
    assert!(is_withdrawn(&node), "{node:#}");
    assert_eq!(quantity(&node, "capacity", "example.com/foreign"), Some("7"), "another field manager wrote it");
}

#[test]
fn prune_uses_the_cluster_and_user_of_its_flags() {
    let cluster = cluster_without_controller();
    let kubeconfig = cluster.control_plane.kubeconfig();
    let context = cluster.kubectl(&["config", "current-context"]);
    let args = ["prune", "--kubeconfig", kubeconfig.to_str().unwrap(), "--context", context.trim()];
    let nowhere = Path::new("/no/such/kubeconfig");
    let output = program::run(nowhere, &[&args[..], &["--all", "--dry-run"]].concat(), None);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let cluster_line = format!("cluster: context {}, https://", context.trim());
    assert!(output.stderr.starts_with(&cluster_line), "{}", output.stderr);

    let user = ["--all", "--dry-run", "--as", "nobody", "--as-group", "system:authenticated"];
    let output = program::run(nowhere, &[&args[..], &user].concat(), None);
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stderr.contains("User \"nobody\" cannot list resource"), "{}", output.stderr);
    assert!(output.stderr.lines().next().unwrap().ends_with(", as nobody"), "{}", output.stderr);
}
