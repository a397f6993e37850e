use std::process::{Command, Stdio};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, patch};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::connection::kubeconfig;

const NODES: usize = 200;

/// How many patches have arrived, and whether they are answered.
#[derive(Clone)]
struct Patches {
    arrived: watch::Sender<usize>,
    is_open: watch::Sender<bool>,
}

fn node(name: &str, metadata: &Value, amounts: &Value) -> Value {
    let mut node = json!({"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}});
    let metadata = &mut node["metadata"];
    (metadata["name"], metadata["uid"], metadata["resourceVersion"]) = (json!(name), json!(name), json!("1"));
    node
}

fn json_body(value: &Value) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, "application/json")], value.to_string())
}

async fn list() -> impl IntoResponse {
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let metadata = json!({"annotations": {"noderesource.dev/advertised": ledger}});
    let nodes =
        (0..NODES).map(|number| node(&format!("node-{number}"), &metadata, &json!({"example.com/dongle": "4"})));
    let list = json!({
        "apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": nodes.collect::<Vec<_>>(),
    });
    json_body(&list)
}

async fn answer(State(patches): State<Patches>, Path(name): Path<String>) -> impl IntoResponse {
    patches.arrived.send_modify(|arrived| *arrived += 1);
    patches.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
    json_body(&node(&name, &json!({}), &json!({})))
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_on_an_interrupt_finishes_what_is_in_flight_and_counts_the_rest() {
    let patches = Patches { arrived: watch::Sender::new(0), is_open: watch::Sender::new(false) };
    let routes = Router::new().route("/api/v1/nodes", get(list)).route("/api/v1/nodes/{name}/status", patch(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let service = routes.with_state(patches.clone());
    tokio::spawn(async move { axum::serve(listener, service).await });
    let program = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"))
        .args(["prune", "--all", "--yes", "--force"])
        .env("KUBECONFIG", kubeconfig("interrupted", &server, "{}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    patches.arrived.subscribe().wait_for(|arrived| *arrived > 0).await.unwrap();
    let interrupt = Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    patches.is_open.send_replace(true);
    let output = tokio::task::spawn_blocking(|| program.wait_with_output().unwrap()).await.unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let done = *patches.arrived.borrow();
    let (total, left) = (format!("\n{done} changes on {done} of {NODES} nodes\n"), NODES - done);
    assert!(stdout.ends_with(&total), "{done} patches: {stdout}");
    let error = format!("error: stopped by a signal: {left} nodes are left; run prune again to withdraw the rest\n");
    assert!(stderr.ends_with(&error), "{done} patches: {stderr}");
}
