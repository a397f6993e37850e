//! What becomes of values that no rule declares any more.

use super::*;
use crate::planner::withdraw::{Recorded, Withdrawal, withdraw, withdraw_unreadable};

fn retained(mut node: Value) -> Value {
    node["ledger"]["example.com/dongle"]["deletionPolicy"] = json!("Retain");
    node
}

fn absent_in(map: &str, mut node: Value) -> Value {
    node[map].as_object_mut().unwrap().remove("example.com/dongle");
    node
}

#[test]
fn value_as_listed_or_zero_is_removed_whoever_wrote_it() {
    // The kubelet, which copies values, and keeps what admission restores.
    let kubelet = adoption::entry("kubelet", &["capacity", "allocatable"]);
    for node in [
        dongles("4", "4"),
        dongles("4000m", "4"),
        dongles("4", "0"),
        dongles("0", "0"),
        absent_in("allocatable", dongles("4", "4")),
        absent_in("capacity", dongles("0", "0")),
        bare(),
    ] {
        let mut node = owned(node, "4", "r");
        node["managers"] = json!([kubelet]);
        Case {
            node,
            rules: json!({}),
            outcomes: &[],
            changes: &["withdrew example.com/dongle (rule r)"],
            after: bare(),
        }
        .check();
    }
}

#[test]
fn value_that_another_manager_has_written_since_is_released() {
    let others = [adoption::entry("nfd", &["capacity", "allocatable"])];
    for (node, observed) in [
        (dongles("8", "8"), "8"),
        (dongles("4", "3"), "4 in capacity, 3 in allocatable"),
        (dongles("8", "0"), "8 in capacity, 0 in allocatable"),
        (dongles("garbage", "4"), "garbage in capacity, 4 in allocatable"),
        (absent_in("capacity", dongles("8", "8")), "absent in capacity, 8 in allocatable"),
    ] {
        for policy in [owned, |node, quantity: &str, rule: &str| retained(owned(node, quantity, rule))] {
            let mut before = policy(node.clone(), "4", "r");
            before["managers"] = json!(others);
            let expected = format!("released example.com/dongle (rule r): nfd has written {observed} since");
            Case { node: before, rules: json!({}), outcomes: &[], changes: &[expected.as_str()], after: node.clone() }
                .check();
        }
    }
    let expected = ["released example.com/dongle (rule r): another field manager has written 8 since"];
    Case {
        node: owned(dongles("8", "8"), "4", "r"),
        rules: json!({}),
        outcomes: &[],
        changes: &expected,
        after: dongles("8", "8"),
    }
    .check();
}

#[test]
fn retained_value_that_a_kubelet_reset_is_restored() {
    let expected = ["released example.com/dongle=4 (rule r; retained; was 0)"];
    for node in [dongles("0", "0"), absent_in("allocatable", dongles("0", "0"))] {
        let before = retained(owned(node, "4", "r"));
        Case { node: before, rules: json!({}), outcomes: &[], changes: &expected, after: dongles("4", "4") }.check();
    }
    let expected = ["released example.com/dongle (rule r; retained)"];
    Case {
        node: retained(owned(bare(), "4", "r")),
        rules: json!({}),
        outcomes: &[],
        changes: &expected,
        after: bare(),
    }
    .check();
    // A kubelet copies capacity to allocatable by itself.
    let left = dongles("4", "0");
    Case {
        node: retained(owned(left.clone(), "4", "r")),
        rules: json!({}),
        outcomes: &[],
        changes: &expected,
        after: left,
    }
    .check();
}

/// Whatever is given up, the patch holds only for the values that were read: what is written meanwhile is
/// neither removed nor left behind unlisted.
#[test]
fn withdrawal_tests_the_values_that_were_read() {
    for before in [
        owned(dongles("4", "4"), "4", "r"),
        owned(dongles("8", "8"), "4", "r"),
        owned(bare(), "4", "r"),
        owned(json!({}), "4", "r"),
        owned(json!({"capacity": {"cpu": "2"}}), "4", "r"),
        retained(owned(dongles("4", "4"), "4", "r")),
        retained(owned(dongles("0", "0"), "4", "r")),
    ] {
        let object = node_object(&before);
        let node = decoded(&object);
        let planned = plan(&node, &rule_set(&json!({})), &free());
        let patch = patch(&node, planned.changes()).unwrap();
        assert!(applies(&object, &patch), "{before}");
        for map in ["capacity", "allocatable"] {
            let mut meanwhile = object.clone();
            meanwhile["status"][map]["example.com/dongle"] = json!("7");
            assert!(!applies(&meanwhile, &patch), "{before} {map}: {patch}");
        }
    }
}

#[test]
fn prune_releases_what_another_manager_has_written() {
    let all = Withdrawal { recorded: Recorded::All, zeros: true, ..Withdrawal::default() };
    let node = |before: Value| decoded(&node_object(&before));
    let texts = |before: Value| change_texts(&withdraw(&node(before), &all, &PodUsage::NotFetched));
    assert_eq!(texts(owned(dongles("4", "4"), "4", "r")), ["withdrew example.com/dongle (rule r)"]);
    assert_eq!(texts(owned(dongles("0", "0"), "4", "r")), ["withdrew example.com/dongle (rule r)"]);
    assert_eq!(
        texts(owned(dongles("8", "8"), "4", "r")),
        ["released example.com/dongle (rule r): another field manager has written 8 since"]
    );
    assert_eq!(texts(dongles("0", "0")), ["removed the 0 that was left of example.com/dongle"]);
    assert_eq!(texts(dongles("4", "4")), <[&str; 0]>::default());
}

#[test]
fn unreadable_ledger_is_removed_with_the_own_values() {
    for (own, expected, left) in [
        (vec!["example.com/dongle"], "withdrew example.com/dongle (rule unknown)", bare()),
        (vec![], "removed the annotation", dongles("4", "4")),
    ] {
        let mut before = dongles("4", "4");
        before["ledgerText"] = json!("not json");
        let mut object = node_object(&before);
        let node = decoded(&object);
        assert!(matches!(withdraw(&node, &Withdrawal::default(), &PodUsage::NotFetched).plan, Plan::Blocked(_)));
        let planned = withdraw_unreadable(&node, &own, &Withdrawal::default());
        assert_eq!(change_texts(&planned), [expected]);
        apply(&mut object, &patch(&node, planned.changes()).unwrap());
        assert_eq!(fields(&object), left);
    }
}

/// Returns whether the API server would accept a patch.
fn applies(object: &Value, patch: &Patch) -> bool {
    let mut object = object.clone();
    try_apply(&mut object, patch).is_ok()
}

/// Unless it is asked for all the same, and as far as pods are known.
#[test]
fn withdrawal_leaves_what_is_to_leave_when_it_is_unused_and_pods_request() {
    let mut object = owned(dongles("4", "4"), "4", "gone");
    object["ledger"]["example.com/dongle"]["whenUnused"] = json!(true);
    let node = decoded(&node_object(&object));
    let all = |in_use| Withdrawal { recorded: Recorded::All, in_use, ..Withdrawal::default() };
    let withdrew = ["withdrew example.com/dongle (rule gone)"];
    for (pods, in_use, changes, needs_pods) in [
        (used(0).pods, false, &withdrew[..], false),
        (used(1).pods, false, &[], false),
        (used(1).pods, true, &withdrew, false),
        (bound(1, 0).pods, false, &[], false),
        (PodUsage::NotFetched, false, &[], true),
        (PodUsage::NotFetched, true, &withdrew, false),
        (lowering::denied().pods, false, &[], false),
    ] {
        let planned = withdraw(&node, &all(in_use), &pods);
        assert_eq!(change_texts(&planned), changes, "{pods:?} {in_use}");
        assert_eq!((planned.needs_pods(), planned.leaving.len()), (needs_pods, usize::from(changes.is_empty())));
    }
    // Another client's value is none to wait for.
    let other = decoded(&node_object(&json!({"ledger": object["ledger"], "capacity": {"example.com/dongle": "7"}})));
    assert_eq!(withdraw(&other, &all(false), &used(1).pods).changes().len(), 1);
}
