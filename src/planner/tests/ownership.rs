//! Whose a value is: policies, and ledgers that are not valid.

use super::*;

#[test]
fn overwrite_policy_takes_over_value_outside_the_ledger() {
    let rules = json!({"r": {"conflictPolicy": "Overwrite"}});
    for (present, was) in [("8", "8"), ("4", "4"), ("garbage", "garbage")] {
        let expected_changes = [format!("took over example.com/dongle=4 (rule r; was {was})")];
        let expected_changes = expected_changes.each_ref().map(String::as_str);
        let after = owned(dongles("4", "4"), "4", "r");
        check(dongles(present, present), rules.clone(), &[("r", "advertised")], &expected_changes, after);
    }
    // What is vacant is no conflict, and what is listed is its own.
    let expected_changes = ["advertised example.com/dongle=4 (rule r)"];
    let after = owned(dongles("4", "4"), "4", "r");
    check(dongles("0", "0"), rules.clone(), &[("r", "advertised")], &expected_changes, after.clone());
    let expected_changes = ["repaired example.com/dongle=4 (rule r; was 7)"];
    check(owned(dongles("7", "7"), "4", "r"), rules, &[("r", "advertised")], &expected_changes, after);
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
    check(bare(), rules.clone(), &[("r", "advertised")], &expected_changes, after.clone());
    // The policy alone is written where the value is there already.
    let before = owned(dongles("4", "4"), "4", "r");
    check(before, rules, &[("r", "advertised")], &expected_changes, after.clone());

    let expected_changes = ["released example.com/dongle (rule r; retained)"];
    check(after.clone(), json!({}), &[], &expected_changes, dongles("4", "4"));
    // As long as it is listed, the next rule takes over as usual.
    let expected_changes = ["advertised example.com/dongle=9 (rule s)"];
    let with_s = owned(dongles("9", "9"), "9", "s");
    check(after.clone(), json!({"s": {"quantity": 9}}), &[("s", "advertised")], &expected_changes, with_s);
    // A rule that is no longer valid keeps its policy.
    check(after, json!({"r": "invalid"}), &[], &[], json!({}));
}

/// Admission admits a value that the ledger lists by the same text.
#[test]
fn value_is_repaired_with_an_entry_that_is_spelled_as_the_value() {
    let rules = json!({"r": {"quantity": "1Ki"}});
    let expected = [("r", "advertised")];
    let before = owned(dongles("1024", "1024"), "1024", "r");
    check(before, rules.clone(), &expected, &[], json!({}));
    let before = owned(dongles("7", "7"), "1024", "r");
    let expected_changes = ["repaired example.com/dongle=1Ki (rule r; was 7)"];
    let after = owned(dongles("1Ki", "1Ki"), "1Ki", "r");
    check(before, rules, &expected, &expected_changes, after);
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
    check(before, rules, &expected, &expected_changes, after);
}

#[test]
fn invalid_ledger_blocks_every_change_of_its_node() {
    for text in ["not json", r#"{"cpu":{"quantity":"4","rule":"r"}}"#] {
        let mut node = dongles("7", "7");
        node["ledgerText"] = json!(text);
        let expected = [("r", "unreadable: annotation noderesource.dev/advertised")];
        check(node, json!({"r": {}}), &expected, &[], json!({}));
    }
}
