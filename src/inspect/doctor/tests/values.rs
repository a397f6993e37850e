//! Values that nodes lack, and what comes of it.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{DONGLE, LISTED, assert_found, healthy, lease, node, parse, pods, ready, rule};
use crate::inspect::doctor::finding::Severity::{Error, Warning};
use crate::inspect::doctor::finding::{Finding, NotRun};
use crate::inspect::doctor::report::Report;
use crate::inspect::doctor::snapshot::{RuleEntry, Rules, Snapshot};
use crate::inspect::doctor::{checks, read};
use crate::model::api;

#[test]
fn declared_value_that_a_node_lacks_is_found() {
    let bare = || vec![node("node-1", &json!({}), None, "k3s"), node("node-2", &json!({}), None, "k3s")];
    let declares = "Node node-1, node-2: rule dongle declares example.com/dongle on 2 nodes that do not have it";
    let found = |plant: &dyn Fn(&mut Snapshot)| {
        let mut cluster = healthy();
        cluster.nodes = Ok(bare());
        plant(&mut cluster);
        let check = checks::ALL.iter().find(|check| check.name == "missing-value").unwrap();
        let found = (check.run)(&cluster).unwrap().into_iter();
        let text = |found: &Finding| format!("{}: {}; {}", found.objects(2), found.problem, found.fix);
        found.map(|found| (found.severity, text(&found))).collect::<Vec<_>>()
    };
    // The Lease of a prune that has ended is live, and the status is from before.
    let live = "2026-01-01T11:59:59.000000Z";
    let fix = "no controller leads; start the controller, or do what the check leader says of its Lease";
    for leases in [vec![lease("prune_1767268800000000000_ended", live)], vec![]] {
        let found = found(&|cluster| cluster.leases = Ok(leases.clone()));
        let [(Error, text)] = &found[..] else { panic!("{found:?}") };
        assert!(text.contains(declares) && text.contains(fix), "{text}");
    }
    let unknown = found(&|cluster| cluster.leases = Err(NotRun::Forbidden("list leases")));
    assert!(matches!(&unknown[..], [(Warning, text)] if text.contains("whether a controller leads is unknown")));
    let stale = found(&|_| ());
    assert!(matches!(&stale[..], [(Warning, text)] if text.contains("its status says that all have it")), "{stale:?}");
    let conditions = |reason: &'static str| rule("dongle", DONGLE, json!(4), &[["Ready", "False", reason]]);
    for explained in [conditions("Progressing"), conditions("Conflict"), RuleEntry { generation: Some(2), ..ready() }] {
        let rules = Arc::new(Mutex::new(Some(explained)));
        let found = found(&|cluster| {
            cluster.rules = Ok(Some(Rules::new(rules.lock().unwrap().take().into_iter().collect())));
        });
        assert_eq!(found, [], "a controller leads, and reports or writes it");
    }
    let unled = found(&|cluster| {
        cluster.leases = Ok(vec![]);
        let explained = conditions("Progressing");
        cluster.rules = Ok(Some(Rules::new(vec![explained])));
    });
    assert!(matches!(&unled[..], [(Error, _)]), "no status explains it where no controller leads: {unled:?}");
    let paused = found(&|cluster| {
        cluster.leases = Ok(vec![]);
        let mut paused = ready();
        Arc::get_mut(paused.rule.as_mut().unwrap()).unwrap().paused = true;
        cluster.rules = Ok(Some(Rules::new(vec![paused])));
    });
    assert_eq!(paused, [], "a paused rule adds nothing, whoever leads");
    let recorded = found(&|cluster| cluster.nodes = Ok(vec![node("node-1", &json!({}), Some(LISTED), "k3s")]));
    assert_eq!(recorded, [], "the check of annotations finds it");
}

/// Nobody acts on the edit, whatever the nodes have; and its rule is not reported as well.
#[test]
fn edited_rule_without_a_controller_is_one_error() {
    let reported = |generation: i64| {
        let mut cluster = healthy();
        cluster.leases = Ok(vec![lease("prune_1767268800000000000_ended", "2026-01-01T11:59:59.000000Z")]);
        cluster.rules = Ok(Some(Rules::new(vec![RuleEntry { generation: Some(generation), ..ready() }])));
        let report = Report::new(&cluster);
        let problems = report.checks.iter().flat_map(|checked| checked.findings());
        ((report.errors, report.warnings), problems.map(|found| found.problem.clone()).collect::<Vec<_>>())
    };
    let (counts, problems) = reported(2);
    assert_eq!(counts, (1, 0), "{problems:?}");
    assert!(problems[0].contains("so that no controller writes"), "{problems:?}");
    assert!(problems[0].ends_with("no controller has seen the last edit of dongle"), "{problems:?}");
    assert_eq!(reported(1).0, (0, 1), "a rule that was seen has what it declares, or another check finds it");
}

/// It ends within seconds, and nobody needs its Lease before.
#[test]
fn prune_that_runs_is_waited_for() {
    let mut cluster = healthy();
    cluster.leases = Ok(vec![lease("prune_1767268800000000000", "2026-01-01T11:59:59.000000Z")]);
    cluster.rules = Ok(Some(Rules::new(vec![RuleEntry { generation: Some(2), ..ready() }])));
    let report = Report::new(&cluster);
    assert_eq!((report.errors, report.warnings), (0, 1));
    let fixes: Vec<_> = report.checks.iter().flat_map(|checked| checked.findings()).map(|found| &*found.fix).collect();
    assert_eq!(fixes, ["wait until it ends"]);
}

/// A table that does not name a node declares nothing there, whatever rule it is of.
#[test]
fn rule_that_declares_nothing_on_a_node_is_none_there() {
    let table = || {
        let from = json!({"nodeLabel": {"key": "size", "values": {"big": 8}}, "whenMissing": "None"});
        let object = json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": "table", "generation": 1},
            "spec": {"resourceName": DONGLE, "allNodes": true, "priority": 1, "quantityFrom": from},
        });
        read::rule(object).unwrap()
    };
    let problems = |check: &str, rules: Vec<RuleEntry>, amounts: &serde_json::Value| {
        let mut cluster = healthy();
        cluster.rules = Ok(Some(Rules::new(rules)));
        cluster.nodes = Ok(vec![node("node-1", amounts, None, "k3s")]);
        cluster.leases = Ok(vec![]);
        let check = checks::ALL.iter().find(|other| other.name == check).unwrap();
        (check.run)(&cluster).unwrap().into_iter().map(|found| found.problem).collect::<Vec<_>>()
    };
    // A device plugin has it there.
    assert_eq!(problems("another-writer", vec![table()], &json!({DONGLE: "4"})), [""; 0]);
    let missing = problems("missing-value", vec![table(), ready()], &json!({}));
    assert!(matches!(&missing[..], [problem] if problem.starts_with("rule dongle declares")), "{missing:?}");
    assert_eq!(problems("leftover-zero", vec![table()], &json!({DONGLE: "0"})).len(), 1);
}

#[test]
fn pod_that_a_kubelet_rejected_is_found() {
    let failed = |reason: &str, started: &str| {
        parse(json!({
            "metadata": {"namespace": "default", "name": "late"}, "spec": {"nodeName": "node-1", "containers": []},
            "status": {"phase": "Failed", "reason": reason, "startTime": started},
        }))
    };
    let now = healthy().now;
    let read = |reason: &str, started: &str| read::rejected_pod(failed(reason, started), now);
    let lately = "2026-01-01T11:30:00Z";
    assert_found("rejected-pod", Warning, "the kubelet of node-1 has rejected it within the last hour", |cluster| {
        cluster.rejected = Ok(read("OutOfexample.com/dongle", lately).into_iter().collect());
    });
    for (reason, started) in
        [("OutOfcpu", lately), ("Evicted", lately), ("OutOfexample.com/dongle", "2026-01-01T10:00:00Z")]
    {
        assert_eq!(read(reason, started), None, "{reason} {started}");
    }
}

#[test]
fn names_of_one_family_are_not_misspelled() {
    for (present, requested) in [
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"),
        ("devices.example.com/ttyUSB0", "devices.example.com/ttyUSB1"),
    ] {
        assert_found("undeclared-request", Warning, "let the autoscaler add the node", |cluster| {
            let amounts = json!({present: "1", DONGLE: "4"});
            cluster.nodes = Ok(vec![node("node-2", &amounts, Some(LISTED), api::FIELD_MANAGER)]);
            cluster.waiting = Ok(pods(&[("a", requested, "1")]));
        });
    }
}
