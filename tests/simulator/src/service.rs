//! The API server behind a network that loses, delays and cuts requests: a `tower::Service` on tokio's clock, which
//! tests pause.
//!
//! ```text
//!  kube::Client ─▶ Connection ─▶ Fates ─▶ http::Call ─▶ ApiServer
//!  a test ────────────────────── act ─────────────────▶     │
//!       watches' bodies ◀─ stream ◀─────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::future::pending;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::header::{CONTENT_TYPE, RETRY_AFTER};
use ::http::{Request, Response};
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use crate::failure::Failure;
use crate::fate::{Fate, Fates};
use crate::http::{Answer, Call, Verb};
use crate::kind::Kind;
use crate::protobuf::{self, PROTOBUF};
use crate::server::ApiServer;
use crate::stream::WatchStream;

const JSON: &str = "application/json";
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The body of a response.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

type Sent = Result<Response<ResponseBody>, BoxError>;

/// An API server, its network, and the history.
#[derive(Clone)]
pub struct Network {
    state: Arc<Mutex<State>>,
    /// Wakes in the order of waiting: a `watch` channel of tokio would wake in a random one.
    written: Arc<Notify>,
    start: (Instant, Timestamp),
}

struct State {
    api: ApiServer,
    fates: Box<dyn Fates>,
    log: Vec<String>,
    tally: BTreeMap<String, usize>,
    on_write: Box<dyn FnMut(&Write<'_>) + Send>,
    on_list: Box<dyn FnMut(&Write<'_>) + Send>,
}

/// A processed write of a client, or a list.
#[derive(Debug)]
pub struct Write<'a> {
    /// The client.
    pub client: &'a str,
    /// The request.
    pub call: &'a Call,
    /// The fate of the request.
    pub fate: &'a Fate,
    /// The object before the request.
    pub before: Option<Arc<Value>>,
    /// The server after the request.
    pub api: &'a ApiServer,
}

impl Network {
    /// Creates a network in front of a server, from `start` on. Must be called in a tokio runtime.
    pub fn new(api: ApiServer, start: Timestamp, fates: impl Fates + 'static) -> Self {
        let on_write = Box::new(|_: &Write<'_>| ());
        let state = State {
            api,
            fates: Box::new(fates),
            log: Vec::new(),
            tally: BTreeMap::new(),
            on_write,
            on_list: Box::new(|_: &Write<'_>| ()),
        };
        Self { state: Arc::new(Mutex::new(state)), written: Arc::default(), start: (Instant::now(), start) }
    }

    /// Sets a callback for every write of a client as it is processed.
    pub fn on_write(&self, look: impl FnMut(&Write<'_>) + Send + 'static) {
        self.state().on_write = Box::new(look);
    }

    /// Sets a callback for every list as it is served.
    pub fn on_list(&self, look: impl FnMut(&Write<'_>) + Send + 'static) {
        self.state().on_list = Box::new(look);
    }

    /// Sets the fates of requests from now on.
    pub fn set_fates(&self, fates: impl Fates + 'static) {
        self.state().fates = Box::new(fates);
    }

    /// Returns the connection of one client.
    #[must_use]
    pub fn connection(&self, client: impl Into<String>) -> Connection {
        Connection { network: self.clone(), client: client.into().into() }
    }

    /// Performs an action at the server without faults.
    pub fn act<R>(&self, action: impl FnOnce(&mut ApiServer) -> R) -> R {
        let mut state = self.state();
        state.api.set_time(self.wall());
        let result = action(&mut state.api);
        self.written.notify_waiters();
        result
    }

    /// Reads the server's state.
    pub fn read<R>(&self, look: impl FnOnce(&ApiServer) -> R) -> R {
        look(&self.state().api)
    }

    /// Appends a line to the log.
    pub fn note(&self, text: impl AsRef<str>) {
        let line = format!("{:9.3}s  {}", self.time().as_secs_f64(), text.as_ref());
        self.state().log.push(line);
    }

    /// Counts an event.
    pub fn count(&self, what: impl Into<String>) {
        *self.state().tally.entry(what.into()).or_default() += 1;
    }

    /// Returns the number of occurrences of each event.
    #[must_use]
    pub fn tally(&self) -> BTreeMap<String, usize> {
        self.state().tally.clone()
    }

    /// Returns the history, one line per event with the time since the start.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.start.0.elapsed()
    }

    /// Returns the wall-clock time, in seconds.
    fn wall(&self) -> String {
        let time = self.start.1.checked_add(self.time()).unwrap_or(self.start.1);
        Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
    }

    /// Returns what wakes when something is written.
    pub(crate) fn written(&self) -> Arc<Notify> {
        Arc::clone(&self.written)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a request to the server.
    fn apply(&self, client: &str, call: &Call, fate: &Fate) -> Answer {
        let mut state = self.state();
        state.api.set_time(self.wall());
        let (before, version) = (state.api.get(call.kind, &call.key).ok(), state.api.version());
        let answer = call.answer(&mut state.api);
        if state.api.version() > version {
            let State { api, on_write, .. } = &mut *state;
            on_write(&Write { client, call, fate, before, api });
            self.written.notify_waiters();
        } else if call.verb == Verb::List && matches!(answer, Answer::Object(..)) {
            let State { api, on_list, .. } = &mut *state;
            on_list(&Write { client, call, fate, before, api });
        }
        answer
    }

    async fn send(self, client: Arc<str>, request: Request<Bytes>) -> Sent {
        let call = match Call::read(&request) {
            Ok(call) => call,
            Err(failure) => {
                self.note(format!("{client}: {} {}: {}", request.method(), request.uri(), failure.code));
                return Ok(respond(Answer::Failure(failure), false));
            }
        };
        let is_protobuf = call.accepts_protobuf;
        let time = self.time();
        let fate = self.state().fates.fate(&client, &call, time);
        self.count(format!("{:?} {}: {}", call.verb, call.kind.plural(), fate.name()));
        let done = || {
            let answer = self.apply(&client, &call, &fate);
            self.note(format!("{client}: {call}{}: {}{}", sent(&call), code(&answer), fate.remark()));
            answer
        };
        let not_done = || self.note(format!("{client}: {call}{}:{}", sent(&call), fate.remark()));
        match fate.clone() {
            Fate::Answered | Fate::Flawed(_) => Ok(self.respond(done(), is_protobuf, &fate)),
            Fate::Slow(time) => {
                let answer = done();
                sleep(time).await;
                Ok(self.respond(answer, is_protobuf, &fate))
            }
            Fate::Late(time) => {
                not_done();
                let late = self.clone().arrive_late(Arc::clone(&client), call.clone(), time);
                let answer = tokio::spawn(late).await?;
                Ok(self.respond(answer, is_protobuf, &fate))
            }
            Fate::Failed(failure) => {
                not_done();
                Ok(respond(Answer::Failure(failure), is_protobuf))
            }
            Fate::DoneAndFailed(failure) => {
                done();
                Ok(respond(Answer::Failure(failure), is_protobuf))
            }
            Fate::Refused => {
                not_done();
                Err(io::Error::from(io::ErrorKind::ConnectionRefused).into())
            }
            Fate::Lost => {
                not_done();
                pending().await
            }
            Fate::Unanswered => {
                done();
                pending().await
            }
            Fate::Reset => {
                done();
                Err(io::Error::from(io::ErrorKind::ConnectionReset).into())
            }
            Fate::Cut | Fate::Stalled => Ok(cut(done(), is_protobuf, &fate)),
        }
    }

    async fn arrive_late(self, client: Arc<str>, call: Call, time: Duration) -> Answer {
        sleep(time).await;
        let answer = self.apply(&client, &call, &Fate::Late(time));
        self.note(format!("{client}: {call} arrives: {}", code(&answer)));
        answer
    }

    fn respond(&self, answer: Answer, is_protobuf: bool, fate: &Fate) -> Response<ResponseBody> {
        let Answer::Watch(call) = answer else { return respond(answer, is_protobuf) };
        let flaw = match fate {
            Fate::Flawed(flaw) => Some(*flaw),
            _ => None,
        };
        let media_type = if call.is_protobuf { PROTOBUF_WATCH } else { JSON };
        let frames = WatchStream::new(self.clone(), *call, flaw).frames();
        response(200, media_type, StreamBody::new(frames).boxed_unsync())
    }
}

/// Returns the details of a request for the log: the relevant parts of its body, and what distinguishes it from
/// others.
fn sent(call: &Call) -> String {
    if !call.verb.is_write() || call.body.is_null() {
        return String::new();
    }
    let text = match (call.kind, call.body.as_array()) {
        (Kind::Node, Some(operations)) => {
            let operations = operations.iter().filter(|operation| operation["op"] != "test");
            let edits = operations.map(|operation| match &operation["value"] {
                Value::Null => format!("{} {}", operation["op"], operation["path"]),
                value => format!("{}={value}", operation["path"]),
            });
            edits.collect::<Vec<_>>().join(" ").replace(['"', '\\'], "")
        }
        (Kind::Lease, _) => format!("holder={}", call.body["spec"]["holderIdentity"]),
        (Kind::Event, _) => call.body["note"].to_string(),
        (Kind::Rule, _) => call.body["status"]["nodes"].to_string(),
        _ => String::new(),
    };
    let mut hasher = DefaultHasher::new();
    call.body.to_string().hash(&mut hasher);
    format!(" {text} #{:04x}", hasher.finish() & 0xffff)
}

fn code(answer: &Answer) -> String {
    match answer {
        Answer::Object(code, _) => code.to_string(),
        Answer::Watch(_) => "200".to_owned(),
        Answer::Failure(failure) => format!("{} {}", failure.code, failure.message()),
    }
}

/// The content of a response other than a watch: its media type and its bytes.
fn content(body: Value, accepts_protobuf: bool) -> (&'static str, Bytes) {
    if let Some(bytes) = protobuf::object(&body).filter(|_| accepts_protobuf) {
        return (PROTOBUF, bytes.into());
    }
    let text = match body {
        Value::String(text) => text,
        body => body.to_string(),
    };
    (JSON, text.into())
}

/// A response other than a watch.
fn respond(answer: Answer, accepts_protobuf: bool) -> Response<ResponseBody> {
    let (code, retry_after, body) = match answer {
        Answer::Object(code, object) => (code, None, object),
        Answer::Failure(Failure { code, status, retry_after }) => (code, retry_after, status),
        Answer::Watch(_) => (200, None, Value::Null),
    };
    let (media_type, bytes) = content(body, accepts_protobuf);
    let whole = stream::iter([Ok(Frame::data(bytes))]);
    let mut response = response(code, media_type, StreamBody::new(whole).boxed_unsync());
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// The first half of a response, followed by an error or silence.
fn cut(answer: Answer, accepts_protobuf: bool, fate: &Fate) -> Response<ResponseBody> {
    let is_silent = *fate == Fate::Stalled;
    let (code, body) = match answer {
        Answer::Object(code, object) => (code, object),
        Answer::Failure(failure) => (failure.code, failure.status),
        Answer::Watch(_) => (200, Value::String(String::new())),
    };
    let (media_type, whole) = content(body, accepts_protobuf);
    let half = whole.slice(..whole.len() / 2);
    let end = async move {
        if is_silent {
            pending::<()>().await;
        }
        Err(io::Error::from(io::ErrorKind::ConnectionReset).into())
    };
    let frames = stream::iter([Ok(Frame::data(half))]).chain(stream::once(end));
    response(code, media_type, StreamBody::new(frames).boxed_unsync())
}

fn response(code: u16, media_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = ::http::StatusCode::from_u16(code).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, ::http::HeaderValue::from_static(media_type));
    response
}

/// The connection of one client to the server.
#[derive(Clone)]
pub struct Connection {
    network: Network,
    client: Arc<str>,
}

impl<B> tower::Service<Request<B>> for Connection
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Sent> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { network, client } = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            network.send(client, Request::from_parts(parts, body)).await
        }
        .boxed()
    }
}
