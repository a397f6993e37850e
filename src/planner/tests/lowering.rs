//! What the plan does where a value is to become less.

use super::*;

/// Plans a node that rule `r` advertises 4 dongles on, in other circumstances; checks what the rule is
/// told, what is done, and whether pods have to be looked at.
fn check_lowering(
    (before, spec): (Value, Value),
    input: &PlanningInput,
    expected: &str,
    expected_changes: &[&str],
    needs_pods: bool,
) {
    let rules = rule_set(&json!({ "r": spec }));
    let planned = plan(&decoded(&node_object(&before)), &rules, input);
    assert_eq!(outcome_texts(&planned.outcomes)["r"], expected, "{before} {spec}");
    let changes: Vec<_> = planned.changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes, expected_changes, "{before} {spec}");
    assert_eq!(planned.needs_pods, needs_pods, "{before} {spec}");
}

#[test]
fn lowered_value_is_held_at_pod_requests() {
    let two = || (owned(dongles("4", "4"), "4", "r"), json!({"quantity": 2}));
    let lowered = ["advertised example.com/dongle=2 (rule r)"];
    check_lowering(two(), &used(0), "pending", &lowered, false);
    check_lowering(two(), &used(2), "pending", &lowered, false);
    let held = ["lowered example.com/dongle to 3, which pods use (rule r declares 2)"];
    check_lowering(two(), &used(3), "pending", &held, false);
    check_lowering(two(), &used(4), "held at 4", &[], false);
    check_lowering(two(), &used(9), "held at 4", &[], false);
    // Nobody has looked yet: nothing is lowered.
    let unknown = PlanningInput::default();
    check_lowering(two(), &unknown, "held at 4", &[], true);
    let denied = PodUsage::Unavailable("no right".to_owned());
    let denied = PlanningInput { pod_usage: denied, ..PlanningInput::default() };
    check_lowering(two(), &denied, "held at 4: no right", &[], true);

    let mut at_once = two();
    at_once.1["shrinkPolicy"] = json!("Immediate");
    check_lowering(at_once, &unknown, "pending", &lowered, false);
    // Raising asks for nothing, nor does withdrawing.
    let raised = (owned(dongles("4", "4"), "4", "r"), json!({"quantity": 5}));
    let expected_changes = ["advertised example.com/dongle=5 (rule r)"];
    check_lowering(raised, &unknown, "pending", &expected_changes, false);
    let gone = plan(&decoded(&node_object(&two().0)), &rule_set(&json!({})), &unknown);
    assert_eq!((gone.changes.len(), gone.needs_pods), (1, false));
}

#[test]
fn held_value_is_repaired_to_the_held_quantity() {
    let held = |present: &str| (owned(dongles(present, present), "3", "r"), json!({"quantity": 2}));
    let unknown = PlanningInput::default();
    check_lowering(held("3"), &unknown, "held at 3", &[], true);
    check_lowering(held("3"), &used(3), "held at 3", &[], false);
    // A reboot: what pods use is back before anybody has looked.
    let repaired = ["repaired example.com/dongle=3 (rule r; was 0)"];
    check_lowering(held("0"), &unknown, "pending", &repaired, true);
    let lowered = ["advertised example.com/dongle=2 (rule r)"];
    check_lowering(held("3"), &used(1), "pending", &lowered, false);
}

#[test]
fn value_raised_by_another_manager_is_held_when_lowered() {
    let raised = || (owned(dongles("7", "7"), "4", "r"), json!({"quantity": 4}));
    let unknown = PlanningInput::default();
    check_lowering(raised(), &unknown, "held at 7", &[], true);
    let repaired = ["repaired example.com/dongle=4 (rule r; was 7)"];
    check_lowering(raised(), &used(4), "pending", &repaired, false);
    let repaired = ["repaired example.com/dongle=6 (rule r; was 7)"];
    check_lowering(raised(), &used(6), "pending", &repaired, false);
    // Nor is a value taken over to the harm of those who use it.
    let foreign = || (dongles("8", "8"), json!({"conflictPolicy": "Overwrite"}));
    check_lowering(foreign(), &unknown, "held at 8", &[], true);
    let taken = ["took over example.com/dongle=5 (rule r; was 8)"];
    check_lowering(foreign(), &used(5), "pending", &taken, false);
}

/// Whatever the node and the rule: a value goes no lower than what pods use, unless the rule says so;
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
        let pod_usage = random.i64(0..9);
        let known = random.bool();
        let input = if known { used(pod_usage) } else { PlanningInput::default() };
        let mut after = node_object(&before);
        let planned = plan(&decoded(&after), &rules, &input);
        if let Some(patch) = planned.patch {
            apply(&mut after, &patch);
        }
        let amount = |map: &str| {
            let text = &after["status"][map]["example.com/dongle"];
            text.as_str().unwrap().parse::<i64>().unwrap()
        };
        let after = (amount("capacity"), amount("allocatable"));
        let desired = spec["quantity"].as_i64().unwrap();
        let least = match (policy, known) {
            ("Immediate", _) => desired,
            (_, true) => desired.max(pod_usage.min(listed.max(capacity).max(allocatable))),
            (_, false) => desired.max(listed),
        };
        let context = format!("{before} {spec} {pod_usage} {known}");
        let is_left = after == (capacity, allocatable);
        let may_be_left = !known && policy == "WhenFree";
        assert!(after == (least, least) || (is_left && may_be_left), "{context}: {after:?}");
        assert!(!(known && planned.needs_pods), "{context}");
    }
}
