//! What the controller reports about the policy and about kubelet starts.
//!
//! Method: create, break and delete the policy while the controller runs, reset values like a kubelet, and compare
//! metrics and `/readyz`.

use harness::objects::{DONGLE, LEDGER};
use harness::protection::DONGLE_LEDGER;
use harness::{Cluster, Controller, protection, wait_until};
use serde_json::json;

/// Waits for a metrics line with this ending; `[12]` stands for either digit.
pub(crate) fn wait_metric(controller: &Controller, line: &str) {
    let line = format!("node_resource_advertiser_{line}");
    let what = format!("the metric {line}");
    let lines = ["1", "2"].map(|number| line.replace("[12]", number));
    let has_line = || {
        let (_, metrics) = controller.get("/metrics")?;
        Ok(metrics.lines().any(|other| lines.iter().any(|line| line == other)).then_some(()))
    };
    wait_until(&what, has_line).unwrap_or_else(|error| panic!("{error:#}\n{}", controller.log()));
}

pub(super) fn boot(cluster: &Cluster, boot: &str) {
    let patch = json!({"status": {"nodeInfo": {"bootID": boot}}});
    let output = protection::patch_as_kubelet(cluster, "node-1", &patch);
    assert_eq!(output.code, 0, "{output:?}");
}

#[test]
fn presence_of_the_policy_is_reported() {
    let cluster = Cluster::shared();
    protection::allow_kubelets_to_read_status(&cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.heartbeat("node-1", "kubelet");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    wait_metric(&controller, r#"protection{state="absent"} 1"#);
    controller.wait_log("protection: there is no policy");
    let (code, body) = controller.get("/readyz?verbose").unwrap();
    assert!(code == 200 && body.contains("protection: there is no policy"), "{code} {body}");

    // A reset is admitted, and repaired.
    boot(&cluster, "first");
    let output = protection::reset(&cluster, "node-1", DONGLE);
    assert_eq!(output.code, 0, "{output:?}");
    cluster.wait_advertised("node-1", DONGLE, "4");
    boot(&cluster, "second");
    wait_metric(&controller, r#"kubelet_starts_total{values="reset"} 1"#);

    protection::apply(&cluster);
    wait_metric(&controller, r#"protection{state="present"} 1"#);
    wait_metric(&controller, r#"protection{state="absent"} 0"#);
    let (_, body) = controller.get("/readyz?verbose").unwrap();
    assert!(body.contains("node-resource-advertiser-protect keeps recorded values"), "{body}");
    // The policy takes effect with a delay. A boot after a reset within that delay counts as the same start.
    protection::wait_effect(&cluster, "node-1", true);
    boot(&cluster, "third");
    boot(&cluster, "fourth");
    wait_metric(&controller, r#"kubelet_starts_total{values="kept"} [12]"#);

    let binding = "mutatingadmissionpolicybinding";
    cluster.kubectl(&["delete", binding, "node-resource-advertiser-protect"]);
    wait_metric(&controller, r#"protection{state="absent"} 1"#);
    controller.wait_log("protection: the policy has no binding");
    controller.stop();
}

/// If the API server cannot evaluate the policy, it admits kubelets' writes, and the controller repairs them.
#[test]
fn policy_that_fails_admits_kubelets_and_is_reported() {
    let cluster = Cluster::shared();
    let errors_before = errors_of_policies(&cluster);
    protection::install(&cluster);
    let broken = json!([{
        "op": "replace", "path": "/spec/variables/4/expression",
        "value": "[oldObject.metadata.annotations['nosuch']]",
    }]);
    let policy = ["mutatingadmissionpolicy", "node-resource-advertiser-protect"];
    let patch = ["--type=json", "-p", &broken.to_string()];
    cluster.kubectl(&[&["patch"], &policy[..], &patch].concat());
    cluster.create_nodes(["node-1"], &json!({}));
    let ledger = format!("{LEDGER}={DONGLE_LEDGER}");
    cluster.kubectl(&["annotate", "node", "node-1", &ledger]);
    protection::wait_effect(&cluster, "node-1", false);

    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_ready("dongle", "1/1");
    wait_metric(&controller, r#"protection{state="present"} 1"#);
    let heartbeat = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    }]}});
    let output = protection::patch_as_kubelet(&cluster, "node-1", &heartbeat);
    assert_eq!(output.code, 0, "{output:?}");
    let output = protection::reset(&cluster, "node-1", DONGLE);
    assert_eq!(output.code, 0, "{output:?}");
    controller.wait_log("reset recorded values despite the policy");
    cluster.wait_advertised("node-1", DONGLE, "4");
    wait_metric(&controller, r#"kubelet_starts_total{values="reset"} 1"#);
    assert_ne!(errors_of_policies(&cluster), errors_before, "the API server counts no error of the policy");
    controller.stop();
}

/// Returns the API server's counts of requests for which it could not evaluate a policy.
fn errors_of_policies(cluster: &Cluster) -> Vec<String> {
    let metrics = cluster.control_plane.get("/metrics").unwrap();
    let series = "apiserver_mutating_admission_policy_check_total";
    let errors = metrics.lines().filter(|line| line.starts_with(series) && !line.contains("error_type=\"no_error\""));
    errors.map(str::to_owned).collect()
}
