use serde_json::{Value, json};

use super::diagnosis::WhyNode;
use super::*;
use crate::inspect::diff::cluster;
use crate::inspect::diff::rules::Rules;
use crate::inspect::inventory::read;
use crate::inspect::inventory::tests::{DONGLE, inventory, node, pod, rule};

fn subject(inventory: Inventory, pod: &Value) -> Subject {
    let (pod, placement) = read::placed(pod.clone()).unwrap();
    Subject { pod, placement, inventory }
}

/// Returns a Pending pod about which the scheduler says this.
fn rejected(dongles: &str, message: &str) -> Value {
    let mut pod = pod("waits", "", dongles);
    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "message": message}]);
    pod
}

/// Returns the answer, what it is about, and the inventory for another question.
fn explained(inventory: &mut Inventory, pod: &Value) -> (Verdict, String) {
    let subject = subject(std::mem::take(inventory), pod);
    let why = explain(&subject, None);
    *inventory = subject.inventory;
    (why.verdict, why.remarks().join("\n"))
}

#[test]
fn scheduler_message_that_is_not_about_the_answer_is_remarked() {
    let nodes = [node("node-1", &json!({}), "4")];
    let yet = "or the scheduler has yet to try again: it saw more nodes with too little";
    let ignores = "names none of these resources";
    for (dongles, message, verdict, remark) in [
        ("3", "0/1 nodes are available: 1 Insufficient example.com/dongle. preemption", Verdict::Enough, Some(yet)),
        ("3", "0/1 nodes are available: 1 Insufficient example.com/dongle.large.", Verdict::Enough, None),
        ("3", "0/1 nodes are available: 1 Insufficient example.com/dongle-2, 1 Too many pods.", Verdict::Enough, None),
        ("3", "0/1 nodes are available: 1 Too many pods.", Verdict::Enough, None),
        ("5", "0/1 nodes are available: 1 Insufficient example.com/dongle.", Verdict::NotEnough, None),
        ("5", "0/1 nodes are available: 1 node(s) had untolerated taint(s).", Verdict::NotEnough, Some(ignores)),
    ] {
        let pod = rejected(dongles, message);
        let (found, remarks) = explained(&mut inventory(&nodes, std::slice::from_ref(&pod), vec![]), &pod);
        assert_eq!(found, verdict, "{message}: {remarks}");
        for text in [yet, ignores] {
            assert_eq!(remarks.contains(text), remark == Some(text), "{message}: {remarks}");
        }
    }
}

#[test]
fn scheduler_that_saw_more_nodes_with_too_little_is_behind() {
    let nodes = [node("node-1", &json!({}), "4"), node("node-2", &json!({}), "2")];
    for (message, is_behind) in [
        ("0/2 nodes are available: 1 Insufficient example.com/dongle, 1 Too many pods.", false),
        ("0/2 nodes are available: 2 Insufficient example.com/dongle.", true),
    ] {
        let pod = rejected("3", message);
        let (found, remarks) = explained(&mut inventory(&nodes, std::slice::from_ref(&pod), vec![]), &pod);
        assert_eq!(found, Verdict::Enough, "{message}: {remarks}");
        assert_eq!(remarks.contains("the scheduler has yet to try again"), is_behind, "{message}: {remarks}");
        // It counts all nodes, and -l selects some.
        let mut part = inventory(&nodes, std::slice::from_ref(&pod), vec![]);
        part.is_part = true;
        let (_, remarks) = explained(&mut part, &pod);
        assert!(!remarks.contains("the scheduler has yet to try again"), "{message}: {remarks}");
    }
}

#[test]
fn shortages_are_numbers_for_programs() {
    let nodes = [node("node-1", &json!({}), "4"), node("node-2", &json!({}), "")];
    let pods = [pod("holder", "node-1", "3"), pod("waits", "", "2")];
    let rules = vec![rule("dongle", &json!({"quantity": 4, "nodeSelector": {"matchLabels": {"pool": "usb"}}}))];
    let why = explain(&subject(inventory(&nodes, &pods, rules), &pods[1]), None);
    let shortages = |at: usize| serde_json::to_value(&why.nodes[at]).unwrap()["shortages"].clone();
    let short = json!([{"resource": DONGLE, "requested": "2", "allocatable": "4", "free": "1", "most": "4",
        "pods": ["default/holder (3)"]}]);
    assert_eq!(shortages(0), short);
    let absent = json!([{"resource": DONGLE, "requested": "2", "allocatable": "0", "free": "0", "most": "0"}]);
    assert_eq!(shortages(1), absent);
}

#[test]
fn node_with_enough_shows_what_keeps_pods_off_it() {
    let mut closed = node("node-1", &json!({}), "4");
    let taints = json!([{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]);
    closed["spec"] = json!({"unschedulable": true, "taints": taints});
    closed["status"]["conditions"] = json!([]);
    let waits = pod("waits", "", "3");
    let inventory = inventory(&[closed], std::slice::from_ref(&waits), vec![]);
    let why = explain(&subject(inventory, &waits), None);
    assert_eq!(why.nodes[0].obstacles, ["cordoned"], "the scheduler looks at this first");
    assert_eq!((why.verdict, why.nodes[0].enough), (Verdict::Excluded, Some(true)));
    let remarks = why.remarks().join("\n");
    assert!(remarks.contains("The pod may use no node: on 1 node, cordoned\nFix: change the pod's"), "{remarks}");
}

#[test]
fn sums_say_what_is_reserved_for_nominated_pods() {
    let mut promised = pod("promised", "", "2");
    promised["status"]["nominatedNodeName"] = json!("node-1");
    let waits = pod("waits", "", "3");
    let mut inventory = inventory(&[node("node-1", &json!({}), "4")], &[promised.clone(), waits.clone()], vec![]);
    let (verdict, remarks) = explained(&mut inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough);
    assert!(remarks.contains("4 of 4 free, 4 on one node (node-1); 2 of it reserved for nominated pods"), "{remarks}");
    let (_, remarks) = explained(&mut inventory, &promised);
    assert!(remarks.contains("has nominated the pod for node node-1, where it waits"), "{remarks}");
    assert!(!remarks.contains("reserved"), "for itself: {remarks}");
    let mut elsewhere = inventory;
    elsewhere.nodes.as_mut().unwrap().clear();
    elsewhere.is_part = true;
    let (_, remarks) = explained(&mut elsewhere, &waits);
    assert!(!remarks.contains("reserved"), "on a node that -l does not select: {remarks}");
}

#[test]
fn pod_that_waits_for_no_node_says_why() {
    let mut inventory = inventory(&[node("node-1", &json!({}), "")], &[], vec![]);
    let mut failed = pod("failed", "node-1", "3");
    failed["status"] = json!({"phase": "Failed", "reason": "OutOfexample.com/dongle", "message": "too little"});
    let mut deleted = pod("deleted", "", "3");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut class = pod("class", "", "0");
    class["spec"]["containers"][0]["resources"]["requests"] =
        json!({"deviceclass.resource.kubernetes.io/fast": "1", "cpu": "1"});
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "too little"});
    let mut gone = pod("gone", "node-77", "3");
    gone["status"]["phase"] = json!("Pending");
    let mut ended = failed.clone();
    ended["status"] = evicted;
    for (pod, verdict, expected) in [
        (failed, Verdict::Rejected, "The pod has ended (Failed): OutOfexample.com/dongle: too little"),
        (ended, Verdict::NotWaiting, "The pod has ended (Failed): Evicted: too little"),
        (deleted, Verdict::NotWaiting, "The pod is being deleted"),
        (class, Verdict::NotWaiting, "from DRA: it does not wait for those of nodes"),
        (gone, Verdict::NotWaiting, "The pod is on node node-77, which does not exist\nFix: delete the pod"),
    ] {
        let (found, remarks) = explained(&mut inventory, &pod);
        assert_eq!(found, verdict, "{remarks}");
        assert!(remarks.contains(expected), "{remarks}");
    }
}

#[test]
fn nothing_is_nowhere_while_a_source_of_it_is_unknown() {
    let waits = pod("waits", "", "3");
    let mut inventory = inventory(&[node("node-1", &json!({}), "")], std::slice::from_ref(&waits), vec![]);
    inventory.rules =
        Some(Rules::from_files(vec![rule("other", &json!({"resourceName": "example.com/dongles", "allNodes": true}))]));
    let (verdict, remarks) = explained(&mut inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
    assert!(remarks.contains("Nothing provides example.com/dongle: is it example.com/dongles?"), "{remarks}");
    let classes = inventory.classes.take();
    let (verdict, remarks) = explained(&mut inventory, &waits);
    assert_eq!(verdict, Verdict::Unknown, "{remarks}");
    inventory.classes = classes;
    inventory.rules = None;
    let (verdict, remarks) = explained(&mut inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
    assert!(!remarks.contains("Nothing provides") && !remarks.contains("no rule"), "{remarks}");
}

#[test]
fn resource_that_a_node_lists_is_not_misspelled() {
    let waits = pod("waits", "", "3");
    for (capacity, allocatable) in [("4", "0"), ("0", "0")] {
        let mut idle = node("node-1", &json!({}), capacity);
        idle["status"]["allocatable"] = json!({DONGLE: allocatable, "example.com/dongles": "1"});
        let (verdict, remarks) = explained(&mut inventory(&[idle], std::slice::from_ref(&waits), vec![]), &waits);
        assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
        assert!(!remarks.contains("is it example.com/dongles"), "its device plugin is down: {remarks}");
        assert_eq!(remarks.contains("reports no healthy device"), capacity == "4", "{remarks}");
    }
}

#[test]
fn short_nodes_are_an_answer_without_a_list_of_pods() {
    let waits = pod("waits", "", "3");
    let mut inventory = inventory(&[node("node-1", &json!({}), "2")], std::slice::from_ref(&waits), vec![]);
    inventory.pods = None;
    let (verdict, remarks) = explained(&mut inventory, &waits);
    assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
    assert!(remarks.contains("the pod requests 3; nodes have 2 in all"), "{remarks}");
}

#[test]
fn request_that_a_limit_range_has_added_is_named_as_such() {
    let mut waits = pod("waits", "", "5");
    let added = "LimitRanger plugin set: cpu, example.com/dongle request for container a";
    let annotated = json!({"kubernetes.io/limit-ranger": added});
    for (annotations, by) in [(annotated, " with what a LimitRange of its namespace adds;"), (json!({}), ";")] {
        waits["metadata"]["annotations"] = annotations;
        let mut inventory = inventory(&[node("node-1", &json!({}), "4")], std::slice::from_ref(&waits), vec![]);
        let (_, remarks) = explained(&mut inventory, &waits);
        assert!(remarks.contains(&format!("example.com/dongle: the pod requests 5{by}")), "{remarks}");
    }
}

/// Returns a pod that asks for dongles and keys, with more of a spec.
fn asking(dongles: &str, keys: &str, spec: Value) -> Value {
    let mut pod = pod("waits", "", dongles);
    if !keys.is_empty() {
        pod["spec"]["containers"][0]["resources"]["requests"]["example.com/key"] = json!(keys);
    }
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn keyed(name: &str, labels: &Value, dongles: &str, keys: &str) -> Value {
    let mut node = node(name, labels, dongles);
    for map in ["capacity", "allocatable"] {
        node["status"][map]["example.com/key"] = json!(keys);
    }
    node
}

#[test]
fn pod_is_judged_by_the_nodes_that_it_may_use() {
    let nodes = || {
        let [hdd, ssd] = ["hdd", "ssd"].map(|disk| json!({"disk": disk}));
        [node("node-1", &hdd, ""), node("node-2", &hdd, "2"), node("node-3", &ssd, "8")]
    };
    let field = |name: &str| {
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": [name]}]);
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": fields}],
        }}}})
    };
    for (spec, verdict, conclusion) in [
        (json!({}), Verdict::Enough, "1 of 3 nodes has enough extended resources"),
        (json!({"nodeSelector": {"disk": "ssd"}}), Verdict::Enough, "1 of 1 node that the pod may use has enough"),
        (
            field("node-1"),
            Verdict::NotEnough,
            "The pod's own node, the only one that it may use, has no example.com/dongle: no rule declares it\nFix: let a \
             rule select that node, or keep the pod off it with a nodeSelector",
        ),
        (
            json!({"nodeSelector": {"disk": "hdd"}}),
            Verdict::NotEnough,
            "No node that the pod may use can ever have enough: the pod requests 3 of example.com/dongle, and the most that \
             one has, or that a rule declares there, is 2; node-3 has enough",
        ),
        (
            json!({"nodeSelector": {"disk": "tape"}}),
            Verdict::Excluded,
            "The pod may use no node: on 2 nodes, the pod's",
        ),
        (field("node-99"), Verdict::Excluded, "The pod may only use node-99, which does not exist"),
    ] {
        let pod = asking("3", "", spec.clone());
        let (found, remarks) = explained(&mut inventory(&nodes(), std::slice::from_ref(&pod), vec![]), &pod);
        assert_eq!(found, verdict, "{spec}: {remarks}");
        assert!(remarks.contains(conclusion), "{spec}: {remarks}");
    }
}

/// The label is `ip-10-0-0-1` where the name is `ip-10-0-0-1.ec2.internal`.
#[test]
fn node_that_a_pod_names_by_its_hostname_exists() {
    let mut closed = node("node-1.internal", &json!({"kubernetes.io/hostname": "node-1"}), "4");
    closed["spec"] = json!({"unschedulable": true});
    for (hostname, conclusion) in [
        ("node-1", "The pod may use no node: on 1 node, cordoned"),
        ("node-2", "The pod may only use node-2, which does not exist"),
    ] {
        let asks = asking("3", "", json!({"nodeSelector": {"kubernetes.io/hostname": hostname}}));
        let nodes = std::slice::from_ref(&closed);
        let (verdict, remarks) = explained(&mut inventory(nodes, std::slice::from_ref(&asks), vec![]), &asks);
        assert_eq!(verdict, Verdict::Excluded, "{remarks}");
        assert!(remarks.contains(conclusion), "{remarks}");
    }
}

/// Returns a node whose ledger records so many dongles.
fn held(dongles: &str) -> Value {
    let mut node = node("node-1", &json!({}), dongles);
    let ledger = json!({DONGLE: {"quantity": dongles, "rule": "dongle"}}).to_string();
    node["metadata"]["annotations"] = json!({"noderesource.dev/advertised": ledger});
    node
}

#[test]
fn most_is_what_nodes_have_where_rules_are_unknown() {
    let asks = asking("8", "", json!({}));
    let mut inventory = inventory(&[node("node-1", &json!({}), "4")], std::slice::from_ref(&asks), vec![]);
    inventory.rules = None;
    let (_, remarks) = explained(&mut inventory, &asks);
    assert!(remarks.contains("and the most that one has now is 4"), "{remarks}");
}

#[test]
fn conclusion_says_whether_waiting_helps() {
    let none = json!({});
    let used = |name: &str, node: &str| pod(name, node, "3");
    let (one, two) = (keyed("node-1", &none, "4", "0"), keyed("node-2", &none, "0", "4"));
    let rules = || vec![rule("dongle", &json!({"allNodes": true, "quantity": 9}))];
    for (nodes, pods, asks, rules, conclusion) in [
        (
            vec![node("node-1", &none, "4")],
            vec![used("holder", "node-1")],
            asking("3", "", json!({})),
            vec![],
            "has enough extended resources free now\nFix: wait until pods end, such as default/holder (3); or declare more",
        ),
        (
            vec![node("node-1", &none, "4")],
            vec![],
            asking("8", "", json!({})),
            vec![],
            "requests 8 of example.com/dongle, and the most that one has, or that a rule declares there, is 4\nFix: request \
             at most 4 in one pod",
        ),
        (
            vec![one, two],
            vec![],
            asking("1", "1", json!({})),
            vec![],
            "No node has all that the pod requests: example.com/dongle is free on node-1; example.com/key is free on node-2",
        ),
        (
            vec![node("node-1", &none, "")],
            vec![],
            asking("8", "", json!({})),
            rules(),
            "A rule declares example.com/dongle, which is not on the node yet\nFix: see that a controller leads",
        ),
        (
            vec![node("node-1", &none, "4")],
            vec![],
            asking("8", "", json!({})),
            rules(),
            "No node has enough extended resources free now: rule dongle declares example.com/dongle, and something stands \
             in its way (conflict: written by",
        ),
        // Each may be free one day, and never on one node.
        (
            vec![keyed("node-1", &none, "4", "0"), keyed("node-2", &none, "0", "4")],
            vec![used("holder", "node-1")],
            asking("3", "1", json!({})),
            vec![],
            "No node will have room for all that the pod requests, however many pods end\nFix: request less in one pod",
        ),
        // The value goes down with the pods.
        (
            vec![held("8")],
            vec![pod("holder", "node-1", "8")],
            asking("6", "", json!({})),
            vec![rule("dongle", &json!({"allNodes": true, "quantity": 4}))],
            "requests 6 of example.com/dongle, and 4 are left there once the pods that use more have ended\nFix: request at \
             most 4",
        ),
    ] {
        let all = [&pods[..], std::slice::from_ref(&asks)].concat();
        let (verdict, remarks) = explained(&mut inventory(&nodes, &all, rules), &asks);
        assert_eq!(verdict, Verdict::NotEnough, "{remarks}");
        assert!(remarks.contains(conclusion), "{remarks}\nlacks {conclusion}");
    }
    let asks = asking("8", "", json!({}));
    let inventory = inventory(&[node("node-1", &none, "")], std::slice::from_ref(&asks), rules());
    let subject = subject(inventory, &asks);
    assert!(explain(&subject, None).awaits_controller());
    let none_leads = explain(&subject, Some(false));
    assert!(none_leads.explanation.contains("no controller leads that would write it"), "{}", none_leads.explanation);
}

#[test]
fn pod_that_no_scheduler_reports_on_names_its_scheduler() {
    let asks = asking("3", "", json!({"schedulerName": "my-scheduler"}));
    let mut inventory = inventory(&[node("node-1", &json!({}), "4")], std::slice::from_ref(&asks), vec![]);
    let (verdict, remarks) = explained(&mut inventory, &asks);
    assert_eq!(verdict, Verdict::Enough);
    assert!(
        remarks.contains("No scheduler has reported on the pod\nFix: see that the scheduler my-scheduler runs"),
        "{remarks}"
    );
}

/// DRA may provide it on the node that has none of its own.
#[test]
fn one_unknown_node_beside_a_short_one_is_unknown() {
    let asks = asking("3", "", json!({}));
    let nodes = [node("node-1", &json!({}), ""), node("node-2", &json!({}), "2")];
    let mut inventory = inventory(&nodes, std::slice::from_ref(&asks), vec![]);
    inventory.classes = Some([(DONGLE.to_owned(), "fast".to_owned())].into());
    let why = explain(&subject(inventory, &asks), None);
    assert_eq!(why.nodes.iter().map(|node| node.enough).collect::<Vec<_>>(), [None, Some(false)]);
    assert_eq!(why.verdict, Verdict::Unknown, "{}", why.explanation);
}

#[test]
fn labels_that_no_node_has_leave_the_answer_unknown() {
    let asks = asking("3", "", json!({}));
    for (is_part, verdict) in [(false, Verdict::NotEnough), (true, Verdict::Unknown)] {
        let inventory = Inventory { is_part, ..inventory(&[], std::slice::from_ref(&asks), vec![]) };
        assert_eq!(explain(&subject(inventory, &asks), None).verdict, verdict);
    }
}

#[test]
fn node_with_enough_and_too_little_cpu_or_memory_says_so() {
    let compute = |node: &mut Value, cpu: &str, memory: &str| {
        node["status"]["allocatable"]["cpu"] = json!(cpu);
        node["status"]["allocatable"]["memory"] = json!(memory);
    };
    let [mut small, mut large] = ["node-1", "node-2"].map(|name| node(name, &json!({}), "4"));
    compute(&mut small, "500m", "8Gi");
    compute(&mut large, "8", "8Gi");
    let asks = asking("3", "", json!({}));
    let explained = |nodes: &[Value]| {
        let mut inventory = inventory(nodes, std::slice::from_ref(&asks), vec![]);
        inventory.compute = Some([].into());
        let why = explain(&subject(inventory, &asks), None);
        assert_eq!(why.verdict, Verdict::Enough, "extended resources are not the cause");
        (why.nodes.iter().map(WhyNode::takes).collect::<Vec<_>>(), why.text(true))
    };
    let (takes, text) = explained(std::slice::from_ref(&small));
    assert_eq!(takes, [false]);
    let conclusion = "no node with enough extended resources has room for the pod (node-1: cpu: 500m free, the pod \
                      requests 1)";
    assert!(text.contains(conclusion), "{text}");
    assert!(text.contains("node-1   enough   cpu: 500m free, the pod requests 1"), "{text}");
    let (takes, text) = explained(&[small, large]);
    assert_eq!(takes, [false, true]);
    assert!(text.contains("1 of 2 nodes has enough extended resources"), "{text}");
}

/// Returns the rules of a cluster with these specs and conditions `Ready`, by name.
fn in_cluster(rules: &[(&str, Value, Value)]) -> Rules {
    let rules = rules.iter().map(|(name, spec, ready)| {
        let mut object = json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name, "generation": 1}, "spec": {"resourceName": DONGLE, "quantity": 4},
            "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True", "reason": "Advertised",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object["status"]["conditions"][0].as_object_mut().unwrap().extend(ready.as_object().unwrap().clone());
        cluster::present(serde_json::from_value(object).unwrap())
    });
    Rules::from_cluster(rules.collect::<Vec<_>>(), Vec::new(), false)
}

/// Returns the answer about a pod while a controller leads.
fn led(nodes: &[Value], pods: &[Value], rules: Rules) -> Why {
    let mut inventory = inventory(nodes, pods, vec![]);
    inventory.rules = Some(rules);
    explain(&subject(inventory, pods.last().unwrap()), Some(true))
}

#[test]
fn unwritten_value_is_waited_for_only_if_it_is_enough_for_the_pod() {
    let all = || json!({"allNodes": true});
    let key = || json!({"allNodes": true, "resourceName": "example.com/key", "quantity": 2, "paused": true});
    let (bare, failed) = (
        node("node-1", &json!({}), ""),
        json!({"status": "False", "reason": "PatchFailed",
        "message": "node-1: denied"}),
    );
    let progressing = json!({"status": "False", "reason": "Progressing"});
    let rules = |ready: &Value| in_cluster(&[("dongle", all(), ready.clone()), ("key", key(), json!({}))]);
    let wait = "A rule declares example.com/dongle, and the controller has yet to write it\nFix: wait for seconds";
    let held = |name: &str| pod(name, "node-1", "3");
    for (asks, ready, others, expected) in [
        (asking("4", "", json!({})), json!({}), vec![], wait),
        (asking("4", "", json!({})), progressing, vec![], wait),
        (
            asking("4", "", json!({})),
            failed,
            vec![],
            "Rule dongle declares example.com/dongle, and is not Ready (PatchFailed: node-1: denied)\nFix: see its status: \
             `kubectl describe ner dongle`",
        ),
        (
            asking("5", "", json!({})),
            json!({}),
            vec![],
            "No node can ever have enough: the pod requests 5 of example.com/dongle, and the most that one has, or that a \
             rule declares there, is 4\nFix: request at most 4 in one pod",
        ),
        (
            asking("1", "3", json!({})),
            json!({}),
            vec![],
            "No node can ever have enough: the pod requests 3 of example.com/key, and the most that one has, or that a rule \
             declares there, is 2\nFix: request at most 2",
        ),
        (
            asking("1", "1", json!({})),
            json!({}),
            vec![],
            "No node has enough extended resources free now: rule key declares example.com/key, and something stands in its \
             way (paused: not advertised; rule key declares 2)\nFix: see the rule's status: `kubectl describe \
             ner key`",
        ),
        // Once the 4 are written, only 1 of them is free.
        (
            asking("2", "", json!({})),
            json!({}),
            vec![held("holder")],
            "Fix: wait until pods end, such as default/holder (3)",
        ),
    ] {
        let pods = [&others[..], std::slice::from_ref(&asks)].concat();
        let why = led(std::slice::from_ref(&bare), &pods, rules(&ready));
        let remarks = why.remarks().join("\n");
        assert!(remarks.contains(expected), "{remarks}\nlacks {expected}");
    }
}

#[test]
fn invalid_rule_leaves_only_its_own_resource_unknown() {
    let [waits, bare] = [pod("waits", "", "1"), node("node-1", &json!({}), "")];
    let named = |resource: &str| json!({"allNodes": true, "resourceName": resource});
    let invalid = |resource: &str| json!({"allNodes": true, "resourceName": resource, "quantity": 0});
    for (rules, expected, row) in [
        (
            [("bad", invalid("example.com/other"), json!({})), ("good", named("example.com/dongles"), json!({}))],
            "Nothing provides example.com/dongle: is it example.com/dongles?",
            "no rule declares it",
        ),
        (
            [("bad", invalid(DONGLE), json!({})), ("good", named("example.com/dongles"), json!({}))],
            "No node has example.com/dongle, and rule bad, which declares it, is invalid\nFix: correct rule bad",
            "no valid rule declares it",
        ),
    ] {
        let why = led(std::slice::from_ref(&bare), std::slice::from_ref(&waits), in_cluster(&rules));
        let remarks = why.remarks().join("\n");
        assert!(why.verdict == Verdict::NotEnough && remarks.contains(expected), "{remarks}\nlacks {expected}");
        assert!(why.text(false).contains(row), "{}", why.text(false));
    }
}

#[test]
fn capacity_that_another_program_has_written_blames_no_device_plugin() {
    let mut odd = node("node-1", &json!({}), "9");
    odd["status"]["allocatable"] = json!({});
    odd["metadata"]["managedFields"] = json!([{"manager": "eni", "operation": "Update", "subresource": "status",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:capacity": {"f:example.com/dongle": {}}}}}]);
    let waits = pod("waits", "", "1");
    let (_, remarks) = explained(&mut inventory(&[odd], std::slice::from_ref(&waits), vec![]), &waits);
    let expected = "node-1 has 9 of example.com/dongle in status.capacity, by eni, and nothing in status.allocatable, where \
                    the scheduler looks\nFix: let eni write both, or declare example.com/dongle with a rule";
    assert!(remarks.contains(expected), "{remarks}");
}

#[test]
fn pod_that_asks_for_more_cpu_than_a_node_has_does_not_fit() {
    let waits = pod("waits", "", "1");
    let mut small = node("node-1", &json!({}), "4");
    small["status"]["allocatable"]["cpu"] = json!("500m");
    let mut inventory = inventory(&[small], std::slice::from_ref(&waits), vec![]);
    inventory.compute = Some([].into());
    let why = explain(&subject(inventory, &waits), None);
    let expected = "However many pods end, no node with enough extended resources has room for the pod (node-1: cpu: 500m \
                    free, the pod requests 1)\nFix: request less cpu or memory in one pod, or add a larger node";
    let remarks = why.remarks().join("\n");
    assert!(remarks.contains(expected), "{remarks}");
    assert!(!Found::One(Box::new(why)).outcome().fits);
}

#[test]
fn nodes_with_much_the_same_reason_are_one_row() {
    let waits = asking("3", "", json!({"nodeSelector": {"disk": "ssd"}}));
    let nodes: Vec<_> = (0..60)
        .map(|at| {
            let disk = if at % 2 == 0 { "ssd".to_owned() } else { format!("hdd-{at}") };
            node(&format!("n-{at:02}"), &json!({"disk": disk}), "4")
        })
        .collect();
    let holders = (0..60).map(|at| pod(&format!("holder-of-n-{at:02}"), &format!("n-{at:02}"), "2"));
    let pods: Vec<_> = holders.chain([waits.clone()]).collect();
    let why = explain(&subject(inventory(&nodes, &pods, vec![]), &waits), None);
    let text = why.text(false);
    let expected = "\
NODE                           ANSWER     REASON
n-00, n-02, n-04 and 27 more   short      example.com/dongle: 2 of 4 free
n-01, n-03, n-05 and 27 more   excluded   the pod's nodeSelector needs disk=ssd
";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(why.text(true).lines().filter(|line| line.contains("holder-of")).count(), 31, "{}", why.text(true));
}

#[test]
fn reasons_of_nodes_end_before_column_81() {
    let waits = asking("9", "1", json!({}));
    let nodes = ["node-1", "node-2"].map(|name| node(name, &json!({"pool": name}), "4"));
    let key = json!({"resourceName": "example.com/key", "nodeSelector": {"matchLabels": {"pool": "other"}}});
    let rules = vec![rule("key", &key), rule("dongle", &json!({"allNodes": true}))];
    let why = explain(&subject(inventory(&nodes, std::slice::from_ref(&waits), rules), &waits), None);
    let (_, rows) = why.table(false);
    let text = why.text(false);
    let rows: Vec<_> = text.lines().take(rows.len() + 1).collect();
    assert!(rows.len() > 3 && rows.iter().all(|row| row.chars().count() <= 80), "{text}");
}

#[test]
fn node_that_takes_no_more_pods_has_no_room() {
    let waits = pod("waits", "", "1");
    for (most, takes) in [("110", true), ("0", false)] {
        let mut node = node("node-1", &json!({}), "4");
        node["status"]["allocatable"]["pods"] = json!(most);
        let mut inventory = inventory(&[node], std::slice::from_ref(&waits), vec![]);
        inventory.compute = Some([].into());
        let why = explain(&subject(inventory, &waits), None);
        assert_eq!(why.nodes[0].takes(), takes, "{most}");
        assert_eq!(why.explanation.contains("(node-1: pods: no room for one more)"), !takes, "{}", why.explanation);
    }
}

#[test]
fn pod_that_may_use_no_node_says_why_once() {
    let nodes = [1, 2, 3, 4, 5].map(|at| node(&format!("node-{at}"), &json!({"disk": format!("hdd-{at}")}), "4"));
    let asks = asking("3", "", json!({"nodeSelector": {"disk": "ssd"}}));
    let (_, remarks) = explained(&mut inventory(&nodes, std::slice::from_ref(&asks), vec![]), &asks);
    assert!(
        remarks.contains("The pod may use no node: on 5 nodes, the pod's nodeSelector needs disk=ssd\n"),
        "{remarks}"
    );
}

#[test]
fn rule_that_declares_too_little_is_not_what_hinders() {
    let nodes = ["node-1", "node-2"].map(|name| node(name, &json!({}), ""));
    let small = json!({"nodeNames": ["node-1"], "quantity": 2});
    let large = json!({"nodeNames": ["node-2"], "quantity": 4, "paused": true});
    let rules = in_cluster(&[("small", small, json!({})), ("large", large, json!({}))]);
    let why = led(&nodes, &[pod("waits", "", "3")], rules);
    assert!(why.explanation.contains("rule large declares example.com/dongle, and something"), "{}", why.explanation);
}

#[test]
fn long_names_of_nodes_are_few() {
    let waits = pod("waits", "", "3");
    let name = |at: usize| format!("ip-10-0-0-{at}.eu-central-1.compute.internal");
    let nodes: Vec<_> = (10..40).map(|at| node(&name(at), &json!({}), "4")).collect();
    let holders = (10..40).map(|at| pod(&format!("holder-{at}"), &name(at), "2"));
    let pods: Vec<_> = holders.chain([waits.clone()]).collect();
    let text = explain(&subject(inventory(&nodes, &pods, vec![]), &waits), None).text(false);
    assert!(text.contains("\nip-10-0-0-10.eu-central-1.compute.internal and 29 more   short"), "{text}");
}
