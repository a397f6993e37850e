//! A proxy in front of the API server that ends watches on nodes with 410 Expired, as the API server
//! does once a watch is too old. A client then lists all nodes again.
//!
//! ```text
//! client ──HTTP──▶ proxy ──HTTPS──▶ API server
//!                    └ hold: events on nodes wait    expire: they are dropped, 410 is sent instead
//! ```
//!
//! It runs on its own thread, and adds its own credentials.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use kube::{Client, Config};
use node_resource_advertiser::cluster::client::with_config;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::cluster::Cluster;

const NODES: &str = "/api/v1/nodes";

/// What happens to the watches on nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    holds: bool,
    /// How many times all open watches have expired.
    expirations: u64,
}

pub struct Proxy {
    pub kubeconfig: PathBuf,
    phase: watch::Sender<Phase>,
    listed_at: Arc<Mutex<Option<Instant>>>,
}

#[derive(Clone)]
struct Upstream {
    client: Client,
    phase: watch::Receiver<Phase>,
    /// The time of the first request for a list of nodes since the last expiration.
    listed_at: Arc<Mutex<Option<Instant>>>,
}

impl Proxy {
    /// Starts the proxy, and writes a kubeconfig for it.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], harness::free_port()?));
        let (phase, phases) = watch::channel(Phase::default());
        let listed_at = Arc::new(Mutex::new(None));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (listening, is_listening) = oneshot::channel();
        let config = cluster.config.clone();
        let lists = Arc::clone(&listed_at);
        thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serve(config, address, phases, lists, listening)) {
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
        Ok(Self { kubeconfig, phase, listed_at })
    }

    /// Holds events on nodes.
    pub fn hold(&self) {
        self.phase.send_modify(|phase| phase.holds = true);
    }

    /// Drops the held events, and ends every watch on nodes with 410.
    pub fn expire(&self) {
        *self.listed_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.phase.send_modify(|phase| {
            phase.holds = false;
            phase.expirations += 1;
        });
    }

    /// Returns the time of the first request for a list of nodes since the last expiration.
    pub fn listed_at(&self) -> Option<Instant> {
        *self.listed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(
    config: Config,
    address: SocketAddr,
    phase: watch::Receiver<Phase>,
    listed_at: Arc<Mutex<Option<Instant>>>,
    listening: oneshot::Sender<()>,
) -> Result<()> {
    let mut ended = phase.clone();
    let upstream = Upstream { client: with_config(config)?, phase, listed_at };
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
        let is_read = request.method() == http::Method::GET && request.uri().path() == NODES;
        let query = request.uri().query().unwrap_or_default();
        let is_watch = is_read && query.split('&').any(|term| matches!(term, "watch=true" | "watch=1"));
        if is_read && !is_watch {
            let mut listed_at = self.listed_at.lock().unwrap_or_else(PoisonError::into_inner);
            listed_at.get_or_insert_with(Instant::now);
        }
        // An expiration does not end watches that open after it.
        let phase = self.phase.clone();
        let expirations = phase.borrow().expirations;

        let (mut head, body) = request.into_parts();
        for name in [header::HOST, header::AUTHORIZATION, header::CONNECTION, header::CONTENT_LENGTH] {
            head.headers.remove(name);
        }
        let body = body.collect().await.context("cannot read the request")?.to_bytes();
        let request = http::Request::from_parts(head, kube::client::Body::from(body));
        let (mut head, body) = self.client.send(request).await?.into_parts();
        head.headers.remove(header::TRANSFER_ENCODING);
        let body = if is_watch { Body::from_stream(until_expired(body, phase, expirations)) } else { Body::new(body) };
        Ok(Response::from_parts(head, body))
    }
}

/// Forwards the events. When the watch expires, a final event reports that.
fn until_expired(
    body: kube::client::Body,
    phase: watch::Receiver<Phase>,
    expirations: u64,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let open = Some((body.into_data_stream(), phase));
    stream::unfold(open, move |open| async move {
        let (mut events, mut phase) = open?;
        loop {
            let Phase { holds, expirations: now } = *phase.borrow_and_update();
            if now > expirations {
                return Some((Ok(expired()), None));
            }
            tokio::select! {
                changed = phase.changed() => changed.ok()?,
                event = events.next(), if !holds => {
                    let event = event?.ok()?;
                    return Some((Ok(event), Some((events, phase))));
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
