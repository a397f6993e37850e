//! The endpoints for Prometheus and the kubelet: `/metrics`, `/livez` and `/readyz`.
//!
//! Method: cause a repair, a conflict and a deletion, and wait for the exact values of the series; request
//! `/livez` again while the API server is down.

use harness::objects::DONGLE;
use harness::{Cluster, Controller, wait_until};
use serde_json::json;

/// Waits until every one of these series has this value.
fn wait_metrics(controller: &Controller, expected: &[(&str, u32)]) {
    let mut last = String::new();
    wait_until(&format!("the metrics {expected:?}"), || {
        last = controller.get("/metrics")?.1;
        let has = |(series, value): &(&str, u32)| {
            let line = format!("node_resource_advertiser_{series} {value}");
            last.lines().any(|other| other == line)
        };
        Ok(expected.iter().all(has).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{last}"));
}

#[test]
fn metrics_count_repairs_patches_and_states() {
    let cluster = Cluster::shared();
    cluster.create_nodes((1..=3).map(|number| format!("node-{number}")), &json!({}));
    cluster.write_quantity("node-3", DONGLE, "8");
    let controller = Controller::start(&cluster);
    let version = env!("CARGO_PKG_VERSION");
    wait_metrics(&controller, &[("leader", 1), (&format!("build_info{{version=\"{version}\"}}"), 1)]);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_ready("key", "3/3");
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.wait_advertised("node-1", DONGLE, "4");
    wait_metrics(
        &controller,
        &[
            ("repairs_total", 1),
            ("nodes{state=\"advertised\"}", 5),
            ("nodes{state=\"conflicted\"}", 1),
            ("nodes{state=\"failed\"}", 0),
            ("rules{state=\"ready\"}", 1),
            ("rules{state=\"not_ready\"}", 1),
            ("rules_without_nodes", 0),
            ("patches_total{result=\"failed\"}", 0),
        ],
    );
    cluster.apply_rule("typo", &json!({"nodeNames": ["node-l"]}));
    wait_metrics(&controller, &[("rules_without_nodes", 1), ("rules{state=\"ready\"}", 2)]);
    cluster.kubectl(&["delete", "ner", "typo"]);
    wait_metrics(&controller, &[("rules_without_nodes", 0)]);
    assert_eq!(controller.get("/livez").unwrap(), (200, "alive\n".to_owned()));
    let (_, text) = controller.get("/metrics").unwrap();
    assert!(!text.contains("node-1"), "no series for a node:\n{text}");
    let of_rules: Vec<_> = text.lines().filter(|line| line.contains("dongle") || line.contains("rule=")).collect();
    let expected =
        [("advertised", "dongle", 8), ("advertised", "key", 12), ("requested", "dongle", 0), ("requested", "key", 0)];
    let expected = expected.map(|(name, rule, value)| {
        format!("node_resource_advertiser_{name}{{resource=\"example.com/{rule}\",rule=\"{rule}\"}} {value}.0")
    });
    assert_eq!(of_rules, expected, "two series for a rule");
    let value = |name: &str| -> u64 {
        let prefix = format!("node_resource_advertiser_{name} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().parse().unwrap()
    };
    let timed = value("event_to_patch_duration_seconds_count");
    let patched = value("patches_total{result=\"patched\"}");
    assert!(timed > 0 && timed < patched, "all but those of rollouts: {timed} of {patched}");

    // A standby is live too.
    let standby = Controller::start(&cluster);
    wait_metrics(&standby, &[("leader", 0)]);
    assert_eq!(standby.get("/livez").unwrap(), (200, "alive\n".to_owned()));
    standby.stop();
    cluster.kubectl(&["delete", "ner", "dongle", "key"]);
    wait_metrics(&controller, &[("nodes{state=\"advertised\"}", 0), ("rules{state=\"ready\"}", 0)]);
    controller.stop();
}

#[test]
fn livez_is_ok_while_apiserver_is_down() {
    let mut cluster = Cluster::shared();
    let controller = Controller::start(&cluster);
    cluster.control_plane.kill_apiserver().unwrap();
    controller.wait_log("cannot be watched, retrying");
    assert_eq!(controller.get("/livez").unwrap(), (200, "alive\n".to_owned()));
    let (code, _) = controller.get("/readyz").unwrap();
    assert_eq!(code, 200, "its caches are still valid");
    controller.stop();
}
