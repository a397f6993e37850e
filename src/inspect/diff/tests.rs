use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::amounts::Amounts;
use super::rules::{ClusterRule, ClusterRules, Standing};
use super::*;
use crate::model::ledger::ANNOTATION;
use crate::model::node::{ApiNode, Interner};
use crate::model::pod::{NodeRequests, PodList};
use crate::planner::Plan;
use crate::planner::rules::{InvalidRule, Rule};
use crate::planner::tests::apply;

const DONGLE: &str = "example.com/dongle";

pub(crate) fn rule(name: &str, spec: Value) -> Rule {
    let mut object = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name},
        "spec": {"resourceName": DONGLE, "quantity": 4, "allNodes": true},
    });
    let fields = object["spec"].as_object_mut().unwrap();
    fields.extend(spec.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    Rule::new(&serde_json::from_value(object).unwrap()).unwrap()
}

fn present(name: &str, created: &str, spec: Value) -> ClusterRule {
    ClusterRule {
        name: name.into(),
        created: Some(created.parse().unwrap()),
        rule: Ok(Rule { created: Some(created.parse().unwrap()), ..rule(name, spec) }),
        contested: Vec::new(),
        standing: Standing::default(),
    }
}

pub(crate) fn read(node: &Value) -> Node {
    Node::new(serde_json::from_value::<ApiNode>(node.clone()).unwrap(), &mut Interner::default())
}

pub(crate) fn node(amounts: [Option<&str>; 2], ledger: Option<&Value>) -> Value {
    let mut node = json!({
        "metadata": {"name": "node-1", "uid": "1", "annotations": {}},
        "status": {"capacity": {}, "allocatable": {}},
    });
    for (map, amount) in ["capacity", "allocatable"].into_iter().zip(amounts) {
        if let Some(amount) = amount {
            node["status"][map][DONGLE] = amount.into();
        }
    }
    if let Some(ledger) = ledger {
        node["metadata"]["annotations"][ANNOTATION] = json!({DONGLE: ledger}).to_string().into();
    }
    node
}

fn pods(dongles: u32) -> NodeRequests {
    let requests = json!({DONGLE: dongles.to_string()});
    let pods: PodList = serde_json::from_value(json!({
        "items": [{"spec": {"containers": [{"resources": {"requests": requests}}]}}],
    }))
    .unwrap();
    NodeRequests::from_pods(&pods)
}

fn node_diff(node: &Value, rules: &[Rule], pod_usage: PodUsage) -> (NodeDiff, Summary) {
    let rules = Rules::from_files(rules.to_vec());
    let mut preview = Preview::new(rules, Filter::default(), Detail { all: true, keep: Keep::Patches });
    let node = read(node);
    let plan = preview.plan(&node, pod_usage);
    preview.add(&node, plan, None).unwrap();
    let report = preview.finish().unwrap();
    assert_eq!(report.has_changes(), !report.summary.line().starts_with("No changes"));
    let Report { nodes, summary, .. } = report;
    (nodes.into_iter().next().unwrap(), summary)
}

/// Whatever a node has and rules declare: what is reported is what the patch does, and every resource is
/// counted once.
#[test]
fn diff_matches_the_patch_for_random_nodes() {
    let amounts = [None, Some("0"), Some("2"), Some("4"), Some("4000m"), Some("8")];
    let ledgers = [
        None,
        Some(json!({"quantity": "4", "rule": "dongle"})),
        Some(json!({"quantity": "8", "rule": "dongle"})),
        Some(json!({"quantity": "2", "rule": "other", "deletionPolicy": "Retain"})),
        Some(json!("broken")),
    ];
    let specs = [
        vec![],
        vec![json!({})],
        vec![json!({"conflictPolicy": "Overwrite"})],
        vec![json!({"shrinkPolicy": "Immediate", "deletionPolicy": "Retain"})],
        vec![json!({"nodeNames": ["node-2"], "allNodes": null})],
        vec![json!({}), json!({"priority": 1, "quantity": 5})],
    ];
    let uses = [PodUsage::NotFetched, PodUsage::Known(pods(6)), PodUsage::Unavailable("no right".into())];
    let mut actions = BTreeSet::new();
    for capacity in amounts {
        for allocatable in amounts {
            for (ledger, rules, pod_usage) in ledgers.iter().flat_map(|ledger| {
                specs.iter().flat_map(move |rules| [(ledger, rules, 0), (ledger, rules, 1), (ledger, rules, 2)])
            }) {
                let mut node = node([capacity, allocatable], ledger.as_ref());
                let rules: Vec<_> =
                    ["dongle", "winner"].into_iter().zip(rules).map(|(name, spec)| rule(name, spec.clone())).collect();
                let what = format!("{node} {rules:?} {pod_usage}");
                let (node_diff, summary) = node_diff(&node, &rules, uses[pod_usage].clone());
                assert_eq!(node_diff.patch.is_some(), !node_diff.changes.is_empty(), "{what}");
                if let Some(operations) = &node_diff.patch {
                    apply(&mut node, operations);
                }
                let has = |map: &str| node["status"][map][DONGLE].as_str().map(str::to_owned);
                let has = Amounts { capacity: has("capacity"), allocatable: has("allocatable") };
                for change in &node_diff.changes {
                    assert_eq!(change.after, has, "{what}");
                    actions.insert(change.action);
                }
                let Summary { add, change, remove, conflicted, held, maybe_held, .. } = summary;
                let Summary { unchanged, unreadable, missing, .. } = summary;
                let counted = add + change + remove + conflicted + held + maybe_held + unchanged;
                let counted = counted + unreadable;
                let listed = ledger.is_some() || rules.iter().any(|rule| rule.selection.names().next().is_none());
                assert_eq!(counted, usize::from(listed), "{what}: {summary:?}");
                assert_eq!(missing, rules.iter().flat_map(|rule| rule.selection.names()).count());
            }
        }
    }
    let expected = ["advertise", "hold", "release", "repair", "takeOver", "withdraw"];
    assert!(actions.into_iter().eq(expected));
}

#[test]
fn file_rule_replaces_cluster_rule_and_keeps_its_age() {
    let cluster = || {
        vec![
            present("old", "2026-01-01T00:00:00Z", json!({"quantity": 1})),
            present("changed", "2026-01-02T00:00:00Z", json!({"quantity": 2})),
            ClusterRule {
                rule: Err(InvalidRule::Malformed("x".to_owned())),
                ..present("frozen", "2026-01-03T00:00:00Z", json!({}))
            },
        ]
    };
    let forged = Some("2020-01-01T00:00:00Z".parse().unwrap());
    let files = || {
        let changed = rule("changed", json!({"quantity": 3}));
        vec![Rule { created: forged, ..changed }, Rule { created: forged, ..rule("new", json!({"quantity": 4})) }]
    };
    let order = |rules: &Rules| {
        let node = read(&node([None, None], None));
        let selecting = rules.set().selecting(&node);
        selecting.iter().map(|rule| format!("{}={}", rule.name, rule.quantity)).collect::<Vec<_>>()
    };
    let rules = Rules::from_cluster(cluster(), files(), false);
    assert_eq!(order(&rules), ["old=1", "changed=3", "new=4"]);
    assert!(rules.set().is_frozen("frozen"));
    assert!(rules.notes()[0].message.contains("rule frozen in the cluster is invalid"));

    let rules = Rules::from_cluster(cluster(), files(), true);
    assert_eq!(order(&rules), ["changed=3", "new=4"]);
    assert!(!rules.set().is_frozen("frozen"));

    let repaired = Rules::from_cluster(cluster(), vec![rule("frozen", json!({}))], false);
    assert_eq!(order(&repaired), ["old=1", "changed=2", "frozen=4"]);
    assert_eq!(repaired.notes(), []);
}

#[test]
fn rule_that_is_being_deleted_declares_nothing_whatever_its_file_declares() {
    let cluster = || ClusterRules {
        deleting: [("dongle".into(), "the finalizer example.com/keep".to_owned())].into(),
        ..vec![present("other", "2026-01-01T00:00:00Z", json!({"nodeSelector": null, "allNodes": true}))].into()
    };
    let in_file = Rules::from_cluster(cluster(), vec![rule("dongle", json!({}))], true);
    assert!(!in_file.contains("dongle"));
    let expected = "rule dongle is being deleted and declares nothing, and its file has no effect until it is gone: it \
                    waits for the finalizer example.com/keep";
    assert_eq!(in_file.notes()[0].message, expected);
    let alone = Rules::from_cluster(cluster(), Vec::new(), false);
    assert!(alone.contains("other"));
    assert_eq!(alone.notes()[0].message, expected.replace(", and its file has no effect until it is gone", ""));
}

#[test]
fn diff_of_a_contested_value_reports_backoff() {
    let mut rule = present("dongle", "2026-01-01T00:00:00Z", json!({}));
    rule.contested = vec!["node-1".into()];
    let rules = Rules::from_cluster(vec![rule], Vec::new(), false);
    let detail = Detail { keep: Keep::Nodes, ..Detail::default() };
    let mut preview = Preview::new(rules, Filter::default(), detail);
    let ledger = json!({"quantity": "4", "rule": "dongle"});
    let node = read(&node([Some("8"), Some("8")], Some(&ledger)));
    let plan = preview.plan(&node, PodUsage::NotFetched);
    preview.add(&node, plan, None).unwrap();
    let report = preview.finish().unwrap();
    assert!(!report.has_changes());
    assert_eq!(report.summary.contested, 1);
    let reason = report.nodes[0].outcomes[0].reason.as_deref().unwrap();
    assert_eq!(reason, "contested: an unknown field manager keeps changing it back; rule dongle declares 4");
    assert_eq!(report.summary.line(), "No changes; 1 contested; 0 unchanged.");

    let mut rule = present("dongle", "2026-01-01T00:00:00Z", json!({}));
    rule.contested = vec!["node-1".into()];
    let rules = Rules::from_cluster(vec![rule], Vec::new(), false);
    let mut preview = Preview::new(rules, Filter::default(), Detail { keep: Keep::Nodes, ..Detail::default() });
    let node = read(&own_node(["4", "4"]));
    let plan = preview.plan(&node, PodUsage::NotFetched);
    preview.add(&node, plan, None).unwrap();
    let report = preview.finish().unwrap();
    let reason = report.nodes[0].outcomes[0].reason.as_deref().unwrap();
    assert_eq!(reason, "contested: the annotation keeps losing it; rule dongle declares 4");

    // Nobody else has written what differs.
    let mut rule = present("dongle", "2026-01-01T00:00:00Z", json!({}));
    rule.contested = vec!["node-1".into()];
    let rules = Rules::from_cluster(vec![rule], Vec::new(), false);
    let mut object = own_node(["2", "4"]);
    object["metadata"]["annotations"][ANNOTATION] = json!({DONGLE: ledger}).to_string().into();
    let mut preview = Preview::new(rules, Filter::default(), Detail { keep: Keep::Nodes, ..Detail::default() });
    let node = read(&object);
    let plan = preview.plan(&node, PodUsage::NotFetched);
    preview.add(&node, plan, None).unwrap();
    let report = preview.finish().unwrap();
    let reason = report.nodes[0].outcomes[0].reason.as_deref().unwrap();
    let expected = "contested: an admission policy or webhook keeps changing what the controller writes; rule dongle \
                    declares 4";
    assert_eq!(reason, expected);
}

#[test]
fn value_of_a_paused_rule_or_of_unknown_quantity_is_counted() {
    let from = json!({"nodeLabel": {"key": "size", "values": {"big": 4}}});
    for (spec, expected) in [
        (json!({"paused": true}), "No changes; 1 paused; 0 unchanged."),
        (json!({"quantity": null, "quantityFrom": from}), "No changes; 1 quantity unknown; 0 unchanged."),
    ] {
        let node = node([None, None], None);
        let (_, summary) = node_diff(&node, &[rule("dongle", spec)], PodUsage::NotFetched);
        assert_eq!(summary.line(), expected);
    }
}

/// A node whose values the controller wrote, and whose annotation is lost.
fn own_node(amounts: [&str; 2]) -> Value {
    let mut object = node(amounts.map(Some), None);
    let maps = json!({"f:capacity": {"f:example.com/dongle": {}}, "f:allocatable": {"f:example.com/dongle": {}}});
    object["metadata"]["managedFields"] =
        json!([{"manager": "node-resource-advertiser", "fieldsV1": {"f:status": maps}}]);
    object
}

#[test]
fn diff_of_an_adopted_value_is_an_annotation_change() {
    let object = own_node(["4", "4"]);
    let rules = Rules::from_files(vec![rule("dongle", json!({}))]);
    let mut preview = Preview::new(rules, Filter::default(), Detail { keep: Keep::Nodes, ..Detail::default() });
    let node = read(&object);
    let plan = preview.plan(&node, PodUsage::NotFetched);
    preview.add(&node, plan, None).unwrap();
    let report = preview.finish().unwrap();
    assert!(report.has_changes());
    let change = &report.nodes[0].changes[0];
    assert_eq!((change.action, &change.before), ("adopt", &change.after));
    assert_eq!(change.reason, "rule dongle; adopts the equal value that this controller wrote");
}

/// A rule may select a node, and declare nothing there anymore.
#[test]
fn reason_of_a_withdrawal_is_why_the_rule_declares_nothing() {
    let from = json!({"nodeLabel": {"key": "size", "values": {"big": 4}}, "whenMissing": "None"});
    let elsewhere = json!({"nodeNames": ["node-2"], "allNodes": null});
    for (spec, leaving, reason) in [
        (elsewhere.clone(), false, "rule dongle no longer selects the node"),
        (
            json!({"quantity": null, "quantityFrom": from}),
            false,
            "rule dongle no longer declares a quantity for the node",
        ),
        (elsewhere, true, "rule dongle no longer selects the node"),
        (json!({"paused": true}), true, "rule dongle gave it up before it was paused"),
    ] {
        let mut ledger = json!({"quantity": "4", "rule": "dongle"});
        if leaving {
            ledger["whenUnused"] = json!(true);
            ledger["leaving"] = json!(true);
        }
        let object = node([Some("4"), Some("4")], Some(&ledger));
        let (diff, _) = node_diff(&object, &[rule("dongle", spec)], PodUsage::Known(NodeRequests::default()));
        let changes: Vec<_> = diff.changes.iter().map(|change| (change.action, &*change.reason)).collect();
        assert_eq!(changes, [("withdraw", reason)]);
    }
}

#[test]
fn rule_was_edited_when_its_spec_was_last_written() {
    let entry = |time: &str, fields: Value| json!({"manager": time, "time": time, "fieldsV1": fields});
    let quantity = json!({"f:spec": {"f:quantity": {}}});
    let mut status = entry("2026-05-01T00:00:00Z", quantity.clone());
    status["subresource"] = "status".into();
    let label = entry("2026-04-01T00:00:00Z", json!({"f:metadata": {"f:labels": {}}}));
    let edits = ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"].map(|time| entry(time, quantity.clone()));
    let edited = |managed: &[Value]| {
        let object = json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": "dongle", "managedFields": managed},
            "spec": {"resourceName": DONGLE, "quantity": 4, "allNodes": true}});
        let object = serde_json::from_value(object).unwrap();
        let rules = Rules::from_cluster(vec![cluster::present(object)], Vec::new(), false);
        rules.edited("dongle").map(|time| time.to_string())
    };
    let [first, last] = edits;
    assert_eq!(edited(&[first, last, label.clone(), status]).as_deref(), Some("2026-03-01T00:00:00Z"));
    assert_eq!(edited(&[label]), None);
}

#[test]
fn diff_rejects_duplicate_and_unnamed_nodes() {
    let in_sync = || NodePlan { outcomes: Vec::new(), leaving: Vec::new(), plan: Plan::InSync };
    let mut preview = Preview::new(Rules::default(), Filter::default(), Detail::default());
    let node = read(&node([None, None], None));
    assert_eq!(preview.add(&node, in_sync(), None), Ok(()));
    assert_eq!(preview.add(&node, in_sync(), None), Err(NotPlanned::Twice("node-1".into())));
    let nameless = read(&json!({"metadata": {}}));
    assert_eq!(preview.add(&nameless, in_sync(), None), Err(NotPlanned::Nameless));
    preview.clear();
    assert_eq!(preview.len(), 0);
    assert_eq!(preview.add(&node, in_sync(), None), Ok(()));
}

#[test]
fn rule_of_the_cluster_has_the_reason_why_it_is_not_ready() {
    for (conditions, unready) in [
        (json!([{"type": "Ready", "status": "False", "reason": "PatchFailed"}]), Some("PatchFailed")),
        (json!([{"type": "Ready", "status": "True", "reason": "Advertised"}]), None),
        (json!([{"type": "Contested", "status": "False", "reason": "NotContested"}]), None),
        (json!([]), None),
    ] {
        let mut conditions = conditions;
        for condition in conditions.as_array_mut().unwrap() {
            condition["message"] = "".into();
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
        }
        let object = json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource", "metadata": {"name": "dongle"},
            "spec": {"resourceName": DONGLE, "quantity": 4, "allNodes": true}, "status": {"conditions": conditions},
        });
        let rule = cluster::present(serde_json::from_value(object).unwrap());
        assert_eq!(rule.standing.unready.map(|why| why.reason).as_deref(), unready, "{conditions}");
    }
}
