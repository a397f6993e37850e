use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, LEDGER, advertises, amount, ledger};

const DONGLE: &str = "example.com/dongle";

/// What `prune` prints, what it complains of, and its exit code.
pub struct Answer {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

fn prune(cluster: &Cluster, args: &[&str]) -> Answer {
    prune_as(&cluster.control_plane.kubeconfig(), args)
}

/// Runs `prune` as the one whose kubeconfig it is.
pub fn prune_as(kubeconfig: &Path, args: &[&str]) -> Answer {
    let output = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"))
        .arg("prune")
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    Answer {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

impl Answer {
    /// It went well, and printed these lines, in whatever order.
    fn says(&self, lines: &[&str]) {
        let mut printed: Vec<_> = self.stdout.lines().collect();
        printed.sort_unstable();
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        assert_eq!((self.code, printed), (0, lines), "{}", self.stderr);
    }
}

/// Two nodes, each with what rules `dongle` and `key` declare, and no controller.
fn abandoned() -> Cluster {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let key = json!({"resourceName": "example.com/key", "deletionPolicy": "Retain"});
    cluster.apply_rule("key", &key);
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_ready("key", "2/2");
    controller.stop();
    cluster
}

fn bare(node: &Value) -> bool {
    ledger(node).is_none() && amount(node, "capacity", DONGLE).is_none()
}

#[test]
fn everything_is_withdrawn_and_what_was_to_be_retained_stays() {
    let cluster = abandoned();
    let before = cluster.node_patches();
    let does =
        "withdrew example.com/dongle (rule dongle), released example.com/key (rule key; retained)";
    prune(&cluster, &["--dry-run"]).says(&[
        &format!("node-1: {does} (dry run)"),
        &format!("node-2: {does} (dry run)"),
        "4 resources taken back on 2 of 2 nodes (dry run)",
    ]);
    assert_eq!(cluster.node_patches(), before, "a dry run writes nothing");

    prune(&cluster, &[]).says(&[
        &format!("node-1: {does}"),
        &format!("node-2: {does}"),
        "4 resources taken back on 2 of 2 nodes",
    ]);
    for name in ["node-1", "node-2"] {
        let node = cluster.node(name);
        assert!(bare(&node), "{node:#}");
        assert_eq!(amount(&node, "allocatable", "example.com/key"), Some("4"));
    }
    prune(&cluster, &[]).says(&["0 resources taken back on 0 of 2 nodes"]);
    assert_eq!(cluster.node_patches() - before, 2, "one patch a node");
}

#[test]
fn it_keeps_to_the_nodes_and_rules_that_are_named() {
    let cluster = abandoned();
    prune(&cluster, &["--node", "node-1", "--rule", "dongle"]).says(&[
        "node-1: withdrew example.com/dongle (rule dongle)",
        "1 resource taken back on 1 of 1 nodes",
    ]);
    assert!(ledger(&cluster.node("node-1")).unwrap().contains("example.com/key"));
    assert!(advertises(&cluster.node("node-2"), DONGLE, "4"));
    let answer = prune(&cluster, &["--node", "node-9"]);
    assert_eq!(answer.code, 1);
    assert_eq!(
        answer.stderr.trim(),
        "error: node node-9 cannot be read: nodes \"node-9\" not found"
    );
}

#[test]
fn beside_a_controller_it_refuses_or_takes_over() {
    let cluster = abandoned();
    let controller = Controller::start(&cluster);
    controller.wait_log("this process leads now");
    let answer = prune(&cluster, &[]);
    assert_eq!(answer.code, 1);
    assert!(answer.stderr.starts_with("error: a controller is at work"), "{}", answer.stderr);
    assert!(answer.stderr.contains("holds the lease default/node-resource-advertiser"));
    assert!(advertises(&cluster.node("node-1"), DONGLE, "4"));

    // Told to, it works beside it, and the controller sees to its rules.
    assert_eq!(prune(&cluster, &["--force"]).code, 0);
    cluster.wait_advertised("node-1", DONGLE, "4");

    let answer = prune(&cluster, &["--take-over"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    controller.wait_log("this process leads no longer");
    controller.wait_log("standing by holder=prune_");
    for name in ["node-1", "node-2"] {
        assert!(bare(&cluster.node(name)), "the controller has written again");
    }
    controller.stop();
}

#[test]
fn zeros_that_a_device_plugin_left_are_told_and_removed_when_asked() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    cluster.write_first_amount("node-1", DONGLE, "0");
    cluster.write_amount("node-1", "cpu", "0");
    cluster.write_amount("node-1", "example.com/free", "0");
    let more =
        json!([{"op": "replace", "path": "/status/capacity/example.com~1free", "value": "2"}]);
    cluster.write_status("node-1", &more);

    let left = "node-1: has 0 example.com/dongle";
    prune(&cluster, &[]).says(&[
        &format!("{left}, as a device plugin leaves behind; --zeros removes it"),
        "0 resources taken back on 0 of 2 nodes",
    ]);
    let answer = prune(&cluster, &["--zeros"]);
    answer.says(&[
        left,
        "node-1: removed the 0 that was left of example.com/dongle",
        "1 resource taken back on 1 of 2 nodes",
    ]);
    assert!(answer.stdout.starts_with(left), "they are listed first");
    let node = cluster.node("node-1");
    assert_eq!(amount(&node, "capacity", DONGLE), None);
    assert_eq!(amount(&node, "allocatable", DONGLE), None);
    assert_eq!(amount(&node, "capacity", "cpu"), Some("0"));
    assert_eq!(amount(&node, "allocatable", "example.com/free"), Some("0"));
}

#[test]
fn an_annotation_that_cannot_be_read_stays_until_it_is_to_be_repaired() {
    let cluster = abandoned();
    cluster.write_amount("node-1", "example.com/foreign", "7");
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &format!("{LEDGER}=not json")]);
    let answer = prune(&cluster, &[]);
    assert_eq!(answer.code, 1);
    let (first, last) = answer.stderr.trim().split_once('\n').unwrap();
    assert!(
        first.starts_with(
            "node-1: left alone: annotation noderesource.dev/advertised cannot be read"
        )
    );
    assert!(first.ends_with("--repair-ledger removes it"), "{first}");
    assert!(last.contains("0 nodes failed, and 1 were left alone"), "{last}");
    assert_eq!(ledger(&cluster.node("node-1")), Some("not json"));
    assert!(bare(&cluster.node("node-2")), "the others go on");

    prune(&cluster, &["--repair-ledger"]).says(&[
        "node-1: has an annotation that cannot be read: not json",
        "node-1: withdrew example.com/dongle (rule unknown), withdrew example.com/key (rule unknown)",
        "2 resources taken back on 1 of 2 nodes",
    ]);
    let node = cluster.node("node-1");
    assert!(bare(&node), "{node:#}");
    assert_eq!(amount(&node, "capacity", "example.com/foreign"), Some("7"), "it is not its own");
}
