//! What the plan does where a value is to become less.

use super::*;
use crate::model::quantity::MAX_QUANTITY;

/// Plans a node for rule `r`; checks what becomes of the rule, what is done, and whether pods have to be
/// listed.
pub(super) fn check_input(
    (before, spec): (Value, Value),
    input: &PlanningInput,
    expected: &str,
    expected_changes: &[&str],
    needs_pods: bool,
) -> NodePlan {
    let rules = rule_set(&json!({ "r": spec }));
    let planned = plan(&decoded(&node_object(&before)), &rules, input);
    assert_eq!(outcome_texts(&planned.outcomes)["r"], expected, "{before} {spec}");
    assert_eq!(change_texts(&planned), expected_changes, "{before} {spec}");
    assert_eq!(planned.needs_pods(), needs_pods, "{before} {spec}");
    planned
}

pub(super) fn denied() -> PlanningInput {
    let pods = PodUsage::Unavailable("no right".into());
    PlanningInput { pods, ..PlanningInput::default() }
}

#[test]
fn lowered_value_is_held_at_pod_requests() {
    let two = || (owned(dongles("4", "4"), "4", "r"), json!({"quantity": 2}));
    let lowered = ["advertised example.com/dongle=2 (rule r)"];
    check_input(two(), &used(0), "advertised", &lowered, false);
    check_input(two(), &used(2), "advertised", &lowered, false);
    let held = ["held example.com/dongle at 3, which pods request (rule r declares 2)"];
    check_input(two(), &used(3), "held at 3", &held, false);
    check_input(two(), &used(4), "held at 4", &[], false);
    check_input(two(), &bound(9, 4), "held at 4", &[], false);
    // Nothing is lowered, nor called held, before pods are known.
    let unknown = PlanningInput::default();
    check_input(two(), &unknown, "awaiting pods", &[], true);
    check_input(two(), &denied(), "held at 4: no right", &[], true);

    let mut at_once = two();
    at_once.1["shrinkPolicy"] = json!("Immediate");
    check_input(at_once, &unknown, "advertised", &lowered, false);
    // Raising requires nothing, nor does withdrawing.
    let raised = (owned(dongles("4", "4"), "4", "r"), json!({"quantity": 5}));
    let expected_changes = ["advertised example.com/dongle=5 (rule r)"];
    check_input(raised, &unknown, "advertised", &expected_changes, false);
    let gone = plan(&decoded(&node_object(&two().0)), &rule_set(&json!({})), &unknown);
    assert_eq!((gone.changes().len(), gone.needs_pods()), (1, false));
}

/// max(declared, min(bound, max(current, recorded, started))), also where there is nothing yet.
#[test]
fn value_is_no_less_than_what_bound_pods_request_and_rises_with_those_that_have_started() {
    let target = |current: Option<&str>, recorded: Option<&str>, pods: &PlanningInput| {
        let mut before = current.map_or_else(bare, |current| dongles(current, current));
        if let Some(recorded) = recorded {
            before = owned(before, recorded, "r");
        }
        let rules = rule_set(&json!({"r": {"quantity": 2, "conflictPolicy": "Overwrite"}}));
        let mut object = node_object(&before);
        let planned = plan(&decoded(&object), &rules, pods);
        let patch = patch(&decoded(&object), planned.changes());
        patch.iter().for_each(|patch| apply(&mut object, patch));
        assert!(plan(&decoded(&object), &rules, pods).changes().is_empty(), "{object} {pods:?}");
        fields(&object)["allocatable"]["example.com/dongle"].as_str().unwrap().to_owned()
    };
    for (current, recorded, pods, expected) in [
        // On the way down: what bound pods request.
        (Some("9"), Some("9"), bound(0, 0), "2"),
        (Some("9"), Some("9"), bound(5, 0), "5"),
        (Some("9"), Some("9"), bound(5, 5), "5"),
        (Some("4"), Some("4"), bound(9, 0), "4"),
        (Some("4"), Some("4"), bound(9, 3), "4"),
        // On the way up: what those request that have started.
        (Some("4"), Some("4"), bound(9, 6), "6"),
        (Some("2"), Some("2"), bound(9, 0), "2"),
        (Some("2"), Some("2"), bound(3, 3), "3"),
        (Some("2"), Some("2"), bound(2, 2), "2"),
        // Lost, or changed by another manager.
        (Some("0"), Some("4"), bound(9, 0), "4"),
        (Some("0"), Some("4"), bound(3, 0), "3"),
        (Some("0"), Some("4"), bound(9, 6), "6"),
        (None, Some("4"), bound(9, 0), "4"),
        (Some("7"), Some("4"), bound(9, 0), "7"),
        (Some("7"), None, bound(9, 0), "7"),
        (Some("3"), None, bound(9, 8), "8"),
        // It appears.
        (None, None, bound(0, 0), "2"),
        (None, None, bound(9, 0), "2"),
        (None, None, bound(9, 1), "2"),
        (None, None, bound(9, 3), "3"),
        (Some("0"), None, bound(9, 3), "3"),
        // What no value can hold: a pod was admitted because its requests overflow.
        (Some("4"), Some("4"), bound(i64::MAX, i64::MAX), "4"),
        (Some("4"), Some("4"), bound(i64::MAX, 9), "4"),
        (None, None, bound(i64::MAX, i64::MAX), "2"),
        (Some("4"), Some("4"), bound(MAX_QUANTITY + 1, 9), "4"),
        (Some("4"), Some("4"), bound(MAX_QUANTITY, 9), "9"),
    ] {
        assert_eq!(target(current, recorded, &pods), expected, "{current:?} {recorded:?} {pods:?}");
    }
}

/// Of a paused rule, an invalid one, and one whose quantity is unknown: the value would stay there after the pods.
#[test]
fn recorded_value_does_not_rise_with_pods_that_have_started() {
    let unknown = json!({"quantityFrom": {"nodeLabel": {"key": "example.com/slots"}, "max": 10}});
    for rule in [json!({"quantity": 2, "paused": true}), json!("invalid"), unknown] {
        for (has, expected) in [("4", &[][..]), ("0", &["repaired example.com/dongle=4 (rule r; was 0)"])] {
            let node = owned(dongles(has, has), "4", "r");
            let planned = plan(&decoded(&node_object(&node)), &rule_set(&json!({ "r": rule })), &bound(9, 9));
            assert_eq!(change_texts(&planned), expected, "{rule}");
        }
    }
}

/// Nothing is lowered while what pods request may have changed; what they requested still raises.
#[test]
fn value_rises_with_pods_that_were_known_to_have_started_and_goes_no_lower() {
    let last_known = |pods: PlanningInput| match pods.pods {
        PodUsage::Known(requests) => {
            let pods = PodUsage::LastKnown { requests, why: "no right".into() };
            PlanningInput { pods, new_values: NewValues::CheckOlderNodes, ..PlanningInput::default() }
        }
        _ => unreachable!(),
    };
    let at = |value: &str| (owned(dongles(value, value), value, "r"), json!({"quantity": 2}));
    let free = last_known(used(0));
    check_input(at("4"), &free, "held at 4: no right", &[], true);
    check_input(at("2"), &free, "advertised", &[], false);
    let held = ["held example.com/dongle at 5, which pods request (rule r declares 2)"];
    check_input(at("4"), &last_known(used(5)), "held at 5: no right", &held, true);
    check_input(at("2"), &last_known(bound(9, 5)), "held at 5: no right", &held, true);
    check_input(at("2"), &last_known(bound(9, 2)), "advertised", &[], false);
    let lost = (owned(dongles("0", "0"), "4", "r"), json!({"quantity": 2}));
    let repaired = ["repaired example.com/dongle=5 (rule r; was 0)"];
    check_input(lost, &last_known(used(5)), "held at 5: no right", &repaired, true);
    // What a succeeding rule keeps is not claimed to be requested.
    let succeeds = (owned(dongles("4", "4"), "4", "gone"), json!({"quantity": 2}));
    let kept = ["advertised example.com/dongle=4 (rule r)"];
    check_input(succeeds, &last_known(used(3)), "held at 4: no right", &kept, true);
    // It appears on a younger node only, and is no less there.
    check_input((bare(), json!({"quantity": 2})), &last_known(used(5)), "awaiting pods: no right", &[], true);
    let mut young = bare();
    young["created"] = json!("2026-01-03T00:00:00Z");
    check_input((young, json!({"quantity": 2})), &last_known(used(5)), "held at 5: no right", &held, false);
}

#[test]
fn held_value_is_repaired_to_the_held_quantity() {
    let held = |present: &str| (owned(dongles(present, present), "3", "r"), json!({"quantity": 2}));
    let unknown = PlanningInput::default();
    check_input(held("3"), &unknown, "awaiting pods", &[], true);
    check_input(held("3"), &used(3), "held at 3", &[], false);
    // A reboot: what pods use is back before they are listed.
    let repaired = ["repaired example.com/dongle=3 (rule r; was 0)"];
    check_input(held("0"), &unknown, "awaiting pods", &repaired, true);
    check_input(held("0"), &denied(), "held at 3: no right", &repaired, true);
    let lowered = ["advertised example.com/dongle=2 (rule r)"];
    check_input(held("3"), &used(1), "advertised", &lowered, false);
}

#[test]
fn value_raised_by_another_manager_is_held_when_lowered() {
    let raised = || (owned(dongles("7", "7"), "4", "r"), json!({"quantity": 4}));
    let unknown = PlanningInput::default();
    check_input(raised(), &unknown, "awaiting pods", &[], true);
    check_input(raised(), &denied(), "held at 7: no right", &[], true);
    let repaired = ["repaired example.com/dongle=4 (rule r; was 7)"];
    check_input(raised(), &used(4), "advertised", &repaired, false);
    let repaired = ["repaired example.com/dongle=6 (rule r; was 7)"];
    check_input(raised(), &used(6), "held at 6", &repaired, false);
    // Nor is a value taken over to the harm of those who use it.
    let foreign = || (dongles("8", "8"), json!({"conflictPolicy": "Overwrite"}));
    check_input(foreign(), &unknown, "awaiting pods", &[], true);
    let taken = ["took over example.com/dongle=5 (rule r; was 8)"];
    check_input(foreign(), &used(5), "held at 5", &taken, false);
}

/// The change must not claim what is not known.
#[test]
fn succeeding_rule_keeps_the_value_where_pods_cannot_be_listed() {
    let before = (owned(dongles("4", "4"), "4", "gone"), json!({"quantity": 2}));
    let changes = ["advertised example.com/dongle=4 (rule r)"];
    check_input(before, &denied(), "held at 4: no right", &changes, true);
}

#[test]
fn held_quantity_is_the_one_in_allocatable() {
    let uneven = (owned(dongles("7", "6"), "4", "r"), json!({"quantity": 4}));
    check_input(uneven, &denied(), "held at 6: no right", &[], true);
    let mut absent = owned(dongles("7", "7"), "4", "r");
    absent["allocatable"].as_object_mut().unwrap().remove("example.com/dongle");
    check_input((absent, json!({"quantity": 4})), &denied(), "held at 7: no right", &[], true);
}

#[test]
fn change_lowers_only_under_when_free() {
    let lowers = |present: &str, listed: &str, spec: Value| {
        let before = node_object(&owned(dongles(present, present), listed, "r"));
        let planned = plan(&decoded(&before), &rule_set(&json!({ "r": spec })), &free());
        planned.changes().iter().map(|it| it.lowers()).collect::<Vec<_>>()
    };
    assert_eq!(lowers("4", "4", json!({"quantity": 2})), [true]);
    assert_eq!(lowers("7", "4", json!({})), [true], "what was raised may be in use");
    assert_eq!(lowers("4", "4", json!({"quantity": 2, "shrinkPolicy": "Immediate"})), [false]);
    assert_eq!(lowers("4", "4", json!({"quantity": 5})), [false]);
    assert_eq!(lowers("0", "4", json!({})), [false]);
    assert_eq!(lowers("0", "4", json!({"quantity": 2})), [true], "pods may use the value that was lost");
    assert_eq!(lowers("4", "4", json!({"nodeNames": ["node-2"]})), [false], "absent is harmless");
}

#[test]
fn pod_requests_never_lead_to_a_quantity_that_cannot_be_declared() {
    let absent = (bare(), json!({"quantity": 2}));
    check_input(absent, &used(i64::MAX), "advertised", &["advertised example.com/dongle=2 (rule r)"], false);
    // What another manager has written is held as far as possible.
    let most = i64::MAX.to_string();
    let present = (owned(dongles(&most, &most), "4", "r"), json!({"quantity": 2}));
    let most = ["repaired example.com/dongle=9223372036854775 (rule r; was 9223372036854775807)"];
    check_input(present, &used(i64::MAX), "held at 9223372036854775", &most, false);
}

/// Whatever the node and the rule: a value goes no lower than what pods use, unless the rule demands it;
/// and where nobody knows what they use, no lower than what is listed.
#[test]
fn random_plans_never_lower_below_pod_requests() {
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..10_000 {
        let [listed, capacity, allocatable] = std::array::from_fn(|_| random.i64(1..9));
        let present = dongles(&capacity.to_string(), &allocatable.to_string());
        let before = owned(present, &listed.to_string(), "r");
        let policy = random.choice(["WhenFree", "Immediate"]).unwrap();
        let spec = json!({"quantity": random.i64(1..9), "shrinkPolicy": policy});
        let rules = rule_set(&json!({ "r": spec }));
        let requested = random.i64(0..9);
        let started = random.i64(0..=requested);
        let known = random.bool();
        let input = if known { bound(requested, started) } else { PlanningInput::default() };
        let mut after = node_object(&before);
        let planned = plan(&decoded(&after), &rules, &input);
        let patch = patch(&decoded(&after), planned.changes()).unwrap();
        apply(&mut after, &patch);
        let amount = |map: &str| {
            let text = &after["status"][map]["example.com/dongle"];
            text.as_str().unwrap().parse::<i64>().unwrap()
        };
        let after = (amount("capacity"), amount("allocatable"));
        let desired = spec["quantity"].as_i64().unwrap();
        let least = match (policy, known) {
            ("Immediate", _) => desired,
            (_, true) => desired.max(requested.min(listed.max(capacity).max(allocatable).max(started))),
            (_, false) => desired.max(listed),
        };
        let context = format!("{before} {spec} {requested} {started} {known}");
        let is_left = after == (capacity, allocatable);
        let may_be_left = !known && policy == "WhenFree";
        assert!(after == (least, least) || (is_left && may_be_left), "{context}: {after:?}");
        assert!(!(known && planned.needs_pods()), "{context}");
    }
}
