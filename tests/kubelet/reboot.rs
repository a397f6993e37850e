//! Running pods across a reboot of their node.
//!
//! Method: restart a real kubelet as after a reboot, when it resets extended resources to 0, and
//! compare the pod's container before and after. The controller's repair races with the kubelet's
//! rejection of the pod: see `repair_race`.

use harness::objects::DONGLE;
use harness::{Cluster, Controller, Kubelet};
use serde_json::json;

use crate::pod_fate::{Fate, TICK, fate_after, run_pod, start_kubelet, wait_rejected, write_ready};
use crate::repair_race::RepairRace;

/// What the kubelet logs when it sets an extended resource to 0.
pub const RESET: &str = "Zero out resource capacity in existing node";

/// How long a node is down. A kubelet checks its runtime every five seconds while its node still counts
/// as Ready, and continuously otherwise.
#[derive(Clone, Copy, Debug)]
pub enum Reboot {
    Quick,
    Slow,
}

/// Reboots a node, and returns the fate of a pod there.
pub fn fate_after_reboot(cluster: &Cluster, kubelet: &mut Kubelet, node: &str, pod: &str, reboot: Reboot) -> Fate {
    let fate = fate_after(cluster, kubelet, pod, |kubelet| {
        if let Reboot::Slow = reboot {
            write_ready(cluster, &["node", node], "Unknown");
        }
        kubelet.restart_as_after_reboot()
    });
    assert!(kubelet.log().contains(RESET), "{}", kubelet.log());
    fate
}

#[test]
fn pods_survive_reboot_with_the_controller() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let mut race = RepairRace::start(&cluster);
    let mut logs = String::new();
    for number in 1..=3 {
        let node = format!("node-{number}");
        let mut kubelet = start_kubelet(&cluster, &node, TICK);
        cluster.wait_advertised(&node, DONGLE, "4");
        let mut pod = format!("pod-{number}");
        run_pod(&cluster, &pod, &node);
        // A fifth repair on the same node in so short a time would count as a conflict loop.
        for reboot in [Reboot::Slow, Reboot::Slow, Reboot::Slow, Reboot::Quick] {
            let fate = fate_after_reboot(&cluster, &mut kubelet, &node, &pod, reboot);
            cluster.wait_advertised(&node, DONGLE, "4");
            race.record(&node, fate);
            if fate == Fate::Killed {
                logs += &format!("{pod}, {reboot:?} reboot:\n{}\n", kubelet.log());
                pod += "-again";
                run_pod(&cluster, &pod, &node);
            }
        }
    }
    race.finish(|| format!("{logs}{}", controller.log()));
    controller.stop();
}

#[test]
fn pods_are_rejected_after_reboot_without_the_controller() {
    let cluster = Cluster::start();
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    for (number, reboot) in [Reboot::Slow, Reboot::Slow, Reboot::Quick].into_iter().enumerate() {
        cluster.write_quantity("node-1", DONGLE, "4");
        let pod = format!("pod-{number}");
        run_pod(&cluster, &pod, "node-1");
        let fate = fate_after_reboot(&cluster, &mut kubelet, "node-1", &pod, reboot);
        assert_eq!(fate, Fate::Killed, "{reboot:?}\n{}", kubelet.log());
        wait_rejected(&cluster, &pod, 0);
    }
    println!("without the controller 0 of 3 pods survived a reboot");
}
