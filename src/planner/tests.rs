//! What the plan does, a row a case: a node before, the rules, the node after and what each rule
//! is told. Every plan is applied as the API server would, and must leave nothing more to do.

mod adoption;
mod lowering;
mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::{Map, Value, json};

use super::input::{Contest, PodUsage};
use json_patch::Patch;

use super::*;
use crate::model::api::NodeExtendedResource;
use crate::model::node::Interner;
use crate::planner::rules::Rule;

/// A Node object with these fields in it.
fn node_object(fields: &Value) -> Value {
    let mut metadata = json!({"name": "node-1", "uid": "uid-1", "labels": {"zone": "a"}});
    if let Some(ledger) = fields.get("ledger") {
        metadata["annotations"] = json!({ crate::model::ledger::ANNOTATION: ledger.to_string() });
    }
    if let Some(text) = fields.get("ledgerText") {
        metadata["annotations"] = json!({ crate::model::ledger::ANNOTATION: text });
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

fn seen(object: &Value) -> Node {
    Node::new(serde_json::from_value(object.clone()).unwrap(), &mut Interner::default())
}

/// `name: {...}` is a rule for every node, of 4 dongles where it does not say otherwise; a rule
/// whose spec is `"invalid"` is frozen.
fn rule_set(rules: &Value) -> RuleSet {
    let (mut valid, mut retained_by_invalid_rules) = (Vec::new(), Vec::new());
    for (name, fields) in rules.as_object().unwrap() {
        let Some(fields) = fields.as_object() else {
            retained_by_invalid_rules.push(name.as_str().into());
            continue;
        };
        let mut spec = json!({"resourceName": "example.com/dongle", "quantity": 4});
        spec.as_object_mut().unwrap().extend(fields.clone());
        if ["nodeNames", "nodeSelector"].iter().all(|field| spec.get(field).is_none()) {
            spec["allNodes"] = json!(true);
        }
        let mut object = NodeExtendedResource::new(name, serde_json::from_value(spec).unwrap());
        object.metadata.name = Some(name.clone());
        valid.push(Arc::new(Rule::new(&object).unwrap()));
    }
    RuleSet::new(valid, retained_by_invalid_rules)
}

/// Applies a patch as the API server does: `test` with null holds for a key that is absent, where
/// the map around it is there.
pub(crate) fn apply(object: &mut Value, patch: &Patch) {
    for operation in &patch.0 {
        if let PatchOperation::Test(test) = operation
            && test.value.is_null()
        {
            let (parent, _) = test.path.split_back().unwrap();
            assert!(parent.resolve(object).is_ok(), "no parent for {operation}");
            assert!(test.path.resolve(object).is_err(), "{operation} does not hold");
            continue;
        }
        json_patch::patch(object, std::slice::from_ref(operation))
            .unwrap_or_else(|error| panic!("{operation}: {error}"));
    }
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

fn told(outcomes: &[(Arc<str>, Outcome)]) -> BTreeMap<&str, String> {
    let tell = |outcome: &Outcome| match outcome {
        Outcome::Advertised => "advertised".to_owned(),
        Outcome::Pending => "pending".to_owned(),
        Outcome::Held { at, pods_error: None } => format!("held at {at}"),
        Outcome::Held { at, pods_error: Some(why) } => format!("held at {at}: {why}"),
        Outcome::Conflicted { present, .. } => format!("conflicted: {present}"),
        Outcome::Contested { .. } => "contested".to_owned(),
        Outcome::Overridden { by, tied: false } => format!("overridden by {by}"),
        Outcome::Overridden { by, tied: true } => format!("tied, overridden by {by}"),
        Outcome::Failed { message } => format!("failed: {message}"),
        Outcome::InvalidLedger { message } => format!("unreadable: {message:.38}"),
    };
    outcomes.iter().map(|(rule, outcome)| (&**rule, tell(outcome))).collect()
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
    let pod_usage = PodUsage::Known(crate::model::pod::Requests::from_pods(&pods));
    PlanningInput { pod_usage, ..PlanningInput::default() }
}

/// Plans `before`, and checks what each rule is told, what is done, and how the node then is.
fn check(before: Value, rules: Value, tells: &[(&str, &str)], does: &[&str], after: Value) {
    let rules = rule_set(&rules);
    let mut object = node_object(&before);
    let first = plan(&seen(&object), &rules, &free());
    let expected: BTreeMap<_, _> =
        tells.iter().map(|(rule, outcome)| (*rule, (*outcome).to_owned())).collect();
    assert_eq!(told(&first.outcomes), expected);
    let changes: Vec<_> = first.changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes, does);
    assert_eq!(first.patch.is_some(), !does.is_empty(), "a patch if and only if there is a change");
    if let Some(patch) = &first.patch {
        assert!(matches!(&patch.0[0], PatchOperation::Test(test) if test.path == "/metadata/uid"));
        apply(&mut object, patch);
        assert_eq!(fields(&object), after);
        let again = plan(&seen(&object), &rules, &free());
        assert_eq!(again.patch, None, "the node is as planned, and yet is to be patched again");
        assert!(told(&again.outcomes).values().all(|outcome| outcome != "pending"));
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
    let does = ["advertised example.com/dongle=4 (rule r)"];
    check(bare(), json!({"r": {}}), &[("r", "pending")], &does, after);
}

#[test]
fn node_without_maps_gets_both() {
    let amounts = json!({"example.com/dongle": "4"});
    let after = owned(json!({"capacity": amounts, "allocatable": amounts}), "4", "r");
    let does = ["advertised example.com/dongle=4 (rule r)"];
    check(json!({}), json!({"r": {}}), &[("r", "pending")], &does, after);
}

#[test]
fn foreign_zero_is_replaced() {
    for (capacity, allocatable) in [("0", "0"), ("2", "0")] {
        let does: &[&str] = &["advertised example.com/dongle=4 (rule r)"];
        let after = owned(dongles("4", "4"), "4", "r");
        let tells = [("r", "pending")];
        if capacity == "0" {
            check(dongles(capacity, allocatable), json!({"r": {}}), &tells, does, after);
        } else {
            // A device plugin whose devices are all broken: 2 there, none to be had.
            let tells = [("r", "conflicted: 2 in capacity, 0 in allocatable")];
            check(dongles(capacity, allocatable), json!({"r": {}}), &tells, &[], json!({}));
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
        let does = [format!("repaired example.com/dongle=4 (rule r; was {was})")];
        let does: Vec<_> = does.iter().map(String::as_str).collect();
        let after = owned(dongles("4", "4"), "4", "r");
        let node = owned(dongles(capacity, allocatable), "4", "r");
        check(node, json!({"r": {}}), &[("r", "pending")], &does, after);
    }
    let mut gone = owned(bare(), "4", "r");
    gone["allocatable"]["example.com/dongle"] = json!("4");
    let does = ["repaired example.com/dongle=4 (rule r; was absent in capacity, 4 in allocatable)"];
    let after = owned(dongles("4", "4"), "4", "r");
    check(gone, json!({"r": {}}), &[("r", "pending")], &does, after);
}

#[test]
fn keep_policy_leaves_value_outside_the_ledger() {
    for present in ["8", "4", "-1", "garbage"] {
        let tells = [("r", format!("conflicted: {present}"))];
        let tells = tells.each_ref().map(|(rule, outcome)| (*rule, outcome.as_str()));
        check(dongles(present, present), json!({"r": {}}), &tells, &[], json!({}));
    }
}

#[test]
fn edited_quantity_replaces_own_value() {
    let does = ["advertised example.com/dongle=5 (rule r)"];
    let after = owned(dongles("5", "5"), "5", "r");
    let node = owned(dongles("4", "4"), "4", "r");
    check(node, json!({"r": {"quantity": 5}}), &[("r", "pending")], &does, after);
}

#[test]
fn ledger_value_without_a_rule_is_withdrawn() {
    let does = ["withdrew example.com/dongle (rule r)"];
    for node in [dongles("4", "4"), dongles("7", "0")] {
        check(owned(node, "4", "r"), json!({}), &[], &does, bare());
    }
    check(owned(bare(), "4", "r"), json!({}), &[], &does, bare());
    let elsewhere = json!({"r": {"nodeNames": ["node-2"]}});
    check(owned(dongles("4", "4"), "4", "r"), elsewhere, &[], &does, bare());
}

#[test]
fn value_outside_the_ledger_is_never_withdrawn() {
    check(dongles("4", "4"), json!({}), &[], &[], json!({}));
}

#[test]
fn highest_precedence_rule_is_succeeded_in_one_patch() {
    let both = json!({"low": {"quantity": 2}, "high": {"quantity": 8, "priority": 1}});
    let tells = [("high", "pending"), ("low", "overridden by high")];
    let does = ["advertised example.com/dongle=8 (rule high)"];
    let with_high = owned(dongles("8", "8"), "8", "high");
    check(bare(), both, &tells, &does, with_high.clone());

    let low = json!({"low": {"quantity": 2}});
    let does = ["advertised example.com/dongle=2 (rule low)"];
    let after = owned(dongles("2", "2"), "2", "low");
    check(with_high.clone(), low, &[("low", "pending")], &does, after);

    // The same quantity by another rule: the ledger alone changes hands.
    let other = json!({"other": {"quantity": 8}});
    let does = ["advertised example.com/dongle=8 (rule other)"];
    let after = owned(dongles("8", "8"), "8", "other");
    check(with_high, other, &[("other", "pending")], &does, after);
}

#[test]
fn equal_priority_is_reported_for_different_quantities() {
    let rules = json!({"a": {"quantity": 4}, "b": {"quantity": 8}, "c": {"quantity": "4000m"}});
    let tells = [("a", "pending"), ("b", "tied, overridden by a"), ("c", "overridden by a")];
    let does = ["advertised example.com/dongle=4 (rule a)"];
    check(bare(), rules, &tells, &does, owned(dongles("4", "4"), "4", "a"));
}

#[test]
fn contested_value_is_repaired_only_after_back_off() {
    let rules = rule_set(&json!({"r": {}, "s": {"resourceName": "example.com/s"}}));
    let mut before = owned(dongles("7", "7"), "4", "r");
    let contested = |may_repair| {
        let contest = Contest { may_repair, manager: None };
        PlanningInput { contested: [("example.com/dongle".into(), contest)].into(), ..free() }
    };
    for (may_repair, does) in [
        (false, vec!["advertised example.com/s=4 (rule s)"]),
        (
            true,
            vec![
                "repaired example.com/dongle=4 (rule r; was 7)",
                "advertised example.com/s=4 (rule s)",
            ],
        ),
    ] {
        let planned = plan(&seen(&node_object(&before)), &rules, &contested(may_repair));
        let expected = [("r", "contested".to_owned()), ("s", "pending".to_owned())];
        assert_eq!(told(&planned.outcomes), expected.into());
        let changes: Vec<_> = planned.changes.iter().map(ToString::to_string).collect();
        assert_eq!(changes, does);
    }
    // A fight is not over with a repair, and yet does not keep a rule's end from taking effect.
    before = owned(dongles("4", "4"), "4", "r");
    let planned = plan(&seen(&node_object(&before)), &rules, &contested(false));
    assert_eq!(told(&planned.outcomes)["r"], "contested");
    let none = rule_set(&json!({}));
    let planned = plan(&seen(&node_object(&before)), &none, &contested(false));
    assert_eq!(planned.changes[0].to_string(), "withdrew example.com/dongle (rule r)");
}

#[test]
fn overwrite_policy_takes_over_value_outside_the_ledger() {
    let rules = json!({"r": {"conflictPolicy": "Overwrite"}});
    for (present, was) in [("8", "8"), ("4", "4"), ("garbage", "garbage")] {
        let does = [format!("took over example.com/dongle=4 (rule r; was {was})")];
        let does = does.each_ref().map(String::as_str);
        let after = owned(dongles("4", "4"), "4", "r");
        check(dongles(present, present), rules.clone(), &[("r", "pending")], &does, after);
    }
    // What is vacant is no conflict, and what is listed is its own.
    let does = ["advertised example.com/dongle=4 (rule r)"];
    let after = owned(dongles("4", "4"), "4", "r");
    check(dongles("0", "0"), rules.clone(), &[("r", "pending")], &does, after.clone());
    let does = ["repaired example.com/dongle=4 (rule r; was 7)"];
    check(owned(dongles("7", "7"), "4", "r"), rules, &[("r", "pending")], &does, after);
}

#[test]
fn retain_policy_releases_ledger_entry_and_keeps_value() {
    let retained = |mut node: Value| {
        node["ledger"]["example.com/dongle"]["deletionPolicy"] = json!("Retain");
        node
    };
    let after = retained(owned(dongles("4", "4"), "4", "r"));
    let does = ["advertised example.com/dongle=4 (rule r)"];
    let rules = json!({"r": {"deletionPolicy": "Retain"}});
    check(bare(), rules.clone(), &[("r", "pending")], &does, after.clone());
    // The policy alone is written where the value is there already.
    let before = owned(dongles("4", "4"), "4", "r");
    check(before, rules, &[("r", "pending")], &does, after.clone());

    let does = ["released example.com/dongle (rule r; retained)"];
    check(after.clone(), json!({}), &[], &does, dongles("4", "4"));
    // As long as it is listed, the next rule takes over as usual.
    let does = ["advertised example.com/dongle=9 (rule s)"];
    let with_s = owned(dongles("9", "9"), "9", "s");
    check(after.clone(), json!({"s": {"quantity": 9}}), &[("s", "pending")], &does, with_s);
    // A rule that is no longer valid keeps its policy.
    check(after, json!({"r": "invalid"}), &[], &[], json!({}));
}

#[test]
fn several_resources_are_written_in_one_patch() {
    let rules = json!({
        "a": {"resourceName": "example.com/a", "quantity": "800Gi"},
        "b": {"resourceName": "example.com/b", "quantity": 1000},
    });
    let mut before = owned(dongles("4", "4"), "4", "gone");
    before["capacity"]["other.com/x"] = json!("1");
    let tells = [("a", "pending"), ("b", "pending")];
    let does = [
        "advertised example.com/a=800Gi (rule a)",
        "advertised example.com/b=1k (rule b)",
        "withdrew example.com/dongle (rule gone)",
    ];
    let after = json!({
        "capacity": {"cpu": "2", "other.com/x": "1", "example.com/a": "800Gi", "example.com/b": "1k"},
        "allocatable": {"cpu": "2", "example.com/a": "800Gi", "example.com/b": "1k"},
        "ledger": {
            "example.com/a": {"quantity": "800Gi", "rule": "a"},
            "example.com/b": {"quantity": "1k", "rule": "b"},
        },
    });
    check(before, rules, &tells, &does, after);
}

#[test]
fn invalid_rule_keeps_and_repairs_its_values() {
    let node = owned(dongles("4", "4"), "4", "r");
    check(node, json!({"r": "invalid"}), &[], &[], json!({}));
    // Also against a kubelet that zeroes it, and a rule that would take over.
    let does = ["repaired example.com/dongle=4 (rule r; was 0)"];
    let after = owned(dongles("4", "4"), "4", "r");
    let node = owned(dongles("0", "0"), "4", "r");
    check(node.clone(), json!({"r": "invalid"}), &[], &does, after.clone());
    let tells = [("s", "overridden by r")];
    check(node, json!({"r": "invalid", "s": {"quantity": 9}}), &tells, &does, after);
}

#[test]
fn invalid_ledger_blocks_every_change_of_its_node() {
    for text in ["not json", r#"{"cpu":{"quantity":"4","rule":"r"}}"#] {
        let mut node = dongles("7", "7");
        node["ledgerText"] = json!(text);
        let tells = [("r", "unreadable: annotation noderesource.dev/advertised")];
        check(node, json!({"r": {}}), &tells, &[], json!({}));
    }
}

#[test]
fn ledger_beyond_its_size_limit_is_not_written() {
    let rules = (0..300).map(|number| {
        let spec = json!({"resourceName": format!("example.com/{number}")});
        (format!("{}{number}", "long".repeat(60)), spec)
    });
    let rules: Map<_, _> = rules.collect();
    let planned = plan(&seen(&node_object(&bare())), &rule_set(&Value::Object(rules)), &free());
    assert!(planned.patch.is_none());
    let told = told(&planned.outcomes);
    assert!(told.values().all(|outcome| outcome.starts_with("unreadable")), "{told:?}");
}

#[test]
fn patch_tests_what_was_read_and_escapes_paths() {
    let patch = |before: &Value| {
        let rules = rule_set(&json!({"r": {}}));
        let patch = plan(&seen(&node_object(before)), &rules, &free()).patch.unwrap();
        serde_json::to_value(patch).unwrap()
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
