//! Sends requests to the API server, and ends responses that stall.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Either};
use hyper::body::{Body as HttpBody, Bytes};
use kube::client::Body;
use thiserror::Error;
use tower::{BoxError, Service, ServiceExt as _};
use tower_http::timeout::{DeadlineBody, TimeoutError};

use super::config::Server;
use super::watch_body::WatchBody;

/// The timeout of a response body. The API server itself ends a request after a minute, but a proxy in between may
/// stall.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// A response whose body has stalled.
#[derive(Debug, Error)]
#[error(
    "{server}: the response did not complete within {}s; a proxy or gateway may be delaying it",
    BODY_TIMEOUT.as_secs()
)]
struct Stalled {
    server: Server,
}

/// Sends a request. The body of its response fails if it stalls; the body of a watch fails if it ends at once. Sets
/// `failed` if a certificate may be the cause: the API server rejects an expired one with 401, also on an accepted
/// connection.
pub(super) async fn send<S, B>(
    http: S,
    request: Request<Body>,
    server: Server,
    failed: Arc<AtomicBool>,
) -> Result<Response<impl HttpBody<Data = Bytes, Error = BoxError>>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let is_watch = is_watch(request.uri());
    let result = http.oneshot(request).await;
    if !result.as_ref().is_ok_and(|response| response.status() != StatusCode::UNAUTHORIZED) {
        failed.store(true, Ordering::Relaxed);
    }
    let response = result.map_err(Into::into)?;
    let may_last = is_watch && response.status().is_success();
    Ok(response.map(|body| {
        if may_last {
            return Either::Left(WatchBody::new(body));
        }
        Either::Right(DeadlineBody::new(BODY_TIMEOUT, body).map_err(move |error| {
            if error.is::<TimeoutError>() { Stalled { server: server.clone() }.into() } else { error }
        }))
    }))
}

/// Returns whether a request is for a watch.
pub(super) fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}
