//! Paused rules: they keep and repair what they have, and get nothing new.

use super::*;

fn paused(spec: Value) -> Value {
    let mut spec = spec;
    spec["paused"] = json!(true);
    json!({ "r": spec })
}

#[test]
fn paused_rule_repairs_the_listed_value() {
    for declared in ["4", "9"] {
        let node = owned(dongles("0", "0"), "4", "r");
        let outcome = if declared == "4" { "advertised" } else { "paused at 4" };
        Case {
            node,
            rules: paused(json!({"quantity": declared})),
            outcomes: &[("r", outcome)],
            changes: &["repaired example.com/dongle=4 (rule r; was 0)"],
            after: owned(dongles("4", "4"), "4", "r"),
        }
        .check();
    }
}

/// Whatever was edited since, and whether the node is still selected.
#[test]
fn paused_rule_changes_and_withdraws_nothing() {
    let node = owned(dongles("4", "4"), "4", "r");
    let elsewhere = json!({"nodeNames": ["other"]});
    let renamed = json!({"resourceName": "example.com/other"});
    let retained = json!({"deletionPolicy": "Retain"});
    for (spec, outcomes) in [
        (json!({"quantity": 9}), &[("r", "paused at 4")][..]),
        (json!({"quantity": 2, "shrinkPolicy": "Immediate"}), &[("r", "paused at 4")]),
        (elsewhere, &[]),
        (renamed, &[("r", "paused")]),
        (retained, &[("r", "advertised")]),
    ] {
        Case { node: node.clone(), rules: paused(spec), outcomes, changes: &[], after: json!({}) }.check();
    }
}

#[test]
fn paused_rule_adds_takes_over_and_adopts_nothing() {
    for node in [bare(), dongles("0", "0"), dongles("4", "4"), dongles("7", "7")] {
        let rules = paused(json!({"conflictPolicy": "Overwrite"}));
        Case { node, rules, outcomes: &[("r", "paused")], changes: &[], after: json!({}) }.check();
    }
}

#[test]
fn paused_rule_without_a_value_leaves_the_resource_to_others() {
    let after = owned(dongles("9", "9"), "9", "s");
    let changes = ["advertised example.com/dongle=9 (rule s)"];
    for (priority, outcome) in [(1, "paused"), (-1, "overridden by s")] {
        let mut rules = paused(json!({ "priority": priority }));
        rules["s"] = json!({"quantity": 9});
        let outcomes = [("r", outcome), ("s", "advertised")];
        Case { node: bare(), rules, outcomes: &outcomes, changes: &changes, after: after.clone() }.check();
    }
}

#[test]
fn paused_rule_with_a_value_yields_only_to_a_higher_priority() {
    let node = owned(dongles("4", "4"), "4", "r");
    let mut rules = paused(json!({}));
    rules["s"] = json!({"quantity": 9});
    let outcomes = [("r", "advertised"), ("s", "overridden by r")];
    Case { node: node.clone(), rules: rules.clone(), outcomes: &outcomes, changes: &[], after: json!({}) }.check();
    rules["s"]["priority"] = json!(1);
    let outcomes = [("r", "overridden by s"), ("s", "advertised")];
    let changes = ["advertised example.com/dongle=9 (rule s)"];
    Case { node, rules, outcomes: &outcomes, changes: &changes, after: owned(dongles("9", "9"), "9", "s") }.check();
}

#[test]
fn value_of_a_paused_rule_is_lowered_for_no_pods() {
    let node = owned(dongles("8", "8"), "8", "r");
    let rules = paused(json!({"quantity": 1}));
    let plan = plan(&decoded(&node_object(&node)), &rule_set(&rules), &PlanningInput::default());
    assert_eq!(plan.plan, Plan::InSync, "no pods are needed");
}
