//! A quantity that a rule lowers below what a running pod requests.
//!
//! Method: lower it under each shrinkPolicy, restart a real kubelet, and compare the pod's container
//! before and after. Only the restart as after a reboot is a race: see `repair_race`.

use harness::objects::{DONGLE, condition, ledger, pod, quantity};
use harness::{Cluster, ControlPlane, Controller, Kubelet};
use serde_json::{Value, json};

use crate::pod_fate::{Fate, TICK, fate_after, run_pod, start_kubelet, wait_rejected};
use crate::repair_race::RepairRace;

/// Runs a pod that holds node-1 at 3, because its rule is lowered to 2.
fn run_held_pod(cluster: &Cluster, pod: &str) {
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    run_pod(cluster, pod, "node-1");
    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    cluster.wait_advertised("node-1", DONGLE, "3");
}

#[test]
fn shrink_kills_running_pods_only_under_immediate() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    run_held_pod(&cluster, "held");
    let status = cluster.wait_status("dongle", "held", |status| status["nodes"]["held"] == 1);
    assert_eq!(condition(&status, "Ready"), ("False", "Held"));
    for _ in 0..3 {
        let fate = fate_after(&cluster, &mut kubelet, "held", Kubelet::restart);
        assert_eq!(fate, Fate::Survived, "{}\n{}", kubelet.log(), controller.log());
        cluster.wait_advertised("node-1", DONGLE, "3");
    }
    println!("under shrinkPolicy WhenFree a pod survived 3 of 3 restarts");

    // What the kubelet resets is repaired to the held value, not to the declared one.
    let mut race = RepairRace::start(&cluster);
    for pod in ["held", "held-again", "held-once-more"] {
        if pod != "held" {
            run_held_pod(&cluster, pod);
        }
        let fate = fate_after(&cluster, &mut kubelet, pod, Kubelet::restart_as_after_reboot);
        if fate == Fate::Survived {
            cluster.wait_advertised("node-1", DONGLE, "3");
        }
        let is_decided = race.record("node-1", fate);
        cluster.kubectl(&["delete", "pod", pod, "--now"]);
        if is_decided {
            break;
        }
    }
    race.finish(|| format!("{}\n{}", kubelet.log(), controller.log()));

    for pod in ["first", "second", "third"] {
        cluster.apply_rule("dongle", &json!({}));
        cluster.wait_advertised("node-1", DONGLE, "4");
        run_pod(&cluster, pod, "node-1");
        cluster.apply_rule("dongle", &json!({"quantity": 2, "shrinkPolicy": "Immediate"}));
        cluster.wait_advertised("node-1", DONGLE, "2");
        let fate = fate_after(&cluster, &mut kubelet, pod, Kubelet::restart);
        assert_eq!(fate, Fate::Killed, "{}", kubelet.log());
        wait_rejected(&cluster, pod, 2);
    }
    println!("under shrinkPolicy Immediate 0 of 3 pods survived a restart");
    controller.stop();
}

/// A rule that is deleted while a pod runs and another one waits, the controller killed, and the kubelet restarted.
#[test]
fn value_that_leaves_when_it_is_unused_kills_no_running_pod_and_takes_no_new_one() {
    let cluster = Cluster::start_with(ControlPlane::builder().scheduler());
    let mut controller = Controller::start(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    for round in 1..=10 {
        let pod = format!("pod-{round}");
        cluster.apply_rule("dongle", &json!({"deletionPolicy": "WhenUnused"}));
        cluster.wait_advertised("node-1", DONGLE, "4");
        run_pod(&cluster, &pod, "node-1");
        cluster.kubectl(&["delete", "ner", "dongle"]);
        cluster.wait_advertised("node-1", DONGLE, "3");
        let late = apply_unplaced(&cluster, round);
        controller.kill();
        let fate = fate_after(&cluster, &mut kubelet, &pod, Kubelet::restart);
        assert_eq!(fate, Fate::Survived, "{}", kubelet.log());
        controller = Controller::start(&cluster);
        // When the last pod ends, the scheduler may be faster than the controller.
        assert_eq!(cluster.get(&["pod", &late])["spec"]["nodeName"], Value::Null);
        cluster.kubectl(&["delete", "pod", &late, "--now"]);
        cluster.kubectl(&["delete", "pod", &pod, "--now"]);
        cluster.wait_for("the value to leave", &["node", "node-1"], |node| {
            ledger(node).is_none() && quantity(node, "allocatable", DONGLE).is_none()
        });
    }
    println!(
        "under deletionPolicy WhenUnused a pod survived 10 of 10 restarts after its rule was deleted, and 0 of 10 new pods \
         were placed"
    );
    controller.stop();
}

/// Applies a pod of one dongle that fits on the node but for the dongle, and returns its name when the scheduler has said
/// so.
fn apply_unplaced(cluster: &Cluster, round: u32) -> String {
    let name = format!("late-{round}");
    let mut pod = pod(&name, DONGLE, "1");
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    cluster.apply(&pod.to_string());
    cluster.wait_for("the scheduler to find no dongle", &["pod", &name], |pod| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let message = |it: &Value| it["message"].as_str().unwrap_or_default().to_owned();
        conditions
            .map(message)
            .any(|message| message.starts_with("0/1 nodes are available: 1 Insufficient example.com/dongle"))
    });
    name
}

/// A rule that is deleted and recreated with a lower quantity while a pod runs: an absent value is harmless, but
/// too low a value would kill the pod when its kubelet restarts.
#[test]
fn recreated_rule_with_less_kills_no_running_pod() {
    let cluster = Cluster::start();
    let controller = Controller::start(&cluster);
    let mut kubelet = start_kubelet(&cluster, "node-1", TICK);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    run_pod(&cluster, "runs-on", "node-1");
    for _ in 0..10 {
        cluster.kubectl(&["delete", "ner", "dongle"]);
        cluster.wait_for("the value to be withdrawn", &["node", "node-1"], |node| {
            ledger(node).is_none() && quantity(node, "allocatable", DONGLE).is_none()
        });
        cluster.apply_rule("dongle", &json!({"quantity": 2}));
        cluster.wait_advertised("node-1", DONGLE, "3");
        let fate = fate_after(&cluster, &mut kubelet, "runs-on", Kubelet::restart);
        assert_eq!(fate, Fate::Survived, "{}\n{}", kubelet.log(), controller.log());
    }
    println!("after a rule was recreated with less a pod survived 10 of 10 restarts");
    controller.stop();
}
