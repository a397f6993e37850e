//! Connections to the API server: TCP, possibly through a proxy, with TLS.
//!
//! The connections are set up like kube's own, with two differences: Nagle's algorithm is off, since it occasionally
//! delays a PATCH by about 40 ms; and a peer that has silently disappeared is detected, also during a watch or a list.

use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client as HttpClient, Error as HttpError};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt};
use tower::util::BoxCloneSyncService;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// TCP keepalive: the idle time before the first probe, the interval between probes, and their number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(20), Duration::from_secs(5), 4);
/// How long sent data may remain unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Sends requests over connections.
pub(super) type Http = BoxCloneSyncService<Request<Body>, Response<Incoming>, HttpError>;

/// Two ways to send requests to one server.
#[derive(Clone)]
pub(super) struct Connector {
    /// Over connections of earlier requests, if there are any.
    pub(super) pooled: Http,
    /// Over a connection of its own for each request.
    pub(super) unpooled: Http,
}

/// Returns a connector for `config`, which connects on the first request.
///
/// # Errors
/// If its certificates or its proxy cannot be used.
pub(super) fn http(config: &Config) -> Result<Connector, kube::Error> {
    let tcp = tcp();
    let Some(proxy) = &config.proxy_url else {
        return Ok(client(config.rustls_https_connector_with_connector(tcp)?));
    };
    Ok(match proxy.scheme_str() {
        Some("socks5") => {
            let socks = SocksV5::new(proxy.clone(), tcp);
            client(config.rustls_https_connector_with_connector(socks)?)
        }
        Some("http") => client(config.rustls_https_connector_with_connector(tunnel(proxy, tcp))?),
        Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            client(config.rustls_https_connector_with_connector(tunnel(proxy, tls))?)
        }
        _ => {
            let proxy_url = Box::new(proxy.clone());
            return Err(kube::Error::ProxyProtocolUnsupported { proxy_url });
        }
    })
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let (idle, interval, probes) = KEEPALIVE;
    tcp.set_keepalive(Some(idle));
    tcp.set_keepalive_interval(Some(interval));
    tcp.set_keepalive_retries(Some(probes));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

/// Returns a tunnel through an HTTP proxy, with the user and password of the proxy's URL.
fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    // The matcher decodes the user and password, and encodes them for the header.
    let found = Matcher::builder().all(proxy.to_string()).build().intercept(proxy);
    let tunnel = Tunnel::new(proxy.clone(), connector);
    match found.as_ref().and_then(|found| found.basic_auth()) {
        Some(header) => tunnel.with_auth(header.clone()),
        None => tunnel,
    }
}

fn client(connector: impl Connect + Clone + Send + Sync + 'static) -> Connector {
    let mut builder = HttpClient::builder(TokioExecutor::new());
    let pooled = BoxCloneSyncService::new(builder.build(connector.clone()));
    let unpooled = BoxCloneSyncService::new(builder.pool_max_idle_per_host(0).build(connector));
    Connector { pooled, unpooled }
}
