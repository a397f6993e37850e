use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::ControlPlane;
use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, LEDGER, ledger, rule};
use crate::faults::{grant, rights};

const DONGLE: &str = "example.com/dongle";
const KEY: &str = "example.com/key";
const SLOT: &str = "example.com/slot";

/// What `plan` prints, what it complains of, and its exit code.
struct Answer {
    stdout: String,
    stderr: String,
    code: i32,
}

/// Runs `plan` with rules on standard input, where there are any.
fn plan(kubeconfig: &Path, rules: &[Value], args: &[&str]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
    command.arg("plan").args(args).env("KUBECONFIG", kubeconfig);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if !rules.is_empty() {
        command.args(["-f", "-"]).stdin(Stdio::piped());
    }
    let mut program = command.spawn().unwrap();
    if let Some(mut stdin) = program.stdin.take() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": rules});
        stdin.write_all(list.to_string().as_bytes()).unwrap();
    }
    let output = program.wait_with_output().unwrap();
    Answer {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stderr))
    }

    fn is_an_error(&self, says: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{}", self.stderr);
        let lines: Vec<_> = self.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("error: "), "{}", self.stderr);
        assert!(lines[0].contains(says), "{says:?} in {}", self.stderr);
    }
}

/// A pod on a node, as an object: nothing runs it.
fn pod(node: &str, dongles: &str) -> String {
    let amounts = json!({DONGLE: dongles});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("on-{node}")},
        "spec": {"nodeName": node, "containers": [{
            "name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts},
        }]},
    })
    .to_string()
}

/// What a plan is about: both maps and the ledger, as JSON so that its order does not matter.
fn state(node: &Value) -> Value {
    let ledger: Option<Value> = ledger(node).map(|text| serde_json::from_str(text).unwrap());
    let extended = |map: &str| -> BTreeMap<String, Value> {
        let amounts = node["status"][map].as_object().cloned().unwrap_or_default();
        amounts.into_iter().filter(|(name, _)| name.starts_with("example.com/")).collect()
    };
    json!({"capacity": extended("capacity"), "allocatable": extended("allocatable"), LEDGER: ledger})
}

/// What the API server makes of a patch. `test` with null holds there for what is absent, and is passed
/// over here.
fn patched(mut node: Value, patch: &Patch) -> Value {
    for operation in &patch.0 {
        let is_absence = matches!(operation, PatchOperation::Test(test) if test.value.is_null());
        if !is_absence {
            json_patch::patch(&mut node, std::slice::from_ref(operation)).unwrap();
        }
    }
    node
}

/// Nodes in every state that a controller may find, and rules that are about to change.
fn before(cluster: &Cluster) -> Vec<Value> {
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

    cluster.apply(&pod("node-2", "3"));
    cluster.apply(&pod("node-3", "4"));
    cluster.write_amount("node-4", DONGLE, "0");
    cluster.write_first_amount("node-9", KEY, "7");
    cluster.write_amount("node-5", KEY, "7");
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

/// What is told before is what the controller then does: each node becomes what its patch makes of it.
#[test]
fn the_controller_does_what_plan_told() {
    let cluster = Cluster::start();
    let rules = before(&cluster);
    let kubeconfig = cluster.control_plane.kubeconfig();
    let nodes = cluster.get(&["nodes"]);
    let nodes: BTreeMap<_, _> = nodes["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["metadata"]["name"].as_str().unwrap().to_owned(), node.clone()))
        .collect();

    let table = plan(&kubeconfig, &rules, &["--prune"]);
    assert_eq!(table.code, 1, "{}", table.stderr);
    assert_eq!(table.stderr, "", "nothing but the plan");
    let lines: Vec<_> = table
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let unreadable = "! node-7 - - - annotation noderesource.dev/advertised cannot be read: expected ident at line 1 column 2; the node is left alone until that is mended";
    assert_eq!(
        lines,
        [
            "NODE RESOURCE NOW THEN WHY",
            "~ node-1 example.com/dongle 4 2 rule dongle",
            "+ node-1 example.com/key - 4 rule keys over more-keys (later by name)",
            "~ node-2 example.com/dongle 4 3 rule dongle declares 2; pods request 3",
            "! node-3 example.com/dongle 4 4 held: rule dongle declares 2; pods request at least 4",
            "~ node-4 example.com/dongle 0 2 rule dongle; repairs what kubectl-patch wrote",
            "~ node-5 example.com/dongle 4 2 rule dongle",
            "! node-5 example.com/key 7 7 conflict: written by kubectl-patch; rule more-keys declares 1 (conflictPolicy: Keep)",
            "- node-6 example.com/dongle 4 - rule dongle no longer selects the node",
            unreadable,
            "~ node-8 example.com/slot 4 4 rule slots is gone; the value stays (deletionPolicy: Retain)",
            "~ node-9 example.com/key 7 4 rule keys; takes over what kubectl-patch wrote (conflictPolicy: Overwrite)",
            "",
            "Plan: 1 to add, 6 to change, 1 to remove; 1 conflict, 1 held, 1 node unreadable; 0 unchanged.",
        ],
        "{}",
        table.stdout
    );

    let patches = plan(&kubeconfig, &rules, &["--prune", "-o", "patch"]);
    let patches: BTreeMap<String, Patch> = patches
        .stdout
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let patch = serde_json::from_value(line["patch"].clone()).unwrap();
            (line["node"].as_str().unwrap().to_owned(), patch)
        })
        .collect();
    assert_eq!(patches.len(), 7, "{:?}", patches.keys());
    let forecast = plan(&kubeconfig, &rules, &["--prune", "-o", "json"]).json();

    for rule in &rules {
        cluster.apply(&rule.to_string());
    }
    cluster.kubectl(&["delete", "ner", "slots"]);
    let writes = cluster.node_patches();
    let controller = Controller::start(&cluster);
    for (name, node) in &nodes {
        let becomes =
            patches.get(name).map_or_else(|| node.clone(), |patch| patched(node.clone(), patch));
        let becomes = state_text(&becomes);
        let what = format!("{name} to become {becomes}");
        cluster.wait_for(&what, &["node", name], |node| state_text(node) == becomes);
    }
    for node in forecast.as_array().unwrap() {
        let now = cluster.node(node["node"].as_str().unwrap());
        for change in node["changes"].as_array().unwrap() {
            for map in ["capacity", "allocatable"] {
                let has = &now["status"][map][change["resource"].as_str().unwrap()];
                assert_eq!(has, &change["then"][map], "{change:#}");
            }
        }
    }
    cluster
        .wait_status("dongle", "held on node-2 and node-3", |status| status["nodes"]["held"] == 2);
    // The controller does not wait for pods with what does not depend on them: node-1 has its keys
    // first, and node-4 is repaired before it is lowered.
    assert_eq!(cluster.node_patches() - writes, 7 + 2);
    controller.stop();

    let after = plan(&kubeconfig, &[], &["-o", "patch"]);
    assert_eq!((after.code, after.stdout.as_str()), (0, ""), "{}", after.stderr);
    let after = plan(&kubeconfig, &rules, &[]);
    assert!(
        after.stdout.contains("\nNo changes; 1 conflict, 2 held, 1 node unreadable; "),
        "{}",
        after.stdout
    );
    assert_eq!(after.code, 0);
}

/// A broken ledger stays as it is, and is no JSON.
fn state_text(node: &Value) -> String {
    if ledger(node).is_some_and(|text| text == "none") {
        let mut node = node.clone();
        node["metadata"]["annotations"][LEDGER] = json!("\"none\"");
        return state(&node).to_string();
    }
    state(node).to_string()
}

#[test]
fn rules_of_files_are_added_to_those_of_the_cluster_unless_they_are_all() {
    let cluster = Cluster::without_crd(ControlPlane::builder());
    let kubeconfig = cluster.control_plane.kubeconfig();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    plan(&kubeconfig, &[], &[]).is_an_error("the CustomResourceDefinition is not installed");
    let new = [rule("a-dongle", &json!({"quantity": 5}))];
    let answer = plan(&kubeconfig, &new, &[]);
    assert!(answer.stdout.contains("Plan: 1 to add"), "{}{}", answer.stdout, answer.stderr);
    assert_eq!(answer.code, 1);

    cluster.install_crd();
    cluster.apply_rule("dongle", &json!({}));
    let quantity = |answer: &Answer| answer.json()[0]["changes"][0]["then"]["capacity"].clone();
    let json = |rules: &[Value], args: &[&str]| {
        plan(&kubeconfig, rules, &[&["-o", "json"], args].concat())
    };
    assert_eq!(quantity(&json(&[], &[])), "4");
    assert_eq!(quantity(&json(&new, &[])), "4", "the one of the cluster is older");
    assert_eq!(quantity(&json(&new, &["--prune"])), "5");
    let same = [rule("dongle", &json!({"quantity": 6}))];
    assert_eq!(quantity(&json(&same, &[])), "6");
}

#[test]
fn what_cannot_be_read_is_an_error_and_pods_are_not_needed_for_most() {
    let cluster = Cluster::with(ControlPlane::builder().user("limited"));
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    controller.stop();

    plan(Path::new("/nowhere"), &[], &[]).is_an_error("set KUBECONFIG");
    let limited = cluster.control_plane.kubeconfig_for("limited");
    plan(&limited, &[], &[])
        .is_an_error("rules cannot be listed: nodeextendedresources.noderesource.dev is forbidden");
    let right = |resource: &str| -> Vec<Value> {
        rights().into_iter().filter(|right| right["resources"] == json!([resource])).collect()
    };
    let mut some = right("nodeextendedresources");
    grant(&cluster, &json!(some));
    cluster.wait_right("limited", "list", "nodeextendedresources.noderesource.dev");
    plan(&limited, &[], &[]).is_an_error("nodes cannot be listed: nodes is forbidden");

    some.extend(right("nodes"));
    grant(&cluster, &json!(some));
    cluster.wait_right("limited", "list", "nodes");
    let answer = plan(&limited, &[], &[]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "No changes; 1 unchanged.\n"));
    let lower = [rule("dongle", &json!({"quantity": 2}))];
    let answer = plan(&limited, &lower, &[]);
    assert_eq!(answer.code, 1, "it may be lowered: {}", answer.stdout);
    let says = "may be held: rule dongle declares 2; no right to list pods: pods is forbidden";
    assert!(answer.stdout.contains(says), "{}", answer.stdout);
}
