//! `history`, compared with what happened.
//!
//! Method: change a node and its rule as different users, a second apart, and compare the order and the names.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use harness::documents::{self, Shell};
use harness::objects::DONGLE;
use harness::{Cluster, ControlPlane, Controller, Output, Process, project_file, wait_until};
use serde_json::{Value, json};

use crate::support::{permissions, program};

fn history(kubeconfig: &Path, args: &[&str]) -> Output {
    program::run(kubeconfig, &[&["history"], args].concat(), None)
}

/// Returns the entries of a node's history: source, who, and what, with the rule before it.
fn entries(cluster: &Cluster, args: &[&str]) -> Vec<String> {
    let output = history(&cluster.control_plane.kubeconfig(), &[args, &["-o", "json"]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&document["kind"], &document["notes"]), (&json!("NodeHistory"), &json!([])), "{document:#}");
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("-").to_owned();
    let line = |entry: &Value| {
        let owns: Vec<_> = entry["owns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let owns = if owns.is_empty() { String::new() } else { format!("; owns {}", owns.join(", ")) };
        ["source", "who", "rule", "what"].map(|field| text(entry, field)).join(" ") + &owns
    };
    document["entries"].as_array().unwrap().iter().map(line).collect()
}

/// Returns where the first entry with this beginning is.
fn place(entries: &[String], beginning: &str) -> usize {
    let place = entries.iter().position(|entry| entry.starts_with(beginning));
    place.unwrap_or_else(|| panic!("{beginning} is missing: {entries:#?}"))
}

/// Waits for the next second: managedFields and creations have no smaller unit.
fn next_second() {
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let start = second();
    wait_until("the next second", || Ok((second() > start).then_some(()))).unwrap();
}

#[test]
fn history_names_who_changed_a_node_in_order() {
    // Without a kubelet the node would be tainted as not ready.
    let cluster = Cluster::shared_with(ControlPlane::builder().without_admission("TaintNodesByCondition"));
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start_with(&cluster, &["--identity", "controller-0"]);
    next_second();
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    next_second();
    cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "-p", r#"{"spec": {"quantity": 6}}"#]);
    cluster.wait_advertised("node-1", DONGLE, "6");
    next_second();
    cluster.write_quantity("node-1", DONGLE, "9");
    cluster.wait_event("node-1", "Repaired", "9 (by kubectl-patch)");
    cluster.wait_advertised("node-1", DONGLE, "6");
    cluster.wait_ready("dongle", "1/1");
    let rule = cluster.get(&["ner", "dongle"]);

    let story = entries(&cluster, &["node-1"]);
    let places = [
        "metadata - - created",
        "lease controller-0_",
        "metadata - dongle created; the spec is at generation 2 now",
        "managedFields kubectl-client-side-apply dongle last wrote; owns allNodes,",
        "managedFields kubectl-patch dongle last wrote; owns quantity",
        "managedFields node-resource-advertiser - last wrote the status; owns the ledger, example.com/dongle",
        "Event noderesource.dev/node-resource-advertiser - Repaired: Repaired example.com/dongle on node-1: 9 (by \
         kubectl-patch) -> 6, as rule dongle declares",
        "ledger node-resource-advertiser dongle example.com/dongle is 6",
    ]
    .map(|entry| place(&story, entry));
    assert!(places.is_sorted(), "{story:#?}");
    assert_eq!(places[7], story.len() - 1);
    let repaired = story.iter().filter(|entry| entry.contains("Repaired")).count();
    assert_eq!(repaired, 1, "the Event on the rule is the same: {story:#?}");
    assert!(story.iter().any(|entry| entry.starts_with("condition node-resource-advertiser dongle since then")));
    assert!(entries(&cluster, &["node-1", "--since", "0s"]).iter().all(|entry| entry.starts_with("ledger ")));
    let table = history(&cluster.control_plane.kubeconfig(), &["node-1"]).stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");

    // When each condition was written depends on the speed of the machine.
    let mut status = rule["status"].clone();
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = rule["metadata"]["creationTimestamp"].clone();
    }
    controller.stop();
    // What it released, and when it last renewed it.
    let story = entries(&cluster, &["node-1"]);
    place(&story, "lease - - last renewal of the Lease default/node-resource-advertiser, before its release");
    cluster.kubectl(&["delete", "lease", "node-resource-advertiser", "-n", "default"]);
    let patch = json!({"status": status}).to_string();
    let as_controller = "--field-manager=node-resource-advertiser";
    cluster.kubectl(&["patch", "ner", "dongle", "--subresource=status", "--type=merge", as_controller, "-p", &patch]);
    let blocks = documents::blocks_run_by("history", &documents::pages().unwrap()).unwrap();
    let folder = cluster.control_plane.dir().join("plugins");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(harness::program().unwrap(), folder.join("kubectl-ner")).unwrap();
    let mut shell = Shell::new(&cluster, &project_file("."), BTreeMap::new()).unwrap();
    for (name, value) in &mut shell.environment {
        if name == "PATH" {
            *value = format!("{}:{value}", folder.display());
        }
    }
    let count = shell.run(&blocks).unwrap();
    println!("{count} commands print the history that the page shows");

    let controller = Controller::start(&cluster);
    let elsewhere = r#"{"spec": {"allNodes": null, "nodeNames": ["node-2"]}}"#;
    cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "--field-manager=mover", "-p", elsewhere]);
    cluster.wait_withdrawn("node-1", DONGLE);
    cluster.wait_event("node-1", "Withdrawn", "rule dongle no longer declares it");
    let story = entries(&cluster, &["node-1", "--since", "18446744073709551615"]);
    place(&story, "managedFields mover dongle last wrote; owns nodeNames");

    cluster.kubectl(&["delete", "ner", "dongle"]);
    let story = entries(&cluster, &["node-1"]);
    let event = |reason: &str| place(&story, &format!("Event noderesource.dev/node-resource-advertiser - {reason}"));
    assert!(event("Repaired") < event("Withdrawn"), "{story:#?}");
    assert!(
        !story.iter().any(|entry| entry.starts_with("ledger") || entry.starts_with("metadata - dongle")),
        "{story:#?}"
    );
    let gone = entries(&cluster, &["ner/dongle"]);
    place(&gone, "Event noderesource.dev/node-resource-advertiser - Withdrawn");
    controller.stop();
}

#[test]
fn history_of_a_rule_or_resource_is_of_all_nodes_and_continues() {
    let cluster = Cluster::shared_with(ControlPlane::builder().without_admission("TaintNodesByCondition"));
    cluster.create_nodes(["node-1", "node-2", "node-3"], &json!({}));
    let label = |node: &str, label: &str| cluster.kubectl(&["label", "node", node, label, "--overwrite"]);
    label("node-1", "pool=usb");
    label("node-2", "pool=usb");
    let selector = json!({"allNodes": null, "nodeSelector": {"matchLabels": {"pool": "usb"}}});
    cluster.apply_rule("dongle", &selector);
    cluster.apply_rule("other", &json!({"resourceName": "example.com/other"}));
    let controller = Controller::start(&cluster);
    cluster.wait_ready("dongle", "2/2");
    cluster.wait_ready("other", "3/3");
    let kubeconfig = cluster.control_plane.kubeconfig();
    let log = cluster.control_plane.logs().join("history-w.log");
    let env = [("KUBECONFIG", kubeconfig.to_str().unwrap())];
    let args = ["history", "--rule", "dongle", "-w", "-o", "wide"];
    let mut follows = Process::spawn("kubectl ner", &harness::program().unwrap(), &args, &env, &log).unwrap();
    follows.wait_log("node-1, node-2: rule dongle: example.com/dongle is 4").unwrap();

    label("node-2", "pool=infra");
    cluster.wait_event("node-2", "Withdrawn", "rule dongle no longer declares it");
    let excluded = "node-2: rule dongle: does not select the node: it selects pool=usb, and the node has pool=infra";
    follows.wait_log(excluded).unwrap();
    follows.kill().unwrap();
    assert_eq!(follows.log().matches("rule dongle: created").count(), 1, "only what is new: {}", follows.log());
    let rows = |args: &[&str]| {
        let output = history(&kubeconfig, &[args, &["-o", "wide"]].concat());
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{args:?}");
        output.stdout
    };
    let of_rule = rows(&["--rule", "dongle"]);
    let owner = "node-2: last wrote; owns label pool=infra (rule dongle)";
    for part in
        [owner, excluded, "Withdrew example.com/dongle from node-2", "node-1: rule dongle: example.com/dongle is 4"]
    {
        assert!(of_rule.contains(part), "{part}: {of_rule}");
    }
    assert!(!of_rule.contains("node-3") && !of_rule.contains("example.com/other"), "{of_rule}");
    assert_eq!(of_rule.matches("Withdrew example.com/dongle from node-2").count(), 1, "{of_rule}");
    let of_resource = rows(&["--resource", "example.com/other"]);
    assert!(of_resource.contains("node-1, node-2, node-3: rule other: example.com/other is 4"), "{of_resource}");
    assert!(!of_resource.contains("dongle"), "{of_resource}");
    let of_both = rows(&["node/node-3", "--rule", "dongle"]);
    assert!(of_both.contains("does not select the node") && !of_both.contains("example.com/other"), "{of_both}");
    let names = history(&kubeconfig, &["--rule", "dongle", "-o", "name"]).stdout;
    assert_eq!(names, "nodeextendedresource.noderesource.dev/dongle\n");
    assert_eq!(entries(&cluster, &[names.trim()]), entries(&cluster, &["ner/dongle"]));
    for (args, message) in [
        (["--rule", "dongel"], "error: there is no rule dongel; is it dongle?\n"),
        (
            ["--resource", "example.com/othre"],
            "error: there is no resource example.com/othre; is it example.com/other?\n",
        ),
    ] {
        let output = history(&kubeconfig, &args);
        assert_eq!((output.code, output.stderr.as_str()), (1, message));
    }

    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "borrowed", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}, "reason": "Withdrawn",
        "message": "it was the controller", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingComponent": "noderesource.dev/node-resource-advertiser", "reportingInstance": "x", "action": "Withdraw",
    });
    cluster.apply(&event.to_string());
    let story = rows(&["node-1"]);
    let borrowed = story.lines().find(|line| line.contains("it was the controller")).unwrap();
    assert!(
        borrowed.contains("kubectl-client-side-apply") && borrowed.contains("not from the controller"),
        "{borrowed}"
    );
    assert_eq!(story.matches("not from the controller").count(), 1, "{story}");
    controller.stop();
}

#[test]
fn history_lacks_only_what_cannot_be_read() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.write_quantity("node-1", DONGLE, "4");
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "odd", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        "reason": "Odd", "message": "\u{1b}[2Jred\nline", "type": "Warning", "source": {"component": "a\u{7}"},
        "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    cluster.apply(&event.to_string());
    let admin = cluster.control_plane.kubeconfig();
    let reader = cluster.control_plane.kubeconfig_for("limited");

    for (args, code, message) in [
        (&["node-2"][..], 1, "error: there is no node node-2; is it node-1?"),
        (&["x"], 1, "error: there is no node x\n"),
        (&["../pods"], 1, "error: there is no node ../pods\n"),
        (&[""], 1, "error: there is no node \n"),
        (&["node-1", "--since", "yesterday"], 2, "must be a duration, such as 30m or 1h30m"),
        (&["node-1", "-l", "a=b"], 2, "unexpected argument '-l'"),
        (&[], 2, "<NAME|--rule <NAME>|--resource <NAME>>"),
    ] {
        let output = history(&admin, args);
        assert_eq!((output.code, output.stdout.as_str()), (code, ""), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{args:?}: {}", output.stderr);
    }

    let output = history(&admin, &["node-1"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.starts_with("note: the cluster has no CustomResourceDefinition"), "{}", output.stderr);
    let rows: Vec<_> = output.stdout.lines().skip(1).collect();
    let [unknown, odd, ..] = rows.as_slice() else { panic!("{}", output.stdout) };
    assert!(
        unknown.starts_with("<unknown> ") && unknown.ends_with(" tainted node.kubernetes.io/not-ready:NoSchedule"),
        "{unknown}"
    );
    assert!(odd.starts_with("2026-01-01T00:00:00Z   "), "the oldest is first: {}", output.stdout);
    let odd = odd.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(odd.ends_with(" a\\u{7}: Odd: \\u{1b}[2Jred\\u{a}line"), "{odd}");
    assert!(output.stdout.contains("kubectl-patch"), "{}", output.stdout);
    assert!(history(&admin, &["node-1", "-o", "name"]).stdout.is_empty(), "there are no rules");

    let forbidden = history(&reader, &["node-1"]);
    assert_eq!((forbidden.code, forbidden.stdout.as_str()), (1, ""));
    assert!(forbidden.stderr.contains("error: you lack permission to get the node node-1"), "{}", forbidden.stderr);
    permissions::grant(&cluster, &[json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]})]);
    cluster.wait_permission("limited", "get", "nodes");
    let some = history(&reader, &["node-1"]);
    assert_eq!(some.code, 0, "{}", some.stderr);
    for lack in ["list events in the namespace default", "list nodeextendedresources"] {
        assert!(some.stderr.contains(&format!("note: you lack permission to {lack}")), "{}", some.stderr);
    }
    assert!(some.stdout.contains("kubectl-patch") && !some.stdout.contains("Odd"), "{}", some.stdout);
    let unknown = history(&reader, &["node-2"]);
    assert_eq!(unknown.stderr, "error: there is no node node-2\n", "names cannot be listed");
}
