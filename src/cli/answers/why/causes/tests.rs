use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::super::Found;
use super::*;
use crate::cli::end;
use crate::inspect::inventory::tests::{DONGLE, inventory, node, pod, rule};
use crate::inspect::inventory::workloads::{Pods, Workload};
use crate::inspect::inventory::{Inventory, read};

fn group(pods: &[Value]) -> Group {
    let pods = pods.iter().map(|pod| read::placed(pod.clone()).unwrap()).collect();
    Group {
        namespace: Some("default".to_owned()),
        workload: None,
        pods,
        rejected: Vec::new(),
        failing: Vec::new(),
        gap: None,
    }
}

fn causes(inventory: &Inventory, group: &Group) -> Causes {
    Causes::new(&Counted::new(inventory), group, None)
}

/// Returns a pod that waits for a node with this label.
fn placed(name: &str, dongles: &str, disk: &str) -> Value {
    let mut pod = pod(name, "", dongles);
    pod["spec"]["nodeSelector"] = json!({"disk": disk});
    pod
}

#[test]
fn pods_with_one_cause_are_one_group_whatever_they_request() {
    let nodes = [node("node-1", &json!({"disk": "ssd"}), "4")];
    let mut enough = pod("d", "", "1");
    enough["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
        "message": "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available"}]);
    let waiting = [pod("a", "", "2"), pod("b", "", "3"), placed("c", "1", "tape"), enough, pod("e", "", "0")];
    let all = [&waiting[..], &[pod("holder", "node-1", "3")]].concat();
    let found = causes(&inventory(&nodes, &all, vec![]), &group(&waiting));
    let expected = "\
namespace default: 5 pods wait for a node, 2 of them because of extended
resources.
2 pods: a, b
   No node has enough extended resources free now.
   example.com/dongle: each requests 2 to 3; 1 of 4 free, 1 on one node
   (node-1).
   Fix: wait until pods end, such as default/holder (3); or declare more.
1 pod: c
   The pod may use no node: on 1 node, the pod's nodeSelector needs disk=tape,
   and the node has disk=ssd.
   Fix: change the pod's nodeSelector, affinity or tolerations, or the nodes'
   labels and taints.
1 pod: d
   1 of 1 node has enough extended resources: if the pod stays Pending,
   something else keeps it off.
   Fix: see what else the scheduler says below.
   The scheduler says: 0/1 nodes are available: 1 Insufficient cpu.
1 pod: e
   The pod requests no extended resources; names below kubernetes.io, which no
   rule can declare, are not looked at.
Node by node: `node-resource-advertiser why a -n default`
";
    let text = found.text(false);
    let program = hint::command("");
    assert_eq!(text.replace(program.trim_end(), "node-resource-advertiser"), expected);
    assert_eq!(found.names(), ["pod/a", "pod/b", "pod/c", "pod/d", "pod/e"]);
}

/// Each pod of a DaemonSet has a node of its own.
#[test]
fn pods_with_nodes_of_their_own_are_one_cause() {
    let names = ["node-1", "node-2", "node-3"];
    let waiting = names.map(|name| {
        let mut pod = pod(&format!("agent-{name}"), "", "1");
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": [name]}]);
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": fields}]}}});
        pod
    });
    let nodes = [&names.map(|name| node(name, &json!({}), ""))[..], &[node("node-4", &json!({}), "4")]].concat();
    let rules = vec![rule("dongle", &json!({"nodeNames": ["node-4"]}))];
    let found = causes(&inventory(&nodes, &waiting, rules), &group(&waiting));
    let text = found.text(false);
    let expected = "3 pods: agent-node-1, agent-node-2, agent-node-3
   The pod's own node, the only one that it may use, has no example.com/dongle:
   rule dongle does not select it.
";
    assert!(text.contains(expected), "{text}");
    assert_eq!(found.causes.len(), 1);
}

/// They wait for nothing, and their owner may have replaced them.
#[test]
fn rejected_pods_are_named_and_count_as_none_that_wait() {
    let rejected = ["a", "b"].map(|name| {
        let mut pod = pod(name, "node-1", "3");
        pod["status"] = json!({"phase": "Failed", "reason": "OutOfexample.com/dongle", "message": "Pod was rejected"});
        read::placed(pod).unwrap()
    });
    let group = Group { rejected: rejected.into(), ..group(&[]) };
    let found = causes(&inventory(&[node("node-1", &json!({}), "4")], &[], vec![]), &group);
    let text = found.text(false);
    let expected = "namespace default: no pod waits for a node.
2 pods: a, b
   The pod has ended (Failed): OutOfexample.com/dongle: Pod was rejected.
";
    assert!(text.starts_with(expected), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("{} shows who changed the value", hint::command("history node-1"))), "{text}");
    assert_eq!(found.verdicts().count() + found.names().len(), 0);
}

#[test]
fn many_causes_fit_on_a_screen_of_80_by_24() {
    let nodes = [node("node-1", &json!({"disk": "ssd"}), "4")];
    let waiting: Vec<_> = (0..40).map(|at| placed(&format!("p-{at:02}"), "9", &format!("disk-{}", at % 20))).collect();
    let found = causes(&inventory(&nodes, &waiting, vec![]), &group(&waiting));
    assert_eq!(found.causes.len(), 20);
    let text = found.text(false);
    assert!(text.lines().count() < 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("… and 16 causes more, of 32 pods (-o wide)"), "{text}");
    assert!(found.text(true).contains("2 pods: p-19, p-39"), "{}", found.text(true));
}

#[test]
fn pods_that_a_quota_keeps_from_being_created_are_a_cause() {
    let nodes = [node("node-1", &json!({}), "4")];
    let quota = "Error creating: pods \"web-5d8f-x\" is forbidden: exceeded quota: dongles, requested: \
                 requests.example.com/dongle=1, used: requests.example.com/dongle=4, limited: requests.example.com/dongle=4";
    let combined = format!("(combined from similar events): {quota}");
    for (failure, verdict) in [
        (quota, Verdict::OverQuota),
        (&combined, Verdict::OverQuota),
        ("pods \"web\" is forbidden: exceeded quota: small, requested: requests.cpu=1", Verdict::NotCreated),
        ("pods \"web\" is forbidden: violates PodSecurity", Verdict::NotCreated),
    ] {
        let workload = Workload {
            name: "deployment/web".to_owned(),
            selector: LabelSelector::default(),
            pods: Pods { desired: 3, existing: 2, failure: None },
            gap: None,
        };
        let name = "deployment/web".to_owned();
        let failing = vec![Failing { namespace: "default".to_owned(), name, failure: failure.to_owned() }];
        let group = Group { workload: Some(workload), failing, ..group(&[]) };
        let found = causes(&inventory(&nodes, &[], vec![]), &group);
        assert_eq!(found.verdicts().collect::<Vec<_>>(), [verdict], "{failure}");
        let text = found.text(false);
        let start =
            "deployment/web has 2 of 3 pods: no pod waits for a node.\ndeployment/web\n   Pods cannot be created: pods";
        assert!(text.starts_with(start), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.contains("kubectl describe quota -n default"), failure.contains("quota"), "{text}");
        assert!(!Found::Many(found).outcome().fits, "a pod is missing");
    }
}

#[test]
fn answer_that_may_lack_workloads_is_incomplete() {
    let lacking = Group { gap: Some("events cannot be listed".to_owned()), ..group(&[]) };
    for (group, verdict) in [(group(&[]), end::Verdict::Fine), (lacking, end::Verdict::Incomplete)] {
        let found = Found::Many(causes(&inventory(&[], &[], vec![]), &group));
        assert_eq!(found.outcome().verdict(), verdict);
    }
}

#[test]
fn pods_that_differ_in_what_an_answer_depends_on_are_asked_about_apart() {
    let mut nominated = pod("n", "", "2");
    nominated["status"]["nominatedNodeName"] = json!("node-1");
    let mut urgent = pod("u", "", "2");
    urgent["spec"]["priority"] = json!(1000);
    let waiting = [pod("a", "", "2"), pod("b", "", "2"), nominated, urgent, placed("p", "2", "ssd")];
    let group = group(&waiting);
    let found: Vec<Vec<_>> =
        alike(&group.pods).iter().map(|alike| alike.pods.iter().map(|pod| &*pod.name).collect()).collect();
    assert_eq!(found, [vec!["a", "b"], vec!["n"], vec!["u"], vec!["p"]]);
}

#[test]
fn pods_that_have_a_node_by_now_do_not_count() {
    let before = [pod("a", "", "1"), pod("b", "", "1"), pod("gone", "", "1"), pod("e", "", "0")];
    let mut terminating = pod("b", "", "1");
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let now = inventory(&[], &[pod("a", "node-1", "1"), terminating], vec![]);
    let left = group(&before).listed_in(&now).pods;
    assert_eq!(left.iter().map(|(pod, _)| &*pod.name).collect::<Vec<_>>(), ["e"]);
    let unknown = Inventory { pods: None, ..now };
    assert_eq!(group(&before).listed_in(&unknown).pods.len(), 4);
}

#[test]
fn outcome_of_a_group_is_that_of_its_worst_pod() {
    use crate::cli::answers::why::diagnosis::Outcome;
    for (verdicts, code, fits) in [
        (&[][..], 0, true),
        (&[Verdict::Enough, Verdict::NotWaiting], 0, true),
        (&[Verdict::Enough, Verdict::Unknown], 3, false),
        (&[Verdict::Unknown, Verdict::NotEnough], 1, false),
        (&[Verdict::Excluded], 0, false),
        (&[Verdict::NotCreated, Verdict::Gated], 0, false),
        (&[Verdict::OverQuota], 1, false),
        (&[Verdict::Rejected], 1, true),
    ] {
        let outcome = Outcome::of(verdicts.iter().copied());
        assert_eq!((outcome.verdict() as u8, outcome.fits), (code, fits), "{verdicts:?}");
    }
    assert!(names_resource(&format!("requested: requests.{DONGLE}=1")) && !names_resource("requests.cpu=1"));
}
