//! The chart of rules, which is installed after the controller's chart.
//!
//! Method: install, upgrade, roll back and uninstall rules with helm, and compare the nodes; then upgrade from a chart
//! that had rules itself, and expect a rejection.

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

/// A rule of an earlier version of the chart, which had rules itself.
#[test]
fn chart_upgrade_deletes_no_rule_of_an_earlier_version() {
    let cluster = Cluster::shared_without_crd();
    helm_chart(&cluster, "install", &["--create-namespace"]);
    cluster.wait_crds();
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-1"]}));
    let labels = ["app.kubernetes.io/name=node-resource-advertiser"];
    cluster.kubectl(&[&["label", "ner", "dongle"], &labels[..]].concat());
    let release = format!("meta.helm.sh/release-name={}", harness::helm::RELEASE);
    let namespace = format!("meta.helm.sh/release-namespace={NAMESPACE}");
    cluster.kubectl(&["annotate", "ner", "dongle", &release, &namespace]);

    let chart = harness::helm::chart();
    let upgrade = ["upgrade", harness::helm::RELEASE, chart.to_str().unwrap(), "--namespace", NAMESPACE];
    let output = helm(&cluster, &upgrade);
    let because = "the upgrade would delete it and withdraw what it declares";
    assert!(output.code != 0 && output.stderr.contains(because), "{output:?}");
    let output = helm(&cluster, &[&upgrade[..], &["--set=rules.dongle.quantity=4"]].concat());
    let because = "rules: this chart has no rules";
    let names_the_chart = output.stderr.contains("node-resource-advertiser-rules");
    assert!(output.code != 0 && output.stderr.contains(because) && names_the_chart, "{output:?}");

    // Follow the message.
    cluster.kubectl(&["annotate", "ner", "dongle", "helm.sh/resource-policy=keep"]);
    assert_eq!(helm(&cluster, &upgrade).code, 0);
    let output = helm_rules(&cluster, "install", &["--take-ownership", "--force-conflicts"]);
    assert_eq!(output.code, 0, "{output:?}");
    uninstall_rules(&cluster);
}
