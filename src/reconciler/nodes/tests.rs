//! What the watch and responses make of the nodes.

use serde_json::json;

use super::*;
use crate::planner::Outcome;
use crate::planner::input::Lost;
use crate::reconciler::standing::{Standing, State};

fn api_node(uid: &str, version: u32, dongles: u32) -> ApiNode {
    let amounts = json!({"example.com/dongle": dongles.to_string()});
    let object = json!({
        "metadata": {"name": "node-1", "uid": uid, "resourceVersion": version.to_string(),
            "annotations": {crate::model::ledger::ANNOTATION: "{}"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn change_of_values_under_the_same_ledger_is_urgent() {
    let mut nodes = Nodes::default();
    let seen = nodes.observe(Event::Apply(api_node("u", 1, 4)));
    assert_eq!(seen.changed, Some(("node-1".into(), Rank::Changed)));
    let seen = nodes.observe(Event::Apply(api_node("u", 2, 4)));
    assert_eq!(seen, Seen::default(), "a heartbeat");
    let seen = nodes.observe(Event::Apply(api_node("u", 3, 0)));
    assert_eq!(seen.changed, Some(("node-1".into(), Rank::Repair)));
}

#[test]
fn older_event_does_not_undo_a_response() {
    let mut nodes = Nodes::default();
    nodes.observe(Event::Apply(api_node("u", 1, 4)));
    let (_, is_newest) = nodes.observe_response(api_node("u", 3, 8), Some(1));
    assert!(is_newest);
    assert_eq!(nodes.observe(Event::Apply(api_node("u", 2, 0))), Seen::default());
    assert_eq!(&*nodes.get("node-1").unwrap().node.resource_version, "3");
    let (_, is_newest) = nodes.observe_response(api_node("u", 2, 0), Some(1));
    assert!(!is_newest, "the watch was quicker");
}

/// A response shows that a node was recreated, and the watch lags.
#[test]
fn older_events_of_a_recreated_node_are_ignored() {
    let mut nodes = Nodes::default();
    nodes.observe(Event::Apply(api_node("old", 1, 4)));
    let (seen, is_newest) = nodes.observe_response(api_node("new", 5, 0), Some(1));
    assert!(is_newest && seen.removed.len() == 1);
    for event in [
        Event::Apply(api_node("old", 2, 0)),
        Event::Delete(api_node("old", 3, 0)),
        Event::Apply(api_node("new", 4, 4)),
        Event::Apply(api_node("new", 5, 0)),
    ] {
        assert_eq!(nodes.observe(event), Seen::default());
    }
    assert!(!nodes.observe_response(api_node("old", 2, 0), Some(1)).1);
    assert_eq!(&*nodes.get("node-1").unwrap().node.uid, "new");
}

#[test]
fn response_about_a_deleted_node_does_not_bring_it_back() {
    let mut nodes = Nodes::default();
    nodes.observe(Event::Apply(api_node("u", 1, 4)));
    nodes.observe(Event::Delete(api_node("u", 2, 4)));
    nodes.observe_response(api_node("u", 1, 4), Some(1));
    assert_eq!(nodes.len(), 0);
}

fn listing(version: u32, dongles: u32, ledger: serde_json::Value) -> ApiNode {
    let amounts = json!({"example.com/dongle": dongles.to_string()});
    let mut object = json!({
        "metadata": {"name": "node-1", "uid": "u", "resourceVersion": version.to_string(), "annotations": {}},
        "status": {"capacity": amounts, "allocatable": amounts},
    });
    if !ledger.is_null() {
        object["metadata"]["annotations"][crate::model::ledger::ANNOTATION] = ledger;
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn released_value_is_remembered_until_it_changes() {
    let listed = || json!(r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#);
    let mut nodes = Nodes::default();
    let mut released = |version, dongles, ledger| {
        nodes.observe(Event::Apply(listing(version, dongles, ledger)));
        !nodes.get("node-1").unwrap().released.names().is_empty()
    };
    assert!(!released(1, 4, listed()));
    assert!(released(2, 4, json!("{}")), "retained");
    assert!(released(3, 4, json!("not json")));
    assert!(!released(4, 4, listed()), "listed again");
    assert!(released(5, 4, json!(null)), "the annotation was removed");
    assert!(!released(6, 0, json!(null)), "reset");
    assert!(!released(7, 4, json!(null)), "somebody else's");
    assert!(!released(8, 7, listed()));
    assert!(!released(9, 7, json!("{}")), "overwritten before");
}

/// Each takes microseconds, and there may be tens of thousands.
#[test]
fn ledgers_are_read_once_until_one_changes() {
    let mut nodes = Nodes::default();
    let node = |name: &str, version: u32, rule: &str| {
        let mut node = api_node(name, version, 4);
        let ledger = json!({"example.com/dongle": {"quantity": "4", "rule": rule}}).to_string();
        let meta = kube::Resource::meta_mut(&mut node);
        meta.name = Some(name.to_owned());
        meta.annotations.as_mut().unwrap().insert(crate::model::ledger::ANNOTATION.to_owned(), ledger);
        node
    };
    for number in 0..10 {
        nodes.observe(Event::Apply(node(&format!("node-{number}"), 1, "a")));
    }
    let ledgers = nodes.by_name.iter().filter_map(|(_, state)| state.node.ledger.as_ref());
    assert_eq!(distinct(ledgers).count(), 1, "the nodes share one");
    let rules = nodes.rules_in_ledgers();
    assert_eq!(rules.len(), 1);
    nodes.observe(Event::Apply(node("node-1", 2, "a")));
    assert!(Arc::ptr_eq(&rules, &nodes.rules_in_ledgers()));
    nodes.observe(Event::Apply(node("node-1", 4, "b")));
    assert_eq!(nodes.rules_in_ledgers().len(), 2);
    nodes.observe(Event::Delete(node("node-1", 4, "b")));
    assert_eq!(nodes.rules_in_ledgers().len(), 1);
}

#[test]
fn nodes_whose_rules_stand_alike_share_their_states() {
    let mut nodes = Nodes::default();
    let all: Vec<Arc<str>> = (0..10).map(|number| format!("node-{number}").into()).collect();
    for name in &all {
        let object = json!({"metadata": {"name": &**name, "uid": &**name, "resourceVersion": "1"}});
        nodes.observe(Event::Apply(serde_json::from_value(object).unwrap()));
        nodes.record(name, &[("dongle".into(), Standing::Pending)]);
    }
    let states = |nodes: &Nodes| all.iter().map(|name| Arc::as_ptr(&nodes.get(name).unwrap().standings)).collect();
    let distinct: HashSet<*const Standings> = states(&nodes);
    assert_eq!(distinct.len(), 1);
    nodes.record(&all[0], &[("dongle".into(), Standing::Planned(Outcome::Advertised))]);
    let distinct: HashSet<*const Standings> = states(&nodes);
    assert_eq!((distinct.len(), nodes.counts("dongle").unwrap().of(State::Pending)), (2, 9));
}

/// Whoever edits a rule again and again must not fill the memory with what nodes no longer have.
#[test]
fn states_that_no_node_has_any_longer_are_dropped_at_once() {
    let mut nodes = Nodes::default();
    nodes.observe(Event::Apply(api_node("node-1", 1, 4)));
    let name: Arc<str> = nodes.by_name.iter().map(|(name, _)| Arc::clone(name)).next().unwrap();
    let record = |nodes: &mut Nodes, standing| {
        nodes.record(&name, &[("dongle".into(), standing)]);
        Arc::downgrade(&nodes.get(&name).unwrap().standings)
    };
    let first = record(&mut nodes, Standing::Pending);
    let second = record(&mut nodes, Standing::Stopped);
    nodes.forget_states(&["dongle".into()]);
    let third = record(&mut nodes, Standing::Pending);
    nodes.observe(Event::Delete(api_node("node-1", 2, 4)));
    for dropped in [first, second, third] {
        assert!(dropped.upgrade().is_none());
    }
}

#[test]
fn coverage_has_the_first_ten_problems_and_contested_nodes_by_name() {
    let mut nodes = Nodes::default();
    let contested = Outcome::Contested { manager: None, lost: Lost::Value };
    let kinds = [Standing::Failed("no".into()), Standing::Planned(contested), Standing::Pending];
    for number in (0..60).rev() {
        let name: Arc<str> = format!("node-{number:02}").into();
        let object = json!({"metadata": {"name": &*name, "uid": &*name, "resourceVersion": "1"}});
        nodes.observe(Event::Apply(serde_json::from_value(object).unwrap()));
        nodes.record(&name, &[("other".into(), Standing::Pending), ("dongle".into(), kinds[number % 3].clone())]);
    }
    let coverage = nodes.coverage("dongle", None);
    let name = |number: usize| format!("node-{number:02}");
    let found = |details: &[Detail<'_>]| details.iter().map(|detail| detail.node.to_owned()).collect::<Vec<_>>();
    let problems = (0..15).filter(|number| number % 3 < 2).map(name);
    assert_eq!(found(&coverage.problems), problems.collect::<Vec<_>>());
    assert_eq!(found(&coverage.contested), (0..10).map(|number| name(3 * number + 1)).collect::<Vec<_>>());
    assert!(coverage.problems.iter().all(|detail| detail.standing.state().is_problem()));
    assert_eq!(nodes.coverage("other", None).problems.len(), 0);
}
