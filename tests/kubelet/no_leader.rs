//! Running pods across a reboot while no replica leads.
//!
//! Method: kill the leader of two controllers just as a real kubelet restarts after a reboot. The Lease expires after
//! 15 seconds, and the kubelet rejects pods after one second, so the standby has to repair. Once the pod's fate is known,
//! nothing waits for the Lease.

use harness::objects::DONGLE;
use harness::{Cluster, Controller};
use serde_json::json;

use crate::pod_fate::{Fate, TICK, fate_after, run_pod, start_kubelet};
use crate::repair_race::RepairRace;

/// Nodes that reboot, one after another.
const NODES: usize = 10;

fn start_controller(cluster: &Cluster, number: usize) -> Controller {
    Controller::start_with(cluster, &["--identity", &format!("replica-{number}")])
}

/// Releases the Lease that the killed leader still holds, as it would at its own end, so that the standby leads at once.
fn release_lease(cluster: &Cluster) {
    let released = json!({"spec": {"holderIdentity": ""}}).to_string();
    cluster.kubectl(&["patch", "lease", "node-resource-advertiser", "--type=merge", "--patch", &released]);
}

#[test]
fn pods_survive_reboot_while_the_leader_is_killed() {
    let cluster = Cluster::start();
    let mut leader = start_controller(&cluster, 0);
    leader.wait_log("this process is now the leader");
    cluster.apply_rule("dongle", &json!({}));
    let mut race = RepairRace::start(&cluster);
    let mut logs = String::new();
    for number in 1..=NODES {
        let standby = start_controller(&cluster, number);
        standby.wait_log("standing by");
        let node = format!("node-{number}");
        let mut kubelet = start_kubelet(&cluster, &node, TICK);
        cluster.wait_advertised(&node, DONGLE, "4");
        let pod = format!("pod-{number}");
        run_pod(&cluster, &pod, &node);
        let fate = fate_after(&cluster, &mut kubelet, &pod, |kubelet| {
            leader.kill();
            kubelet.restart_as_after_reboot()
        });
        cluster.wait_advertised(&node, DONGLE, "4");
        race.record(&node, fate);
        if fate == Fate::Killed {
            logs += &format!("{pod}:\n{}\n{}\n", kubelet.log(), standby.log());
        }
        release_lease(&cluster);
        standby.wait_log("this process is now the leader");
        leader = standby;
    }
    race.finish(|| logs);
    leader.stop();
}
