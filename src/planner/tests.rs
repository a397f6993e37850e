//! What a plan does, case by case: a node, rules, and the node after the plan. Each test applies the plan as the API
//! server would, and plans again, which must leave nothing to do.

mod adoption;
mod case;
mod contested;
mod derived;
pub(crate) mod exploration;
mod frozen;
mod leaving;
mod ledger_room;
mod lowering;
mod new_values;
mod ownership;
mod paused;
mod random;
mod repairs;
mod withdrawal;

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::Patch;
use serde_json::{Map, Value, json};

use super::input::{Contest, Contested, Lost, NewValues, PodUsage};
use super::*;
use crate::model::quantity::Quantity;
use case::*;

pub(crate) use case::{apply, try_apply};

#[test]
fn absent_resource_is_advertised() {
    let after = owned(dongles("4", "4"), "4", "r");
    let expected_changes = ["advertised example.com/dongle=4 (rule r)"];
    Case { node: bare(), rules: json!({"r": {}}), outcomes: &[("r", "advertised")], changes: &expected_changes, after }
        .check();
}

#[test]
fn node_without_maps_gets_both() {
    let amounts = json!({"example.com/dongle": "4"});
    let after = owned(json!({"capacity": amounts, "allocatable": amounts}), "4", "r");
    let expected_changes = ["advertised example.com/dongle=4 (rule r)"];
    Case {
        node: json!({}),
        rules: json!({"r": {}}),
        outcomes: &[("r", "advertised")],
        changes: &expected_changes,
        after,
    }
    .check();
}

#[test]
fn foreign_zero_is_replaced() {
    for (capacity, allocatable) in [("0", "0"), ("2", "0")] {
        let expected_changes: &[&str] = &["advertised example.com/dongle=4 (rule r)"];
        let after = owned(dongles("4", "4"), "4", "r");
        let expected = [("r", "advertised")];
        if capacity == "0" {
            Case {
                node: dongles(capacity, allocatable),
                rules: json!({"r": {}}),
                outcomes: &expected,
                changes: expected_changes,
                after,
            }
            .check();
        } else {
            // A device plugin whose devices are all broken: 2 there, none to be had.
            let expected = [("r", "conflicted: 2 in capacity, 0 in allocatable")];
            Case {
                node: dongles(capacity, allocatable),
                rules: json!({"r": {}}),
                outcomes: &expected,
                changes: &[],
                after: json!({}),
            }
            .check();
        }
    }
}

#[test]
fn value_as_declared_needs_no_patch() {
    let cases = [("4", "4"), ("4000m", "4"), ("0.004k", "4"), ("4", "4.0")];
    for (present, listed) in cases {
        let node = owned(dongles(present, "4"), listed, "r");
        Case { node, rules: json!({"r": {}}), outcomes: &[("r", "advertised")], changes: &[], after: json!({}) }
            .check();
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
        Case { node, rules: json!({"r": {}}), outcomes: &[("r", "advertised")], changes: &expected_changes, after }
            .check();
    }
    let mut gone = owned(bare(), "4", "r");
    gone["allocatable"]["example.com/dongle"] = json!("4");
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was absent in capacity, 4 in allocatable)"];
    let after = owned(dongles("4", "4"), "4", "r");
    Case { node: gone, rules: json!({"r": {}}), outcomes: &[("r", "advertised")], changes: &expected_changes, after }
        .check();
}

#[test]
fn keep_policy_leaves_value_outside_the_ledger() {
    for present in ["8", "4", "-1", "garbage"] {
        let expected = [("r", format!("conflicted: {present}"))];
        let expected = expected.each_ref().map(|(rule, outcome)| (*rule, outcome.as_str()));
        Case {
            node: dongles(present, present),
            rules: json!({"r": {}}),
            outcomes: &expected,
            changes: &[],
            after: json!({}),
        }
        .check();
    }
}

#[test]
fn edited_quantity_replaces_own_value() {
    let expected_changes = ["advertised example.com/dongle=5 (rule r)"];
    let after = owned(dongles("5", "5"), "5", "r");
    let node = owned(dongles("4", "4"), "4", "r");
    Case {
        node,
        rules: json!({"r": {"quantity": 5}}),
        outcomes: &[("r", "advertised")],
        changes: &expected_changes,
        after,
    }
    .check();
}

#[test]
fn ledger_value_without_a_rule_is_withdrawn() {
    let expected_changes = ["withdrew example.com/dongle (rule r)"];
    for node in [dongles("4", "4"), dongles("4", "0"), dongles("0", "0"), dongles("4000m", "4")] {
        Case {
            node: owned(node, "4", "r"),
            rules: json!({}),
            outcomes: &[],
            changes: &expected_changes,
            after: bare(),
        }
        .check();
    }
    Case { node: owned(bare(), "4", "r"), rules: json!({}), outcomes: &[], changes: &expected_changes, after: bare() }
        .check();
    let elsewhere = json!({"r": {"nodeNames": ["node-2"]}});
    Case {
        node: owned(dongles("4", "4"), "4", "r"),
        rules: elsewhere,
        outcomes: &[],
        changes: &expected_changes,
        after: bare(),
    }
    .check();
}

#[test]
fn value_outside_the_ledger_is_never_withdrawn() {
    Case { node: dongles("4", "4"), rules: json!({}), outcomes: &[], changes: &[], after: json!({}) }.check();
}

#[test]
fn highest_precedence_rule_is_succeeded_in_one_patch() {
    let both = json!({"low": {"quantity": 2}, "high": {"quantity": 8, "priority": 1}});
    let expected = [("high", "advertised"), ("low", "overridden by high")];
    let expected_changes = ["advertised example.com/dongle=8 (rule high)"];
    let with_high = owned(dongles("8", "8"), "8", "high");
    Case { node: bare(), rules: both, outcomes: &expected, changes: &expected_changes, after: with_high.clone() }
        .check();

    let low = json!({"low": {"quantity": 2}});
    let expected_changes = ["advertised example.com/dongle=2 (rule low)"];
    let after = owned(dongles("2", "2"), "2", "low");
    Case { node: with_high.clone(), rules: low, outcomes: &[("low", "advertised")], changes: &expected_changes, after }
        .check();

    // The same quantity by another rule: the ledger alone changes hands.
    let other = json!({"other": {"quantity": 8}});
    let expected_changes = ["advertised example.com/dongle=8 (rule other)"];
    let after = owned(dongles("8", "8"), "8", "other");
    Case { node: with_high, rules: other, outcomes: &[("other", "advertised")], changes: &expected_changes, after }
        .check();
}

#[test]
fn equal_priority_is_reported_for_different_quantities() {
    let rules = json!({"a": {"quantity": 4}, "b": {"quantity": 8}, "c": {"quantity": "4000m"}});
    let expected = [("a", "advertised"), ("b", "tied, overridden by a"), ("c", "overridden by a")];
    let expected_changes = ["advertised example.com/dongle=4 (rule a)"];
    Case {
        node: bare(),
        rules,
        outcomes: &expected,
        changes: &expected_changes,
        after: owned(dongles("4", "4"), "4", "a"),
    }
    .check();
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
