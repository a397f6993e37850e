//! Nodes as protobuf on the wire.
//!
//! To encode a node, the API server needs about twice as long for JSON as for protobuf. It encodes each event of a watch
//! once for each encoding, and the clients of Kubernetes itself read protobuf: a watch that reads it too costs the API
//! server next to nothing. See decision 8.
//!
//! ```text
//! kube's list and watch ◀── JSON, reduced to what the controller reads ── this module ◀── protobuf ── API server
//! ```
//!
//! A response in JSON stays as it is: a proxy or an API server may know nothing else.

mod objects;

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
use prost::Message as _;
use prost::bytes::BytesMut;
use serde::Serialize;
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
    #[error("the API server responded with an object of kind {0:?}, where nodes were requested")]
    Kind(String),
    /// The fields of a field manager are not JSON.
    #[error("an object in the response of the API server has no form in JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Returns a client that reads nodes as protobuf: for lists, watches and reads of nodes only. To its callers, they are
/// JSON, reduced to the fields that [`ApiNode`](crate::model::node::ApiNode) reads.
///
/// After a response that is not what it should be, the client reads JSON: what makes one node unreadable must not hide
/// all others.
#[must_use]
pub fn client(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let reader = Reader { client: client.clone(), reads_json: Arc::default() };
    Client::new(tower::service_fn(move |request| reader.clone().send(request)), namespace)
}

pub(super) type ConvertedBody = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Clone)]
struct Reader {
    client: Client,
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
            let lines = lines(body).inspect_err(move |error| {
                if error.is::<Invalid>() {
                    self.give_up(error);
                }
            });
            StreamBody::new(lines.map_ok(Frame::data)).boxed_unsync()
        } else {
            match object_to_json(&body.collect().await?.to_bytes()) {
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
        warn!("{error}: reading nodes as JSON from now on");
        self.reads_json.store(true, Ordering::Relaxed);
    }
}

pub(super) fn unchanged(body: Body) -> ConvertedBody {
    body.map_err(unwrapped).boxed_unsync()
}

/// Converts the events of a watch, each to a line. What is left of an event when the watch ends is dropped: the next
/// watch begins with it.
fn lines(body: Body) -> impl Stream<Item = Result<Bytes, BoxError>> {
    let state = (body.into_data_stream(), BytesMut::new(), LengthDelimitedCodec::new());
    stream::try_unfold(state, |(mut chunks, mut buffer, mut codec)| async move {
        loop {
            if let Some(event) = codec.decode(&mut buffer).map_err(Invalid::Frame)? {
                let mut line = event_to_json(event.freeze())?;
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
/// If it is no event about a node.
pub fn event_to_json(event: Bytes) -> Result<Vec<u8>, Invalid> {
    #[derive(Serialize)]
    struct Event {
        #[serde(rename = "type", serialize_with = "text")]
        kind: Bytes,
        object: Object,
    }

    let WatchEvent { kind, object } = WatchEvent::decode(event)?;
    let RawExtension { raw } = object.unwrap_or_default();
    Ok(serde_json::to_vec(&Event { kind, object: Object::decode(&raw)? })?)
}

/// Converts a node, a list of nodes, or the status of a request that failed.
///
/// # Errors
/// If it is none of these.
pub fn object_to_json(object: &Bytes) -> Result<Vec<u8>, Invalid> {
    Ok(serde_json::to_vec(&Object::decode(object)?)?)
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
    List(NodeList),
    Status(Status),
}

impl Object {
    fn decode(object: &Bytes) -> Result<Self, Invalid> {
        if !object.starts_with(MAGIC) {
            return Err(Invalid::Magic);
        }
        let Unknown { kind, raw } = Unknown::decode(object.slice(MAGIC.len()..))?;
        let kind = kind.unwrap_or_default();
        let content = match &*kind.kind {
            b"Node" => Content::Node(Node::decode(raw)?),
            b"NodeList" => Content::List(NodeList::decode(raw)?),
            b"Status" => Content::Status(Status::decode(raw)?),
            _ => return Err(Invalid::Kind(lossy(&kind.kind).into_owned())),
        };
        Ok(Self { kind, content })
    }
}

#[cfg(test)]
mod tests;
