use harness::Kubelet;
use serde_json::json;

use crate::cluster::{Cluster, Controller};
use crate::machine::{DONGLE, Fate, TICK, fate_after, mark, run_pod, start_kubelet, wait_told};

/// What the kubelet logs when it sets an extended resource to 0.
const ZEROED: &str = "Zero out resource capacity in existing node";

/// How long a node is away. A kubelet whose node still counts as Ready looks only every five seconds
/// whether its runtime is ready; one whose node does not, all the time.
#[derive(Clone, Copy, Debug)]
enum Reboot {
    Quick,
    Slow,
}

/// Reboots a node, and tells what becomes of a pod there.
fn fate_after_reboot(
    cluster: &Cluster,
    kubelet: &mut Kubelet,
    node: &str,
    pod: &str,
    reboot: Reboot,
) -> Fate {
    let fate = fate_after(cluster, kubelet, pod, |kubelet| {
        if let Reboot::Slow = reboot {
            mark(cluster, &["node", node], "Unknown");
        }
        kubelet.restart_as_after_reboot()
    });
    assert!(kubelet.log().contains(ZEROED), "{}", kubelet.log());
    fate
}

#[test]
fn with_the_controller_pods_outlive_a_reboot() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let mut survived = 0;
    for number in 1..=3 {
        let (node, pod) = (format!("node-{number}"), format!("pod-{number}"));
        let mut kubelet = start_kubelet(&cluster, &node, TICK);
        cluster.wait_advertised(&node, DONGLE, "4");
        run_pod(&cluster, &pod, &node);
        // A fifth repair on the same node in so short a time would begin a contest.
        for reboot in [Reboot::Slow, Reboot::Slow, Reboot::Slow, Reboot::Quick] {
            let fate = fate_after_reboot(&cluster, &mut kubelet, &node, &pod, reboot);
            assert_eq!(fate, Fate::Survived, "{reboot:?}\n{}\n{}", kubelet.log(), controller.log());
            cluster.wait_advertised(&node, DONGLE, "4");
            survived += 1;
        }
    }
    println!("with the controller {survived} of 12 pods have outlived a reboot");
    controller.stop();
}

#[test]
fn without_the_controller_no_pod_outlives_a_reboot() {
    let cluster = Cluster::start();
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    for (number, reboot) in [Reboot::Slow, Reboot::Slow, Reboot::Quick].into_iter().enumerate() {
        cluster.write_amount("node-1", DONGLE, "4");
        let pod = format!("pod-{number}");
        run_pod(&cluster, &pod, "node-1");
        let fate = fate_after_reboot(&cluster, &mut kubelet, "node-1", &pod, reboot);
        assert_eq!(fate, Fate::Killed, "{reboot:?}\n{}", kubelet.log());
        wait_told(&cluster, &pod, 0);
    }
    println!("without the controller 0 of 3 pods have outlived a reboot");
}
