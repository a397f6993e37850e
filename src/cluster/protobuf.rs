//! Nodes and pods as protobuf on the wire.
//!
//! To encode an object, the API server needs about twice as long for JSON as for protobuf. It encodes each event of a watch
//! once for each encoding, and the clients of Kubernetes itself read protobuf: a watch that reads it too costs the API
//! server next to nothing. See decision 8.
//!
//! ```text
//! kube's list and watch ◀── JSON, reduced to what the controller reads ── this module ◀── protobuf ── API server
//! ```
//!
//! A response in JSON stays as it is: a proxy or an API server may know nothing else.

mod objects;
mod pods;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use objects::{Node, NodeList, RawExtension, Status, TypeMeta, Unknown, WatchEvent, lossy, text};
use pods::{Pod, PodList, Trimmed};
use prost::Message as _;
use prost::bytes::BytesMut;
use serde::{Serialize, Serializer};
use thiserror::Error;
use tokio_util::codec::{Decoder as _, LengthDelimitedCodec};
use tower::BoxError;
use tracing::warn;

use super::transport::is_watch;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PREFERRED: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");

/// What each object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A response that is not what its media type says.
#[derive(Debug, Error)]
pub enum Invalid {
    /// An object does not begin as each does.
    #[error("an object in the response of the API server is no protobuf of Kubernetes")]
    Magic,
    /// An object is no message, or has the fields of another kind.
    #[error("an object in the response of the API server is no valid protobuf: {0}")]
    Message(#[from] prost::DecodeError),
    /// An event is longer than any.
    #[error("an event in the response of the API server is invalid: {0}")]
    Frame(std::io::Error),
    /// An object is of a kind that was not requested.
    #[error("the API server responded with an object of kind {0:?}, where {1} were requested")]
    Kind(String, Objects),
    /// The fields of a field manager are not JSON.
    #[error("an object in the response of the API server has no form in JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The objects that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// To the callers of the client, JSON reduced to the fields that [`ApiNode`](crate::model::node::ApiNode) reads.
    Nodes,
    /// The same for pods.
    Pods,
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nodes => "nodes",
            Self::Pods => "pods",
        })
    }
}

/// Returns a client that reads these objects as protobuf: for their lists, watches and reads only.
///
/// After a response that is not what it should be, the client reads JSON: what makes one object unreadable must not hide
/// all others.
#[must_use]
pub fn client(client: &Client, objects: Objects) -> Client {
    let namespace = client.default_namespace().to_owned();
    let reader = Reader { client: client.clone(), objects, reads_json: Arc::default() };
    Client::new(tower::service_fn(move |request| reader.clone().send(request)), namespace)
}

pub(super) type ConvertedBody = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Clone)]
struct Reader {
    client: Client,
    objects: Objects,
    reads_json: Arc<AtomicBool>,
}

impl Reader {
    async fn send(self, request: Request<Body>) -> Result<Response<ConvertedBody>, BoxError> {
        if self.reads_json.load(Ordering::Relaxed) {
            return Ok(self.client.send(request).await?.map(unchanged));
        }
        let is_watch = is_watch(request.uri());
        let (mut head, body) = request.into_parts();
        let as_json = head.clone();
        head.headers.insert(ACCEPT, PREFERRED);
        let response = self.client.send(Request::from_parts(head, body)).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with(PROTOBUF) {
            return Ok(response.map(unchanged));
        }
        let (mut head, body) = response.into_parts();
        head.headers.insert(CONTENT_TYPE, JSON);
        head.headers.remove(CONTENT_LENGTH);
        let body = if is_watch && head.status.is_success() {
            let lines = lines(body, self.objects).inspect_err(move |error| {
                if error.is::<Invalid>() {
                    self.give_up(error);
                }
            });
            StreamBody::new(lines.map_ok(Frame::data)).boxed_unsync()
        } else {
            match object_to_json(&body.collect().await?.to_bytes(), self.objects) {
                Ok(object) => Full::new(object.into()).map_err(|never| match never {}).boxed_unsync(),
                Err(error) => {
                    self.give_up(&error);
                    // A read has no body.
                    let as_json = Request::from_parts(as_json, Body::empty());
                    return Ok(self.client.send(as_json).await?.map(unchanged));
                }
            }
        };
        Ok(Response::from_parts(head, body))
    }

    fn give_up(&self, error: &dyn fmt::Display) {
        warn!("{error}: reading {} as JSON from now on", self.objects);
        self.reads_json.store(true, Ordering::Relaxed);
    }
}

pub(super) fn unchanged(body: Body) -> ConvertedBody {
    body.map_err(unwrapped).boxed_unsync()
}

/// Converts the events of a watch, each to a line. What is left of an event when the watch ends is dropped: the next
/// watch begins with it.
fn lines(body: Body, objects: Objects) -> impl Stream<Item = Result<Bytes, BoxError>> {
    let state = (body.into_data_stream(), BytesMut::new(), LengthDelimitedCodec::new());
    stream::try_unfold(state, move |(mut chunks, mut buffer, mut codec)| async move {
        loop {
            if let Some(event) = codec.decode(&mut buffer).map_err(Invalid::Frame)? {
                let mut line = event_to_json(event.freeze(), objects)?;
                line.push(b'\n');
                return Ok(Some((line.into(), (chunks, buffer, codec))));
            }
            match chunks.next().await {
                Some(chunk) => buffer.extend_from_slice(&chunk.map_err(unwrapped)?),
                None => return Ok(None),
            }
        }
    })
}

/// Returns the error of a body as it was, because the outer client wraps it again.
pub(super) fn unwrapped(error: kube::Error) -> BoxError {
    match error {
        kube::Error::Service(error) => error,
        error => error.into(),
    }
}

/// Converts an event of a watch.
///
/// # Errors
/// If it is no event about one of these objects.
pub fn event_to_json(event: Bytes, objects: Objects) -> Result<Vec<u8>, Invalid> {
    #[derive(Serialize)]
    struct Event {
        #[serde(rename = "type", serialize_with = "text")]
        kind: Bytes,
        object: Object,
    }

    let WatchEvent { kind, object } = WatchEvent::decode(event)?;
    let RawExtension { raw } = object.unwrap_or_default();
    Ok(serde_json::to_vec(&Event { kind, object: Object::decode(&raw, objects)? })?)
}

/// Converts such an object, a list of them, or the status of a request that failed.
///
/// # Errors
/// If it is none of these.
pub fn object_to_json(object: &Bytes, objects: Objects) -> Result<Vec<u8>, Invalid> {
    Ok(serde_json::to_vec(&Object::decode(object, objects)?)?)
}

#[derive(Serialize)]
struct Object {
    #[serde(flatten)]
    kind: TypeMeta,
    #[serde(flatten)]
    content: Content,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Node(Node),
    Nodes(NodeList),
    Pod(#[serde(serialize_with = "trimmed")] Pod),
    Pods(PodList),
    Status(Status),
}

fn trimmed<S: Serializer>(pod: &Pod, to: S) -> Result<S::Ok, S::Error> {
    Trimmed(pod).serialize(to)
}

impl Object {
    fn decode(object: &Bytes, objects: Objects) -> Result<Self, Invalid> {
        if !object.starts_with(MAGIC) {
            return Err(Invalid::Magic);
        }
        let Unknown { kind, raw } = Unknown::decode(object.slice(MAGIC.len()..))?;
        let kind = kind.unwrap_or_default();
        let content = match (objects, &*kind.kind) {
            (Objects::Nodes, b"Node") => Content::Node(Node::decode(raw)?),
            (Objects::Nodes, b"NodeList") => Content::Nodes(NodeList::decode(raw)?),
            (Objects::Pods, b"Pod") => Content::Pod(Pod::decode(raw)?),
            (Objects::Pods, b"PodList") => Content::Pods(PodList::decode(raw)?),
            (_, b"Status") => Content::Status(Status::decode(raw)?),
            _ => return Err(Invalid::Kind(lossy(&kind.kind).into_owned(), objects)),
        };
        Ok(Self { kind, content })
    }
}

#[cfg(test)]
mod tests;
