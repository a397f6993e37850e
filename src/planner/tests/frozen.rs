//! Rules that keep what they have: invalid ones, and absent ones that may come back.

use super::*;

#[test]
fn invalid_rule_keeps_and_repairs_its_values() {
    let node = owned(dongles("4", "4"), "4", "r");
    check(node, json!({"r": "invalid"}), &[], &[], json!({}));
    // Also against a kubelet that zeroes it, and a rule that would take over.
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was 0)"];
    let after = owned(dongles("4", "4"), "4", "r");
    let node = owned(dongles("0", "0"), "4", "r");
    check(node.clone(), json!({"r": "invalid"}), &[], &expected_changes, after.clone());
    let expected = [("s", "overridden by r")];
    check(node, json!({"r": "invalid", "s": {"quantity": 9}}), &expected, &expected_changes, after);
}

#[test]
fn frozen_rule_decides_over_valid_ones_of_no_higher_priority() {
    let listed = owned(dongles("4", "4"), "4", "f");
    // Its priority cannot be read, or is 3.
    for (frozen, priority) in [(json!("invalid"), 9), (json!(3), 3), (json!(3), 2)] {
        let rules = json!({"f": frozen, "s": {"quantity": 9, "priority": priority}});
        check(listed.clone(), rules, &[("s", "overridden by f")], &[], json!({}));
    }
    let rules = json!({"f": 3, "s": {"quantity": 9, "priority": 4}, "t": {"priority": 3}});
    let expected = [("s", "advertised"), ("t", "overridden by s")];
    let changes = ["advertised example.com/dongle=9 (rule s)"];
    check(listed, rules, &expected, &changes, owned(dongles("9", "9"), "9", "s"));
}

#[test]
fn frozen_rule_gets_nothing_that_the_ledger_does_not_list() {
    let expected = ["advertised example.com/dongle=9 (rule s)"];
    let after = owned(dongles("9", "9"), "9", "s");
    let rules = json!({"f": 3, "s": {"quantity": 9}});
    check(bare(), rules, &[("s", "advertised")], &expected, after);
    check(bare(), json!({"f": 3}), &[], &[], json!({}));
    check(dongles("4", "4"), json!({"f": "invalid"}), &[], &[], json!({}));
}

#[test]
fn valid_rule_is_not_frozen_by_its_own_name() {
    let rule = rule_set(&json!({"r": {}})).selecting(&decoded(&node_object(&bare())))[0].clone();
    let rules = RuleSet::new([rule], [("r".into(), None)]);
    assert!(!rules.is_frozen("r"));
}
