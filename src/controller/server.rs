//! The endpoints for the kubelet and Prometheus: `/readyz`, `/livez` and `/metrics`.

mod connections;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use super::metrics::{self, Metrics};
use crate::reconciler::readiness::Readiness;

/// A controller whose loop has not iterated for this long is stuck. The loop iterates every ten seconds, even if the
/// API server is unreachable.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(60);

/// The state that the endpoints report.
#[derive(Clone, Debug)]
pub struct HealthState {
    /// Why the controller is not ready.
    pub readiness: watch::Receiver<Readiness>,
    /// The time of the last iteration of the loop.
    pub heartbeat: watch::Receiver<Instant>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

/// Why an address cannot be bound: it is in use, or not an address of this machine.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Binds the address. If the kernel has no IPv6, it binds 0.0.0.0 instead of `[::]`, which accepts IPv4 too.
///
/// # Errors
/// If the address is in use, or not an address of this machine.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    listen_by(address, async |address| TcpListener::bind(address).await).await
}

async fn listen_by<T>(
    address: SocketAddr,
    bind: impl AsyncFn(SocketAddr) -> std::io::Result<T>,
) -> Result<T, ListenError> {
    let error = |source| ListenError { address, source };
    match bind(address).await {
        Err(source) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            let without_ipv6 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            // If that fails too, the reason is not missing IPv6.
            bind(without_ipv6).await.map_err(|_| error(source))
        }
        bound => bound.map_err(error),
    }
}

/// Serves requests until the future is dropped.
pub async fn serve(listener: TcpListener, health: HealthState) {
    let router = Router::new()
        .route("/readyz", get(readyz))
        .route("/livez", get(livez))
        .route("/metrics", get(metrics))
        .with_state(health);
    connections::serve(listener, router, connections::LIMITS).await;
}

async fn readyz(State(health): State<HealthState>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let readiness = health.readiness.borrow();
    let parameters = query.unwrap_or_default();
    let is_verbose = parameters.split('&').any(|parameter| parameter == "verbose" || parameter.starts_with("verbose="));
    let text = if is_verbose { readiness.verbose() } else { readiness.to_string() };
    (code(readiness.is_ready()), text)
}

async fn livez(State(health): State<HealthState>) -> (StatusCode, String) {
    let still = health.heartbeat.borrow().elapsed();
    let answer =
        if still < LIVENESS_TIMEOUT { "alive\n".to_owned() } else { format!("stuck: no progress for {still:.0?}\n") };
    (code(still < LIVENESS_TIMEOUT), answer)
}

async fn metrics(State(health): State<HealthState>) -> impl IntoResponse {
    match health.metrics.text() {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, metrics::CONTENT_TYPE)], text),
        Err(error) => {
            let why = format!("cannot encode the metrics: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "text/plain")], why)
        }
    }
}

fn code(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readyz_reports_what_the_policies_do_where_asked() {
        let (readiness, health) = watch::channel(Readiness { rules: None, nodes: None, ..Readiness::default() });
        let (_, heartbeat) = watch::channel(Instant::now());
        let health = HealthState { readiness: health, heartbeat, metrics: Arc::default() };
        readiness.send_modify(|readiness| {
            readiness.protection = "there is no policy".to_owned();
            readiness.confinement = "there is a wall".to_owned();
        });
        let verbose = "ready\nprotection: there is no policy\nconfinement: there is a wall\n";
        for (query, text) in [
            (None, "ready\n"),
            (Some("verbose"), verbose),
            (Some("a=b&verbose=1"), verbose),
            (Some("verboser"), "ready\n"),
        ] {
            let answer = readyz(State(health.clone()), RawQuery(query.map(str::to_owned))).await;
            assert_eq!(answer, (StatusCode::OK, text.to_owned()), "{query:?}");
        }
    }

    #[tokio::test]
    async fn listener_falls_back_where_the_kernel_has_no_ipv6() {
        let no_ipv6 = async |address: SocketAddr| match address {
            SocketAddr::V4(_) => Ok(address),
            SocketAddr::V6(_) => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
        };
        let listened = |address: &str| listen_by(address.parse().unwrap(), &no_ipv6);
        assert_eq!(listened("[::]:8080").await.unwrap().to_string(), "0.0.0.0:8080");
        assert_eq!(listened("127.0.0.1:8080").await.unwrap().to_string(), "127.0.0.1:8080");
        let error = listened("[::1]:8080").await.unwrap_err().to_string();
        assert!(error.starts_with("cannot listen on [::1]:8080: "), "{error}");
        let in_use = async |_: SocketAddr| Err::<(), _>(std::io::Error::from(std::io::ErrorKind::AddrInUse));
        let error = listen_by("[::]:8080".parse().unwrap(), in_use).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot listen on [::]:8080: address"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn livez_fails_for_a_stalled_event_loop() {
        let (_, readiness) = watch::channel(Readiness::default());
        let (beat, heartbeat) = watch::channel(Instant::now());
        let health = HealthState { readiness, heartbeat, metrics: Arc::default() };
        tokio::time::advance(LIVENESS_TIMEOUT / 2).await;
        assert_eq!(livez(State(health.clone())).await.0, StatusCode::OK);
        tokio::time::advance(LIVENESS_TIMEOUT / 2).await;
        let (code, says) = livez(State(health.clone())).await;
        assert_eq!((code, says.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "stuck: no progress for 60s\n"));
        beat.send_replace(Instant::now());
        assert_eq!(livez(State(health)).await.0, StatusCode::OK);
    }
}
