//! Responses in protobuf, also those that are torn, garbled, or no text.

use std::io::{Error, ErrorKind};
use std::pin::pin;

use axum::body::Body as ResponseBody;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use prost::encoding::encode_varint;
use serde_json::{Value, json};

use super::*;
use crate::model::node::ApiNode;
use crate::response::error::describe;

/// The bytes of a field with a length, in a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    encode_varint(u64::from(number) << 3 | 2, &mut bytes);
    encode_varint(content.len() as u64, &mut bytes);
    [&bytes, content].concat()
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
    Api::all(client(&Client::new(service, "default"), Objects::Nodes))
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
        let error = object_to_json(&content.clone().into(), Objects::Nodes).unwrap_err();
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
    let metadata = field(17, &managed);
    let json = object_to_json(&object("Node", &field(1, &metadata)).into(), Objects::Nodes).unwrap();
    assert!(!json.contains(&b'\n'));
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:status": {}}));
}

#[test]
fn fields_of_a_manager_that_are_no_json_are_an_error() {
    let managed = field(7, &field(1, b"{"));
    let metadata = field(17, &managed);
    let error = object_to_json(&object("Node", &field(1, &metadata)).into(), Objects::Nodes).unwrap_err();
    assert!(matches!(error, Invalid::Json(_)), "{error}");
}

#[test]
fn empty_fields_are_absent() {
    let metadata = [field(1, b"a"), field(8, b"")].concat();
    let json = object_to_json(&object("Node", &field(1, &metadata)).into(), Objects::Nodes).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let metadata = json!({"name": "a", "uid": "", "resourceVersion": "", "creationTimestamp": null});
    assert_eq!(json, json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}));
}

fn pod(name: &str, resource: &str) -> Vec<u8> {
    let request = [field(1, resource.as_bytes()), field(2, &field(1, b"2"))].concat();
    let container = [field(1, b"main"), field(8, &field(2, &request)), field(24, b"Always")].concat();
    let condition = [field(1, b"Initialized"), field(2, b"False"), field(6, b"message")].concat();
    let state = field(2, &field(2, b""));
    let mapping = field(1, &[field(1, b"main"), field(2, b"example.com/key")].concat());
    let started = field(7, &[0x08, 1]);
    let status = [field(1, b"Pending"), field(2, &condition), started, field(10, &state), field(18, &mapping)].concat();
    let metadata = [field(1, name.as_bytes()), field(5, b"u"), field(6, b"7"), field(11, &field(1, b"label"))].concat();
    let spec = [field(2, &container), field(10, b"node-1"), field(20, &container), field(32, &request)].concat();
    [field(1, &metadata), field(2, &spec), field(3, &status)].concat()
}

#[test]
fn pod_is_reduced_to_its_requests_and_whether_it_has_started() {
    let metadata = json!({"uid": "u", "resourceVersion": "7"});
    let requests = json!({"example.com/dongle": "2"});
    let container = json!({"resources": {"requests": requests}, "restartPolicy": "Always"});
    let full = json!({
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "containers": [container], "initContainers": [container], "overhead": requests},
        "status": {
            "phase": "Pending", "startTime": "1970-01-01T00:00:01Z",
            "conditions": [{"type": "Initialized", "status": "False"}],
            "initContainerStatuses": [{"state": {"running": {}}, "restartCount": 0}],
            "extendedResourceClaimStatus": {"requestMappings": [{"resourceName": "example.com/key"}]},
        },
    });
    let json = |object: Vec<u8>| -> Value {
        serde_json::from_slice(&object_to_json(&object.into(), Objects::Pods).unwrap()).unwrap()
    };
    let [mut a, mut native] = ["example.com/dongle", "cpu"].map(|resource| json(object("Pod", &pod("a", resource))));
    for pod in [&mut a, &mut native] {
        let fields = pod.as_object_mut().unwrap();
        assert_eq!([fields.remove("apiVersion"), fields.remove("kind")], [Some(json!("v1")), Some(json!("Pod"))]);
    }
    assert_eq!(a, full);
    assert_eq!(native, json!({ "metadata": metadata }), "it requests no extended resource");

    // What requests them may be anywhere.
    let request = [field(1, b"example.com/dongle"), field(2, &field(1, b"2"))].concat();
    let container = field(8, &field(2, &request));
    for spec in [field(2, &container), field(20, &container), field(32, &request)] {
        let pod = json(object("Pod", &field(2, &spec)));
        assert!(pod["spec"].to_string().contains("example.com/dongle"), "{pod}");
    }

    let items = [field(2, &pod("a", "example.com/dongle")), field(2, &pod("b", "cpu"))].concat();
    let content = [field(1, &[field(2, b"9"), field(3, b"next")].concat()), items].concat();
    let list = json(object("PodList", &content));
    assert_eq!(list["metadata"], json!({"resourceVersion": "9", "continue": "next"}));
    assert_eq!(list["items"], json!([full, { "metadata": metadata }]));
}

#[test]
fn objects_of_another_kind_than_requested_are_an_error() {
    for (kind, objects) in [("Node", Objects::Pods), ("PodList", Objects::Nodes)] {
        let error = object_to_json(&object(kind, b"").into(), objects).unwrap_err().to_string();
        assert!(error.contains(&format!("kind {kind:?}, where {objects} were requested")), "{error}");
    }
}
