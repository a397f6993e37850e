//! Where a node stands, event by event.

use serde_json::json;

use super::*;
use crate::controller::contest;
use crate::controller::outcome::Outcome;

fn api_node(uid: &str, version: u32) -> ApiNode {
    let object = json!({
        "metadata": {"name": "node-1", "uid": uid, "resourceVersion": version.to_string()},
        "status": {"capacity": {"example.com/a": version.to_string()}},
    });
    serde_json::from_value(object).unwrap()
}

fn seen(uid: &str) -> (Nodes, Tally, Arc<str>) {
    let (mut nodes, mut tally) = (Nodes::default(), Tally::default());
    nodes.apply(Event::Apply(api_node(uid, 1)), &mut tally);
    let name = nodes.next(true).unwrap();
    (nodes, tally, name)
}

fn rule() -> Arc<str> {
    "rule".into()
}

#[tokio::test(start_paused = true)]
async fn response_for_a_recreated_node_is_ignored() {
    let (mut nodes, mut tally, name) = seen("old");
    let old = nodes.sent(&name);
    nodes.apply(Event::Apply(api_node("new", 2)), &mut tally);
    assert_eq!(nodes.next(true).as_ref(), Some(&name));
    let new = nodes.sent(&name);
    assert!(!nodes.answered(&name, old));
    assert!(nodes.get_mut(&name).unwrap().is_busy());
    assert!(nodes.answered(&name, new));
    assert!(!nodes.get_mut(&name).unwrap().is_busy());
}

#[tokio::test(start_paused = true)]
async fn second_failure_replaces_the_first_and_its_timer() {
    let (mut nodes, mut tally, name) = seen("u");
    let now = Instant::now();
    for message in ["first", "second"] {
        nodes.fail(&name, Some(message.to_owned()), None, now, 1);
        let state = nodes.get_mut(&name).unwrap();
        state.record(vec![(rule(), Outcome::Pending)], &mut tally);
        let reported = state.outcomes[0].1.clone();
        assert_eq!(reported, Outcome::Failed { message: message.to_owned() });
    }
    assert_eq!(nodes.retries.len(), 1, "one pause a node");
    nodes.wake(now + Duration::from_secs(3600));
    assert_eq!(nodes.next_wake(), None);
    assert_eq!(nodes.next(true), Some(name));
}

#[tokio::test(start_paused = true)]
async fn deleted_node_is_not_a_failure() {
    let (mut nodes, mut tally, name) = seen("u");
    nodes.fail(&name, None, None, Instant::now(), 1);
    let state = nodes.get_mut(&name).unwrap();
    let begun = state.record(vec![(rule(), Outcome::Pending)], &mut tally);
    assert!(begun.is_empty() && state.is_busy());
    assert_eq!(nodes.failing(&name, &[]), None);
}

#[tokio::test(start_paused = true)]
async fn node_in_backoff_is_planned_but_not_patched() {
    let (mut nodes, mut tally, name) = seen("u");
    let now = Instant::now();
    nodes.fail(&name, Some("no".to_owned()), None, now, 1);
    nodes.apply(Event::Apply(api_node("u", 2)), &mut tally);
    assert_eq!(nodes.next(true).as_ref(), Some(&name));
    assert!(nodes.get_mut(&name).unwrap().is_busy(), "and yet not patched");
    nodes.forget_failure(&name);
    assert!(!nodes.get_mut(&name).unwrap().is_busy());
    assert_eq!(nodes.next_wake(), None);
}

#[tokio::test(start_paused = true)]
async fn repeated_stale_observation_is_a_failure() {
    let (mut nodes, _, name) = seen("u");
    let now = Instant::now();
    assert!(!nodes.stale(&name, "changed", now, 1));
    assert_eq!(nodes.next_wake(), None, "the first time there is no pause");
    assert!(!nodes.stale(&name, "changed", now, 1));
    assert!(nodes.next_wake().is_some());
    assert!(nodes.stale(&name, "changed", now, 1));
}

#[tokio::test(start_paused = true)]
async fn older_watch_event_does_not_undo_a_response() {
    let (mut nodes, mut tally, name) = seen("u");
    let request_id = nodes.sent(&name);
    nodes.observe_response(api_node("u", 3), &mut tally);
    assert!(nodes.answered(&name, request_id));
    assert_eq!(nodes.next(true), Some(Arc::clone(&name)));
    nodes.apply(Event::Apply(api_node("u", 2)), &mut tally);
    nodes.apply(Event::Apply(api_node("u", 3)), &mut tally);
    assert_eq!(nodes.next(true), None);
    let node = &nodes.get_mut(&name).unwrap().node;
    assert_eq!(&*node.resource_version, "3");
}

#[tokio::test(start_paused = true)]
async fn contested_node_is_requeued_after_each_backoff() {
    let (mut nodes, _, name) = seen("u");
    let start = Instant::now();
    for _ in 0..contest::MAX_REPAIRS - 1 {
        assert!(!nodes.repaired(&name, ("example.com/a", "7"), None, start));
    }
    assert!(nodes.repaired(&name, ("example.com/a", "7"), None, start));
    assert_eq!(nodes.get_mut(&name).unwrap().contested(start).len(), 1);
    for end in [Duration::from_secs(30), contest::WINDOW] {
        assert_eq!(nodes.next_wake(), Some(start + end));
        nodes.wake(start + end);
        assert_eq!(nodes.next(true).as_ref(), Some(&name));
    }
    assert_eq!(nodes.next_wake(), None);
    assert!(nodes.get_mut(&name).unwrap().contested(start + contest::WINDOW).is_empty());
}

#[tokio::test(start_paused = true)]
async fn node_queue_orders_repairs_first_and_skips_deleted() {
    let (mut nodes, mut tally) = (Nodes::default(), Tally::default());
    for name in ["a", "b", "c", "d"] {
        let node = json!({"metadata": {"name": name, "uid": name}});
        let node = serde_json::from_value(node).unwrap();
        nodes.apply(Event::Apply(node), &mut tally);
        let name = nodes.next(false).unwrap();
        nodes.await_slot(&name, &*name == "c");
    }
    let gone = serde_json::from_value(json!({"metadata": {"name": "a", "uid": "a"}})).unwrap();
    nodes.apply(Event::Delete(gone), &mut tally);
    assert_eq!(nodes.next(false), None, "without room they stay");
    let order: Vec<_> = std::iter::from_fn(|| nodes.next(true)).collect();
    assert_eq!(order.iter().map(|name| &**name).collect::<Vec<_>>(), ["c", "b", "d"]);
}
