//! Nodes while the Leases are renewed late, or lost.

use std::cell::Cell;

use futures::channel::mpsc;
use tokio::time::sleep;

use super::*;

fn leading() -> Permission {
    Permission::Granted(Some(Instant::now() + Duration::from_secs(3600)))
}

fn suspended() -> Permission {
    Permission::Suspended("the lease is lost".to_owned())
}

fn taken() -> Permission {
    Permission::Revoked("the lease is lost".to_owned())
}

async fn prune_nodes(
    permissions: impl Stream<Item = Permission>,
    server: Server,
    nodes: usize,
) -> (Vec<NodeResult>, PruneEnd, Vec<String>) {
    let nodes = (0..nodes).map(|number| {
        let mut node = advertising();
        node["metadata"]["name"] = json!(format!("node-{}", number + 1));
        node
    });
    prune_under(permissions, server, nodes.collect(), Scope::everything()).await
}

fn server(answers: impl IntoIterator<Item = Answer>) -> Server {
    let answers = answers.into_iter().collect();
    Server { node: advertising(), answers, log: Vec::new(), on_get: None }
}

#[tokio::test(start_paused = true)]
async fn node_waits_for_a_lease_that_is_renewed_late() {
    let late = futures::stream::once(async {
        sleep(Duration::from_secs(50)).await;
        leading()
    });
    let permissions = futures::stream::iter([suspended()]).chain(late);
    let (results, ended, log) = prune_nodes(permissions, server([Answer::Applied]), 1).await;
    assert!(results[0].outcome == NodeOutcome::Pruned && ended.alone.is_ok(), "{results:?}");
    assert_eq!((patches(&log), ended.at_end), (1, AtEnd::Release));
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_not_renewed_is_waited_for_once() {
    for (ends, nodes) in [(false, 3), (true, 3), (false, 0)] {
        let start = Instant::now();
        // Or it is held for a while, and not renewed.
        let until = Permission::Granted(Some(Instant::now()));
        let permissions = futures::stream::iter([if ends { until } else { suspended() }]);
        let (results, ended, log) = prune_nodes(permissions, server([]), nodes).await;
        let is_failed = |result: &NodeResult| matches!(result.outcome, NodeOutcome::Failed(_));
        assert!(results.iter().all(is_failed) && log.is_empty(), "{results:?}");
        assert_eq!((results.len(), ended.alone.is_err()), (nodes, true));
        assert_eq!(start.elapsed().as_secs(), 60);
    }
}

/// Also where there is nothing to do: what was found may not be true any more.
#[tokio::test(start_paused = true)]
async fn lease_of_another_is_not_waited_for() {
    for nodes in [0, 1] {
        let start = Instant::now();
        // It is not held again without a gap.
        let permissions = futures::stream::iter([taken(), leading()]);
        let (results, ended, log) = prune_nodes(permissions, server([]), nodes).await;
        assert_eq!((results.len(), log.len()), (nodes, 0), "{results:?}");
        assert!(ended.alone.unwrap_err().contains("is lost"));
        assert!(start.elapsed().as_secs() < 1);
    }
}

#[tokio::test(start_paused = true)]
async fn lease_lost_while_the_node_is_read_stops_the_patch() {
    let (lead, permissions) = mpsc::unbounded();
    lead.unbounded_send(leading()).unwrap();
    let mut server = server([Answer::After(node("4", "{\"a.b/c\":{\"quantity\":\"1\",\"rule\":\"r\"}}"))]);
    let lead = Cell::new(Some(lead));
    server.on_get = Some(Box::new(move || {
        let lead = lead.take().expect("one GET");
        lead.unbounded_send(taken()).unwrap();
    }));
    let (results, _, log) = prune_nodes(permissions, server, 1).await;
    let NodeOutcome::Failed(message) = &results[0].outcome else { panic!("{results:?}") };
    assert!(message.contains("is lost"), "{message}");
    assert_eq!(log.last().map(String::as_str), Some("GET"), "{log:?}");
}

fn pruner(now: Instant) -> Pruner {
    let scope = Scope::everything();
    let node = serde_json::from_value(advertising()).unwrap();
    let planned = vec![NodePrune::new(node, &scope, &mut Interner::default())];
    Pruner::new(scope, planned, now)
}

#[tokio::test(start_paused = true)]
async fn patch_is_sent_only_while_the_lease_is_held() {
    let (now, until) = (Instant::now(), Instant::now() + Duration::from_secs(40));
    let mut late = pruner(now);
    late.observe(Permission::Granted(Some(until)), now);
    assert!(late.next(until).requests.is_empty());
    let mut pruner = pruner(now);
    assert!(pruner.next(now).requests.is_empty(), "nothing is known of the Leases");
    pruner.observe(Permission::Granted(Some(until)), now);
    assert_eq!(pruner.next(now).requests.len(), 1);
}

/// The election needs a moment to hold the Lease again.
#[tokio::test(start_paused = true)]
async fn process_that_was_suspended_waits_for_its_lease() {
    let now = Instant::now();
    let mut pruner = pruner(now);
    pruner.observe(Permission::Granted(Some(now + Duration::from_secs(40))), now);
    let later = now + Duration::from_secs(300);
    assert!(pruner.next(later).requests.is_empty() && pruner.take_finished().is_empty());
    pruner.observe(Permission::Granted(Some(later + Duration::from_secs(40))), later);
    assert_eq!(pruner.next(later).requests.len(), 1);
}

/// A process may be suspended between a decision and what comes of it.
#[tokio::test(start_paused = true)]
async fn patch_whose_time_is_over_is_not_sent() {
    let now = Instant::now();
    let mut pruner = pruner(now);
    pruner.observe(leading(), now);
    let request = pruner.next(now).requests.remove(0);
    tokio::time::advance(Duration::from_secs(20)).await;
    let server = Arc::new(Mutex::new(server([])));
    let completion = Executor::new(service(Arc::clone(&server))).send(request).await;
    let text = format!("{completion:?}");
    assert!(text.contains("maybe_applied: false") && server.lock().unwrap().log.is_empty(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn lease_is_not_released_while_a_patch_may_be_applied() {
    let all = |answer: fn() -> Answer| (0..TRIES).map(move |_| answer());
    for (answer, at_end) in [
        ((|| Answer::Lost) as fn() -> Answer, AtEnd::Expire),
        (|| Answer::Rejected(403, "denied by a policy"), AtEnd::Release),
    ] {
        let permissions = futures::stream::iter([leading()]);
        let (results, ended, _) = prune_nodes(permissions, server(all(answer)), 1).await;
        assert!(matches!(&results[0].outcome, NodeOutcome::Failed(_)), "{results:?}");
        assert_eq!(ended.at_end, at_end);
    }
}
