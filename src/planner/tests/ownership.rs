//! Whose a value is: policies, and ledgers that are not valid.

use super::*;

#[test]
fn overwrite_policy_takes_over_value_outside_the_ledger() {
    let rules = json!({"r": {"conflictPolicy": "Overwrite"}});
    for (present, was) in [("8", "8"), ("4", "4"), ("garbage", "garbage")] {
        let expected_changes = [format!("took over example.com/dongle=4 (rule r; was {was})")];
        let expected_changes = expected_changes.each_ref().map(String::as_str);
        let after = owned(dongles("4", "4"), "4", "r");
        Case {
            node: dongles(present, present),
            rules: rules.clone(),
            outcomes: &[("r", "advertised")],
            changes: &expected_changes,
            after,
        }
        .check();
    }
    // What is vacant is no conflict, and what is listed is its own.
    let expected_changes = ["advertised example.com/dongle=4 (rule r)"];
    let after = owned(dongles("4", "4"), "4", "r");
    Case {
        node: dongles("0", "0"),
        rules: rules.clone(),
        outcomes: &[("r", "advertised")],
        changes: &expected_changes,
        after: after.clone(),
    }
    .check();
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was 7)"];
    Case {
        node: owned(dongles("7", "7"), "4", "r"),
        rules,
        outcomes: &[("r", "advertised")],
        changes: &expected_changes,
        after,
    }
    .check();
}

#[test]
fn retain_policy_releases_ledger_entry_and_keeps_value() {
    let retained = |mut node: Value| {
        node["ledger"]["example.com/dongle"]["deletionPolicy"] = json!("Retain");
        node
    };
    let after = retained(owned(dongles("4", "4"), "4", "r"));
    let expected_changes = ["advertised example.com/dongle=4 (rule r)"];
    let rules = json!({"r": {"deletionPolicy": "Retain"}});
    Case {
        node: bare(),
        rules: rules.clone(),
        outcomes: &[("r", "advertised")],
        changes: &expected_changes,
        after: after.clone(),
    }
    .check();
    // The policy alone is written where the value is there already.
    let before = owned(dongles("4", "4"), "4", "r");
    Case { node: before, rules, outcomes: &[("r", "advertised")], changes: &expected_changes, after: after.clone() }
        .check();

    let expected_changes = ["released example.com/dongle (rule r; retained)"];
    Case { node: after.clone(), rules: json!({}), outcomes: &[], changes: &expected_changes, after: dongles("4", "4") }
        .check();
    // As long as it is listed, the next rule takes over as usual.
    let expected_changes = ["advertised example.com/dongle=9 (rule s)"];
    let with_s = owned(dongles("9", "9"), "9", "s");
    Case {
        node: after.clone(),
        rules: json!({"s": {"quantity": 9}}),
        outcomes: &[("s", "advertised")],
        changes: &expected_changes,
        after: with_s,
    }
    .check();
    // A rule that is no longer valid keeps its policy.
    Case { node: after, rules: json!({"r": "invalid"}), outcomes: &[], changes: &[], after: json!({}) }.check();
}

/// Admission admits a value that the ledger lists by the same text.
#[test]
fn value_is_repaired_with_an_entry_that_is_spelled_as_the_value() {
    let rules = json!({"r": {"quantity": "1Ki"}});
    let expected = [("r", "advertised")];
    let before = owned(dongles("1024", "1024"), "1024", "r");
    Case { node: before, rules: rules.clone(), outcomes: &expected, changes: &[], after: json!({}) }.check();
    let before = owned(dongles("7", "7"), "1024", "r");
    let expected_changes = ["repaired example.com/dongle=1Ki (rule r; was 7)"];
    let after = owned(dongles("1Ki", "1Ki"), "1Ki", "r");
    Case { node: before, rules, outcomes: &expected, changes: &expected_changes, after }.check();
}

#[test]
fn several_resources_are_written_in_one_patch() {
    let rules = json!({
        "a": {"resourceName": "example.com/a", "quantity": "800Gi"},
        "b": {"resourceName": "example.com/b", "quantity": 1000},
    });
    let mut before = owned(dongles("4", "4"), "4", "gone");
    before["capacity"]["other.com/x"] = json!("1");
    let expected = [("a", "advertised"), ("b", "advertised")];
    let expected_changes = [
        "advertised example.com/a=800Gi (rule a)",
        "advertised example.com/b=1k (rule b)",
        "withdrew example.com/dongle (rule gone)",
    ];
    let after = json!({
        "capacity": {"cpu": "2", "other.com/x": "1", "example.com/a": "800Gi", "example.com/b": "1k"},
        "allocatable": {"cpu": "2", "example.com/a": "800Gi", "example.com/b": "1k"},
        "ledger": {
            "example.com/a": {"quantity": "800Gi", "rule": "a"},
            "example.com/b": {"quantity": "1k", "rule": "b"},
        },
    });
    Case { node: before, rules, outcomes: &expected, changes: &expected_changes, after }.check();
}

#[test]
fn invalid_ledger_blocks_every_change_of_its_node() {
    for text in ["not json", r#"{"cpu":{"quantity":"4","rule":"r"}}"#] {
        let mut node = dongles("7", "7");
        node["ledgerText"] = json!(text);
        let expected = [("r", "unreadable: annotation noderesource.dev/advertised")];
        Case { node, rules: json!({"r": {}}), outcomes: &expected, changes: &[], after: json!({}) }.check();
    }
}
