//! The shell against a model of the API server, on a paused clock: that requests are sent, that responses come
//! back, and how it ends. What is decided is tested with the reconciler.

mod overload;
mod requests;
mod shell;

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use simulator::{ApiServer, Call, Fate, Kind, Network, Verb, Writer};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::cluster::client;
use crate::reconciler::RolloutLimits;
use crate::reconciler::readiness::Readiness;

/// A cluster with one node and one rule. Each PATCH of the node is announced, and has this fate.
fn cluster(fate: Fate) -> (Network, mpsc::UnboundedReceiver<()>) {
    let (ask, asked) = mpsc::unbounded_channel();
    let fates = move |_: &str, call: &Call, _| {
        if (call.verb, call.kind) != (Verb::Patch, Kind::Node) {
            return Fate::Answered;
        }
        ask.send(()).unwrap();
        fate.clone()
    };
    let network = Network::new(ApiServer::default(), Timestamp::UNIX_EPOCH, fates);
    let spec = json!({"resourceName": "example.com/dongle", "quantity": 4, "allNodes": true});
    let objects = [
        (Kind::Node, json!({"metadata": {"name": "node-1"}})),
        (Kind::Rule, json!({"metadata": {"name": "dongle"}, "spec": spec})),
    ];
    for (kind, object) in objects {
        network.act(|api| api.create(kind, object, &Writer::new("kubectl"))).unwrap();
    }
    (network, asked)
}

/// Starts the controller. It stops when the sender fires.
fn start(network: &Network) -> (tokio::task::JoinHandle<()>, oneshot::Sender<()>) {
    let options = Options {
        concurrency: 4,
        rollouts: RolloutLimits::NONE,
        request_timeout: Duration::from_secs(15),
        mass_withdrawal_delay: Duration::ZERO,
        confinement_test: false,
        protection: crate::reconciler::ExpectedPolicy::Auto,
        node_condition: false,
        max_rules_memory: 64 << 20,
        seed: 1,
    };
    let (readiness, _) = watch::channel(Readiness::default());
    let (heartbeat, _) = watch::channel(Instant::now());
    let diagnostics = Diagnostics { readiness, heartbeat, metrics: Arc::default() };
    let candidate = Candidate { namespace: "default".to_owned(), ..Candidate::for_test("pod-1") };
    let (stop, stopped) = oneshot::channel();
    let stopped = stopped.map(|_| ());
    let client = client::over(network.connection("pod-1"));
    let program = run(client, candidate, options, diagnostics, stopped);
    (tokio::spawn(async { program.await.unwrap() }), stop)
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_patch_in_flight() {
    let (network, mut asked) = cluster(Fate::Slow(Duration::from_millis(2500)));
    let (mut controller, stop) = start(&network);
    asked.recv().await.unwrap();
    stop.send(()).unwrap();
    let early = timeout(Duration::from_secs(2), &mut controller).await;
    assert!(early.is_err(), "it ended with a patch under way");
    timeout(Duration::from_secs(1), controller).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_without_a_response_at_its_deadline() {
    let (network, mut asked) = cluster(Fate::Lost);
    let (controller, stop) = start(&network);
    asked.recv().await.unwrap();
    stop.send(()).unwrap();
    timeout(Duration::from_secs(5), controller).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_that_is_dropped_sends_nothing_more() {
    let (network, mut asked) = cluster(Fate::Lost);
    let (controller, _stop) = start(&network);
    asked.recv().await.unwrap();
    controller.abort();
    assert!(controller.await.unwrap_err().is_cancelled());
    let before = network.log();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(network.log(), before, "nothing of it goes on elsewhere");
}

#[tokio::test(start_paused = true)]
async fn pods_that_use_nodes_are_watched_by_the_leader() {
    let (network, mut asked) = cluster(Fate::Answered);
    let (_controller, _stop) = start(&network);
    asked.recv().await.unwrap();
    let bound = "fieldSelector=spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
    let is_watched = || network.log().iter().any(|line| line.contains("watch pods") && line.contains(bound));
    let watched = async {
        while !is_watched() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let watched = timeout(Duration::from_secs(600), watched).await;
    assert!(watched.is_ok(), "no watch of pods begins: {:#?}", network.log());
    let lists = network.log().iter().filter(|line| line.contains("list pods") && line.contains(bound)).count();
    assert_eq!(lists, 1, "{:#?}", network.log());
}
