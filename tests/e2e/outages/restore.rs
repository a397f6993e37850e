//! The cluster is restored from a backup while the controller runs.
//!
//! Method: restore etcd's data, or recreate rules like Velero, and compare the nodes with the restored rules.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use harness::objects::DONGLE;
use harness::{Cluster, Controller};
use serde_json::{Value, json};

use super::{create_nodes, reset, wait_converged};

const NODES: usize = 3;

/// Resource versions restart from those of the backup, so those that a watch requests are in the future.
#[test]
fn etcd_restored_from_a_backup_is_reconciled() {
    let mut cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "3/3");
    let backup = cluster.control_plane.dir().join("etcd-backup");
    cluster.control_plane.change_etcd_data(|data| copy(data, &backup)).unwrap();

    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_ready("dongle", "3/3");
    cluster.wait_ready("key", "3/3");
    for number in 0..50 {
        let label = format!("example.com/n={number}");
        cluster.kubectl(&["label", "nodes", "--all", "--overwrite", &label]);
    }
    let restore = |data: &Path| {
        std::fs::remove_dir_all(data)?;
        copy(&backup, data)
    };
    cluster.control_plane.change_etcd_data(restore).unwrap();

    // Its watches would be silent until the API server has caught up, so it exits. The kubelet restarts it.
    let log = controller.wait_failure();
    assert!(log.contains("to an earlier state"), "{log}");
    let controller = Controller::start(&cluster);
    reset(&cluster, "node-0");
    cluster.wait_advertised("node-0", DONGLE, "4");
    wait_converged(&cluster, NODES, Some("4"));
    cluster.apply_rule("dongle", &json!({"quantity": 6}));
    cluster.wait_ready("dongle", "3/3");
    wait_converged(&cluster, NODES, Some("6"));
    controller.stop();
}

/// Velero recreates rules with its own labels, another uid, and no status, here after the controller has started.
#[test]
fn rules_restored_by_velero_change_no_node() {
    let cluster = Cluster::shared();
    create_nodes(&cluster, NODES);
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "3/3");
    let versions = |cluster: &Cluster| -> Vec<Value> {
        cluster.nodes().iter().map(|node| node["metadata"]["resourceVersion"].clone()).collect()
    };
    let before = versions(&cluster);
    let mut backup = cluster.get(&["ner", "dongle"]);
    controller.stop();
    cluster.kubectl(&["delete", "crd", "nodeextendedresources.noderesource.dev"]);

    cluster.install_crd();
    let controller = Controller::start_with(&cluster, &["--mass-withdrawal-delay", "1h"]);
    controller.wait_log("1 of the 1 rules named in node annotations are missing");
    backup.as_object_mut().unwrap().remove("status");
    backup["metadata"] = json!({
        "name": "dongle",
        "labels": {"velero.io/backup-name": "daily", "velero.io/restore-name": "daily-1"},
    });
    cluster.apply(&backup.to_string());
    cluster.wait_ready("dongle", "3/3");
    wait_converged(&cluster, NODES, Some("4"));
    assert!(before == versions(&cluster), "a node was written to");
    controller.stop();
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").args([from, to]).status()?;
    ensure!(status.success(), "cannot copy {}", from.display());
    Ok(())
}
