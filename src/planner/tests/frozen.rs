//! Rules that keep what they have: invalid ones, and absent ones that may come back.

use super::*;

#[test]
fn invalid_rule_keeps_and_repairs_its_values() {
    let node = owned(dongles("4", "4"), "4", "r");
    Case { node, rules: json!({"r": "invalid"}), outcomes: &[], changes: &[], after: json!({}) }.check();
    // Also against a kubelet that zeroes it, and a rule that would take over.
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was 0)"];
    let after = owned(dongles("4", "4"), "4", "r");
    let node = owned(dongles("0", "0"), "4", "r");
    Case {
        node: node.clone(),
        rules: json!({"r": "invalid"}),
        outcomes: &[],
        changes: &expected_changes,
        after: after.clone(),
    }
    .check();
    let expected = [("s", "overridden by r")];
    Case {
        node,
        rules: json!({"r": "invalid", "s": {"quantity": 9}}),
        outcomes: &expected,
        changes: &expected_changes,
        after,
    }
    .check();
}

#[test]
fn frozen_rule_decides_over_valid_ones_of_no_higher_priority() {
    let listed = owned(dongles("4", "4"), "4", "f");
    // Its priority cannot be read, or is 3.
    for (frozen, priority) in [(json!("invalid"), 9), (json!(3), 3), (json!(3), 2)] {
        let rules = json!({"f": frozen, "s": {"quantity": 9, "priority": priority}});
        Case { node: listed.clone(), rules, outcomes: &[("s", "overridden by f")], changes: &[], after: json!({}) }
            .check();
    }
    let rules = json!({"f": 3, "s": {"quantity": 9, "priority": 4}, "t": {"priority": 3}});
    let expected = [("s", "advertised"), ("t", "overridden by s")];
    let changes = ["advertised example.com/dongle=9 (rule s)"];
    Case { node: listed, rules, outcomes: &expected, changes: &changes, after: owned(dongles("9", "9"), "9", "s") }
        .check();
}

#[test]
fn frozen_rule_gets_nothing_that_the_ledger_does_not_list() {
    let expected = ["advertised example.com/dongle=9 (rule s)"];
    let after = owned(dongles("9", "9"), "9", "s");
    let rules = json!({"f": 3, "s": {"quantity": 9}});
    Case { node: bare(), rules, outcomes: &[("s", "advertised")], changes: &expected, after }.check();
    Case { node: bare(), rules: json!({"f": 3}), outcomes: &[], changes: &[], after: json!({}) }.check();
    Case { node: dongles("4", "4"), rules: json!({"f": "invalid"}), outcomes: &[], changes: &[], after: json!({}) }
        .check();
}

#[test]
fn valid_rule_is_not_frozen_by_its_own_name() {
    let rule = rule_set(&json!({"r": {}})).selecting(&decoded(&node_object(&bare())))[0].clone();
    let rules = RuleSet::new([rule], [("r".into(), None)]);
    assert!(!rules.is_frozen("r"));
}
