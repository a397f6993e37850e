//! The whole loop against an API server of a few lines, on a paused clock: for what a real one
//! cannot be made to do.

use std::sync::Mutex;

use futures::FutureExt as _;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::readiness::Readiness;
use super::*;

/// A PATCH of a node, and where its answer goes.
type Asked = oneshot::Sender<(u16, Value)>;

/// A cluster with one node and one rule. Every PATCH of the node is handed out, to be answered or
/// not; other writes are taken, and watches are silent.
fn cluster() -> (Client, mpsc::UnboundedReceiver<Asked>) {
    let (ask, asked) = mpsc::unbounded_channel();
    let ask = Mutex::new(ask);
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let method = request.method().clone();
        let ask = ask.lock().unwrap().clone();
        async move {
            let (code, body) = match (method, path.as_str()) {
                _ if watch => return std::future::pending().await,
                (Method::GET, "/api/v1/nodes") => (200, list(node())),
                (Method::GET, "/apis/noderesource.dev/v1alpha1/nodeextendedresources") => {
                    (200, list(rule()))
                }
                (Method::PATCH, "/api/v1/nodes/node-1/status") => {
                    let (answer, answered) = oneshot::channel();
                    ask.send(answer)?;
                    answered.await?
                }
                _ => (200, rule()),
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    (Client::new(service, "default"), asked)
}

fn list(item: Value) -> Value {
    json!({"metadata": {"resourceVersion": "1"}, "items": [item]})
}

fn node() -> Value {
    json!({"metadata": {"name": "node-1", "uid": "u", "resourceVersion": "1"}})
}

fn patched_node() -> Value {
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let mut node = node();
    node["metadata"]["resourceVersion"] = json!("2");
    node["metadata"]["annotations"] = json!({ crate::model::ledger::ANNOTATION: ledger });
    let amounts = json!({"example.com/dongle": "4"});
    node["status"] = json!({"capacity": amounts, "allocatable": amounts});
    node
}

fn rule() -> Value {
    json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "dongle", "uid": "r", "generation": 1, "resourceVersion": "1"},
        "spec": {"resourceName": "example.com/dongle", "quantity": 4, "allNodes": true},
    })
}

/// Starts the controller; it is told to stop by the sender.
fn start(client: Client) -> (tokio::task::JoinHandle<AtEnd>, oneshot::Sender<()>) {
    let options = Options { concurrency: 4, request_timeout: Duration::from_secs(15), seed: 1 };
    let (readiness, _) = watch::channel(Readiness::default());
    let (heartbeat, _) = watch::channel(Instant::now());
    let diagnostics = Diagnostics { readiness, heartbeat, metrics: Arc::default() };
    let until = Instant::now() + Duration::from_secs(24 * 60 * 60);
    let (_, leadership) = watch::channel(Leadership::Leader { until });
    let (stop, stopped) = oneshot::channel();
    let stopped = stopped.map(|_| ());
    (tokio::spawn(run(client, options, diagnostics, leadership, stopped)), stop)
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_patch_in_flight() {
    let (client, mut asked) = cluster();
    let (mut controller, stop) = start(client);
    let patch = asked.recv().await.unwrap();
    stop.send(()).unwrap();
    let early = tokio::time::timeout(Duration::from_secs(2), &mut controller).await;
    assert!(early.is_err(), "it ended with a patch under way");
    patch.send((200, patched_node())).unwrap();
    let at_end = tokio::time::timeout(Duration::from_secs(1), controller).await.unwrap();
    assert_eq!(at_end.unwrap(), AtEnd::Release);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_without_a_response_at_its_deadline() {
    let (client, mut asked) = cluster();
    let (controller, stop) = start(client);
    let _unanswered = asked.recv().await.unwrap();
    stop.send(()).unwrap();
    let at_end = tokio::time::timeout(Duration::from_secs(5), controller).await.unwrap();
    assert_eq!(at_end.unwrap(), AtEnd::Expire, "the patch may still be applied");
}

/// What the controller does about its Lease where its patches are answered like this, one after the
/// other, and it stops in the pause after them; `None` is no response.
async fn end_after(responses: impl IntoIterator<Item = Option<(u16, Value)>>) -> AtEnd {
    let (client, mut asked) = cluster();
    let (controller, stop) = start(client);
    for response in responses {
        let patch = asked.recv().await.unwrap();
        match response {
            Some(response) => patch.send(response).unwrap(),
            None => drop(patch),
        }
    }
    // Time passes only where nothing else is to be done.
    tokio::time::sleep(Duration::from_millis(1)).await;
    stop.send(()).unwrap();
    controller.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn lease_expires_while_a_patch_that_failed_may_still_be_applied() {
    let rejected = || Some((400, json!({"code": 400, "message": "no"})));
    let failed = || Some((500, json!({"code": 500, "message": "etcd is away"})));
    let patched = || Some((200, patched_node()));
    assert_eq!(end_after([rejected()]).await, AtEnd::Release);
    for unanswered in [failed(), None] {
        assert_eq!(end_after([unanswered.clone()]).await, AtEnd::Expire);
        assert_eq!(end_after([unanswered.clone(), rejected()]).await, AtEnd::Expire);
        // Applied after the next one, it fails at its tests.
        assert_eq!(end_after([unanswered, patched()]).await, AtEnd::Release);
    }
}

/// How many patches are sent within ten minutes where each is answered alike.
async fn patches_in_ten_minutes(code: u16, answer: Value) -> usize {
    let (client, mut asked) = cluster();
    let (_controller, _stop) = start(client);
    let mut count = 0;
    let ended = tokio::time::sleep(Duration::from_secs(600));
    tokio::pin!(ended);
    loop {
        tokio::select! {
            Some(patch) = asked.recv() => {
                count += 1;
                patch.send((code, answer.clone())).unwrap();
            }
            () = &mut ended => return count,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_patch_is_retried_with_backoff_for_any_response() {
    let failure = |code: u16, message: &str| json!({"code": code, "message": message});
    for (code, answer) in [
        (500, failure(500, "etcd is away")),
        (403, failure(403, "cannot patch resource \"nodes/status\"")),
        (403, failure(403, "a webhook says no")),
        (404, failure(404, "not found")),
        (422, json!({"message": "invalid", "details": {"causes": [{"message": "no"}]}})),
        (200, node()),
    ] {
        let count = patches_in_ten_minutes(code, answer.clone()).await;
        assert!((5..=30).contains(&count), "{count} patches answered by {code} {answer}");
    }
    assert_eq!(patches_in_ten_minutes(200, patched_node()).await, 1);
}
