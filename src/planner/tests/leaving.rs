//! Values that leave when they are unused: `deletionPolicy: WhenUnused`.

use super::lowering::denied;
use super::*;

/// A node with a value of a rule that no longer declares it, as it was declared.
fn kept(value: &str, recorded: &str) -> Value {
    let mut node = owned(dongles(value, value), recorded, "gone");
    node["ledger"]["example.com/dongle"]["whenUnused"] = json!(true);
    node
}

/// The same once it has begun to leave.
fn left(value: &str, recorded: &str) -> Value {
    let mut node = kept(value, recorded);
    node["ledger"]["example.com/dongle"]["leaving"] = json!(true);
    node
}

fn planned(node: &Value, rules: &Value, input: &PlanningInput) -> NodePlan {
    plan(&decoded(&node_object(node)), &rule_set(rules), input)
}

/// What is done to a value of 4, and what stays.
fn check(node: &Value, input: &PlanningInput, changes: &[&str], at: Option<i64>) {
    let planned = planned(node, &json!({}), input);
    assert_eq!(change_texts(&planned), changes, "{node} {input:?}");
    let [leaving] = &planned.leaving[..] else { panic!("{:?}", planned.leaving) };
    assert_eq!((&*leaving.resource, &*leaving.rule), ("example.com/dongle", "gone"));
    assert_eq!(leaving.at, at.map(Quantity::from), "{node} {input:?}");
}

const WITHDREW: &str = "withdrew example.com/dongle (rule gone)";

fn held(at: i64) -> String {
    format!(
        "held example.com/dongle at {at}, which pods request (rule gone no longer declares it; it leaves as they end)"
    )
}

#[test]
fn leaving_value_follows_pods_down_and_is_removed_with_the_last() {
    let node = left("4", "4");
    check(&node, &used(4), &[], Some(4));
    check(&node, &used(3), &[&held(3)], Some(3));
    check(&node, &bound(3, 0), &[&held(3)], Some(3));
    check(&node, &used(0), &[WITHDREW], None);
    // As any value, it is raised to what started pods request, and no further.
    check(&node, &bound(9, 6), &[&held(6)], Some(6));
    check(&node, &bound(9, 0), &[], Some(4));
    assert!(planned(&node, &json!({}), &used(0)).changes()[0].lowers(), "it waits for no rollout");
}

/// The ledger records that it leaves, at once, so that this holds after each step, whatever is known of rules then.
#[test]
fn leaving_value_is_recorded_to_leave_at_each_quantity() {
    let mut object = node_object(&kept("4", "4"));
    for pods in [4, 3, 2, 1] {
        let planned = plan(&decoded(&object), &rule_set(&json!({})), &used(pods));
        let patch = patch(&decoded(&object), planned.changes()).unwrap();
        apply(&mut object, &patch);
        let quantity = pods.to_string();
        assert_eq!(fields(&object), left(&quantity, &quantity), "at {pods}");
    }
    let planned = plan(&decoded(&object), &rule_set(&json!({})), &used(0));
    let patch = patch(&decoded(&object), planned.changes()).unwrap();
    apply(&mut object, &patch);
    assert_eq!(fields(&object), bare());
}

#[test]
fn leaving_value_stays_until_pods_are_known() {
    let node = kept("4", "4");
    for input in [PlanningInput::default(), denied()] {
        check(&node, &input, &[], (input == denied()).then_some(4));
        assert!(planned(&node, &json!({}), &input).needs_pods());
    }
    let last_known = |pods: i64| {
        let PodUsage::Known(requests) = used(pods).pods else { unreachable!() };
        PlanningInput { pods: PodUsage::LastKnown { requests, why: "silent".into() }, ..PlanningInput::default() }
    };
    check(&node, &last_known(0), &[], Some(4));
    check(&node, &last_known(6), &[&held(6)], Some(6));
}

/// A kubelet resets it while pods run.
#[test]
fn lost_leaving_value_is_restored_for_pods_only() {
    let repaired = |to: i64| format!("repaired example.com/dongle={to} (rule gone; was 0)");
    let node = left("0", "4");
    check(&node, &used(4), &[&repaired(4)], Some(4));
    check(&node, &used(3), &[&repaired(3)], Some(3));
    check(&node, &PlanningInput::default(), &[&repaired(4)], None);
    check(&node, &used(0), &[WITHDREW], None);
}

#[test]
fn leaving_value_that_another_manager_has_overwritten_is_released() {
    let planned = planned(&left("7", "4"), &json!({}), &used(3));
    assert_eq!(planned.leaving, []);
    let released = "released example.com/dongle (rule gone): another field manager has written 7 since";
    assert_eq!(change_texts(&planned), [released]);
}

/// A rule that declares the resource again decides, also with less, and under its own policies.
#[test]
fn leaving_value_is_the_next_rules_own() {
    for (rule, changes, outcome) in [
        (json!({"quantity": 4}), &["advertised example.com/dongle=4 (rule r)"][..], "advertised"),
        (
            json!({"quantity": 1}),
            &["held example.com/dongle at 3, which pods request (rule r declares 1)"],
            "held at 3",
        ),
        (
            json!({"quantity": 1, "shrinkPolicy": "Immediate"}),
            &["advertised example.com/dongle=1 (rule r)"],
            "advertised",
        ),
    ] {
        let planned = planned(&left("4", "4"), &json!({ "r": rule }), &used(3));
        assert_eq!(
            (planned.leaving.len(), change_texts(&planned)),
            (0, changes.iter().map(ToString::to_string).collect())
        );
        assert_eq!(outcome_texts(&planned.outcomes)["r"], outcome);
    }
    // One that is paused declares nothing.
    let paused = planned(&left("4", "4"), &json!({"r": {"paused": true}}), &used(3));
    assert_eq!((change_texts(&paused), &*outcome_texts(&paused.outcomes)["r"]), (vec![held(3)], "paused"));
}

/// Also one that declared it before, and selects the node again.
#[test]
fn paused_rule_whose_value_leaves_is_paused() {
    for (pods, changes) in [(4, vec![]), (3, vec![held(3)]), (0, vec![WITHDREW.to_owned()])] {
        let planned = planned(&left("4", "4"), &json!({"gone": {"paused": true}}), &used(pods));
        let outcome = &*outcome_texts(&planned.outcomes)["gone"];
        assert_eq!((planned.leaving.len(), change_texts(&planned), outcome), (1, changes, "paused"), "{pods} used");
    }
}

/// An invalid rule, or one of those that are missing for now, may declare it; but not what it has given up before.
#[test]
fn value_of_a_frozen_rule_does_not_begin_to_leave() {
    let frozen = json!({"gone": "invalid"});
    let before = planned(&kept("4", "4"), &frozen, &used(0));
    assert_eq!((before.leaving.len(), before.plan), (0, Plan::InSync));
    let since = planned(&left("4", "4"), &frozen, &used(3));
    assert_eq!((since.leaving.len(), change_texts(&since)), (1, vec![held(3)]));
}

/// Whatever it loses, it may go: nothing is restored that a pod does not use. What is there stays for pods, and is reported
/// at once, though it may be lost again.
#[test]
fn contested_leaving_value_is_removed_with_the_last_pod() {
    let contest = |may_repair| Contest { may_repair, manager: None, lost: Lost::Value };
    let repaired = || "repaired example.com/dongle=4 (rule gone; was 0)".to_owned();
    for (value, pods, may_repair, changes, at) in [
        ("0", 0, false, vec![WITHDREW.to_owned()], None),
        ("0", 4, false, vec![], None),
        ("0", 4, true, vec![repaired()], Some(4)),
        ("4", 4, false, vec![], Some(4)),
        ("4", 4, true, vec![], Some(4)),
        ("4", 3, false, vec![held(3)], Some(3)),
        ("4", 0, false, vec![WITHDREW.to_owned()], None),
    ] {
        let mut input = used(pods);
        input.contested.insert("example.com/dongle".into(), contest(may_repair));
        check(&left(value, "4"), &input, &changes.iter().map(String::as_str).collect::<Vec<_>>(), at);
    }
}
