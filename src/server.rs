//! What the kubelet asks: `/readyz`.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::error::Error;
use crate::readiness::Readiness;

/// Takes the address.
///
/// # Errors
/// Where it is in use, or not this machine's.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Answers until it is dropped.
///
/// # Errors
/// Where the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    readiness: watch::Receiver<Readiness>,
) -> std::io::Result<()> {
    let router = Router::new().route("/readyz", get(readyz)).with_state(readiness);
    axum::serve(listener, router).await
}

async fn readyz(State(readiness): State<watch::Receiver<Readiness>>) -> (StatusCode, String) {
    let readiness = readiness.borrow();
    let code = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, readiness.to_string())
}
