//! `plan`, compared with what the controller then does.
//!
//! Method: put nodes into every state, compare the table that `plan` prints, then start the controller
//! and check that each node matches the result of its planned patch.

use std::collections::BTreeMap;
use std::path::Path;

use harness::objects::{DONGLE, LEDGER, bound_pod, ledger, rule};
use harness::{Cluster, Controller, Output};
use serde_json::{Value, json};
use simulator::json_patch;

use crate::support::{permissions, program};

const KEY: &str = "example.com/key";
const SLOT: &str = "example.com/slot";

/// Runs `plan` with rules on standard input, if there are any.
fn plan(kubeconfig: &Path, rules: &[Value], args: &[&str]) -> Output {
    let args = [&["plan"], args].concat();
    if rules.is_empty() {
        return program::run(kubeconfig, &args, None);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": rules});
    program::run(kubeconfig, &[&args[..], &["-f", "-"]].concat(), Some(&list.to_string()))
}

/// Returns what `plan -o json` prints.
fn plan_json(kubeconfig: &Path, rules: &[Value], args: &[&str]) -> Value {
    let output = plan(kubeconfig, rules, &[&["-o", "json"], args].concat());
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stderr))
}

/// Checks that the only output is an error of one line.
fn assert_error(output: &Output, message: &str) {
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{}", output.stderr);
    let errors: Vec<_> = output.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{}", output.stderr);
    assert!(errors[0].contains(message), "{message:?} in {}", output.stderr);
}

/// Returns what a plan changes: both maps and the ledger, as JSON so that its order does not matter.
fn state(node: &Value) -> Value {
    let ledger: Option<Value> = ledger(node).map(|text| serde_json::from_str(text).unwrap());
    let extended = |map: &str| -> BTreeMap<String, Value> {
        let amounts = node["status"][map].as_object().cloned().unwrap_or_default();
        amounts.into_iter().filter(|(name, _)| name.starts_with("example.com/")).collect()
    };
    json!({"capacity": extended("capacity"), "allocatable": extended("allocatable"), LEDGER: ledger})
}

/// Creates nodes in every state that a controller may observe, and returns rules to plan.
fn create_nodes_and_rules(cluster: &Cluster) -> Vec<Value> {
    let names = |range: std::ops::RangeInclusive<u32>| range.map(|number| format!("node-{number}"));
    cluster.create_nodes(names(1..=7), &json!({"pool": "a"}));
    cluster.create_nodes(names(8..=9), &json!({"pool": "b"}));
    let controller = Controller::start(cluster);
    cluster.apply_rule("dongle", &json!({"nodeSelector": {"matchLabels": {"pool": "a"}}}));
    let retain = json!({"resourceName": SLOT, "nodeNames": ["node-8"], "deletionPolicy": "Retain"});
    cluster.apply_rule("slots", &retain);
    cluster.wait_ready("dongle", "7/7");
    cluster.wait_ready("slots", "1/1");
    controller.stop();

    cluster.apply(&bound_pod("on-node-2", "node-2", DONGLE, "3").to_string());
    cluster.apply(&bound_pod("on-node-3", "node-3", DONGLE, "4").to_string());
    cluster.write_quantity("node-4", DONGLE, "0");
    cluster.write_quantity("node-9", KEY, "7");
    cluster.write_quantity("node-5", KEY, "7");
    cluster.kubectl(&["label", "node", "node-6", "pool=b", "--overwrite"]);
    cluster.kubectl(&["annotate", "node", "node-7", "--overwrite", &format!("{LEDGER}=none")]);

    let selector = |pool: &str| json!({"matchLabels": {"pool": pool}});
    let over = json!({
        "resourceName": KEY, "nodeNames": ["node-1", "node-9"], "conflictPolicy": "Overwrite",
    });
    let keep = json!({"resourceName": KEY, "quantity": 1, "nodeNames": ["node-1", "node-5"]});
    vec![
        rule("dongle", &json!({"quantity": 2, "nodeSelector": selector("a")})),
        rule("keys", &over),
        rule("more-keys", &keep),
    ]
}

#[test]
fn plan_matches_what_the_controller_does() {
    let cluster = Cluster::shared();
    let rules = create_nodes_and_rules(&cluster);
    let kubeconfig = cluster.control_plane.kubeconfig();
    let nodes = cluster.nodes().into_iter();
    let nodes: BTreeMap<_, _> =
        nodes.map(|node| (node["metadata"]["name"].as_str().unwrap().to_owned(), node)).collect();

    let table = plan(&kubeconfig, &rules, &["--prune"]);
    assert_eq!(table.code, 1, "{}", table.stderr);
    assert_eq!(table.stderr.lines().count(), 1, "only the line with the cluster: {}", table.stderr);
    assert!(table.stderr.starts_with("cluster: context test, https://"), "{}", table.stderr);
    let lines: Vec<_> =
        table.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let invalid_ledger = "! node-7 - - - annotation noderesource.dev/advertised cannot be read: expected ident at line 1 column 2; nothing on the node changes until you repair or remove it";
    assert_eq!(
        lines,
        [
            "NODE RESOURCE BEFORE AFTER REASON",
            "~ node-1 example.com/dongle 4 2 rule dongle",
            "+ node-1 example.com/key - 4 rule keys over more-keys (later by name)",
            "~ node-2 example.com/dongle 4 3 rule dongle declares 2; pods request 3",
            "! node-3 example.com/dongle 4 4 held: rule dongle declares 2; pods request at least 4",
            "~ node-4 example.com/dongle 0 2 rule dongle; repairs what kubectl-patch wrote",
            "~ node-5 example.com/dongle 4 2 rule dongle",
            "! node-5 example.com/key 7 7 conflict: written by kubectl-patch; rule more-keys declares 1 (conflictPolicy: Keep)",
            "- node-6 example.com/dongle 4 - rule dongle no longer selects the node",
            invalid_ledger,
            "~ node-8 example.com/slot 4 4 rule slots is gone; the value stays (deletionPolicy: Retain)",
            "~ node-9 example.com/key 7 4 rule keys; takes over what kubectl-patch wrote (conflictPolicy: Overwrite)",
            "",
            "example.com/dongle: 2 nodes stay above what rule dongle declares, since 2 pods request it: default/on-node-2, default/on-node-3",
            "Plan: 1 to add, 6 to change, 1 to remove; 1 conflict, 1 held, 1 node unreadable; 0 unchanged.",
        ],
        "{}",
        table.stdout
    );

    let patches = plan(&kubeconfig, &rules, &["--prune", "-o", "patch"]);
    let patches: BTreeMap<String, Value> = patches
        .stdout
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["node"].as_str().unwrap().to_owned(), line["patch"].clone())
        })
        .collect();
    assert_eq!(patches.len(), 7, "{:?}", patches.keys());
    let planned = plan_json(&kubeconfig, &rules, &["--prune"]);

    for rule in &rules {
        cluster.apply(&rule.to_string());
    }
    cluster.kubectl(&["delete", "ner", "slots"]);
    let writes = cluster.node_patches();
    let controller = Controller::start(&cluster);
    for (name, node) in &nodes {
        let becomes = patches.get(name).map_or_else(|| node.clone(), |patch| json_patch::apply(node, patch).unwrap());
        let becomes = state_text(&becomes);
        let what = format!("{name} to become {becomes}");
        cluster.wait_for(&what, &["node", name], |node| state_text(node) == becomes);
    }
    for node in planned["nodes"].as_array().unwrap() {
        let now = cluster.node(node["node"].as_str().unwrap());
        for change in node["changes"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let [name, rule, resource, action] =
                [&node["node"], &change["rule"], &change["resource"], &change["action"]].map(text);
            // The log uses the same word for the action.
            controller.wait_log(&format!("node={name} rule={rule} resource={resource} action={action}"));
            for map in ["capacity", "allocatable"] {
                let has = &now["status"][map][change["resource"].as_str().unwrap()];
                assert_eq!(has, &change["after"][map], "{change:#}");
            }
        }
    }
    cluster.wait_status("dongle", "held on node-2 and node-3", |status| status["nodes"]["held"] == 2);
    // One node takes two patches: node-4 is repaired from its ledger before the rules are known.
    assert_eq!(cluster.node_patches() - writes, 7 + 1);
    controller.stop();

    let after = plan(&kubeconfig, &[], &["-o", "patch"]);
    assert_eq!((after.code, after.stdout.as_str()), (0, ""), "{}", after.stderr);
    let after = plan(&kubeconfig, &rules, &[]);
    assert!(after.stdout.contains("\nNo changes; 1 conflict, 2 held, 1 node unreadable; "), "{}", after.stdout);
    assert_eq!(after.code, 0);
}

/// Sends every printed patch as the help describes. Only the API server accepts `test` with null for an absent key.
#[test]
fn printed_patches_are_applied_by_kubectl() {
    let cluster = Cluster::shared();
    let rules = create_nodes_and_rules(&cluster);
    let kubeconfig = cluster.control_plane.kubeconfig();
    let printed = plan(&kubeconfig, &rules, &["--prune", "-o", "patch"]);
    assert!(printed.stdout.contains(r#""value":null"#), "{}", printed.stdout);
    let send = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let (node, patch) = (line["node"].as_str().unwrap(), line["patch"].to_string());
        let args = ["patch", "node", node, "--subresource=status", "--type=json", "-p", &patch];
        cluster.control_plane.kubectl_output(&args, None).unwrap()
    };
    for line in printed.stdout.lines() {
        let sent = send(line);
        assert_eq!(sent.code, 0, "{line}: {}", sent.stderr);
    }
    let after = plan(&kubeconfig, &rules, &["--prune"]);
    let line = "\nNo changes; 1 conflict, 2 held, 1 node unreadable; ";
    assert!(after.stdout.contains(line) && after.code == 0, "{}{}", after.stdout, after.stderr);
    for line in printed.stdout.lines() {
        let sent = send(line);
        // The patch tests the previous values.
        let rejected = sent.stderr.contains("The request is invalid");
        assert!(sent.code != 0 && rejected, "{line}: {}", sent.stderr);
    }
}

#[test]
fn plan_selects_nodes_as_kubectl_does() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({"pool": "a", "ssd": ""}));
    cluster.create_nodes(["node-10"], &json!({"pool": "b"}));
    cluster.create_nodes(["node-3"], &json!({}));
    let kubeconfig = cluster.control_plane.kubeconfig();
    let rules = [rule("dongle", &json!({"nodeNames": ["node-1", "not-there"]}))];
    let names = |args: &[&str]| -> Vec<String> {
        let planned = plan_json(&kubeconfig, &rules, &[&["--all"], args].concat());
        assert_eq!(planned["summary"]["missing"], 0, "{planned:#}");
        let nodes = planned["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["node"].as_str().unwrap().to_owned()).collect()
    };
    for selector in [
        "pool=a",
        "pool==a",
        "pool!=a",
        "pool in (a, b)",
        "pool notin (a)",
        "ssd=",
        "ssd!=",
        "ssd in ()",
        "pool",
        "!pool",
        "pool,!ssd",
        "pool=none",
    ] {
        let listed = cluster.kubectl(&["get", "nodes", "-o", "name", "-l", selector]);
        let listed = listed.lines().filter_map(|line| line.strip_prefix("node/"));
        let mut listed: Vec<_> = listed.map(str::to_owned).collect();
        let mut planned = names(&["-l", selector]);
        planned.sort();
        listed.sort();
        assert_eq!(planned, listed, "{selector}");
    }
    for selector in ["a=b,", "a in b", "a=b c", "=b", "-a", "a=-b"] {
        let selector = format!("--selector={selector}");
        let get = ["get", "nodes", &selector];
        let listed = cluster.control_plane.kubectl_output(&get, None).unwrap();
        let planned = plan(&kubeconfig, &rules, &[&selector]);
        assert!(listed.code != 0 && planned.code == 2, "{selector}: {}", planned.stdout);
    }
    assert_eq!(names(&["--node", "node-10", "--node", "node-2"]), ["node-2", "node-10"]);
    let unknown = plan(&kubeconfig, &rules, &["--node", "not-there"]);
    assert_error(&unknown, "there is no node not-there (--node)");
}

/// Returns the state as text, because an invalid ledger is not JSON.
fn state_text(node: &Value) -> String {
    if ledger(node).is_some_and(|text| text == "none") {
        let mut node = node.clone();
        node["metadata"]["annotations"][LEDGER] = json!("\"none\"");
        return state(&node).to_string();
    }
    state(node).to_string()
}

#[test]
fn plan_adds_rule_files_to_cluster_rules_unless_pruning() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = cluster.control_plane.kubeconfig();
    cluster.create_nodes(["node-1"], &json!({}));
    let output = plan(&kubeconfig, &[], &[]);
    assert_error(
        &output,
        "the CustomResourceDefinition is not installed: `node-resource-advertiser crd | kubectl apply",
    );
    let new = [rule("a-dongle", &json!({"quantity": 5}))];
    let output = plan(&kubeconfig, &new, &[]);
    assert!(output.stdout.contains("Plan: 1 to add"), "{}{}", output.stdout, output.stderr);
    assert_eq!(output.code, 1);

    cluster.install_crd();
    cluster.apply_rule("dongle", &json!({}));
    let quantity = |rules: &[Value], args: &[&str]| {
        plan_json(&kubeconfig, rules, args)["nodes"][0]["changes"][0]["after"]["capacity"].clone()
    };
    assert_eq!(quantity(&[], &[]), "4");
    assert_eq!(quantity(&new, &[]), "4", "the rule in the cluster is older");
    assert_eq!(quantity(&new, &["--prune"]), "5");
    let same = [rule("dongle", &json!({"quantity": 6}))];
    assert_eq!(quantity(&same, &[]), "6");
}

#[test]
fn plan_without_permissions_reports_what_it_cannot_list() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    controller.stop();

    assert_error(&plan(Path::new("/nowhere"), &[], &[]), "cannot use the kubeconfig /nowhere (KUBECONFIG): ");
    let limited = cluster.control_plane.kubeconfig_for("limited");
    let forbidden = "cannot list rules: nodeextendedresources.noderesource.dev is forbidden";
    assert_error(&plan(&limited, &[], &[]), forbidden);
    let mut granted = permissions::required_for("nodeextendedresources");
    permissions::grant(&cluster, &granted);
    cluster.wait_permission("limited", "list", "nodeextendedresources.noderesource.dev");
    assert_error(&plan(&limited, &[], &[]), "cannot list nodes: nodes is forbidden");

    granted.extend(permissions::required_for("nodes"));
    permissions::grant(&cluster, &granted);
    cluster.wait_permission("limited", "list", "nodes");
    let output = plan(&limited, &[], &[]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "No changes; 1 unchanged.\n"));
    let lower = [rule("dongle", &json!({"quantity": 2}))];
    let output = plan(&limited, &lower, &[]);
    assert_eq!(output.code, 1, "the value may be lowered: {}", output.stdout);
    let line = "\nUp to 1 to change; 1 may be held; 0 unchanged.\n";
    assert!(output.stdout.ends_with(line), "{}", output.stdout);
    let message = "may be held: rule dongle declares 2; no permission to list pods: pods is forbidden";
    assert!(output.stdout.contains(message), "{}", output.stdout);
}
