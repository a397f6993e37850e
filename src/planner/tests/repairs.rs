//! Repairs by the ledger alone.

use super::*;
use crate::model::api::FIELD_MANAGER;
use crate::model::node::heartbeats;
use crate::planner::plan_resets;

const REPAIRED: [&str; 1] = ["repaired example.com/dongle=4 (rule r; was 0)"];

fn contested(may_repair: bool) -> Contested {
    let contest = Contest { may_repair, manager: None, lost: Lost::Value };
    [("example.com/dongle".into(), contest)].into()
}

#[test]
fn ledger_alone_repairs_what_was_lost() {
    for (present, was) in [
        (dongles("0", "0"), "0"),
        (dongles("4", "0"), "4 in capacity, 0 in allocatable"),
        (dongles("3", "3"), "3"),
        (dongles("garbage", "garbage"), "garbage"),
        (bare(), "absent"),
        (json!({}), "absent"),
    ] {
        let mut before = owned(present, "4", "r");
        before["ledger"]["example.com/dongle"]["deletionPolicy"] = json!("Retain");
        let mut object = node_object(&before);
        let planned = plan_repairs(&decoded(&object), &Contested::new());
        let expected = format!("repaired example.com/dongle=4 (rule r; was {was})");
        assert_eq!(change_texts(&planned), [expected]);
        assert!(planned.outcomes.is_empty() && !planned.needs_pods());
        let ledger = fields(&object)["ledger"].clone();
        let patch = patch(&decoded(&object), planned.changes()).unwrap();
        apply(&mut object, &patch);
        let after = fields(&object);
        assert_eq!(after["allocatable"]["example.com/dongle"], "4");
        assert_eq!(after["capacity"]["example.com/dongle"], "4");
        assert_eq!(after["ledger"], ledger);
        assert_eq!(plan_repairs(&decoded(&object), &Contested::new()).plan, Plan::InSync);
    }
}

/// The kubelet of these nodes has another name than this field manager.
#[test]
fn only_a_reset_of_the_nodes_kubelet_is_repaired_by_a_standby() {
    for (manager, expected) in [("kubelet", 1), ("kubectl-patch", 0), ("node-resource-advertiser", 0)] {
        let mut before = owned(dongles("0", "0"), "4", "r");
        before["managers"] = json!([adoption::entry(manager, &["capacity", "allocatable"])]);
        let mut object = node_object(&before);
        assert_eq!(plan_resets(&decoded(&object)).changes().len(), expected, "{manager}");
        object["metadata"]["managedFields"].as_array_mut().unwrap()[0] = heartbeats("k3s");
        assert_eq!(plan_resets(&decoded(&object)).plan, Plan::InSync, "{manager} is no kubelet here");
    }
}

/// Admission changes capacity in the controller's own write, and a kubelet copies it.
#[test]
fn own_value_that_differs_from_the_ledger_is_not_attributed_to_the_controller() {
    let own = adoption::entry(FIELD_MANAGER, &["capacity", "allocatable"]);
    let copied = [adoption::entry(FIELD_MANAGER, &["capacity"]), adoption::entry("kubelet", &["allocatable"])];
    for (node, managers) in [(dongles("2", "4"), vec![own]), (dongles("2", "2"), copied.into())] {
        let mut before = owned(node, "4", "r");
        before["managers"] = json!(managers);
        let planned = plan_repairs(&decoded(&node_object(&before)), &Contested::new());
        let text = change_texts(&planned).remove(0);
        assert!(text.ends_with(", written by admission, or an edit of the annotation)"), "{text}");
    }
}

/// One of the two values is as declared when it is seen, and 0 when the patch arrives: a kubelet's reset, not seen yet.
#[test]
fn value_that_is_lost_after_it_was_seen_is_written_too() {
    let spec = json!({"r": {"conflictPolicy": "Overwrite"}});
    for seen in [dongles("4", "0"), owned(dongles("0", "4.0"), "4", "r")] {
        let planned = plan(&decoded(&node_object(&seen)), &rule_set(&spec), &free());
        let patch = patch(&decoded(&node_object(&seen)), planned.changes()).unwrap();
        let mut reset = node_object(&seen);
        for map in ["capacity", "allocatable"] {
            reset["status"][map]["example.com/dongle"] = json!("0");
        }
        apply(&mut reset, &patch);
        let again = plan(&decoded(&reset), &rule_set(&spec), &free());
        assert_eq!(again.plan, Plan::InSync, "{seen}: {reset}");
    }
}

#[test]
fn ledger_alone_changes_nothing_else() {
    // Not listed; as listed; more than listed, which pods may use.
    for before in [
        bare(),
        dongles("0", "0"),
        dongles("4", "4"),
        owned(dongles("4000m", "4"), "4", "r"),
        owned(dongles("7", "7"), "4", "r"),
        owned(dongles("7", "0"), "4", "r"),
    ] {
        let planned = plan_repairs(&decoded(&node_object(&before)), &Contested::new());
        assert_eq!(planned.plan, Plan::InSync, "{before}");
    }
    let mut unreadable = dongles("0", "0");
    unreadable["ledgerText"] = json!("not json");
    let planned = plan_repairs(&decoded(&node_object(&unreadable)), &Contested::new());
    assert!(matches!(planned.plan, Plan::Blocked(_)));
}

#[test]
fn ledger_alone_repairs_contested_values_when_due() {
    let zeroed = decoded(&node_object(&owned(dongles("0", "0"), "4", "r")));
    assert_eq!(plan_repairs(&zeroed, &contested(false)).plan, Plan::InSync);
    assert_eq!(change_texts(&plan_repairs(&zeroed, &contested(true))), REPAIRED);
}

/// A repair leaves the annotation as it is, to the letter: others test its text.
#[test]
fn repair_writes_no_ledger() {
    for by_the_ledger_alone in [true, false] {
        // Admission admits a value that is listed by the same text: with the rules, the entry is written anew.
        let quantity = if by_the_ledger_alone { "4.0" } else { "4" };
        let mut before = dongles("0", "0");
        let text = format!(r#"{{ "example.com/dongle": {{"rule":"r", "quantity":"{quantity}"}} }}"#);
        before["ledgerText"] = json!(text);
        let object = node_object(&before);
        let planned = if by_the_ledger_alone {
            plan_repairs(&decoded(&object), &Contested::new())
        } else {
            plan(&decoded(&object), &rule_set(&json!({"r": "invalid"})), &free())
        };
        let mut after = object.clone();
        apply(&mut after, &patch(&decoded(&object), planned.changes()).unwrap());
        assert_eq!(after["metadata"], object["metadata"], "{:?}", planned.changes());
        let quantity: Quantity = after["status"]["capacity"]["example.com/dongle"].as_str().unwrap().parse().unwrap();
        assert_eq!(quantity, Quantity::from(4));
    }
}
