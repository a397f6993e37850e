//! The connection to the API server.
//!
//! Put together from kube's parts, as its own stack is, but for three things: Nagle's algorithm is
//! off, since it holds a PATCH back by some 40 ms now and then; a peer that is silently gone is
//! noticed, also under a watch or a list; and nothing is retried underneath the controller, which
//! has a backoff of its own for every node.

use std::time::Duration;

use http::header::USER_AGENT;
use http::uri::Scheme;
use http::{HeaderValue, Response, StatusCode, Version};
use hyper_util::client::legacy::{Client as HttpClient, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{AuthError, Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use thiserror::Error;
use tower::util::MapResultLayer;
use tower::{BoxError, ServiceBuilder};
use tracing::info;

use super::config::{self, ClusterOptions, ConfigError, Server};
use super::error::chain;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long until the head of an answer: with the TLS handshake, without a watch's events.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A connection on which nothing has come for so long is probed, so often, so many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(20), Duration::from_secs(5), 4);
/// How long what was sent may go unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// A client, and the API server that it talks to.
pub struct Connection {
    /// The client.
    pub client: Client,
    /// Its API server.
    pub server: Server,
}

/// Why there is no connection to a cluster.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account could be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The program that is to fetch credentials cannot be started.
    #[error(
        "the credential plugin {command:?} for {server} cannot be started: {source}; install it, or \
         put its folder on the PATH{}", .hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default()
    )]
    Plugin {
        /// The command, as the kubeconfig names it.
        command: String,
        /// Which API server.
        server: Server,
        /// How to install it, as the kubeconfig says.
        hint: Option<String>,
        /// Why.
        source: std::io::Error,
    },
    /// The HTTP client could not be set up, for instance for a bad certificate.
    #[error("cannot set up the connection to {server}: {}", chain(&**.source))]
    Client {
        /// Which API server.
        server: Server,
        /// Why.
        source: Box<kube::Error>,
    },
}

/// A request that got no response. Its source is the reason.
#[derive(Debug, Error)]
#[error("{server}")]
struct NoResponse {
    server: Server,
    source: BoxError,
}

/// The response of a server that was asked without TLS and wants it.
#[derive(Debug, Error)]
#[error("it expects HTTPS; write https:// in the kubeconfig's cluster.server")]
struct ExpectsHttps;

/// Connects as the options, the kubeconfig or the pod's service account say. Nothing is sent yet.
///
/// # Errors
/// Where there is no such configuration, or it cannot be used.
pub async fn connect(options: &ClusterOptions) -> Result<Connection, ConnectError> {
    let (config, server) = config::load(options).await?;
    info!(%server, "using the API server");
    let plugin = config.auth_info.exec.clone();
    match with_server(config, server.clone()) {
        Ok(client) => Ok(Connection { client, server }),
        Err(kube::Error::Auth(AuthError::AuthExecStart(source))) => {
            let plugin = plugin.as_ref();
            let command = plugin.and_then(|plugin| plugin.command.clone()).unwrap_or_default();
            let hint = plugin.and_then(|plugin| plugin.install_hint.clone());
            Err(ConnectError::Plugin { command, server, hint, source })
        }
        Err(source) => Err(ConnectError::Client { server, source: Box::new(source) }),
    }
}

/// Connects as `config` says. Nothing is sent yet.
///
/// # Errors
/// Where its certificates or credentials cannot be used.
pub fn with_config(config: Config) -> Result<Client, kube::Error> {
    let server = Server { url: config.cluster_url.to_string(), context: None };
    with_server(config, server)
}

fn with_server(mut config: Config, server: Server) -> Result<Client, kube::Error> {
    // It shows in the API server's audit log, for whoever asks what changed a node.
    let user_agent = concat!("node-resource-advertiser/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(user_agent)));
    let is_plain = config.cluster_url.scheme() == Some(&Scheme::HTTP);

    // Through a proxy it is kube's own stack.
    if config.proxy_url.is_some() {
        config.default_retry = false;
        let builder = ClientBuilder::try_from(config)?;
        let name = MapResultLayer::new(move |result| named(result, is_plain, &server));
        return Ok(builder.with_layer(&name).build());
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
        .map_result(move |result| named(result, is_plain, &server))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .timeout(ANSWER_TIMEOUT)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// The result of a request, with the API server's name where there is no response.
fn named<B>(
    result: Result<Response<B>, BoxError>,
    is_plain: bool,
    server: &Server,
) -> Result<Response<B>, BoxError> {
    let source = match result {
        // This is how Go's HTTP server responds to a request without TLS.
        Ok(response)
            if is_plain
                && response.status() == StatusCode::BAD_REQUEST
                && response.version() == Version::HTTP_10 =>
        {
            ExpectsHttps.into()
        }
        Ok(response) => return Ok(response),
        Err(source) => source,
    };
    Err(NoResponse { server: server.clone(), source }.into())
}
