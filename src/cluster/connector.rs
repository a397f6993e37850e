//! Connections to the API server: TCP, perhaps through a proxy, with TLS around it.
//!
//! They are set up as kube's own are, but for two things: Nagle's algorithm is off, since it holds a
//! PATCH back by some 40 ms now and then; and a peer that is silently gone is noticed, also under a
//! watch or a list.

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
/// A connection on which nothing has come for so long is probed, so often, so many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(20), Duration::from_secs(5), 4);
/// How long what was sent may go unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Sends requests over connections that it keeps for the next ones.
pub(super) type Http = BoxCloneSyncService<Request<Body>, Response<Incoming>, HttpError>;

/// Connects as `config` says, when there is a request.
///
/// # Errors
/// Where its certificates or its proxy cannot be used.
pub(super) fn http(config: &Config) -> Result<Http, kube::Error> {
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
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

/// A tunnel through an HTTP proxy, with the user and password in the proxy's URL.
fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    // The matcher decodes and encodes them as the header needs it.
    let found = Matcher::builder().all(proxy.to_string()).build().intercept(proxy);
    let tunnel = Tunnel::new(proxy.clone(), connector);
    match found.as_ref().and_then(|found| found.basic_auth()) {
        Some(header) => tunnel.with_auth(header.clone()),
        None => tunnel,
    }
}

fn client(connector: impl Connect + Clone + Send + Sync + 'static) -> Http {
    let http = HttpClient::builder(TokioExecutor::new()).build(connector);
    BoxCloneSyncService::new(http)
}
