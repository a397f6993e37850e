//! Attacks on the memory of the controller, by whoever may write rules or has its token.
//!
//! Method: store large rules and statuses under a CRD without validation, as an earlier version had; run the program in
//! a cgroup of 128 MiB, the limit of the chart, with the CRD of this version; and expect that it lives, repairs, and
//! names the cause.

use harness::objects::{DONGLE, condition, rule};
use harness::{Cgroup, Cluster, Controller};
use serde_json::{Value, json};

use crate::support::rejected_objects;

const RULES: &str = "/apis/noderesource.dev/v1alpha1/nodeextendedresources";
const LIMIT: u64 = 128 * 1024 * 1024;

/// A cgroup with the memory limit of the chart; prints why if this machine permits none.
fn cgroup() -> Option<Cgroup> {
    let cgroup = Cgroup::with_memory(LIMIT);
    cgroup.map_err(|error| println!("skipped: no cgroup with a memory limit can be created here: {error}")).ok()
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

/// A rule with a label that all of these have.
fn fleeting(number: usize, names: &[String]) -> Value {
    let spec = json!({"resourceName": "example.com/fleeting", "nodeNames": names});
    let mut rule = rule(&format!("fleeting-{number:03}"), &spec);
    rule["metadata"]["labels"] = json!({"fleeting": ""});
    rule
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

/// The value of the node is repaired once more.
fn assert_repairs(cluster: &Cluster) {
    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.wait_advertised("node-1", DONGLE, "4");
}

#[test]
fn rules_and_statuses_from_before_the_bounds_do_not_end_the_process() {
    let Some(cgroup) = cgroup() else { return };
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-1"]}));
    rejected_objects::drop_validation(&cluster);
    create_all(&cluster, (0..120).map(large));
    let small = |number: usize| rule(&format!("small-{number:03}"), &json!({"resourceName": "example.com/small"}));
    create_all(&cluster, (0..120).map(small));
    for number in 0..120 {
        bloat_status(&cluster, &format!("small-{number:03}"), if number == 0 { 300 } else { 0 });
    }
    cluster.install_crd();

    let controller = Controller::start_in(&cgroup, &cluster, &[]);
    controller.wait_ready();
    cluster.wait_advertised("node-1", DONGLE, "4");
    assert_repairs(&cluster);
    // The statuses are written back, and the large rules reported.
    for name in ["small-000", "small-119"] {
        cluster.wait_status(name, "its own conditions", |status| {
            condition(status, "Stalled").0 == "False" && status.to_string().len() < 10_000
        });
    }
    for name in ["large-000", "large-119"] {
        let status =
            cluster.wait_status(name, "Stalled", |status| condition(status, "Stalled") == ("True", "InvalidSpec"));
        assert!(status.to_string().contains("nodeNames holds 1000 names of"), "{status:#}");
    }
    assert_repairs(&cluster);
    controller.stop();
}

#[test]
fn youngest_of_too_many_legal_rules_are_stalled_and_rules_that_come_and_go_do_not_end_the_process() {
    let Some(cgroup) = cgroup() else { return };
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-1"]}));
    let controller = Controller::start_in(&cgroup, &cluster, &[]);
    controller.wait_ready();
    cluster.wait_advertised("node-1", DONGLE, "4");

    // Each as large as the CRD allows. A quarter of the limit has room for some 130.
    let names: Vec<_> = (0..1000).map(|number| format!("{number:049}")).collect();
    let legal = |number: usize| rule(&format!("legal-{number:03}"), &json!({"nodeNames": names}));
    create_all(&cluster, (0..200).map(legal));
    let wait_full = |name: &str| {
        cluster.wait_status(name, "MemoryFull", |status| condition(status, "Stalled") == ("True", "MemoryFull"))
    };
    let status = wait_full("legal-199");
    assert!(status.to_string().contains("--max-rules-memory"), "{status:#}");
    cluster.wait_status("legal-000", "Ready", |status| condition(status, "Ready").0 == "True");
    controller.wait_log("rules take nearly all memory that they may");
    let metrics = controller.get("/metrics").unwrap().1;
    let metric = |name: &str| {
        let mut lines = metrics.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("node_resource_advertiser_{name} ")));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("no {name} in {metrics}"))
    };
    assert_eq!(metric("rules_memory_limit_bytes"), LIMIT / 4);
    assert!(metric("rules_memory_bytes") > LIMIT / 5, "{}", metric("rules_memory_bytes"));
    assert_repairs(&cluster);

    for round in 0..2 {
        create_all(&cluster, (0..200).map(|number| fleeting(number, &names)));
        let all = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        send(&cluster, "DELETE", &format!("{RULES}?labelSelector=fleeting"), "application/json", &all);
        assert_repairs(&cluster);
        assert!(controller.get("/livez").is_ok_and(|(code, _)| code == 200), "in round {round}");
    }
    // There is room for the stalled rules once others are gone.
    let gone: Vec<_> = (0..150).map(|number| format!("legal-{number:03}")).collect();
    let gone: Vec<_> = gone.iter().map(String::as_str).collect();
    cluster.kubectl(&[&["delete", "ner"], &gone[..]].concat());
    cluster.wait_status("legal-199", "Ready", |status| condition(status, "Ready").0 == "True");
    controller.stop();
}
