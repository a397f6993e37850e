//! A proxy in front of the API server that counts requests, lets them fail, and ends watches with 410 Expired, as the
//! API server does once a watch is too old. A client then lists all objects again.
//!
//! ```text
//! client ──HTTP──▶ proxy ──HTTPS──▶ API server
//!                    ├ hold: events on nodes wait    expire: they are dropped, 410 is sent instead
//!                    └ fault: what an overloaded API server does
//! ```
//!
//! It runs on its own thread, and adds its own credentials.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use kube::{Client, Config};
use node_resource_advertiser::cluster::client::with_config;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::cluster::Cluster;

/// What an overloaded API server does. Open watches stay open, and others open at once, except with the last fault.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It rejects requests with this code, and asks for this pause.
    Rejects(StatusCode, Option<u32>),
    /// It processes requests at once, and responds late.
    RespondsLate(Duration),
    /// It processes requests late.
    ProcessesLate(Duration),
    /// Each watch expires after this time.
    ExpiresWatches(Duration),
}

/// What happens to requests and to watches on nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    holds: bool,
    /// How many times all open watches on nodes have expired.
    expirations: u64,
    fault: Option<Fault>,
}

/// What clients have requested.
#[derive(Debug, Default)]
struct Log {
    /// The time of the first request for a list of nodes since the last expiration.
    listed_at: Option<Instant>,
    /// The requests since they were last taken, by `VERB resource/subresource`.
    requests: BTreeMap<String, u64>,
}

pub struct Proxy {
    pub kubeconfig: PathBuf,
    phase: watch::Sender<Phase>,
    log: Arc<Mutex<Log>>,
}

#[derive(Clone)]
struct Upstream {
    client: Client,
    phase: watch::Receiver<Phase>,
    log: Arc<Mutex<Log>>,
}

impl Proxy {
    /// Starts the proxy, and writes a kubeconfig for it.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], harness::free_port()?));
        let (phase, phases) = watch::channel(Phase::default());
        let log = Arc::new(Mutex::new(Log::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (listening, is_listening) = oneshot::channel();
        let config = cluster.config.clone();
        let shared = Arc::clone(&log);
        thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serve(config, address, phases, shared, listening)) {
                eprintln!("error: the proxy: {error:#}");
            }
        })?;
        is_listening.await.context("the proxy does not start")?;

        let kubeconfig = cluster.control_plane.dir().join("proxy.kubeconfig");
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        });
        std::fs::write(&kubeconfig, content.to_string()).context("cannot write a kubeconfig")?;
        Ok(Self { kubeconfig, phase, log })
    }

    /// Holds events on nodes.
    pub fn hold(&self) {
        self.phase.send_modify(|phase| phase.holds = true);
    }

    /// Drops the held events, and ends every watch on nodes with 410.
    pub fn expire(&self) {
        self.log().listed_at = None;
        self.phase.send_modify(|phase| {
            phase.holds = false;
            phase.expirations += 1;
        });
    }

    /// Returns the time of the first request for a list of nodes since the last expiration.
    pub fn listed_at(&self) -> Option<Instant> {
        self.log().listed_at
    }

    /// Sets what happens to requests from now on.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.phase.send_modify(|phase| phase.fault = fault);
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.log().requests)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(
    config: Config,
    address: SocketAddr,
    phase: watch::Receiver<Phase>,
    log: Arc<Mutex<Log>>,
    listening: oneshot::Sender<()>,
) -> Result<()> {
    let mut ended = phase.clone();
    let upstream = Upstream { client: with_config(config).await?, phase, log };
    let listener = TcpListener::bind(address).await?;
    let _ = listening.send(());
    let router = Router::new().fallback(forward).with_state(upstream);
    tokio::select! {
        served = std::future::IntoFuture::into_future(axum::serve(listener, router)) => served?,
        // The sender is dropped with the `Proxy`.
        _ = ended.wait_for(|_| false) => {}
    }
    Ok(())
}

async fn forward(State(upstream): State<Upstream>, request: Request) -> Response {
    upstream.forward(request).await.unwrap_or_else(|error| {
        eprintln!("    the proxy: {error:#}");
        StatusCode::BAD_GATEWAY.into_response()
    })
}

impl Upstream {
    async fn forward(&self, request: Request) -> Result<Response> {
        let target = Target::of(request.method(), request.uri());
        {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            *log.requests.entry(format!("{} {}", target.verb, target.resource)).or_default() += 1;
            if target.verb == "LIST" && target.is_of_nodes() {
                log.listed_at.get_or_insert_with(Instant::now);
            }
        }
        // An expiration does not end watches that open after it.
        let phase = self.phase.clone();
        let Phase { expirations, fault, .. } = *phase.borrow();
        let fault = fault.filter(|_| !target.is_watch());
        match fault {
            Some(Fault::Rejects(code, retry_after_s)) => return Ok(rejected(code, retry_after_s)),
            Some(Fault::ProcessesLate(delay)) => tokio::time::sleep(delay).await,
            _ => {}
        }

        let (mut head, body) = request.into_parts();
        for name in [header::HOST, header::AUTHORIZATION, header::CONNECTION, header::CONTENT_LENGTH] {
            head.headers.remove(name);
        }
        let body = body.collect().await.context("cannot read the request")?.to_bytes();
        let request = http::Request::from_parts(head, kube::client::Body::from(body));
        let (mut head, body) = self.client.send(request).await?.into_parts();
        if let Some(Fault::RespondsLate(delay)) = fault {
            tokio::time::sleep(delay).await;
        }
        head.headers.remove(header::TRANSFER_ENCODING);
        let body = if target.is_watch() {
            let of_nodes = target.is_of_nodes().then_some(expirations);
            let encoding = head.headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap_or_default());
            let last = if encoding.contains("protobuf") { expired_as_protobuf() } else { expired() };
            Body::from_stream(until_expired(body, phase, of_nodes, last))
        } else {
            Body::new(body)
        };
        Ok(Response::from_parts(head, body))
    }
}

/// What a request is for.
struct Target {
    verb: &'static str,
    /// `resource/subresource`
    resource: String,
}

impl Target {
    fn of(method: &Method, uri: &Uri) -> Self {
        let mut segments: Vec<_> = uri.path().split('/').skip(1).collect();
        // `api/v1`, or `apis`, a group and a version.
        segments.drain(..segments.len().min(if segments.first() == Some(&"api") { 2 } else { 3 }));
        if segments.len() > 2 && segments.first() == Some(&"namespaces") {
            segments.drain(..2);
        }
        let is_named = segments.len() > 1;
        let is_watch = uri.query().is_some_and(|query| query.split('&').any(|term| term.starts_with("watch=")));
        let verb = match method.as_str() {
            "GET" if is_watch => "WATCH",
            "GET" if is_named => "GET",
            "GET" => "LIST",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            _ => "DELETE",
        };
        let resource = [segments.first(), segments.get(2)].into_iter().flatten().copied().collect::<Vec<_>>();
        Self { verb, resource: resource.join("/") }
    }

    fn is_watch(&self) -> bool {
        self.verb == "WATCH"
    }

    fn is_of_nodes(&self) -> bool {
        self.resource == "nodes"
    }
}

fn rejected(code: StatusCode, retry_after_s: Option<u32>) -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "overloaded", "code": code.as_u16(), "details": {"retryAfterSeconds": retry_after_s},
    });
    let mut response = (code, status.to_string()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Forwards the events. When the watch expires, the `last` one reports that. `of_nodes` is the number of expirations of
/// watches on nodes when this one opened, if it is one.
fn until_expired(
    body: kube::client::Body,
    phase: watch::Receiver<Phase>,
    of_nodes: Option<u64>,
    last: Bytes,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let opened = tokio::time::Instant::now();
    let open = Some((body.into_data_stream(), phase, last));
    stream::unfold(open, move |open| async move {
        let (mut events, mut phase, last) = open?;
        loop {
            let Phase { holds, expirations, fault } = *phase.borrow_and_update();
            let lasts = match fault {
                Some(Fault::ExpiresWatches(lasts)) => lasts,
                _ => Duration::MAX,
            };
            if of_nodes.is_some_and(|before| before < expirations) || opened.elapsed() >= lasts {
                return Some((Ok(last), None));
            }
            tokio::select! {
                changed = phase.changed() => changed.ok()?,
                // A sum that is out of range is far in the future.
                () = tokio::time::sleep(lasts.saturating_sub(opened.elapsed())) => {}
                event = events.next(), if !(holds && of_nodes.is_some()) => {
                    let event = event?.ok()?;
                    return Some((Ok(event), Some((events, phase, last))));
                }
            }
        }
    })
}

fn expired() -> Bytes {
    let event = json!({
        "type": "ERROR",
        "object": {
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": "too old resource version", "reason": "Expired", "code": 410,
        },
    });
    format!("{event}\n").into()
}

/// Returns the same event in a message of Kubernetes: see `generated.proto` in `k8s.io/apimachinery`.
fn expired_as_protobuf() -> Bytes {
    let text = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    let code = [6 << 3, 0x9a, 0x03];
    let status =
        [text(2, b"Failure"), text(3, b"too old resource version"), text(4, b"Expired"), code.to_vec()].concat();
    let kind = [text(1, b"v1"), text(2, b"Status")].concat();
    let object = [b"k8s\0".to_vec(), text(1, &kind), text(2, &status)].concat();
    let event = [text(1, b"ERROR"), text(2, &text(1, &object))].concat();
    [&[0, 0, 0, event.len() as u8], &event[..]].concat().into()
}
