//! Attacks on the memory of the controller, by whoever may write rules or has its token.
//!
//! Method: store large rules and statuses under a CRD without validation, as an earlier version had; run the program in
//! a cgroup with a memory limit, with the CRD of this version; and expect that it lives, repairs, and
//! names the cause.

use std::time::{Duration, Instant};

use harness::objects::{DONGLE, condition, node, rule};
use harness::{Cgroup, Cluster, Controller, wait_until};
use node_resource_advertiser::model::api::{MAX_ENTRIES, MAX_ENTRIES_LENGTH, MAX_NAMES, MAX_NAMES_LENGTH};
use node_resource_advertiser::model::quantity::MAX_QUANTITY_LENGTH;
use serde_json::{Value, json};

use crate::support::rejected_objects;

const RULES: &str = "/apis/noderesource.dev/v1alpha1/nodeextendedresources";
/// The size of an attack, and of what it attacks.
struct Attack {
    /// Memory that the process may take, in bytes.
    limit: u64,
    nodes: usize,
    /// Rules of 520 KB, and as many with statuses of a megabyte.
    large: usize,
    /// Field managers of one status.
    managers: usize,
    /// Rules as large as the CRD allows.
    legal: usize,
    /// One of those that do not fit, whose status is written early: statuses are written in turn.
    stalled: usize,
    /// How often `fleeting` rules appear and vanish.
    rounds: usize,
    fleeting: usize,
    /// Whether the patches are judged. The audit log of the whole attack has gigabytes.
    is_judged: bool,
}

/// Half of the memory that the chart gives, attacked by rules that would not fit into all of it.
const QUICK: Attack = Attack {
    limit: 64 * 1024 * 1024,
    nodes: REPAIRED,
    large: 60,
    managers: 50,
    legal: 100,
    stalled: 99,
    rounds: 1,
    fleeting: 100,
    is_judged: true,
};

/// What the chart is made for.
const WHOLE: Attack = Attack {
    limit: 128 * 1024 * 1024,
    nodes: 20_000,
    large: 120,
    managers: 400,
    legal: 10_000,
    stalled: 500,
    rounds: 10,
    fleeting: 500,
    is_judged: false,
};

/// A cgroup with a memory limit; prints why if this machine permits none. Fails with `REQUIRE_ISOLATION`, unless
/// `SKIP_ISOLATED` names `memory`.
fn cgroup(limit: u64) -> Option<Cgroup> {
    let skipped = std::env::var("SKIP_ISOLATED").unwrap_or_default();
    let is_required = std::env::var_os("REQUIRE_ISOLATION").is_some_and(|value| !value.is_empty());
    match Cgroup::with_memory(limit) {
        Ok(cgroup) => Some(cgroup),
        Err(error) if is_required && !skipped.split(' ').any(|name| name == "memory") => {
            panic!("no cgroup with a memory limit can be created here: {error}; SKIP_ISOLATED=memory skips this test")
        }
        Err(error) => {
            println!("skipped: no cgroup with a memory limit can be created here: {error}");
            None
        }
    }
}

/// How many nodes have a value that is repaired, each once: more repairs of one would be a contest.
const REPAIRED: usize = 20;

/// A cluster with a rule for some nodes, and with other nodes.
fn start(attack: &Attack) -> Cluster {
    let cluster = if attack.is_judged { Cluster::start() } else { Cluster::start_unjudged() };
    for number in 1..=attack.nodes {
        let node = node(&format!("node-{number}"), &json!({}));
        send(&cluster, "POST", "/api/v1/nodes", "application/json", &node);
    }
    let names: Vec<_> = (1..=REPAIRED).map(|number| format!("node-{number}")).collect();
    cluster.apply_rule("dongle", &json!({"nodeNames": names}));
    cluster
}

/// A repair is slow from here on, or from so many times what the test's own write took.
const SLOW_REPAIR: Duration = Duration::from_millis(500);
const SLOW_RATIO: u32 = 10;

/// The rule still has the values of its nodes repaired.
struct Repairs<'a> {
    cluster: &'a Cluster,
    number: usize,
    slow: usize,
}

impl<'a> Repairs<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        cluster.wait_advertised(&format!("node-{REPAIRED}"), DONGLE, "4");
        Self { cluster, number: 0, slow: 0 }
    }

    /// The value of another node is repaired.
    fn assert_another(&mut self) {
        self.number += 1;
        let node = format!("node-{}", self.number);
        // Before it has the value, another one would be a conflict.
        self.cluster.wait_advertised(&node, DONGLE, "4");
        let began = Instant::now();
        self.cluster.write_quantity(&node, DONGLE, "7");
        let written = Instant::now();
        self.cluster.wait_advertised(&node, DONGLE, "4");
        let [write, repair] = [written - began, written.elapsed()];
        println!("repaired after {repair:?}, a write took {write:?}");
        self.slow += usize::from(repair >= SLOW_REPAIR.max(SLOW_RATIO * write));
    }

    /// Most repairs were as fast as the machine permits.
    fn assert_fast(&self) {
        assert!(self.slow * 2 <= self.number, "{} of {} repairs were slow", self.slow, self.number);
    }
}

/// Sends a request with a body of JSON, which must succeed.
fn send(cluster: &Cluster, method: &str, path: &str, content_type: &str, body: &Value) {
    let (code, text) = cluster.control_plane.send(method, path, content_type, &body.to_string()).unwrap();
    assert!((200..300).contains(&code), "{method} {path}: {code}: {text:.300}");
}

fn create_all(cluster: &Cluster, rules: impl Iterator<Item = Value>) {
    rules.for_each(|rule| send(cluster, "POST", RULES, "application/json", &rule));
}

/// Names of 245 characters, none of which exists.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number:04}.{}", "a23456789.".repeat(24).trim_end_matches('.'))).collect()
}

/// A rule of about 520 KB.
fn large(number: usize) -> Value {
    let mut rule = rule(&format!("large-{number:03}"), &json!({"nodeNames": names(1000)}));
    rule["metadata"]["annotations"] = json!({"example.com/note": "x".repeat(262_000)});
    rule
}

/// A spec as large as the CRD allows.
fn largest() -> Value {
    let padded = |number: usize, length: usize| format!("{number:0length$}");
    let names: Vec<_> = (0..MAX_NAMES).map(|number| padded(number, MAX_NAMES_LENGTH / MAX_NAMES)).collect();
    let value = |number| (padded(number, MAX_ENTRIES_LENGTH / MAX_ENTRIES), json!(padded(4, MAX_QUANTITY_LENGTH)));
    let values: serde_json::Map<_, _> = (0..MAX_ENTRIES).map(value).collect();
    json!({"nodeNames": names, "quantity": null, "quantityFrom": {"nodeLabel": {"key": "a", "values": values}}})
}

/// A rule with a label that all of its kind have.
fn labeled(kind: &str, number: usize, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["resourceName"] = json!(format!("example.com/{kind}"));
    let mut rule = rule(&format!("{kind}-{number:03}"), &spec);
    rule["metadata"]["labels"] = json!({kind: ""});
    rule
}

fn delete_all(cluster: &Cluster, label: &str) {
    let all = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    send(cluster, "DELETE", &format!("{RULES}?labelSelector={label}"), "application/json", &all);
}

/// Gives a rule a status of about a megabyte, under many field managers.
fn bloat_status(cluster: &Cluster, name: &str, managers: usize) {
    let condition = |number: usize| {
        json!({"type": format!("Type{number}"), "status": "True", "reason": "Any", "message": "\u{1d11e}".repeat(30_000),
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<_> = (0..8).map(condition).collect();
    let path = format!("{RULES}/{name}/status?fieldManager=attacker");
    send(cluster, "PATCH", &path, "application/merge-patch+json", &json!({"status": {"conditions": conditions}}));
    for manager in 0..managers {
        let path = format!("{RULES}/{name}/status?force=true&fieldManager=attacker-{manager}");
        let applied = json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name}, "status": {"total": "4", "observedGeneration": 1}});
        send(cluster, "PATCH", &path, "application/apply-patch+yaml", &applied);
    }
}

fn metric(controller: &Controller, name: &str) -> u64 {
    let metrics = controller.get("/metrics").unwrap().1;
    let mut lines = metrics.lines();
    let line = lines.find_map(|line| line.strip_prefix(&format!("node_resource_advertiser_{name} ")));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

#[test]
fn rules_and_statuses_from_before_the_bounds_do_not_end_the_process() {
    survive_rules_and_statuses_from_before_the_bounds(&QUICK);
}

#[test]
#[ignore = "takes minutes: `make test-attacks`"]
fn whole_rules_and_statuses_from_before_the_bounds_do_not_end_the_process() {
    survive_rules_and_statuses_from_before_the_bounds(&WHOLE);
}

fn survive_rules_and_statuses_from_before_the_bounds(attack: &Attack) {
    let Some(cgroup) = cgroup(attack.limit) else { return };
    let cluster = start(attack);
    rejected_objects::drop_validation(&cluster);
    create_all(&cluster, (0..attack.large).map(large));
    // Rules of all nodes would be stalled for what they take with each node.
    let small = json!({"resourceName": "example.com/small", "nodeNames": ["node-1"]});
    let small = |number: usize| rule(&format!("small-{number:03}"), &small);
    create_all(&cluster, (0..attack.large).map(small));
    for number in 0..attack.large {
        bloat_status(&cluster, &format!("small-{number:03}"), if number == 0 { attack.managers } else { 0 });
    }
    cluster.install_crd();

    let controller = Controller::start_in(&cgroup, &cluster, &[]);
    controller.wait_ready();
    let mut repairs = Repairs::new(&cluster);
    repairs.assert_another();
    let last = attack.large - 1;
    // The statuses are written back, and the large rules reported.
    for number in [0, last] {
        cluster.wait_status(&format!("small-{number:03}"), "its own conditions", |status| {
            condition(status, "Stalled").0 == "False" && status.to_string().len() < 10_000
        });
    }
    for number in [0, last] {
        let status = cluster.wait_status(&format!("large-{number:03}"), "Stalled", |status| {
            condition(status, "Stalled") == ("True", "InvalidSpec")
        });
        assert!(status.to_string().contains("nodeNames holds 1000 names of"), "{status:#}");
    }
    repairs.assert_another();
    repairs.assert_fast();
    controller.stop();
}

#[test]
fn youngest_of_too_many_legal_rules_are_stalled_and_rules_that_come_and_go_do_not_end_the_process() {
    survive_legal_rules(&QUICK);
}

#[test]
#[ignore = "takes minutes: `make test-attacks`"]
fn whole_youngest_of_too_many_legal_rules_are_stalled_and_rules_that_come_and_go_do_not_end_the_process() {
    survive_legal_rules(&WHOLE);
}

fn survive_legal_rules(attack: &Attack) {
    let Some(cgroup) = cgroup(attack.limit) else { return };
    let cluster = start(attack);
    let controller = Controller::start_in(&cgroup, &cluster, &[]);
    controller.wait_ready();
    let mut repairs = Repairs::new(&cluster);

    // A quarter of the limit has room for one rule in a megabyte.
    let spec = largest();
    create_all(&cluster, (0..attack.legal).map(|number| labeled("legal", number, &spec)));
    let youngest = format!("legal-{:03}", attack.legal - 1);
    let status = cluster.wait_status(&format!("legal-{:03}", attack.stalled), "MemoryFull", |status| {
        condition(status, "Stalled") == ("True", "MemoryFull")
    });
    assert!(status.to_string().contains("--max-rules-memory"), "{status:#}");
    cluster.wait_status("legal-000", "Ready", |status| condition(status, "Ready").0 == "True");
    controller.wait_log("rules take nearly all memory that they may");
    assert_eq!(metric(&controller, "rules_memory_limit_bytes"), attack.limit / 4);
    // It has seen as many as it may.
    let fitting = usize::try_from(attack.limit / (1024 * 1024)).unwrap() * 3 / 2;
    let stalled = u64::try_from(attack.legal - fitting.min(attack.legal - 1)).unwrap();
    // The memory for those that are stalled has room for one in a kilobyte. More are not even known.
    let stalled = stalled.min(attack.limit / 4 / 4 / 1024 - 100);
    wait_until("the other rules to be stalled", || {
        Ok((metric(&controller, r#"rules{state="stalled"}"#) >= stalled).then_some(()))
    })
    .unwrap();
    let taken = metric(&controller, "rules_memory_bytes");
    assert!(taken > attack.limit / 5, "{taken}");
    repairs.assert_another();

    for round in 0..attack.rounds {
        create_all(&cluster, (0..attack.fleeting).map(|number| labeled("fleeting", number, &spec)));
        delete_all(&cluster, "fleeting");
        repairs.assert_another();
        assert!(controller.get("/livez").is_ok_and(|(code, _)| code == 200), "in round {round}");
    }
    // There is room for the stalled rules once others are gone.
    cluster.kubectl(&["label", "ner", &youngest, "legal-"]);
    delete_all(&cluster, "legal");
    cluster.wait_status(&youngest, "Ready", |status| condition(status, "Ready").0 == "True");
    repairs.assert_fast();
    controller.stop();
}

/// Each takes little, and the states of all on all nodes would take more than the limit: no node has a text that is a
/// quantity.
#[test]
#[ignore = "takes minutes: `make test-attacks`"]
fn whole_rules_whose_quantities_no_node_has_do_not_end_the_process() {
    let Some(cgroup) = cgroup(WHOLE.limit) else { return };
    let cluster = start(&WHOLE);
    let key = json!({"key": "kubernetes.io/hostname"});
    let from = json!({"nodeLabel": key, "max": 9, "whenMissing": "Keep"});
    let unknown = |number: usize| {
        let spec = json!({"resourceName": format!("example.com/unknown-{number}"), "quantity": null,
            "allNodes": true, "quantityFrom": from});
        rule(&format!("unknown-{number:03}"), &spec)
    };
    // With those of 13, the states on 20,000 nodes take what they may.
    let rules = 30;
    create_all(&cluster, (0..rules).map(unknown));

    let controller = Controller::start_in(&cgroup, &cluster, &[]);
    controller.wait_ready();
    let mut repairs = Repairs::new(&cluster);
    let youngest = format!("unknown-{:03}", rules - 1);
    cluster.wait_status(&youngest, "MemoryFull", |status| condition(status, "Stalled") == ("True", "MemoryFull"));
    repairs.assert_another();
    // The oldest have room.
    cluster.wait_status("unknown-000", "QuantityUnknown", |status| {
        condition(status, "Ready") == ("False", "QuantityUnknown") && status["nodes"]["selected"] == WHOLE.nodes
    });
    repairs.assert_another();
    println!("at most {:?} of {} bytes", cgroup.peak(), WHOLE.limit);
    repairs.assert_fast();
    controller.stop();
}
