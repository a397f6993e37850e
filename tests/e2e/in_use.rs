use harness::ControlPlane;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, amount, condition};
use crate::faults::{grant, rights};
use crate::story::{pod, wait_running};

const DONGLE: &str = "example.com/dongle";

fn cluster() -> Cluster {
    Cluster::with(ControlPlane::builder().scheduler().kubelets(1))
}

fn pod_lists(cluster: &Cluster) -> u64 {
    cluster.control_plane.request_count("LIST", "pods", "").unwrap()
}

fn problem(status: &Value) -> &str {
    status["problems"][0]["message"].as_str().unwrap_or_default()
}

#[test]
fn a_value_that_pods_use_is_lowered_as_they_end() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    for (name, dongles) in [("three", "3"), ("one", "1")] {
        cluster.apply(&pod(name, DONGLE, dongles));
        wait_running(&cluster, name);
    }

    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    let held = |at: u32| {
        move |status: &Value| {
            status["nodes"]["held"] == 1
                && problem(status) == format!("at {at}, which pods on the node request")
        }
    };
    let status = cluster.wait_status("dongle", "held at 4", held(4));
    assert_eq!(condition(&status, "Ready"), ("False", "Held"));
    assert_eq!(condition(&status, "Reconciling"), ("True", "Held"));
    cluster.wait_advertised("node-1", DONGLE, "4");

    cluster.kubectl(&["delete", "pod", "one", "--force", "--grace-period=0"]);
    cluster.wait_status("dongle", "held at 3", held(3));
    cluster.wait_advertised("node-1", DONGLE, "3");
    controller.wait_log("lowered example.com/dongle to 3, which pods use (rule dongle declares 2)");

    // What is held is kept up like what is declared, and by a controller that starts with it too.
    controller.stop();
    cluster.write_amount("node-1", DONGLE, "0");
    let controller = Controller::start(&cluster);
    cluster.wait_advertised("node-1", DONGLE, "3");

    cluster.kubectl(&["delete", "pod", "three", "--force", "--grace-period=0"]);
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_advertised("node-1", DONGLE, "2");
    // Nothing is to be lowered any more, and nobody looks.
    let lists = pod_lists(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_advertised("node-1", DONGLE, "5");
    cluster.wait_ready("dongle", "1/1");
    assert_eq!(pod_lists(&cluster), lists, "raising needs no look at pods");
    controller.stop();
}

#[test]
fn a_value_is_lowered_at_once_where_the_rule_says_so_and_removed_in_any_case() {
    let cluster = cluster();
    let controller = Controller::start(&cluster);
    for name in ["dongle", "key"] {
        let resource = format!("example.com/{name}");
        cluster.apply_rule(name, &json!({"resourceName": resource}));
        cluster.wait_ready(name, "1/1");
        cluster.apply(&pod(name, &resource, "3"));
        wait_running(&cluster, name);
    }
    cluster.apply_rule("dongle", &json!({"quantity": 2, "shrinkPolicy": "Immediate"}));
    cluster.wait_advertised("node-1", DONGLE, "2");
    cluster.wait_ready("dongle", "1/1");
    cluster.kubectl(&["delete", "ner", "key"]);
    cluster.wait_for("example.com/key to be withdrawn", &["node", "node-1"], |node| {
        amount(node, "capacity", "example.com/key").is_none()
    });
    wait_running(&cluster, "key");
    controller.stop();
}

#[test]
fn without_the_right_to_list_pods_nothing_is_lowered_and_the_rule_says_so() {
    let cluster = Cluster::with(ControlPlane::builder().user("limited"));
    cluster.create_nodes(["node-1".to_owned(), "node-2".to_owned()], &json!({}));
    let without_pods: Vec<_> =
        rights().into_iter().filter(|right| right["resources"] != json!(["pods"])).collect();
    grant(&cluster, &json!(without_pods));
    let kubeconfig = cluster.control_plane.kubeconfig_for("limited");
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    let status = cluster.wait_status("dongle", "that pods cannot be listed", |status| {
        condition(status, "Ready") == ("False", "PodsUnreadable") && status["nodes"]["held"] == 2
    });
    let says = problem(&status);
    assert!(says.starts_with("stays at 4: no right to list pods"), "{says}");
    assert!(says.contains("grant the verb list on pods"), "{says}");
    controller.wait_log("nothing is lowered where pods cannot be seen");
    cluster.wait_advertised("node-1", DONGLE, "4");

    // Everything else goes on.
    cluster.write_amount("node-1", DONGLE, "0");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_ready("key", "2/2");

    grant(&cluster, &json!(rights()));
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_advertised("node-1", DONGLE, "2");
    controller.stop();
}
