use serde_json::{Value, json};

use super::*;
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
    inventory.rules = Some(crate::inspect::diff::rules::Rules::from_files(vec![rule(
        "other",
        &json!({"resourceName": "example.com/dongles", "allNodes": true}),
    )]));
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
            "No node that the pod may use has example.com/dongle; node-3 has enough, and the pod may not use it: the pod's \
             node affinity needs metadata.name In (node-1)\nFix: declare it on a node that the pod may use",
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
            "Fix: see the reasons above: a rule declares enough, and something stands in its way",
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
        (why.nodes.iter().map(WhyNode::takes).collect::<Vec<_>>(), why.text(false))
    };
    let (takes, text) = explained(std::slice::from_ref(&small));
    assert_eq!(takes, [false]);
    let conclusion = "No node with enough extended resources has enough cpu and memory (node-1: cpu: 500m free, the pod \
                      requests 1)";
    assert!(text.contains(conclusion), "{text}");
    assert!(text.contains("node-1   enough   cpu: 500m free, the pod requests 1"), "{text}");
    let (takes, text) = explained(&[small, large]);
    assert_eq!(takes, [false, true]);
    assert!(text.contains("1 of 2 nodes has enough extended resources"), "{text}");
}
