//! Values that the ledger does not list, by who wrote them.

use super::*;
use crate::model::api::FIELD_MANAGER;

/// An entry of managedFields, with the dongle in these maps.
pub(super) fn entry(manager: &str, maps: &[&str]) -> Value {
    let maps = maps.iter().map(|map| (format!("f:{map}"), json!({"f:example.com/dongle": {}})));
    let maps: Map<_, _> = maps.collect();
    json!({"manager": manager, "subresource": "status", "fieldsV1": {"f:status": maps}})
}

fn written(mut node: Value, managers: &[Value]) -> Value {
    node["managers"] = json!(managers);
    node
}

const BOTH: [&str; 2] = ["capacity", "allocatable"];

#[test]
fn own_equal_value_is_adopted() {
    let own = [entry("kubelet", &[]), entry(FIELD_MANAGER, &BOTH)];
    let expected_changes = ["adopted example.com/dongle=4 (rule r; written by node-resource-advertiser before)"];
    for (capacity, allocatable) in [("4", "4"), ("4000m", "4"), ("0.004k", "4.0")] {
        for policy in ["Keep", "Overwrite"] {
            let rules = json!({"r": {"conflictPolicy": policy}});
            let after = owned(dongles(capacity, allocatable), "4", "r");
            let before = written(dongles(capacity, allocatable), &own);
            Case { node: before, rules, outcomes: &[("r", "advertised")], changes: &expected_changes, after }.check();
        }
    }
    // By the rule that decides, and with its policy.
    let rules = json!({"r": {"deletionPolicy": "Retain", "priority": 1}, "s": {"quantity": 9}});
    let mut after = owned(dongles("4", "4"), "4", "r");
    after["ledger"]["example.com/dongle"]["deletionPolicy"] = json!("Retain");
    let expected = [("r", "advertised"), ("s", "overridden by r")];
    Case { node: written(dongles("4", "4"), &own), rules, outcomes: &expected, changes: &expected_changes, after }
        .check();
}

#[test]
fn adoption_tests_both_values_and_writes_the_ledger_alone() {
    let own = [entry(FIELD_MANAGER, &BOTH)];
    let before = node_object(&written(dongles("4000m", "4"), &own));
    let planned = plan(&decoded(&before), &rule_set(&json!({"r": {}})), &free());
    let patch = patch(&decoded(&before), planned.changes()).unwrap();
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"r"}}"#;
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "test", "path": "/metadata/annotations", "value": null},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/noderesource.dev~1advertised", "value": ledger},
        {"op": "test", "path": "/status/capacity/example.com~1dongle", "value": "4000m"},
        {"op": "test", "path": "/status/allocatable/example.com~1dongle", "value": "4"},
    ]);
    assert_eq!(serde_json::to_value(patch).unwrap(), expected);
}

#[test]
fn own_value_that_differs_is_a_conflict_with_the_own_name() {
    let own = [entry(FIELD_MANAGER, &BOTH)];
    for (capacity, allocatable) in [("8", "8"), ("4", "8"), ("4", "0"), ("garbage", "4")] {
        let before = node_object(&written(dongles(capacity, allocatable), &own));
        let planned = plan(&decoded(&before), &rule_set(&json!({"r": {}})), &free());
        assert_eq!(planned.plan, Plan::InSync, "{capacity} {allocatable}");
        let (_, outcome) = &planned.outcomes[0];
        let is_named = matches!(outcome, Outcome::Conflicted { manager: Some(manager), .. }
            if manager.is_own());
        assert!(is_named, "{outcome:?}");
    }
}

#[test]
fn equal_value_with_another_manager_in_either_map_is_a_conflict() {
    for (managers, name) in [
        (vec![], None),
        (vec![entry("kubectl-patch", &BOTH)], Some("kubectl-patch")),
        // Its field manager wrote capacity, and the kubelet copied it.
        (vec![entry(FIELD_MANAGER, &BOTH[..1]), entry("kubelet", &BOTH[1..])], Some("kubelet")),
        // A device plugin, or a value that admission kept: both are the kubelet's.
        (vec![entry("kubelet", &BOTH)], Some("kubelet")),
        // Server-side apply with the equal value owns the field too.
        (vec![entry("helm", &BOTH[1..]), entry(FIELD_MANAGER, &BOTH)], Some("helm")),
        (vec![entry(FIELD_MANAGER, &BOTH[..1])], Some(FIELD_MANAGER)),
    ] {
        let before = node_object(&written(dongles("4", "4"), &managers));
        let planned = plan(&decoded(&before), &rule_set(&json!({"r": {}})), &free());
        assert_eq!(planned.plan, Plan::InSync, "{managers:?}");
        let Outcome::Conflicted { present, manager } = &planned.outcomes[0].1 else { panic!("{managers:?}") };
        let manager = manager.as_ref().map(|manager| &**manager.name());
        assert_eq!((present.as_str(), manager), ("4", name), "{managers:?}");
    }
}

#[test]
fn contested_adoption_waits_for_its_pause() {
    let before = node_object(&written(dongles("4", "4"), &[entry(FIELD_MANAGER, &BOTH)]));
    for (may_repair, patches) in [(false, false), (true, true)] {
        let contest = Contest { may_repair, manager: None, lost: Lost::LedgerEntry };
        let contested = [("example.com/dongle".into(), contest)].into();
        let input = PlanningInput { contested, ..free() };
        let planned = plan(&decoded(&before), &rule_set(&json!({"r": {}})), &input);
        assert_eq!(outcome_texts(&planned.outcomes)["r"], "contested annotation");
        assert_eq!(!planned.changes().is_empty(), patches);
        assert!(planned.changes().iter().all(|change| change.lost() == Lost::LedgerEntry));
    }
}

#[test]
fn repair_names_the_manager_of_the_map_that_differs() {
    let managers = [entry(FIELD_MANAGER, &BOTH[1..]), entry("kubectl-patch", &BOTH[..1])];
    let before = written(owned(dongles("9", "4"), "4", "r"), &managers);
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was 9 in capacity, 4 in allocatable, \
                 written by kubectl-patch)"];
    let after = owned(dongles("4", "4"), "4", "r");
    Case { node: before, rules: json!({"r": {}}), outcomes: &[("r", "advertised")], changes: &expected_changes, after }
        .check();
    // A value that was removed has no manager: the other map's is not to blame.
    let mut before = owned(dongles("4", "4"), "4", "r");
    before["capacity"].as_object_mut().unwrap().remove("example.com/dongle");
    let before = written(before, &[entry(FIELD_MANAGER, &BOTH[1..])]);
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was absent in capacity, 4 in allocatable)"];
    let after = owned(dongles("4", "4"), "4", "r");
    Case { node: before, rules: json!({"r": {}}), outcomes: &[("r", "advertised")], changes: &expected_changes, after }
        .check();
}
