//! `top`, `node`, `resource`, `pod` and `why`, compared with what the scheduler does.
//!
//! Method: put nodes and pods into states that differ, let the scheduler decide, and compare what each command prints
//! with its decision.

use std::path::Path;
use std::time::Duration;

use harness::objects::{DONGLE, bound_pod, pod};
use harness::{Cluster, ControlPlane, Controller, Output, Process};
use serde_json::{Value, json};

use crate::support::{golden, permissions, program};

const KEY: &str = "example.com/key";

fn ask(kubeconfig: &Path, args: &[&str]) -> Output {
    program::run(kubeconfig, args, None)
}

fn ask_json(kubeconfig: &Path, args: &[&str]) -> Value {
    let output = ask(kubeconfig, &[args, &["-o", "json"]].concat());
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", output.stderr))
}

/// Returns the scheduler's message about a pod that it has rejected.
fn rejection(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["reason"] == "Unschedulable")?["message"].as_str()
}

/// Waits until the scheduler has decided, and returns its message if it has rejected the pod.
fn wait_decided(cluster: &Cluster, pod: &str) -> Option<String> {
    let what = format!("the scheduler to decide about pod {pod}");
    let decided = |pod: &Value| pod["spec"]["nodeName"].is_string() || rejection(pod).is_some();
    let pod = cluster.wait_for(&what, &["pod", pod], decided);
    if pod["spec"]["nodeName"].is_string() { None } else { rejection(&pod).map(str::to_owned) }
}

/// Returns the number before a text in the scheduler's message, or 0.
fn count_before(message: &str, text: &str) -> u64 {
    let Some((before, _)) = message.split_once(&format!(" {text}")) else { return 0 };
    before.rsplit([' ', ',']).next().and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// Returns an item of a list by a field.
fn item<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|item| item[field] == value).unwrap_or_else(|| panic!("{value} in {list:#}"))
}

#[test]
fn why_counts_the_nodes_that_the_scheduler_rejects() {
    // Nodes without a kubelet would be tainted as not ready, and the scheduler would not get as far as their resources.
    let builder = ControlPlane::builder().scheduler().without_admission("TaintNodesByCondition");
    let cluster = Cluster::shared_with(builder);
    let names = (1..=6).map(|number| format!("node-{number}"));
    cluster.create_nodes(names, &json!({}));
    // What each node has of dongles and keys, and how many dongles pods on it use.
    let has = [("4", "1", "3"), ("4", "", "1"), ("2", "2", ""), ("0", "9", ""), ("", "1", ""), ("1k", "2", "")];
    for (number, (dongles, keys, used)) in (1..).zip(has) {
        let node = format!("node-{number}");
        let mut amounts = json!({"pods": "110", "cpu": "4", "memory": "8Gi"});
        for (resource, amount) in [(DONGLE, dongles), (KEY, keys)] {
            if !amount.is_empty() {
                amounts[resource] = json!(amount);
            }
        }
        cluster.patch_status(&node, "merge", &json!({"status": {"capacity": amounts, "allocatable": amounts}}));
        if !used.is_empty() {
            cluster.apply(&bound_pod(&format!("user-{number}"), &node, DONGLE, used).to_string());
        }
    }
    let kubeconfig = cluster.control_plane.kubeconfig();
    let mut rejected = 0;
    for (number, (dongles, keys)) in (1..).zip([(1001, 0), (1, 10), (2000, 3), (3, 3), (1, 0), (5, 2)]) {
        let name = format!("asks-{number}");
        let mut object = pod(&name, DONGLE, &dongles.to_string());
        if keys > 0 {
            object["spec"]["containers"][0]["resources"]["limits"][KEY] = json!(keys.to_string());
        }
        cluster.apply(&object.to_string());
        let message = wait_decided(&cluster, &name);
        let output = ask(&kubeconfig, &["why", &name]);
        let why = ask_json(&kubeconfig, &["why", &name]);
        let Some(message) = message else {
            assert_eq!((output.code, &why["verdict"]), (0, &json!("NotWaiting")), "{}", output.stdout);
            continue;
        };
        rejected += 1;
        assert_eq!((output.code, &why["verdict"]), (1, &json!("NotEnough")), "{}", output.stdout);
        assert!(program::in_one_line(&output.stdout).contains(&message), "{message}\n{}", output.stdout);
        for resource in [DONGLE, KEY] {
            let is_short = |node: &&Value| {
                let reasons = node["reasons"].as_array().into_iter().flatten();
                reasons.filter_map(Value::as_str).any(|reason| reason.contains(resource))
            };
            let short = why["nodes"].as_array().unwrap().iter().filter(is_short).count();
            let scheduler = count_before(&message, &format!("Insufficient {resource}"));
            assert_eq!(short as u64, scheduler, "{name}: {resource}: {message}\n{}", output.stdout);
        }
    }
    assert_eq!(rejected, 4, "asks-5 and asks-6 fit");

    let top = ask_json(&kubeconfig, &["top"]);
    let lines = ask(&kubeconfig, &["top", "--no-headers"]).stdout;
    assert_eq!(lines.lines().count(), top["resources"].as_array().unwrap().len(), "{lines}");
    assert!(!lines.contains("RESOURCE") && lines.lines().all(|line| line.contains('/')), "{lines}");
    let dongle = item(&top["resources"], "resource", DONGLE);
    assert_eq!(dongle["total"], "1010", "{dongle:#}");
    assert_eq!((&dongle["requested"], &dongle["pending"]["pods"]), (&json!("10"), &json!(4)), "{dongle:#}");
    assert_eq!(dongle["rules"], json!([]));
}

#[test]
fn why_explains_what_a_rule_does_not_provide() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler());
    cluster.create_nodes(["node-1", "node-2"], &json!({"pool": "a"}));
    cluster.create_nodes(["node-3"], &json!({"pool": "b"}));
    cluster.write_quantity("node-2", DONGLE, "1");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({"quantity": 2, "nodeSelector": {"matchLabels": {"pool": "a"}}}));
    cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    cluster.apply(&pod("asks", DONGLE, "3").to_string());
    wait_decided(&cluster, "asks");
    let kubeconfig = cluster.control_plane.kubeconfig();
    let why = ask_json(&kubeconfig, &["why", "default/asks"]);
    let reasons = |node: &str| item(&why["nodes"], "node", node)["reasons"][0].as_str().unwrap().to_owned();
    assert!(reasons("node-1").contains("that is less than 3: rule dongle declares 2"), "{}", reasons("node-1"));
    assert!(reasons("node-2").contains("conflict: written by"), "{}", reasons("node-2"));
    assert!(reasons("node-3").contains("it selects pool=a, and the node has pool=b"), "{}", reasons("node-3"));
    let node = ask_json(&kubeconfig, &["node", "node-2"]);
    assert_eq!(node["resources"][0]["rules"], json!(["dongle"]), "{node:#}");
    assert!(node["resources"][0]["managers"][0].is_string(), "{node:#}");
    controller.stop();
}

/// Starts the program, which answers again and again.
fn follow(cluster: &Cluster, kubeconfig: &Path, args: &[&str]) -> Process {
    let log = cluster.control_plane.logs().join(format!("{}.log", args.join("-")));
    let env = [("KUBECONFIG", kubeconfig.to_str().unwrap())];
    Process::spawn("kubectl ner", &harness::program().unwrap(), args, &env, &log).unwrap()
}

#[test]
fn watched_answer_is_printed_again_when_it_changes() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.write_quantity("node-1", DONGLE, "4");
    let kubeconfig = cluster.control_plane.kubeconfig();
    let mut top = follow(&cluster, &kubeconfig, &["top", "-w"]);
    let mut json = follow(&cluster, &kubeconfig, &["node", "node-1", "--watch", "-o", "json"]);
    top.wait_log("example.com/dongle   <none> (kubectl-patch)   1       4       0           4").unwrap();
    cluster.apply(&bound_pod("user", "node-1", DONGLE, "3").to_string());
    top.wait_log("1       4       3           1      ").unwrap();
    json.wait_log(r#""requested": "3""#).unwrap();
    // Nothing that the answer shows; longer than answers are apart.
    cluster.kubectl(&["label", "node", "node-1", "some=label"]);
    cluster.wait_idle(Duration::from_secs(2));
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-2"]}));
    // No controller has observed the rule.
    top.wait_log("example.com/dongle   dongle!").unwrap();
    cluster.kubectl(&["delete", "pod", "user", "--grace-period=0", "--force"]);
    top.wait_log("dongle! (kubectl-patch)   1       4       0 ").unwrap();
    let log = top.log();
    assert_eq!(log.matches("RESOURCE ").count(), 4, "{log}");
    cluster.kubectl(&["delete", "node", "node-1"]);
    assert_eq!(json.wait_exit(Duration::from_secs(60)).unwrap(), 1);
    assert!(json.log().ends_with("error: there is no node node-1\n"), "{}", json.log());
    top.kill().unwrap();
}

#[test]
fn answers_lack_only_what_a_user_may_not_read() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.write_quantity("node-1", DONGLE, "4");
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply(&bound_pod("user", "node-1", DONGLE, "3").to_string());
    let reader = cluster.control_plane.kubeconfig_for("limited");
    let list = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["list"]});
    let [nodes, pods, rules, classes] = [
        list("", "nodes"),
        list("", "pods"),
        list("noderesource.dev", "nodeextendedresources"),
        list("resource.k8s.io", "deviceclasses"),
    ];

    let nothing = ask(&reader, &["top"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (1, ""));
    assert!(nothing.stderr.contains("error: you lack permission to list nodes and pods"), "{}", nothing.stderr);

    // A pod itself says what it requests, and what the scheduler says.
    let get_pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    permissions::grant(&cluster, &[get_pods]);
    cluster.wait_permission("limited", "get", "pods");
    cluster.apply(&pod("asks", DONGLE, "1").to_string());
    let scheduled = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient example.com/dongle."});
    let status = json!({"status": {"conditions": [scheduled]}}).to_string();
    cluster.kubectl(&["patch", "pod", "asks", "--subresource=status", "--type=merge", "-p", &status]);
    let why = ask(&reader, &["why", "pod/asks"]);
    assert_eq!(why.code, 3, "{}", why.stderr);
    let mut screens = vec![golden::console("top", &nothing), golden::console("why pod/asks", &why)];
    for text in ["example.com/dongle: the pod requests 1.", "of the nodes that the scheduler tried, 1 has too little"] {
        assert!(program::in_one_line(&why.stdout).contains(text), "{}", why.stdout);
    }
    assert!(why.stderr.contains("note: you lack permission to list nodes"), "{}", why.stderr);
    let shown = ask(&reader, &["pod", "user"]);
    assert!(shown.code == 0 && shown.stdout.contains("Pending on node-1"), "{}{}", shown.stdout, shown.stderr);
    cluster.kubectl(&["delete", "pod", "asks", "--force", "--grace-period=0"]);

    permissions::grant(&cluster, std::slice::from_ref(&nodes));
    cluster.wait_permission("limited", "list", "nodes");
    let top = ask(&reader, &["top"]);
    assert_eq!(top.code, 0, "{}", top.stderr);
    screens.push(golden::console("top", &top));
    assert!(top.stdout.lines().nth(1).unwrap().starts_with("example.com/dongle   <unknown>"), "{}", top.stdout);
    for (kind, lack) in
        [("pods", "what pods request"), ("nodeextendedresources", "who declares"), ("deviceclasses", "DRA")]
    {
        let note = top.stderr.lines().find(|line| line.contains(&format!("lack permission to list {kind}")));
        assert!(note.is_some_and(|note| note.starts_with("note: ") && note.contains(lack)), "{}", top.stderr);
    }

    let why = ask(&reader, &["resource", "example.com/other"]);
    screens.push(golden::console("resource example.com/other", &why));
    golden::check("few-permissions.console", &screens.join("\n"));
    assert!(why.stderr.contains("is nowhere: no node has it; you lack permission to list pods"), "{}", why.stderr);
    assert!(why.stderr.contains("the server says: 403 Forbidden: pods is forbidden"), "{}", why.stderr);

    let top = follow(&cluster, &reader, &["top", "-w"]);
    top.wait_log("example.com/dongle   <unknown>").unwrap();
    top.wait_log("note: nodes may be out of date: they cannot be watched").unwrap();
    top.wait_log("grant the verbs list and watch").unwrap();
    drop(top);

    permissions::grant(&cluster, &[pods, rules, classes]);
    cluster.wait_permission("limited", "list", "pods");
    cluster.wait_no_permission("limited", "list", "nodes");
    let top = ask_json(&reader, &["top"]);
    let dongle = item(&top["resources"], "resource", DONGLE);
    assert_eq!((&dongle["requested"], &dongle["rules"]), (&json!("3"), &json!(["dongle"])), "{top:#}");
    assert_eq!(top["notes"].as_array().unwrap().len(), 1, "{top:#}");
}

#[test]
fn answers_to_bad_input_say_what_is_wrong() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply(&pod("asks", DONGLE, "1").to_string());
    let kubeconfig = cluster.control_plane.kubeconfig();
    let mut screens = Vec::new();
    for (args, code, message) in [
        (&["node", "node-2"][..], 1, "there is no node node-2; is it node-1?"),
        (&["resource", "example.com/dongel"], 1, "no pod requests it; is it example.com/dongle?"),
        (&["resource", "cpu"], 1, "cpu is no extended resource"),
        (&["pod", "nobody"], 1, "there is no pod nobody in the namespace default"),
        (&["pod", "../../nodes/node-1"], 1, "there is no pod ../nodes/node-1 in the namespace .."),
        (&["why", "nobody", "-n", "kube-system"], 2, "there is no pod nobody in the namespace kube-system"),
        (&["why", "a/b", "-n", "c"], 2, "a/b is not in the namespace of -n"),
        (&["why", "asks", "--context", "none"], 2, "none"),
        (&["top", "--kubeconfig", "/nowhere"], 1, "/nowhere"),
        (&["top", "-l", "="], 2, "label"),
    ] {
        let output = ask(&kubeconfig, args);
        assert_eq!((output.code, output.stdout.as_str()), (code, ""), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{args:?}: {}", output.stderr);
        screens.push(golden::console(&args.join(" "), &output));
    }
    golden::check("bad-input.console", &screens.join("\n"));
    // As kubectl and `-o name` print them.
    for args in [&["node", "node/node-1"][..], &["pod", "pod/asks"], &["pod", "pods/asks"], &["pod", "default/asks"]] {
        let output = ask(&kubeconfig, args);
        assert_eq!(output.code, 0, "{args:?}: {}", output.stderr);
    }
    let top = ask(&kubeconfig, &["top"]);
    assert_eq!(top.code, 0, "{}", top.stderr);
    assert!(top.stderr.contains("the cluster has no CustomResourceDefinition of rules"), "{}", top.stderr);
    let elsewhere = ask(&kubeconfig, &["node", "node-1", "-l", "no=label"]);
    assert!(elsewhere.stderr.contains("there is no node node-1 among those that -l selects"), "{}", elsewhere.stderr);
}
