//! Rules of one author do not delay those of another.
//!
//! Method: install the chart's policies, let one author write a thousand rules and another one a single rule, and count
//! the patches that it takes until the single rule is advertised.

use harness::helm::NAMESPACE;
use harness::objects::{condition, rule};
use harness::{Cluster, ControlPlane, Controller};
use serde_json::json;

use crate::admission_policy::install;

const TEAM: &str = "z.example.com/team";
const LATE: &str = "z.example.com/late";

#[test]
fn thousand_rules_of_one_author_do_not_delay_another() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    cluster.wait_crds();
    cluster.create_nodes(["node-1"], &json!({}));
    // Neither the name of the rule nor that of the resource comes first.
    cluster.apply_rule("z-team", &json!({"resourceName": TEAM, "nodeNames": ["node-1"]}));
    let path = "/apis/noderesource.dev/v1alpha1/nodeextendedresources";
    for number in 0..1000 {
        let resource = format!("author.example.com/r{number:04}");
        let rule = rule(&format!("author-{number:04}"), &json!({"resourceName": resource})).to_string();
        let (code, body) = cluster.control_plane.send("POST", path, "application/json", &rule).unwrap();
        assert_eq!(code, 201, "{body}");
    }
    let before = cluster.node_patches();
    let args = ["--leader-elect-resource-namespace", NAMESPACE];
    let controller = Controller::start_unready(&cluster, &kubeconfig, &args);
    cluster.wait_advertised("node-1", TEAM, "4");
    // What does not fit is reported, and costs nothing.
    cluster.wait_status("author-0999", "LedgerFull", |status| condition(status, "Ready") == ("False", "LedgerFull"));
    cluster.wait_status("author-0000", "Ready", |status| condition(status, "Ready").0 == "True");
    let patches = cluster.node_patches() - before;
    assert!(patches < 40, "{patches} patches of two nodes");

    // The next place goes to the rule of the highest priority, however young.
    cluster.apply_rule("z-late", &json!({"resourceName": LATE, "nodeNames": ["node-1"], "priority": 1}));
    cluster.wait_status("z-late", "LedgerFull", |status| condition(status, "Ready") == ("False", "LedgerFull"));
    cluster.kubectl(&["delete", "ner", "author-0000"]);
    cluster.wait_advertised("node-1", LATE, "4");
    controller.stop();
}
