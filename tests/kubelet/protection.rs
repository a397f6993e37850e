//! Running pods across the resets of a real kubelet, with the policy that keeps what the ledger lists.
//!
//! Method: no controller runs. A node's ledger lists one of two resources; restart the kubelet as after a
//! reboot, which resets both, and compare the pod's container and both resources before and after.

use harness::objects::{DONGLE, LEDGER, quantity};
use harness::protection::{self, DONGLE_LEDGER};
use harness::{Cluster, Kubelet, wait_until};
use serde_json::json;

use crate::pod_fate::{FAST_TICK, Fate, TICK, fate_after, run_pod, start_kubelet, wait_rejected};
use crate::reboot::{Reboot, fate_after_reboot};

const UNLISTED: &str = "example.com/unlisted";

/// Writes what the controller would write, and an unlisted resource.
fn advertise(cluster: &Cluster) {
    let map = json!({DONGLE: "4", UNLISTED: "4"});
    let annotations = json!({LEDGER: DONGLE_LEDGER});
    cluster.patch_status(
        "node-1",
        "merge",
        &json!({
            "metadata": {"annotations": annotations},
            "status": {"capacity": map, "allocatable": map},
        }),
    );
}

/// Returns both values of a resource on the node.
fn values(cluster: &Cluster, resource: &str) -> [Option<String>; 2] {
    let node = cluster.node("node-1");
    ["capacity", "allocatable"].map(|map| quantity(&node, map, resource).map(str::to_owned))
}

fn both(value: &str) -> [Option<String>; 2] {
    [Some(value.to_owned()), Some(value.to_owned())]
}

#[test]
fn pods_survive_reboots_with_the_policy_and_no_controller() {
    let cluster = Cluster::start();
    protection::install(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    advertise(&cluster);
    run_pod(&cluster, "pod", "node-1");
    for number in 0..20 {
        advertise(&cluster);
        let reboot = if number % 4 == 3 { Reboot::Quick } else { Reboot::Slow };
        let fate = fate_after_reboot(&cluster, &mut kubelet, "node-1", "pod", reboot);
        assert_eq!(fate, Fate::Survived, "reboot {number}, {reboot:?}\n{}", kubelet.log());
        assert_eq!(values(&cluster, DONGLE), both("4"), "reboot {number}");
        assert_eq!(values(&cluster, UNLISTED), both("0"), "reboot {number}");
    }
    println!("with the policy and no controller a pod survived 20 of 20 reboots");
}

/// A kubelet that resets at every start, not only after a reboot, as kubernetes/kubernetes#137335 proposes:
/// its write, followed by an ordinary restart.
#[test]
fn pods_survive_resets_at_every_restart_only_with_the_policy() {
    let cluster = Cluster::start();
    protection::allow_kubelets_to_read_status(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    let mut restart = |pod: &str| {
        fate_after(&cluster, &mut kubelet, pod, |kubelet| {
            let output = protection::reset(&cluster, "node-1", DONGLE);
            anyhow::ensure!(output.code == 0, "{output:?}");
            kubelet.restart()
        })
    };
    for number in 0..3 {
        advertise(&cluster);
        let pod = format!("pod-{number}");
        run_pod(&cluster, &pod, "node-1");
        assert_eq!(restart(&pod), Fate::Killed);
        wait_rejected(&cluster, &pod, 0);
    }
    protection::install(&cluster);
    advertise(&cluster);
    run_pod(&cluster, "pod", "node-1");
    for number in 0..10 {
        assert_eq!(restart("pod"), Fate::Survived, "restart {number}");
        assert_eq!(values(&cluster, DONGLE), both("4"), "restart {number}");
    }
    println!("where every restart resets, 0 of 3 pods survived, and with the policy 10 of 10");
}

/// A device plugin's reports are admitted, although the ledger lists its resource.
#[test]
fn device_plugin_reports_pass_the_policy() {
    let cluster = Cluster::start();
    protection::install(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", FAST_TICK);
    advertise(&cluster);
    let wait = |capacity: &str, allocatable: &str| {
        let expected = [capacity, allocatable].map(|value| Some(value.to_owned()));
        let what = format!("node-1 to have {capacity}/{allocatable} dongles");
        wait_until(&what, || Ok((values(&cluster, DONGLE) == expected).then_some(()))).unwrap();
    };
    let mut plugin = kubelet.device_plugin(DONGLE, 2, 0).unwrap();
    wait("2", "2");
    plugin.set_devices(2, 2).unwrap();
    wait("2", "0");
    plugin.set_devices(2, 0).unwrap();
    wait("2", "2");
    plugin.set_devices(0, 0).unwrap();
    wait("0", "0");
    plugin.set_devices(3, 0).unwrap();
    wait("3", "3");
    plugin.kill().unwrap();
    wait("3", "0");
    Kubelet::restart(&mut kubelet).unwrap();
    wait("0", "0");
}
