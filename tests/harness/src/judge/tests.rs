//! Each history is an audit log: one in which the program behaves, and the same with one thing changed.

#![allow(clippy::unwrap_used)] // a test that fails panics

use serde_json::{Value, json};

use super::history::History;
use super::{Era, Judge};
use crate::audit::{AuditLog, Entry};
use crate::objects::{DONGLE, LEDGER};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/node-resource-advertiser";

/// An audit log in the making: one request a second.
#[derive(Default)]
struct Log(Vec<String>);

/// A request.
struct Sent<'a> {
    by: &'a str,
    verb: &'a str,
    uri: &'a str,
}

impl Log {
    /// What the program does first: it leads, and lists rules and pods.
    fn led() -> Self {
        let mut log = Self::default();
        log.add(&Sent { by: "admin", verb: "create", uri: "/api/v1/nodes/node-1" }, &node(1, None, None));
        log.add(&Sent { by: "admin", verb: "create", uri: "/apis/x/y/nodeextendedresources/dongle" }, &rule(4));
        log.lead();
        log.list(super::RULES);
        log.list("/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DFailed");
        log
    }

    fn lead(&mut self) {
        let lease = json!({"spec": {"holderIdentity": "first"}});
        self.add(&Sent { by: "controller-1", verb: "update", uri: LEASE }, &lease);
    }

    fn list(&mut self, uri: &str) {
        self.add(&Sent { by: "controller-1", verb: "list", uri }, &Value::Null);
    }

    fn patch(&mut self, by: &str, node: &Value) {
        self.add(
            &Sent { by, verb: "patch", uri: "/api/v1/nodes/node-1/status?fieldManager=node-resource-advertiser" },
            node,
        );
    }

    fn add(&mut self, sent: &Sent<'_>, response: &Value) {
        let at = |fraction| format!("2030-01-01T00:{:02}:{:02}.{fraction}Z", self.0.len() / 60, self.0.len() % 60);
        let (path, _) = sent.uri.split_once('?').unwrap_or((sent.uri, ""));
        let kinds = ["nodeextendedresources", "nodes", "pods", "leases"];
        let kind = kinds.into_iter().find(|kind| path.contains(&format!("/{kind}"))).unwrap();
        let mut rest = path.split_once(kind).unwrap().1.split('/').skip(1);
        let agent = if sent.by.starts_with("controller") { "node-resource-advertiser/0.1.0" } else { "kubectl/v1" };
        let entry = json!({
            "verb": sent.verb, "requestURI": sent.uri, "userAgent": agent, "user": {"username": sent.by},
            "objectRef": {"resource": kind, "namespace": "default", "name": rest.next(), "subresource": rest.next()},
            "requestReceivedTimestamp": at("100000"), "stageTimestamp": at("200000"),
            "responseStatus": {"code": 200}, "responseObject": response,
        });
        self.0.push(entry.to_string());
    }

    fn violations(&self) -> Vec<String> {
        let mut history = History::default();
        history.begin(&Era::beginning(0));
        history.read(&self.0.join("\n"));
        history.violations()
    }
}

fn node(version: u64, value: Option<&str>, ledger: Option<&str>) -> Value {
    let mut node = json!({
        "kind": "Node",
        "metadata": {
            "name": "node-1", "uid": "u", "resourceVersion": version.to_string(),
            "creationTimestamp": "2030-01-01T00:00:00Z",
        },
    });
    if let Some(value) = value {
        node["status"] = json!({"capacity": {DONGLE: value}, "allocatable": {DONGLE: value}});
    }
    if let Some(quantity) = ledger {
        let ledger = json!({DONGLE: {"quantity": quantity, "rule": "dongle"}});
        node["metadata"]["annotations"] = json!({LEDGER: ledger.to_string()});
    }
    node
}

fn rule(quantity: u64) -> Value {
    let mut rule = crate::objects::rule("dongle", &json!({"quantity": quantity}));
    rule["metadata"]["creationTimestamp"] = json!("2030-01-01T00:00:01Z");
    rule
}

#[track_caller]
fn assert_violates(log: &Log, violation: &str) {
    let violations = log.violations();
    assert!(matches!(&violations[..], [one] if one.starts_with(violation)), "{violations:#?}");
}

#[test]
fn history_of_a_program_that_keeps_the_invariants_has_no_violation() {
    let mut log = Log::led();
    log.patch("controller-1", &node(2, Some("4"), Some("4")));
    // Another client's writes are its own affair.
    log.patch("kubelet", &node(3, Some("0"), Some("4")));
    log.patch("controller-1", &node(4, Some("4"), Some("4")));
    log.patch("admin", &node(5, Some("7"), None));
    assert_eq!(log.violations(), [""; 0]);
}

#[test]
fn story_of_a_violation_names_node_versions_and_rules() {
    let mut log = Log::led();
    log.patch("admin", &node(2, Some("8"), None));
    log.patch("controller-1", &node(3, Some("4"), Some("4")));
    let violations = log.violations();
    let story = violations.first().unwrap();
    for part in [
        "I1: a value that the ledger does not list is overwritten",
        "node node-1",
        "before: version 2, written by admin",
        "after: version 3, written by the program as controller-1",
        "\"dongle\": {",
    ] {
        assert!(story.contains(part), "{part:?} is not in {story}");
    }
}

#[test]
fn patch_that_breaks_one_invariant_is_found() {
    let mut zero = Log::led();
    zero.patch("controller-1", &node(2, Some("0"), Some("4")));
    assert_violates(&zero, "I3");
    let mut unrecorded = Log::led();
    unrecorded.patch("controller-1", &node(2, Some("4"), None));
    assert_violates(&unrecorded, "I1");
    let mut declared = Log::led();
    declared.patch("controller-1", &node(2, Some("5"), Some("5")));
    assert_violates(&declared, "I1: what no rule declares");
    let mut second = Log::led();
    second.patch("controller-2", &node(2, Some("4"), Some("4")));
    assert_violates(&second, "I4, I6");
    let mut withdrawn = Log::led();
    withdrawn.patch("controller-1", &node(2, Some("4"), Some("4")));
    withdrawn.patch("controller-1", &node(3, None, None));
    assert_violates(&withdrawn, "I1: a declared value is withdrawn");
}

#[test]
fn leader_that_has_not_listed_rules_may_only_repair() {
    let mut log = Log::led();
    let takeover = json!({"spec": {"holderIdentity": "second"}});
    log.add(&Sent { by: "controller-2", verb: "update", uri: LEASE }, &takeover);
    // The rules that it listed before it led do not count.
    log.lead();
    log.patch("controller-1", &node(2, Some("4"), Some("4")));
    assert_violates(&log, "I4, I6");
    log.0.pop();
    log.list(super::RULES);
    log.patch("controller-1", &node(2, Some("4"), Some("4")));
    assert_eq!(log.violations(), [""; 0]);
}

#[test]
fn value_below_what_watched_pods_request_is_found() {
    let mut log = Log::led();
    log.0.retain(|line| !line.contains("/api/v1/pods?"));
    log.patch("controller-1", &node(2, Some("4"), Some("4")));
    assert_violates(&log, "I5: a value is lowered, or appears, without a list of pods");

    let mut log = Log::led();
    log.patch("controller-1", &node(2, Some("4"), Some("4")));
    let mut pod = crate::objects::bound_pod("pod", "node-1", DONGLE, "3");
    pod["spec"]["containers"][0]["resources"]["requests"] = json!({DONGLE: "3"});
    log.add(&Sent { by: "admin", verb: "create", uri: "/api/v1/namespaces/default/pods/pod" }, &pod);
    log.add(&Sent { by: "admin", verb: "patch", uri: "/apis/x/y/nodeextendedresources/dongle" }, &rule(2));
    // A watch may not have shown what is younger.
    (0..130).for_each(|_| log.list("/version/nodes"));
    log.patch("controller-1", &node(3, Some("2"), Some("2")));
    assert_violates(&log, "I5: pods request 3");
    log.0.pop();
    log.patch("controller-1", &node(3, Some("3"), Some("3")));
    assert_eq!(log.violations(), [""; 0]);
}

#[test]
fn value_that_pods_may_hold_is_no_violation() {
    let mut log = Log::led();
    let mut pod = crate::objects::bound_pod("pod", "node-1", DONGLE, "3");
    pod["spec"]["containers"][0]["resources"]["requests"] = json!({DONGLE: "3"});
    log.add(&Sent { by: "admin", verb: "create", uri: "/api/v1/namespaces/default/pods/pod" }, &pod);
    log.add(&Sent { by: "admin", verb: "patch", uri: "/apis/x/y/nodeextendedresources/dongle" }, &rule(2));
    log.list("/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DFailed");
    log.patch("controller-1", &node(3, Some("3"), Some("3")));
    assert_eq!(log.violations(), [""; 0]);
    log.0.pop();
    log.patch("controller-1", &node(3, Some("5"), Some("5")));
    assert_violates(&log, "I1: what no rule declares");
}

#[test]
fn patch_after_a_kill_is_judged_if_the_version_before_is_known() {
    let mut log = Log::led();
    let kill = log.0.len();
    log.patch("controller-1", &node(9, Some("0"), Some("4")));
    let violations = |nodes: Vec<Value>| {
        let mut history = History::default();
        history.begin(&Era::beginning(0));
        history.read(&log.0[..kill].join("\n"));
        history.begin(&Era { nodes, ..Era::beginning(0) });
        history.read(&log.0[kill..].join("\n"));
        history.violations().len()
    };
    assert_eq!(violations(Vec::new()), 0);
    assert_eq!(violations(vec![node(5, None, None)]), 1);
}

/// The program's patch and another client's write have the same version: one of them changed nothing.
#[test]
fn version_of_two_requests_is_of_the_one_that_can_have_written_it() {
    let violations = |is_swapped: bool, spans: [&str; 2]| {
        let mut log = Log::led();
        let mut labeled = node(2, None, None);
        labeled["metadata"]["labels"] = json!({"some": "label"});
        log.patch("kube-controller-manager", &labeled);
        log.patch("controller-1", &labeled);
        let last = log.0.len() - 1;
        // Both in the same second.
        let second = |at: usize| format!("00:00:{at:02}.");
        for (line, tenths) in [last - 1, last].into_iter().zip(spans) {
            let (received, answered) = tenths.split_at(1);
            log.0[line] = log.0[line]
                .replace(&format!("{}100000", second(line)), &format!("{}{received}00000", second(last)))
                .replace(&format!("{}200000", second(line)), &format!("{}{answered}00000", second(last)));
        }
        if is_swapped {
            log.0.swap(last - 1, last);
        }
        log.violations().len()
    };
    for is_swapped in [false, true] {
        // The other's has ended before, overlaps, or follows.
        assert_eq!(violations(is_swapped, ["12", "34"]), 0);
        assert_eq!(violations(is_swapped, ["13", "24"]), 0);
        assert_eq!(violations(is_swapped, ["24", "13"]), 0);
        assert_eq!(violations(is_swapped, ["34", "12"]), 1);
    }
}

/// The next holder's write is answered before the release that made way for it.
#[test]
fn lease_is_of_the_last_who_took_it_whoever_is_answered_last() {
    let mut log = Log::default();
    log.add(&Sent { by: "admin", verb: "create", uri: "/api/v1/nodes/node-1" }, &node(1, None, None));
    log.add(&Sent { by: "admin", verb: "create", uri: "/apis/x/y/nodeextendedresources/dongle" }, &rule(4));
    let lease = |version: &str, holder: &str| json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": holder}});
    log.add(&Sent { by: "controller-1", verb: "update", uri: LEASE }, &lease("12", "first"));
    log.add(&Sent { by: "admin", verb: "patch", uri: LEASE }, &lease("11", ""));
    log.list(super::RULES);
    log.list("/api/v1/pods");
    log.patch("controller-1", &node(20, Some("4"), Some("4")));
    assert_eq!(log.violations(), [""; 0]);
}

#[test]
fn deletion_that_waits_for_finalizers_is_a_version() {
    let mut log = Log::led();
    let mut deleted = node(2, None, None);
    deleted["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:05Z");
    log.add(&Sent { by: "admin", verb: "delete", uri: "/api/v1/nodes/node-1" }, &deleted);
    let mut patched = node(3, Some("4"), Some("4"));
    patched["metadata"]["deletionTimestamp"] = deleted["metadata"]["deletionTimestamp"].clone();
    log.patch("controller-1", &patched);
    assert_eq!(log.violations(), [""; 0]);
}

#[test]
fn excuse_accepts_one_violation_and_has_to_be_needed() {
    let dir = std::env::temp_dir().join(format!("judge-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut log = Log::led();
    log.patch("controller-1", &node(2, Some("0"), Some("4")));
    // The line of a killed server ends anywhere.
    std::fs::write(dir.join("audit.log"), log.0.join("\n") + "\n{\"verb\":").unwrap();
    let judge = Judge::new(AuditLog::prepare(&dir).unwrap().0);
    assert!(format!("{:#}", judge.verdict().unwrap_err()).contains("I3"));
    judge.excuse("I3: a 0 is written", "a test");
    judge.verdict().unwrap();
    judge.excuse("I2", "a test");
    assert!(format!("{:#}", judge.verdict().unwrap_err()).contains("an excuse is not needed: I2 (a test)"));
    judge.begin();
    judge.verdict().unwrap();
    assert!(Entry::parse("{\"verb\":").is_none());
    std::fs::remove_dir_all(dir).unwrap();
}
