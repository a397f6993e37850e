//! Places that are lost again and again.

use super::adoption::entry;
use super::*;
use crate::model::api::FIELD_MANAGER;

fn contested(may_repair: bool, lost: Lost) -> PlanningInput {
    let contest = Contest { may_repair, manager: None, lost };
    PlanningInput { contested: [("example.com/dongle".into(), contest)].into(), ..free() }
}

fn planned(before: &Value, spec: &Value, input: &PlanningInput) -> NodePlan {
    plan(&decoded(&node_object(before)), &rule_set(&json!({ "r": spec })), input)
}

#[test]
fn contested_value_is_repaired_only_after_back_off() {
    let rules = rule_set(&json!({"r": {}, "s": {"resourceName": "example.com/s"}}));
    let mut before = owned(dongles("7", "7"), "4", "r");
    let contested = |may_repair| contested(may_repair, Lost::Value);
    for (may_repair, expected_changes) in [
        (false, vec!["advertised example.com/s=4 (rule s)"]),
        (true, vec!["repaired example.com/dongle=4 (rule r; was 7)", "advertised example.com/s=4 (rule s)"]),
    ] {
        let planned = plan(&decoded(&node_object(&before)), &rules, &contested(may_repair));
        let expected = [("r", "contested".to_owned()), ("s", "advertised".to_owned())];
        assert_eq!(outcome_texts(&planned.outcomes), expected.into());
        assert_eq!(change_texts(&planned), expected_changes);
    }
    // A fight is not over with a repair, and yet does not keep a rule's end from taking effect.
    before = owned(dongles("4", "4"), "4", "r");
    let planned = plan(&decoded(&node_object(&before)), &rules, &contested(false));
    assert_eq!(outcome_texts(&planned.outcomes)["r"], "contested");
    let none = rule_set(&json!({}));
    let planned = plan(&decoded(&node_object(&before)), &none, &contested(false));
    assert_eq!(change_texts(&planned)[0], "withdrew example.com/dongle (rule r)");
}

/// Whatever was done to it again and again, it waits.
#[test]
fn contested_place_is_not_written_whatever_the_action() {
    let own = entry(FIELD_MANAGER, &["capacity", "allocatable"]);
    let mut adoptable = dongles("4", "4");
    adoptable["managers"] = json!([own]);
    let overwrite = json!({"conflictPolicy": "Overwrite"});
    for (before, spec, action) in [
        (owned(dongles("7", "7"), "4", "r"), json!({}), "repair"),
        (owned(bare(), "4", "r"), json!({}), "repair"),
        (adoptable, json!({}), "adopt"),
        (dongles("8", "8"), overwrite.clone(), "takeOver"),
        (dongles("4", "4"), overwrite, "takeOver"),
        (bare(), json!({}), "advertise"),
        (dongles("0", "0"), json!({}), "advertise"),
    ] {
        for (lost, text) in [(Lost::Value, "contested"), (Lost::LedgerEntry, "contested annotation")] {
            let waiting = planned(&before, &spec, &contested(false, lost));
            assert_eq!(waiting.plan, Plan::InSync, "{before}");
            assert_eq!(outcome_texts(&waiting.outcomes)["r"], text);
            let due = planned(&before, &spec, &contested(true, lost));
            assert_eq!(due.changes()[0].action_name(), action, "{before}");
            assert_eq!(outcome_texts(&due.outcomes)["r"], text);
            let lost = if action == "repair" { Lost::Value } else { Lost::LedgerEntry };
            assert_eq!(due.changes()[0].lost(), lost, "{before}");
        }
    }
}

#[test]
fn edited_rule_does_not_wait_for_a_contest() {
    let waiting = contested(false, Lost::Value);
    for (spec, quantity) in [
        (json!({"quantity": 5}), "5"),
        (json!({"quantity": 3}), "3"),
        (json!({"quantity": 4, "deletionPolicy": "Retain"}), "4"),
    ] {
        for present in ["7", "4", "0"] {
            let before = owned(dongles(present, present), "4", "r");
            let planned = planned(&before, &spec, &waiting);
            assert_eq!(planned.changes().len(), 1, "{present} {spec}");
            assert_eq!(planned.changes()[0].quantity(), Some(quantity));
            assert_eq!(outcome_texts(&planned.outcomes)["r"], "contested");
        }
    }
    // Another rule decides now.
    let before = owned(dongles("7", "7"), "4", "gone");
    assert_eq!(planned(&before, &json!({}), &waiting).changes()[0].quantity(), Some("4"));
}

/// What pods request is no edit of the rule: it must not be a way round the pause.
#[test]
fn pod_requests_do_not_end_a_contest() {
    let contested = contested(false, Lost::Value).contested;
    let before = owned(dongles("7", "7"), "4", "r");
    for input in [used(6), PlanningInput::default()] {
        let input = PlanningInput { contested: contested.clone(), ..input };
        assert_eq!(planned(&before, &json!({}), &input).plan, Plan::InSync, "pods decide nothing");
    }
    let held = owned(dongles("7", "7"), "4", "r");
    let input = PlanningInput { contested, ..used(6) };
    assert_eq!(planned(&held, &json!({"quantity": 2}), &input).plan, Plan::InSync);
}
