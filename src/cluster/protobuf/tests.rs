//! Responses in protobuf, also those that are torn, garbled, or no text.

use std::io::{Error, ErrorKind};
use std::pin::pin;

use axum::body::Body as ResponseBody;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use serde_json::{Value, json};

use super::*;
use crate::cluster::error::describe;
use crate::model::node::ApiNode;

/// The bytes of a field with a length, in a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128, "a longer one needs two bytes");
    [&[number << 3 | 2, length], content].concat()
}

fn object(kind: &str, content: &[u8]) -> Vec<u8> {
    let kind = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [MAGIC, &field(1, &kind), &field(2, content)].concat()
}

fn node(name: &str) -> Vec<u8> {
    // Of the spec, which is field 2, nothing is read.
    [field(1, &[field(1, name.as_bytes()), field(6, b"7")].concat()), field(2, &field(1, b"10.0.0.0/24"))].concat()
}

fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    [&u32::try_from(event.len()).unwrap().to_be_bytes(), &*event].concat()
}

/// Nodes on a server that responds like this to each request for protobuf, and has node "json" as JSON.
fn api(code: u16, kind: &'static str, chunks: Vec<Result<Vec<u8>, ErrorKind>>) -> Api<ApiNode> {
    let service = tower::service_fn(move |request: Request<Body>| {
        let accepts_protobuf = request.headers().get(ACCEPT).is_some_and(|accepted| accepted == PREFERRED);
        let response = if accepts_protobuf {
            let chunks = chunks.clone().into_iter().map(|chunk| chunk.map_err(Error::from));
            let body = ResponseBody::from_stream(stream::iter(chunks));
            Response::builder().status(code).header(CONTENT_TYPE, kind).body(body)
        } else {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "json"}});
            let object = if is_watch(request.uri()) { json!({"type": "ADDED", "object": node}) } else { node };
            Response::builder().header(CONTENT_TYPE, "application/json").body(format!("{object}\n").into())
        };
        async move { response.map_err(BoxError::from) }
    });
    Api::all(client(&Client::new(service, "default")))
}

/// The names in the events of a watch, and its error.
async fn watched(chunks: Vec<Result<Vec<u8>, ErrorKind>>) -> (Vec<String>, Option<kube::Error>) {
    let nodes = api(200, "application/vnd.kubernetes.protobuf;stream=watch", chunks);
    watch(&nodes).await
}

async fn watch(nodes: &Api<ApiNode>) -> (Vec<String>, Option<kube::Error>) {
    let mut events = pin!(nodes.watch(&WatchParams::default(), "1").await.unwrap());
    let mut names = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(kube::api::WatchEvent::Added(node)) => names.push(kube::ResourceExt::name_any(&node)),
            Ok(event) => names.push(format!("{event:?}")),
            Err(error) => return (names, Some(error)),
        }
    }
    (names, None)
}

#[tokio::test]
async fn events_are_found_wherever_chunks_end() {
    let events = [event("ADDED", &object("Node", &node("a"))), event("ADDED", &object("Node", &node("b")))].concat();
    for at in 0..=events.len() {
        let (start, end) = events.split_at(at);
        let (names, error) = watched(vec![Ok(start.to_vec()), Ok(end.to_vec())]).await;
        assert!(names == ["a", "b"] && error.is_none(), "at {at}: {names:?}, {error:?}");
    }
    let bytes = events.iter().map(|byte| Ok(vec![*byte])).collect();
    assert_eq!(watched(bytes).await.0, ["a", "b"]);
}

#[tokio::test]
async fn watch_that_breaks_has_the_events_before_and_the_error_of_its_body() {
    let complete = event("ADDED", &object("Node", &node("a")));
    let torn = complete[..9].to_vec();
    let (names, error) = watched(vec![Ok(complete.clone()), Ok(torn.clone())]).await;
    assert!(names == ["a"] && error.is_none(), "{names:?}, {error:?}");
    // kube resumes a watch that ends in the middle of a chunk.
    let (names, error) = watched(vec![Ok(complete.clone()), Ok(torn), Err(ErrorKind::UnexpectedEof)]).await;
    assert!(names == ["a"] && error.is_none(), "{names:?}, {error:?}");
    let (names, error) = watched(vec![Ok(complete), Err(ErrorKind::ConnectionReset)]).await;
    assert!(names == ["a"] && error.is_some(), "{names:?}");
}

#[tokio::test]
async fn error_event_is_the_status_of_the_server() {
    let gone = object("Status", &[field(3, b"too old"), field(4, b"Expired"), vec![6 << 3, 0x9a, 0x03]].concat());
    let (events, error) = watched(vec![Ok(event("ERROR", &gone))]).await;
    assert!(error.is_none() && events.len() == 1, "{events:?}, {error:?}");
    assert!(events[0].contains("code: 410") && events[0].contains("too old"), "{}", events[0]);
}

#[tokio::test]
async fn rejection_is_the_status_of_the_server() {
    let content = [field(3, b"slow down"), field(5, &[5 << 3, 7]), vec![6 << 3, 0xad, 0x03]].concat();
    let nodes = api(429, PROTOBUF, vec![Ok(object("Status", &content))]);
    let error = nodes.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = &error else { panic!("{error:?}") };
    assert_eq!((status.code, &*status.message), (429, "slow down"));
    assert_eq!(status.details.as_ref().unwrap().retry_after_seconds, 7);
}

#[tokio::test]
async fn response_in_json_stays_as_it_is() {
    let list = json!({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}]});
    let nodes = api(200, "application/json", vec![Ok(list.to_string().into_bytes())]);
    let list = nodes.list(&ListParams::default()).await.unwrap();
    assert_eq!(kube::ResourceExt::name_any(&list.items[0]), "a");
}

#[tokio::test]
async fn response_that_is_not_what_it_claims_is_read_as_json() {
    let pod = object("Pod", &node("a"));
    for (content, reason) in [
        (b"{}".to_vec(), "no protobuf"),
        (MAGIC.to_vec(), "kind \"\""),
        (pod.clone(), "kind \"Pod\""),
        ([MAGIC, b"\x0a\xff"].concat(), "no valid protobuf"),
        (object("Node", b"\x0a\xff"), "no valid protobuf"),
    ] {
        let error = object_to_json(&content.clone().into()).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        let nodes = api(200, PROTOBUF, vec![Ok(content)]);
        assert_eq!(kube::ResourceExt::name_any(&nodes.get("a").await.unwrap()), "json");
    }
    // More than any node: the length is wrong.
    for content in [event("ADDED", &pod), vec![0xff; 100]] {
        let nodes = api(200, "application/vnd.kubernetes.protobuf", vec![Ok(content)]);
        let (names, error) = watch(&nodes).await;
        assert!(names.is_empty(), "{names:?}");
        let error = describe(&error.unwrap());
        assert!(error.contains("the API server"), "{error}");
        assert_eq!(watch(&nodes).await.0, ["json"], "the next watch");
    }
}

/// Kubernetes stores what clients write in protobuf, even if it is no text.
#[tokio::test]
async fn text_that_is_not_utf_8_is_read_like_go_reads_it() {
    assert_eq!(lossy(b"a\xe2\x82b\xff"), "a\u{fffd}\u{fffd}b\u{fffd}");
    let (names, error) = watched(vec![Ok(event("ADDED", &object("Node", &field(1, &field(1, b"a\xffb")))))]).await;
    assert!(names == ["a\u{fffd}b"] && error.is_none(), "{names:?}, {error:?}");
}

#[test]
fn fields_of_a_manager_on_several_lines_stay_in_one_line() {
    let managed = field(7, &field(1, b"{\n\"f:status\": {}}"));
    let metadata = [vec![0x8a, 0x01, u8::try_from(managed.len()).unwrap()], managed].concat();
    let json = object_to_json(&object("Node", &field(1, &metadata)).into()).unwrap();
    assert!(!json.contains(&b'\n'));
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:status": {}}));
}

#[test]
fn fields_of_a_manager_that_are_no_json_are_an_error() {
    let managed = field(7, &field(1, b"{"));
    let metadata = [vec![0x8a, 0x01, u8::try_from(managed.len()).unwrap()], managed].concat();
    let error = object_to_json(&object("Node", &field(1, &metadata)).into()).unwrap_err();
    assert!(matches!(error, Invalid::Json(_)), "{error}");
}

#[test]
fn empty_fields_are_absent() {
    let metadata = [field(1, b"a"), field(8, b"")].concat();
    let json = object_to_json(&object("Node", &field(1, &metadata)).into()).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let metadata = json!({"name": "a", "uid": "", "resourceVersion": "", "creationTimestamp": null});
    assert_eq!(json, json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}));
}
