//! The connection to the API server.
//!
//! Put together from kube's parts, as its own stack is, but for three things: Nagle's algorithm is
//! off, since it holds a PATCH back by some 40 ms now and then; a peer that is silently gone is
//! noticed, also under a watch or a list; and nothing is retried underneath the controller, which
//! has a backoff of its own for every node.

use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_util::client::legacy::{Client as HttpClient, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use thiserror::Error;
use tower::ServiceBuilder;
use tracing::info;

use super::error::chain;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long until the head of an answer: with the TLS handshake, without a watch's events.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A connection on which nothing has come for so long is probed, so often, so many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(20), Duration::from_secs(5), 4);
/// How long what was sent may go unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Why there is no connection to a cluster.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account could be used.
    #[error("no way to reach a cluster: {}; set KUBECONFIG, or run in a pod", chain(&**.0))]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The HTTP client could not be set up, for instance for a bad certificate.
    #[error("cannot set up the connection to the API server: {}", chain(&**.0))]
    Client(#[source] Box<kube::Error>),
}

/// Connects as the kubeconfig or the pod's service account says. Nothing is sent yet.
///
/// # Errors
/// Where there is no such configuration, or it cannot be used.
pub async fn connect() -> Result<Client, ConnectError> {
    let config = Config::infer().await.map_err(|error| ConnectError::Config(Box::new(error)))?;
    info!(server = %config.cluster_url, "using the API server");
    with_config(config).map_err(|error| ConnectError::Client(Box::new(error)))
}

/// Connects as `config` says. Nothing is sent yet.
///
/// # Errors
/// Where its certificates or credentials cannot be used.
pub fn with_config(mut config: Config) -> Result<Client, kube::Error> {
    // It shows in the API server's audit log, for whoever asks what changed a node.
    let user_agent = concat!("node-resource-advertiser/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(user_agent)));

    // Through a proxy it is kube's own stack.
    if config.proxy_url.is_some() {
        config.default_retry = false;
        return Client::try_from(config);
    }

    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let (idle, interval, probes) = KEEPALIVE;
    connector.set_keepalive(Some(idle));
    connector.set_keepalive_interval(Some(interval));
    connector.set_keepalive_retries(Some(probes));
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .timeout(ANSWER_TIMEOUT)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}
