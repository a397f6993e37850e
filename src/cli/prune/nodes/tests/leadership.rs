//! Nodes while the Lease is renewed late, or lost.

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::*;
use crate::cluster::lease::Leadership;

fn leading() -> Leadership {
    Leadership::Leader { until: Instant::now() + Duration::from_secs(3600) }
}

fn taken() -> Leadership {
    Leadership::Standby(Some("another".to_owned()))
}

/// Prunes `nodes` under a Lease, one after another.
async fn prune_under(
    leadership: watch::Receiver<Leadership>,
    server: Server,
    nodes: usize,
) -> (Vec<Result<Pruned, String>>, AtEnd, Vec<String>) {
    let server = Arc::new(Mutex::new(server));
    let client = service(Arc::clone(&server));
    let scope = Scope { nodes: vec!["node-1".to_owned()], ..Scope::default() };
    let guard = LeaseGuard::with_leadership(client.clone(), leadership);
    let (mut results, mut at_end) = (Vec::new(), AtEnd::Release);
    for _ in 0..nodes {
        let node = serde_json::from_value(advertising()).unwrap();
        let planned = vec![NodePrune::new(node, &scope, &mut Interner::default())];
        let end = prune(&client, &scope, planned, &guard, |done| results.push(done.result)).await;
        at_end = if end == AtEnd::Expire { end } else { at_end };
    }
    let log = server.lock().unwrap().log.clone();
    (results, at_end, log)
}

fn server(answers: impl IntoIterator<Item = Answer>) -> Server {
    let answers = answers.into_iter().collect();
    Server { node: advertising(), answers, log: Vec::new(), on_get: None }
}

#[tokio::test(start_paused = true)]
async fn node_waits_for_a_lease_that_is_renewed_late() {
    let (lead, leadership) = watch::channel(Leadership::Standby(None));
    let lead = tokio::spawn(async move {
        sleep(Duration::from_secs(50)).await;
        lead.send_replace(leading());
        lead
    });
    let (results, at_end, log) = prune_under(leadership, server([Answer::Applied]), 1).await;
    assert!(matches!(results[..], [Ok(Pruned::Changed(_))]), "{results:?}");
    assert_eq!((patches(&log), at_end), (1, AtEnd::Release));
    drop(lead.await);
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_not_renewed_is_waited_for_once() {
    let (lead, leadership) = watch::channel(Leadership::Standby(None));
    let start = Instant::now();
    let (results, _, log) = prune_under(leadership, server([]), 3).await;
    assert!(results.iter().all(Result::is_err) && log.is_empty(), "{results:?}");
    assert_eq!(start.elapsed().as_secs(), 60);
    drop(lead);
}

#[tokio::test(start_paused = true)]
async fn lease_of_another_is_not_waited_for() {
    let (lead, leadership) = watch::channel(taken());
    let start = Instant::now();
    let (results, _, log) = prune_under(leadership, server([]), 1).await;
    assert!(results[0].as_ref().unwrap_err().contains("is lost") && log.is_empty(), "{results:?}");
    assert!(start.elapsed().as_secs() < 1);
    drop(lead);
}

#[tokio::test(start_paused = true)]
async fn lease_lost_while_the_node_is_read_stops_the_patch() {
    let (lead, leadership) = watch::channel(leading());
    let mut server = server([Answer::Rejected(500, "etcd is away"), Answer::Applied]);
    server.on_get = Some(Box::new(move || drop(lead.send_replace(taken()))));
    let (results, at_end, log) = prune_under(leadership, server, 1).await;
    assert!(results[0].as_ref().unwrap_err().contains("is lost"), "{results:?}");
    assert_eq!(log.last().map(String::as_str), Some("GET"), "{log:?}");
    assert_eq!(at_end, AtEnd::Expire, "what answered 500 may still be applied");
}

#[tokio::test(start_paused = true)]
async fn lease_is_not_released_while_a_patch_may_be_applied() {
    let all = |answer: fn() -> Answer| (0..TRIES).map(move |_| answer());
    for (answer, at_end) in [
        ((|| Answer::Lost) as fn() -> Answer, AtEnd::Expire),
        (|| Answer::Rejected(403, "denied by a policy"), AtEnd::Release),
    ] {
        let (_lead, leadership) = watch::channel(leading());
        let (results, end, _) = prune_under(leadership, server(all(answer)), 1).await;
        assert!(results[0].is_err(), "{results:?}");
        assert_eq!(end, at_end);
    }
}
