//! Nodes whose annotation cannot be read.

use super::*;
use crate::planner::withdraw::Withdrawal;

/// A node whose annotation cannot be read, with the value of each map.
fn unreadable(capacity: &str, allocatable: &str) -> Value {
    let mut node = node(capacity, "not json");
    node["status"]["allocatable"]["example.com/dongle"] = json!(allocatable);
    node
}

#[tokio::test(start_paused = true)]
async fn ledger_repair_tests_the_values_it_removes() {
    let (result, log) = prune_with(unreadable("4", "3"), true, [Answer::Applied]).await;
    assert_eq!(result.unwrap(), ["withdrew example.com/dongle (rule unknown)"]);
    for (map, value) in [("capacity", "4"), ("allocatable", "3")] {
        let test = json!({
            "op": "test", "path": format!("/status/{map}/example.com~1dongle"), "value": value,
        });
        let patch: Value = serde_json::from_str(log[0].trim_start_matches("PATCH ")).unwrap();
        assert!(patch.as_array().unwrap().contains(&test), "{patch:#}");
    }
}

/// The ledger is gone with the first patch for a part of it, and the rest with nobody to own it.
#[tokio::test(start_paused = true)]
async fn rejected_ledger_repair_is_not_taken_apart() {
    let mut two = unreadable("4", "4");
    let fields = &mut two["metadata"]["managedFields"][0]["fieldsV1"]["f:status"]["f:capacity"];
    fields["f:example.com/key"] = json!({});
    for map in ["capacity", "allocatable"] {
        two["status"][map]["example.com/key"] = json!("4");
    }
    // What belongs to nobody may go by itself.
    for (zeros, count) in [(false, 2), (true, 3)] {
        let mut node = two.clone();
        for map in ["capacity", "allocatable"].into_iter().filter(|_| zeros) {
            node["status"][map]["example.com/zero"] = json!("0");
        }
        let answers = [Answer::Rejected(403, "denied by a policy"), Answer::Applied, Answer::Applied];
        let server = Server { node: node.clone(), answers: answers.into(), log: Vec::new(), on_get: None };
        let withdrawal = Withdrawal { zeros, ..Withdrawal::default() };
        let scope = Scope { repair_ledgers: true, withdrawal };
        let granted = futures::stream::iter([Permission::Granted(None)]);
        let (results, _, log) = prune_under(granted, server, vec![node], scope).await;
        assert_eq!(results[0].outcome, NodeOutcome::Pruned, "{log:?}");
        assert_eq!(results[0].changes.len(), count, "{results:?}");
        assert!(log[1].contains("dongle") && log[1].contains("key"), "{log:?}");
    }
    let denied = || Answer::Rejected(403, "denied by a policy");
    let (result, log) = prune_with(two.clone(), true, (0..20).map(|_| denied())).await;
    assert!(result.is_err() && patches(&log) == TRIES, "{log:?}");
    // Another value turns up that has not been rejected yet.
    let mut three = two.clone();
    three["metadata"]["managedFields"][0]["fieldsV1"]["f:status"]["f:capacity"]["f:example.com/late"] = json!({});
    three["metadata"]["annotations"][ANNOTATION] = json!("not json either");
    for map in ["capacity", "allocatable"] {
        three["status"][map]["example.com/late"] = json!("4");
    }
    let answers = [denied(), Answer::After(three), denied(), Answer::Applied];
    let (result, log) = prune_with(two, true, answers).await;
    assert_eq!(result.unwrap().len(), 3);
    assert!(log.last().unwrap().contains("dongle"), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn ledger_repair_goes_by_the_present_managed_fields() {
    let mut taken = unreadable("7", "7");
    taken["metadata"]["managedFields"][0]["manager"] = json!("another");
    let answers = [Answer::After(taken), Answer::Applied];
    let (result, log) = prune_with(unreadable("4", "4"), true, answers).await;
    assert_eq!(result.unwrap(), ["removed the annotation"]);
    assert!(!log.last().unwrap().contains("dongle"), "{log:?}");
}
