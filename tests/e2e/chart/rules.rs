//! The chart of rules, which is installed after the controller's chart.
//!
//! Method: install, upgrade, roll back and uninstall rules with helm, and compare the nodes.

use harness::helm::{NAMESPACE, helm, helm_chart, rules_chart};
use harness::{Cluster, Output};
use serde_json::json;

const FOUR_DONGLES: [&str; 3] = [
    "--set=rules.dongle.resourceName=example.com/dongle",
    "--set=rules.dongle.nodeNames={node-1}",
    "--set=rules.dongle.quantity=4",
];

fn helm_rules(cluster: &Cluster, command: &str, args: &[&str]) -> Output {
    let chart = rules_chart();
    let fixed = [command, "rules", chart.to_str().unwrap(), "--namespace", NAMESPACE];
    helm(cluster, &[&fixed[..], &FOUR_DONGLES, args].concat())
}

/// Installs a rule of four dongles on node-1.
pub fn install_rules(cluster: &Cluster) {
    let output = helm_rules(cluster, "install", &[]);
    assert_eq!(output.code, 0, "{output:?}");
}

/// Uninstalls it.
pub fn uninstall_rules(cluster: &Cluster) {
    let output = helm(cluster, &["uninstall", "rules", "--namespace", NAMESPACE]);
    assert_eq!(output.code, 0, "{output:?}");
}

#[test]
fn chart_of_rules_follows_the_controller() {
    let cluster = Cluster::shared_without_crd();
    let output = helm_rules(&cluster, "install", &["--create-namespace"]);
    let because = "no matches for kind \"NodeExtendedResource\"";
    assert!(output.code != 0 && output.stderr.contains(because), "{output:?}");

    helm_chart(&cluster, "install", &["--create-namespace"]);
    install_rules(&cluster);
    let output = helm_rules(&cluster, "upgrade", &["--set=rules.dongle.quantity=5"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(cluster.get(&["ner", "dongle"])["spec"]["quantity"], 5);
    let output = helm_rules(&cluster, "upgrade", &["--set=rules.dongle.quantity=0"]);
    let because = "at '/rules/dongle/quantity': minimum: got 0, want 1";
    assert!(output.code != 0 && output.stderr.contains(because), "{output:?}");

    // A rollback changes the rule, and does not recreate it.
    let uid = cluster.get(&["ner", "dongle"])["metadata"]["uid"].clone();
    let output = helm(&cluster, &["rollback", "rules", "1", "--namespace", NAMESPACE]);
    assert_eq!(output.code, 0, "{output:?}");
    let rule = cluster.get(&["ner", "dongle"]);
    assert_eq!((&rule["metadata"]["uid"], &rule["spec"]["quantity"]), (&uid, &json!(4)));

    uninstall_rules(&cluster);
    assert_eq!(cluster.get(&["ner"])["items"], json!([]));
}
