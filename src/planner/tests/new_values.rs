//! Values that appear on a node: absent is harmless to the pods that run there, too little is not (I5).

use super::lowering::{check_input, denied};
use super::*;

fn unknown(new_values: NewValues) -> PlanningInput {
    PlanningInput { new_values, ..PlanningInput::default() }
}

fn two() -> (Value, Value) {
    (bare(), json!({"quantity": 2}))
}

const ADVERTISED: [&str; 1] = ["advertised example.com/dongle=2 (rule r)"];

#[test]
fn new_value_is_no_less_than_what_pods_request() {
    let held = ["held example.com/dongle at 3, which pods request (rule r declares 2)"];
    for before in [bare(), dongles("0", "0"), json!({})] {
        let planned = check_input((before.clone(), two().1), &used(3), "held at 3", &held, false);
        let mut object = node_object(&before);
        let patch = patch(&decoded(&object), planned.changes()).unwrap();
        apply(&mut object, &patch);
        assert_eq!(fields(&object)["allocatable"]["example.com/dongle"], "3");
        assert!(!planned.changes()[0].lowers() && !planned.changes()[0].was_recorded());
    }
    check_input(two(), &used(2), "advertised", &ADVERTISED, false);
    // Whoever binds a pod does not set the quantity.
    check_input(two(), &bound(3, 0), "advertised", &ADVERTISED, false);
    let immediate = json!({"quantity": 2, "shrinkPolicy": "Immediate"});
    check_input((bare(), immediate), &used(3), "advertised", &ADVERTISED, false);
}

#[test]
fn new_value_awaits_pods_after_a_withdrawal() {
    check_input(two(), &unknown(NewValues::Write), "advertised", &ADVERTISED, false);
    let planned = check_input(two(), &unknown(NewValues::Check), "awaiting pods", &[], true);
    assert_eq!(planned.plan, Plan::NeedsPods);
    let immediate = json!({"quantity": 2, "shrinkPolicy": "Immediate"});
    let check = unknown(NewValues::Check);
    check_input((bare(), immediate), &check, "advertised", &ADVERTISED, false);
    // It does not appear where pods cannot be listed.
    let denied = PlanningInput { new_values: NewValues::Check, ..denied() };
    check_input(two(), &denied, "awaiting pods: no right", &[], true);
    // What is listed is no new value.
    let lost = (owned(bare(), "2", "r"), json!({"quantity": 2}));
    let repaired = ["repaired example.com/dongle=2 (rule r; was absent)"];
    check_input(lost, &check, "advertised", &repaired, false);
}

#[test]
fn new_value_on_a_younger_node_needs_no_pods() {
    let check = unknown(NewValues::CheckOlderNodes);
    for (created, is_younger) in [
        (json!("2026-01-02T00:00:01Z"), true),
        (json!(RULES_CREATED), false),
        (json!("2026-01-01T00:00:00Z"), false),
        (json!("garbage"), false),
        (Value::Null, false),
    ] {
        let (mut before, spec) = two();
        before["created"] = created;
        if is_younger {
            check_input((before.clone(), spec.clone()), &check, "advertised", &ADVERTISED, false);
            // A Node object that was deleted and created again under the pods that are bound to it.
            let known = PlanningInput { new_values: NewValues::CheckOlderNodes, ..used(3) };
            let held = ["held example.com/dongle at 3, which pods request (rule r declares 2)"];
            check_input((before, spec), &known, "held at 3", &held, false);
        } else {
            check_input((before, spec), &check, "awaiting pods", &[], true);
        }
    }
}

#[test]
fn resources_that_need_no_pods_do_not_wait() {
    let rules = json!({"r": {"quantity": 2}, "s": {"resourceName": "example.com/s", "shrinkPolicy": "Immediate"}});
    let planned = plan(&decoded(&node_object(&bare())), &rule_set(&rules), &unknown(NewValues::Check));
    assert_eq!(change_texts(&planned), ["advertised example.com/s=4 (rule s)"]);
    assert!(matches!(planned.plan, Plan::Patch { needs_pods: true, .. }));
}
