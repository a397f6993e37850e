//! The connection to the API server.
//!
//! The stack consists of kube's own parts, except for the connections (`connector`), their certificates
//! (`certificates`), the time limits of responses, and retries: the client does not retry, because the controller has
//! its own backoff for every node.

use std::sync::{Arc, Mutex, PoisonError};
#[cfg(test)]
use std::time::Duration;

use http::header::USER_AGENT;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, StatusCode, Version};
#[cfg(test)]
use hyper::body::{Body as HttpBody, Bytes};
use kube::client::{AuthError, Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use thiserror::Error;
use tower::filter::AsyncFilterLayer;
use tower::{BoxError, ServiceBuilder};
use tracing::info;

use super::certificates::Connections;
use super::config::{self, ClusterOptions, ConfigError, Server, Source, Timeout};
use super::exec::Plugin;
use super::patience::Patience;
use super::transport;
use crate::response::credentials::{auth_reason, plugin, without_userinfo};
use crate::response::error::chain;

/// A client and its API server.
pub struct Connection {
    /// The client.
    pub client: Client,
    /// Its API server.
    pub server: Server,
}

/// Why there is no connection to a cluster.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account can be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The credential plugin cannot be started.
    #[error(
        "cannot start the credential plugin {command:?} for {server}: {source}; install it, or add \
         its folder to PATH{}", .hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default()
    )]
    Plugin {
        /// The command, as the kubeconfig names it.
        command: String,
        /// The API server.
        server: Server,
        /// The install hint of the kubeconfig.
        hint: Option<String>,
        /// Why.
        source: std::io::Error,
    },
    /// The HTTP client cannot be set up, for example because of an invalid certificate.
    #[error("cannot set up the connection to {server}: {reason}")]
    Client {
        /// The API server.
        server: Server,
        /// Why; kube's own error would quote credentials.
        reason: String,
    },
}

/// A request that got no response. Its source is the reason.
#[derive(Debug, Error)]
#[error("{server}")]
struct NoResponse {
    server: Server,
    source: BoxError,
}

/// Why a request has no credentials. It replaces kube's own error, which would quote them.
#[derive(Debug, Error)]
#[error("{0}")]
struct NoCredentials(String);

/// The response of a TLS server to a request without TLS.
#[derive(Debug, Error)]
#[error("the server expects HTTPS; use https:// in the kubeconfig's cluster.server")]
struct ExpectsHttps;

/// Connects as the options, the kubeconfig or the pod's service account say, without sending a request yet.
///
/// # Errors
/// If there is no such configuration, or it cannot be used.
pub async fn connect(options: &ClusterOptions) -> Result<Connection, ConnectError> {
    let (config, server, source) = config::load(options)?;
    info!(%server, "using the API server");
    let exec = config.auth_info.exec.clone();
    let command = plugin(&config).map(str::to_owned);
    match with_server(config, server.clone(), source, Patience::new(options.timeout)).await {
        Ok(client) => Ok(Connection { client, server }),
        Err(kube::Error::Auth(AuthError::AuthExecStart(source))) => {
            let hint = exec.and_then(|exec| exec.install_hint);
            Err(ConnectError::Plugin { command: command.unwrap_or_default(), server, hint, source })
        }
        Err(kube::Error::Auth(error)) => {
            Err(ConnectError::Client { server, reason: auth_reason(&error, command.as_deref()) })
        }
        Err(error) => Err(ConnectError::Client { server, reason: chain(&error) }),
    }
}

/// Marks a request that must not use a connection of an earlier one.
#[derive(Clone, Copy)]
struct OverNewConnection;

/// Returns a client that opens a connection for each request. After a silent failover of the API server, all connections in
/// the pool are dead, and each takes half a minute to be detected.
pub(crate) fn over_new_connections(client: &Client) -> Client {
    let (namespace, client) = (client.default_namespace().to_owned(), client.clone());
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(OverNewConnection);
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

/// Connects as `config` says, without sending a request yet.
///
/// # Errors
/// If its certificates or credentials cannot be used.
pub async fn with_config(config: Config) -> Result<Client, kube::Error> {
    let server = Server::new(&config, None);
    let source = Source::Given(Box::new(config.clone()));
    with_server(config, server, source, Patience::new(Timeout::default())).await
}

async fn with_server(
    mut config: Config,
    server: Server,
    source: Source,
    patience: Patience,
) -> Result<Client, kube::Error> {
    // The API server's audit log shows the user agent.
    let user_agent = concat!("node-resource-advertiser/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(user_agent)));
    let is_plain = config.cluster_url.scheme() == Some(&Scheme::HTTP);
    // kube does not send the URL's user and password, but would log them with every request.
    config.cluster_url = without_userinfo(&config.cluster_url);
    let command = plugin(&config).map(str::to_owned);

    let mut tokens = None;
    if let Some(plugin) = Plugin::take(&mut config.auth_info, patience.clone()) {
        let credential = plugin.run().await.map_err(kube::Error::Auth)?;
        credential.add_certificate(&mut config.auth_info);
        tokens = plugin.authorize(&credential).map_err(kube::Error::Auth)?;
    }
    let tokens = tokens.map(|tokens| AsyncFilterLayer::new(move |request: Request<Body>| tokens.add(request)));
    let auth = config.auth_layer()?;
    let mut of_connections = config.clone();
    // It has run, and never returns a certificate.
    of_connections.auth_info.auth_provider = None;
    let connections = Arc::new(Mutex::new(Connections::new(&of_connections, source)?));
    let named_server = server.clone();
    let transport = tower::service_fn(move |request: Request<Body>| {
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        let (http, failed) = connections.next();
        let is_new = request.extensions().get::<OverNewConnection>().is_some();
        let http = if is_new { http.unpooled } else { http.pooled };
        let (patience, response) = (patience.clone(), transport::send(http, request, server.clone(), failed));
        async move { patience.wait(response).await }
    });
    let service = ServiceBuilder::new()
        .map_result(move |result| named(result, is_plain, &named_server, command.as_deref()))
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .option_layer(tokens)
        .layer(config.extra_headers_layer()?)
        .service(transport);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// Returns a client whose requests take this transport instead of connections, with the time limits of every client.
#[cfg(test)]
pub(crate) fn over<S, B>(transport: S) -> Client
where
    S: tower::Service<http::Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let server = Server::new(&Config::new(http::Uri::from_static("http://simulated")), None);
    let send = move |request| transport::send(transport.clone(), request, server.clone(), Arc::default());
    Client::new(ServiceBuilder::new().timeout(Duration::from_secs(60)).service_fn(send), "default")
}

/// Adds the API server to an error without a response. No error from here on quotes credentials.
fn named<B>(
    result: Result<Response<B>, BoxError>,
    is_plain: bool,
    server: &Server,
    plugin: Option<&str>,
) -> Result<Response<B>, BoxError> {
    let source = match result {
        // Go's HTTP server responds like this to a request without TLS.
        Ok(response)
            if is_plain && response.status() == StatusCode::BAD_REQUEST && response.version() == Version::HTTP_10 =>
        {
            ExpectsHttps.into()
        }
        Ok(response) => return Ok(response),
        Err(source) => match source.downcast::<AuthError>() {
            Ok(error) => NoCredentials(auth_reason(&error, plugin)).into(),
            Err(source) => source,
        },
    };
    Err(NoResponse { server: server.clone(), source }.into())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;
    use kube::config::{ExecConfig, ExecInteractiveMode};
    use serde_json::json;

    use super::*;
    use crate::response::error::describe;

    /// A plugin that prints an expired credential, and the shell script that it runs.
    fn config(name: &str) -> (Config, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("nra-{name}-{}", std::process::id()));
        let exec = ExecConfig {
            command: Some("/bin/sh".to_owned()),
            args: Some([path.to_str().unwrap(), "S3CRET"].map(str::to_owned).into()),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        let mut config = Config::new("http://user:S3CRET@127.0.0.1:1".parse().unwrap());
        config.auth_info.exec = Some(exec);
        let expired = "{status: {token: S3CRET, expirationTimestamp: 2020-01-01T00:00:00Z}}";
        std::fs::write(&path, format!("echo '{expired}'")).unwrap();
        (config, path)
    }

    #[tokio::test]
    async fn failed_refresh_of_a_token_is_reported_without_secrets() {
        let failing = "echo S3CRET; echo log in again >&2; exit 3";
        let cases = [
            (failing, "the credential plugin \"/bin/sh\" failed (exit status: 3): log in again"),
            (
                "printf 'status:\\n token: S3CRET\\n  bad: S3CRET'",
                "the output of the credential plugin \"/bin/sh\" is not an ExecCredential (line ",
            ),
        ];
        for (number, (script, says)) in cases.iter().enumerate() {
            for proxy in [None, Some("http://user:S3CRET@127.0.0.1:1")] {
                let (mut config, path) = config(&format!("{number}-{}", proxy.is_some()));
                config.proxy_url = proxy.map(|url| url.parse().unwrap());
                let client = with_config(config).await.unwrap();
                std::fs::write(&path, script).unwrap();
                let error = client.apiserver_version().await.unwrap_err();
                std::fs::remove_file(path).unwrap();
                let reason = describe(&error);
                assert!(reason.contains(says), "{reason}");
                let server = "cannot reach the API server: http://127.0.0.1:1/: ";
                assert!(reason.starts_with(server), "{reason}");
                assert!(!format!("{reason} {error} {error:?}").contains("S3CRET"), "{error:?}");
            }
        }
    }

    #[tokio::test]
    async fn refresh_of_a_token_that_hangs_ends_with_the_patience_of_the_command() {
        let (config, path) = config("hangs");
        let server = Server::new(&config, None);
        let source = Source::Given(Box::new(config.clone()));
        let patience = Patience::new(Timeout::AllRequests(Duration::from_secs(1)));
        let client = with_server(config, server, source, patience).await.unwrap();
        std::fs::write(&path, "exec sleep 60").unwrap();
        for _ in 0..2 {
            let error = client.apiserver_version().await.unwrap_err();
            let says = "the credential plugin \"/bin/sh\": no credentials within 1s";
            assert!(describe(&error).contains(says), "{error:?}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[tokio::test]
    async fn plugin_runs_once() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        let certificate = json!({"clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem()});
        let token = json!({"token": "S3CRET"});
        let expiring = json!({"token": "S3CRET", "expirationTimestamp": "2999-01-01T00:00:00Z"});
        for (name, status) in [("token", token), ("expiring", expiring), ("certificate", certificate)] {
            let (mut config, script) = config(name);
            // The connection to it has a TLS configuration of its own.
            config.proxy_url = Some("https://127.0.0.1:1".parse().unwrap());
            let runs = script.with_extension("runs");
            let print = format!("cat << 'EOF'\n{}\nEOF\n", json!({"status": status}));
            std::fs::write(&script, format!("echo run >> {}; {print}", runs.display())).unwrap();
            let client = with_config(config).await.unwrap();
            client.apiserver_version().await.unwrap_err();
            assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n", "{name}");
            for path in [script, runs] {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    /// The connections of the first requests are alive here; they might not be.
    #[tokio::test]
    async fn request_over_a_new_connection_takes_none_of_the_pool() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let ports = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&ports);
        let answer = move |ConnectInfo(client): ConnectInfo<SocketAddr>| {
            seen.lock().unwrap().push(client.port());
            async {
                r#"{"major": "1", "minor": "37", "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#
            }
        };
        let router = axum::Router::new().fallback(answer).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = with_config(Config::new(format!("http://{server}").parse().unwrap())).await.unwrap();
        for client in [&client, &client, &over_new_connections(&client), &over_new_connections(&client), &client] {
            client.apiserver_version().await.unwrap();
        }
        let ports = ports.lock().unwrap();
        assert_eq!((ports[0], ports[0]), (ports[1], ports[4]), "{ports:?}");
        assert!(ports[2] != ports[0] && ports[3] != ports[0] && ports[2] != ports[3], "{ports:?}");
    }

    #[tokio::test]
    async fn error_of_kube_is_described_without_secrets() {
        let (config, path) = config("direct");
        std::fs::write(&path, "echo S3CRET; exit 3").unwrap();
        let error = with_config(config).await.err().unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(matches!(&error, kube::Error::Auth(_)), "{error}");
        assert_eq!(describe(&error), "the credential plugin failed (exit status: 3)");
    }
}
