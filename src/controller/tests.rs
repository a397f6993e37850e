//! The shell against an API server of a few lines, on a paused clock: that requests are sent, that responses come
//! back, and how it ends. What is decided is tested with the reconciler.

pub(in crate::controller) mod exploration;
mod shell;
mod simulation;

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::readiness::Readiness;
use super::*;
use crate::cluster::lease::Acquire;

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
                (Method::GET, path) if path.ends_with("/leases") => (200, list(json!(null))),
                (Method::POST | Method::PUT, path) if path.contains("/leases") => {
                    (200, lease(request).await?)
                }
                (Method::GET, "/api/v1/pods") => (200, list(json!(null))),
                _ => (200, rule()),
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    (Client::new(service, "default"), asked)
}

fn list(item: Value) -> Value {
    let items = if item.is_null() { json!([]) } else { json!([item]) };
    json!({"metadata": {"resourceVersion": "1"}, "items": items})
}

/// A Lease as it is sent, at the next version.
async fn lease(request: Request<Body>) -> Result<Value, tower::BoxError> {
    let body = request.into_body().collect().await?.to_bytes();
    let mut lease: Value = serde_json::from_slice(&body)?;
    lease["metadata"]["resourceVersion"] = json!("2");
    Ok(lease)
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
fn start(client: Client) -> (tokio::task::JoinHandle<()>, oneshot::Sender<()>) {
    let options = Options {
        concurrency: 4,
        request_timeout: Duration::from_secs(15),
        mass_withdrawal_delay: Duration::ZERO,
        seed: 1,
    };
    let (readiness, _) = watch::channel(Readiness::default());
    let (heartbeat, _) = watch::channel(Instant::now());
    let diagnostics = Diagnostics { readiness, heartbeat, metrics: Arc::default() };
    let candidate = Candidate {
        namespace: "default".to_owned(),
        name: "lease".to_owned(),
        identity: "pod-1".to_owned(),
        duration: Duration::from_secs(15),
        acquire: Acquire::WhenFree,
        reacquires: true,
    };
    let (stop, stopped) = oneshot::channel();
    let stopped = stopped.map(|_| ());
    (tokio::spawn(run(client, candidate, options, diagnostics, stopped)), stop)
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
    tokio::time::timeout(Duration::from_secs(1), controller).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_without_a_response_at_its_deadline() {
    let (client, mut asked) = cluster();
    let (controller, stop) = start(client);
    let _unanswered = asked.recv().await.unwrap();
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), controller).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_that_is_dropped_sends_nothing_more() {
    let (client, mut asked) = cluster();
    let (controller, _stop) = start(client);
    let _unanswered = asked.recv().await.unwrap();
    controller.abort();
    assert!(controller.await.unwrap_err().is_cancelled());
    assert!(asked.recv().await.is_none(), "nothing of it goes on elsewhere");
}
