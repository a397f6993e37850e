//! What the plan does, a row a case: a node before, the rules, the node after and what becomes of each
//! rule. Every plan is applied as the API server would, and must leave nothing more to do.

mod adoption;
mod contested;
mod frozen;
mod ledger_room;
mod lowering;
mod new_values;
mod ownership;
mod random;
mod repairs;
mod withdrawal;

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::input::{Contest, Contested, Lost, NewValues, PodUsage};
use json_patch::Patch;

use super::*;
use crate::model::api::NodeExtendedResource;
use crate::model::node::Interner;
use crate::model::quantity::Quantity;
use crate::planner::rules::Rule;

/// When all rules were created.
const RULES_CREATED: &str = "2026-01-02T00:00:00Z";

/// A Node object with these fields in it.
fn node_object(fields: &Value) -> Value {
    let mut metadata = json!({"name": "node-1", "uid": "uid-1", "labels": {"zone": "a"}});
    if let Some(ledger) = fields.get("ledger") {
        metadata["annotations"] = json!({ crate::model::ledger::ANNOTATION: ledger.to_string() });
    }
    if let Some(text) = fields.get("ledgerText") {
        metadata["annotations"] = json!({ crate::model::ledger::ANNOTATION: text });
    }
    if let Some(created) = fields.get("created") {
        metadata["creationTimestamp"] = created.clone();
    }
    if let Some(managers) = fields.get("managers") {
        metadata["managedFields"] = managers.clone();
    }
    let mut status = Map::new();
    for map in ["capacity", "allocatable"] {
        status.extend(fields.get(map).map(|amounts| (map.to_owned(), amounts.clone())));
    }
    json!({"metadata": metadata, "status": status})
}

fn decoded(object: &Value) -> Node {
    Node::new(serde_json::from_value(object.clone()).unwrap(), &mut Interner::default())
}

/// `name: {...}` is a rule for every node, of 4 dongles where it does not say otherwise; a rule
/// whose spec is `"invalid"` is frozen, and one whose spec is a number has that priority.
fn rule_set(rules: &Value) -> RuleSet {
    let (mut valid, mut frozen) = (Vec::new(), Vec::new());
    for (name, fields) in rules.as_object().unwrap() {
        let Some(fields) = fields.as_object() else {
            let priority = fields.as_i64().map(|priority| priority.try_into().unwrap());
            frozen.push((name.as_str().into(), priority));
            continue;
        };
        let mut spec = json!({"resourceName": "example.com/dongle", "quantity": 4});
        spec.as_object_mut().unwrap().extend(fields.clone());
        if ["nodeNames", "nodeSelector"].iter().all(|field| spec.get(field).is_none()) {
            spec["allNodes"] = json!(true);
        }
        let mut object = NodeExtendedResource::new(name, serde_json::from_value(spec).unwrap());
        object.metadata.name = Some(name.clone());
        object.metadata.creation_timestamp = Some(Time(RULES_CREATED.parse().unwrap()));
        valid.push(Arc::new(Rule::new(&object).unwrap()));
    }
    RuleSet::new(valid, frozen)
}

/// Applies a patch as the API server does: `test` with null holds for a key that is absent, where
/// the map around it is there.
pub(crate) fn apply(object: &mut Value, patch: &Patch) {
    try_apply(object, patch).unwrap_or_else(|error| panic!("{error}"));
}

/// Applies a patch up to the operation that the API server rejects.
pub(crate) fn try_apply(object: &mut Value, patch: &Patch) -> Result<(), String> {
    for operation in &patch.0 {
        if let PatchOperation::Test(test) = operation
            && test.value.is_null()
        {
            let (parent, _) = test.path.split_back().unwrap();
            if parent.resolve(object).is_err() || test.path.resolve(object).is_ok() {
                return Err(format!("{operation} does not hold"));
            }
            continue;
        }
        json_patch::patch(object, std::slice::from_ref(operation)).map_err(|error| format!("{operation}: {error}"))?;
    }
    Ok(())
}

/// The resources and the ledger of a Node object.
fn fields(object: &Value) -> Value {
    let mut fields = Map::new();
    for map in ["capacity", "allocatable"] {
        let amounts = object["status"].get(map).cloned();
        fields.extend(amounts.map(|amounts| (map.to_owned(), amounts)));
    }
    let ledger = object["metadata"]["annotations"].get(crate::model::ledger::ANNOTATION);
    let ledger = ledger.map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap());
    fields.extend(ledger.map(|ledger: Value| ("ledger".to_owned(), ledger)));
    Value::Object(fields)
}

fn outcome_texts(outcomes: &[(Arc<str>, Outcome)]) -> BTreeMap<&str, String> {
    let text = |outcome: &Outcome| match outcome {
        Outcome::Advertised => "advertised".to_owned(),
        Outcome::Held { at, pods_error: None } => format!("held at {at}"),
        Outcome::Held { at, pods_error: Some(why) } => format!("held at {at}: {why}"),
        Outcome::AwaitingPods { pods_error: None } => "awaiting pods".to_owned(),
        Outcome::AwaitingPods { pods_error: Some(why) } => format!("awaiting pods: {why}"),
        Outcome::Conflicted { present, .. } => format!("conflicted: {present}"),
        Outcome::Contested { lost: Lost::Value, .. } => "contested".to_owned(),
        Outcome::Contested { lost: Lost::LedgerEntry, .. } => "contested annotation".to_owned(),
        Outcome::Overridden { by, tied: false } => format!("overridden by {by}"),
        Outcome::Overridden { by, tied: true } => format!("tied, overridden by {by}"),
        Outcome::LedgerFull => "ledger full".to_owned(),
        Outcome::InvalidLedger { message } => format!("unreadable: {message:.38}"),
    };
    outcomes.iter().map(|(rule, outcome)| (&**rule, text(outcome))).collect()
}

fn change_texts(planned: &NodePlan) -> Vec<String> {
    planned.changes().iter().map(ToString::to_string).collect()
}

/// The circumstances of a node with no pods on it.
fn free() -> PlanningInput {
    used(0)
}

/// The circumstances of a node whose pods use so many dongles.
fn used(dongles: i64) -> PlanningInput {
    let requests = json!({"resources": {"requests": {"example.com/dongle": dongles.to_string()}}});
    let pods = json!({"items": [{"spec": {"containers": [requests]}}]});
    let pods = serde_json::from_value(pods).unwrap();
    let pods = PodUsage::Known(crate::model::pod::Requests::from_pods(&pods));
    PlanningInput { pods, ..PlanningInput::default() }
}

/// Plans `before`, and checks what becomes of each rule, what is done, and how the node then is.
fn check(before: Value, rules: Value, expected: &[(&str, &str)], expected_changes: &[&str], after: Value) {
    let rules = rule_set(&rules);
    let mut object = node_object(&before);
    let first = plan(&decoded(&object), &rules, &free());
    let expected: BTreeMap<_, _> = expected.iter().map(|(rule, outcome)| (*rule, (*outcome).to_owned())).collect();
    assert_eq!(outcome_texts(&first.outcomes), expected);
    assert_eq!(change_texts(&first), expected_changes);
    if !expected_changes.is_empty() {
        let patch = patch(&decoded(&object), first.changes()).unwrap();
        assert!(matches!(&patch.0[0], PatchOperation::Test(test) if test.path == "/metadata/uid"));
        apply(&mut object, &patch);
        assert_eq!(fields(&object), after);
        let again = plan(&decoded(&object), &rules, &free());
        assert_eq!(again.plan, Plan::InSync, "the node is as planned");
        assert_eq!(outcome_texts(&again.outcomes), expected, "as it was planned");
    }
}

fn dongles(capacity: &str, allocatable: &str) -> Value {
    json!({
        "capacity": {"cpu": "2", "example.com/dongle": capacity},
        "allocatable": {"cpu": "2", "example.com/dongle": allocatable},
    })
}

fn owned(mut node: Value, quantity: &str, rule: &str) -> Value {
    node["ledger"] = json!({"example.com/dongle": {"quantity": quantity, "rule": rule}});
    node
}

fn bare() -> Value {
    json!({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}})
}

#[test]
fn absent_resource_is_advertised() {
    let after = owned(dongles("4", "4"), "4", "r");
    let expected_changes = ["advertised example.com/dongle=4 (rule r)"];
    check(bare(), json!({"r": {}}), &[("r", "advertised")], &expected_changes, after);
}

#[test]
fn node_without_maps_gets_both() {
    let amounts = json!({"example.com/dongle": "4"});
    let after = owned(json!({"capacity": amounts, "allocatable": amounts}), "4", "r");
    let expected_changes = ["advertised example.com/dongle=4 (rule r)"];
    check(json!({}), json!({"r": {}}), &[("r", "advertised")], &expected_changes, after);
}

#[test]
fn foreign_zero_is_replaced() {
    for (capacity, allocatable) in [("0", "0"), ("2", "0")] {
        let expected_changes: &[&str] = &["advertised example.com/dongle=4 (rule r)"];
        let after = owned(dongles("4", "4"), "4", "r");
        let expected = [("r", "advertised")];
        if capacity == "0" {
            check(dongles(capacity, allocatable), json!({"r": {}}), &expected, expected_changes, after);
        } else {
            // A device plugin whose devices are all broken: 2 there, none to be had.
            let expected = [("r", "conflicted: 2 in capacity, 0 in allocatable")];
            check(dongles(capacity, allocatable), json!({"r": {}}), &expected, &[], json!({}));
        }
    }
}

#[test]
fn value_as_declared_needs_no_patch() {
    let cases = [("4", "4"), ("4000m", "4"), ("0.004k", "4"), ("4", "4.0")];
    for (present, listed) in cases {
        let node = owned(dongles(present, "4"), listed, "r");
        check(node, json!({"r": {}}), &[("r", "advertised")], &[], json!({}));
    }
}

#[test]
fn ledger_value_that_differs_is_repaired() {
    for (capacity, allocatable, was) in [
        ("7", "7", "7"),
        ("0", "0", "0"),
        ("4", "0", "4 in capacity, 0 in allocatable"),
        ("garbage", "4", "garbage in capacity, 4 in allocatable"),
    ] {
        let expected_changes = [format!("repaired example.com/dongle=4 (rule r; was {was})")];
        let expected_changes: Vec<_> = expected_changes.iter().map(String::as_str).collect();
        let after = owned(dongles("4", "4"), "4", "r");
        let node = owned(dongles(capacity, allocatable), "4", "r");
        check(node, json!({"r": {}}), &[("r", "advertised")], &expected_changes, after);
    }
    let mut gone = owned(bare(), "4", "r");
    gone["allocatable"]["example.com/dongle"] = json!("4");
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was absent in capacity, 4 in allocatable)"];
    let after = owned(dongles("4", "4"), "4", "r");
    check(gone, json!({"r": {}}), &[("r", "advertised")], &expected_changes, after);
}

#[test]
fn keep_policy_leaves_value_outside_the_ledger() {
    for present in ["8", "4", "-1", "garbage"] {
        let expected = [("r", format!("conflicted: {present}"))];
        let expected = expected.each_ref().map(|(rule, outcome)| (*rule, outcome.as_str()));
        check(dongles(present, present), json!({"r": {}}), &expected, &[], json!({}));
    }
}

#[test]
fn edited_quantity_replaces_own_value() {
    let expected_changes = ["advertised example.com/dongle=5 (rule r)"];
    let after = owned(dongles("5", "5"), "5", "r");
    let node = owned(dongles("4", "4"), "4", "r");
    check(node, json!({"r": {"quantity": 5}}), &[("r", "advertised")], &expected_changes, after);
}

#[test]
fn ledger_value_without_a_rule_is_withdrawn() {
    let expected_changes = ["withdrew example.com/dongle (rule r)"];
    for node in [dongles("4", "4"), dongles("4", "0"), dongles("0", "0"), dongles("4000m", "4")] {
        check(owned(node, "4", "r"), json!({}), &[], &expected_changes, bare());
    }
    check(owned(bare(), "4", "r"), json!({}), &[], &expected_changes, bare());
    let elsewhere = json!({"r": {"nodeNames": ["node-2"]}});
    check(owned(dongles("4", "4"), "4", "r"), elsewhere, &[], &expected_changes, bare());
}

#[test]
fn value_outside_the_ledger_is_never_withdrawn() {
    check(dongles("4", "4"), json!({}), &[], &[], json!({}));
}

#[test]
fn highest_precedence_rule_is_succeeded_in_one_patch() {
    let both = json!({"low": {"quantity": 2}, "high": {"quantity": 8, "priority": 1}});
    let expected = [("high", "advertised"), ("low", "overridden by high")];
    let expected_changes = ["advertised example.com/dongle=8 (rule high)"];
    let with_high = owned(dongles("8", "8"), "8", "high");
    check(bare(), both, &expected, &expected_changes, with_high.clone());

    let low = json!({"low": {"quantity": 2}});
    let expected_changes = ["advertised example.com/dongle=2 (rule low)"];
    let after = owned(dongles("2", "2"), "2", "low");
    check(with_high.clone(), low, &[("low", "advertised")], &expected_changes, after);

    // The same quantity by another rule: the ledger alone changes hands.
    let other = json!({"other": {"quantity": 8}});
    let expected_changes = ["advertised example.com/dongle=8 (rule other)"];
    let after = owned(dongles("8", "8"), "8", "other");
    check(with_high, other, &[("other", "advertised")], &expected_changes, after);
}

#[test]
fn equal_priority_is_reported_for_different_quantities() {
    let rules = json!({"a": {"quantity": 4}, "b": {"quantity": 8}, "c": {"quantity": "4000m"}});
    let expected = [("a", "advertised"), ("b", "tied, overridden by a"), ("c", "overridden by a")];
    let expected_changes = ["advertised example.com/dongle=4 (rule a)"];
    check(bare(), rules, &expected, &expected_changes, owned(dongles("4", "4"), "4", "a"));
}

#[test]
fn patch_tests_what_was_read_and_escapes_paths() {
    let patch = |before: &Value| {
        let rules = rule_set(&json!({"r": {}}));
        let node = decoded(&node_object(before));
        serde_json::to_value(patch(&node, plan(&node, &rules, &free()).changes()).unwrap()).unwrap()
    };
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"r"}}"#;
    let mut vacant = dongles("0", "0");
    vacant["ledger"] = json!({});
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "test", "path": "/metadata/annotations/noderesource.dev~1advertised", "value": "{}"},
        {"op": "add", "path": "/metadata/annotations/noderesource.dev~1advertised", "value": ledger},
        {"op": "test", "path": "/status/capacity/example.com~1dongle", "value": "0"},
        {"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "4"},
        {"op": "test", "path": "/status/allocatable/example.com~1dongle", "value": "0"},
        {"op": "add", "path": "/status/allocatable/example.com~1dongle", "value": "4"},
    ]);
    assert_eq!(patch(&vacant), expected);

    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "test", "path": "/metadata/annotations", "value": null},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/noderesource.dev~1advertised", "value": ledger},
        {"op": "test", "path": "/status/capacity", "value": null},
        {"op": "add", "path": "/status/capacity", "value": {}},
        {"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "4"},
        {"op": "test", "path": "/status/allocatable", "value": null},
        {"op": "add", "path": "/status/allocatable", "value": {}},
        {"op": "add", "path": "/status/allocatable/example.com~1dongle", "value": "4"},
    ]);
    assert_eq!(patch(&json!({})), expected);
}
