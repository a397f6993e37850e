use harness::Kubelet;
use serde_json::json;

use crate::cluster::{Cluster, Controller, condition};
use crate::machine::{DONGLE, Fate, TICK, fate_after, run_pod, start_kubelet, wait_told};

#[test]
fn a_lowered_value_costs_a_running_pod_its_life_only_where_the_rule_says_so() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    run_pod(&cluster, "held", "node-1");
    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    cluster.wait_advertised("node-1", DONGLE, "3");
    let status = cluster.wait_status("dongle", "held", |status| status["nodes"]["held"] == 1);
    assert_eq!(condition(&status, "Ready"), ("False", "Held"));
    let restarts: [fn(&mut Kubelet) -> anyhow::Result<()>; 4] = [
        Kubelet::restart,
        Kubelet::restart,
        Kubelet::restart,
        // What the kubelet sets to 0 goes back to what is held, not to what is declared.
        Kubelet::restart_as_after_reboot,
    ];
    for restart in restarts {
        let fate = fate_after(&cluster, &mut kubelet, "held", restart);
        assert_eq!(fate, Fate::Survived, "{}\n{}", kubelet.log(), controller.log());
        cluster.wait_advertised("node-1", DONGLE, "3");
    }
    println!("under shrinkPolicy WhenFree a pod has outlived 4 of 4 restarts");
    cluster.kubectl(&["delete", "pod", "held", "--now"]);

    for pod in ["first", "second", "third"] {
        cluster.apply_rule("dongle", &json!({}));
        cluster.wait_advertised("node-1", DONGLE, "4");
        run_pod(&cluster, pod, "node-1");
        cluster.apply_rule("dongle", &json!({"quantity": 2, "shrinkPolicy": "Immediate"}));
        cluster.wait_advertised("node-1", DONGLE, "2");
        let fate = fate_after(&cluster, &mut kubelet, pod, Kubelet::restart);
        assert_eq!(fate, Fate::Killed, "{}", kubelet.log());
        wait_told(&cluster, pod, 2);
    }
    println!("under shrinkPolicy Immediate 0 of 3 pods have outlived a restart");
    controller.stop();
}
