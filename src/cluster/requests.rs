//! Requests to the API server, each with a timeout, and their errors.

use std::fmt;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{NO_CREDENTIALS, describe};

/// The longest accepted `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

/// Sends requests.
#[derive(Clone)]
pub(crate) struct Requests {
    client: Client,
    timeout: Duration,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The response is an error.
    Api {
        code: StatusCode,
        status: Box<Status>,
        /// The pause that the API server requests.
        retry_after: Option<Duration>,
    },
    /// There is no response, or it is unreadable.
    Transport(String),
}

/// A page of a list.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    metadata: ListMeta,
    pub(crate) items: Vec<T>,
}

impl<T> Page<T> {
    /// Returns the continue token for the next page; `None` after the last.
    pub(crate) fn next(self) -> Option<String> {
        self.metadata.continue_.filter(|token| !token.is_empty())
    }
}

/// A request, as kube builds it.
pub(crate) type Built = Result<Request<Vec<u8>>, kube::core::request::Error>;

impl Requests {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// Sends a request, and decodes the object in the response.
    pub(crate) async fn send<T: DeserializeOwned>(&self, request: Built) -> Result<T, RequestError> {
        Ok(self.send_with_headers(request).await?.0)
    }

    /// Sends a request, and decodes the object in the response, which is returned with the response's headers.
    pub(crate) async fn send_with_headers<T: DeserializeOwned>(
        &self,
        request: Built,
    ) -> Result<(T, HeaderMap), RequestError> {
        self.send_in(request, &mut Vec::new()).await
    }

    /// Does the same with a buffer for the body. Pages of a list share one: they are large, and memory in which large
    /// and small pieces alternate takes an allocator long to search.
    pub(crate) async fn send_in<T: DeserializeOwned>(
        &self,
        request: Built,
        buffer: &mut Vec<u8>,
    ) -> Result<(T, HeaderMap), RequestError> {
        buffer.clear();
        let request = request.map_err(|error| RequestError::Transport(error.to_string()))?;
        let exchange = async {
            let response = self.client.send(request.map(Body::from)).await;
            let (head, mut body) = response.map_err(|error| describe(&error))?.into_parts();
            // Frames are freed one by one, so that the connection can reuse its buffer for the next.
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame.map_err(|error| describe(&error))?.into_data() {
                    buffer.extend_from_slice(&data);
                }
            }
            Ok::<_, String>(head)
        };
        let head = tokio::time::timeout(self.timeout, exchange)
            .await
            .map_err(|_| RequestError::Transport(format!("no response within {:?}", self.timeout)))?
            .map_err(RequestError::Transport)?;
        if head.status.is_success() {
            let unreadable =
                |error: &dyn fmt::Display| RequestError::Transport(format!("unreadable response: {error}"));
            // Checking all text at once takes fewer instructions than each string on its own.
            let text = std::str::from_utf8(buffer).map_err(|error| unreadable(&error))?;
            let object = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
            return Ok((object, head.headers));
        }
        Err(RequestError::from_response(head.status, &head.headers, buffer))
    }
}

impl RequestError {
    /// Returns the error of a response.
    pub(crate) fn from_response(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        // A server that sheds load responds in plain text.
        let status = serde_json::from_slice(body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(body);
            Box::new(Status::failure(text.trim(), ""))
        });
        let retry_after = retry_after(headers, &status);
        Self::Api { code, status, retry_after }
    }

    /// Returns the status code of the response, if there is one.
    pub(crate) fn code(&self) -> Option<StatusCode> {
        match self {
            Self::Api { code, .. } => Some(*code),
            Self::Transport(_) => None,
        }
    }

    /// Returns the pause that the API server requests.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { retry_after, .. } => *retry_after,
            Self::Transport(_) => None,
        }
    }

    /// Returns whether the API server is overloaded, fails or does not respond, so that fewer requests must be sent.
    pub(crate) fn is_overload(&self) -> bool {
        let is_overload = |code: StatusCode| code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
        !self.is_by_webhook() && self.code().is_none_or(is_overload)
    }

    /// Returns whether an admission webhook denies the request, with whatever code: this is about the one object. The
    /// API server itself sheds load in plain text, or with messages of its own (`ToStatusErr` in
    /// <https://github.com/kubernetes/apiserver/blob/v0.37.1/pkg/admission/plugin/webhook/errors/statuserror.go>).
    pub(crate) fn is_by_webhook(&self) -> bool {
        let Self::Api { status, .. } = self else { return false };
        status.message.starts_with("admission webhook \"") && status.message.contains("\" denied the request")
    }

    /// Returns whether the object of this resource is missing: a proxy or an admission webhook may respond with 404 too,
    /// and so does an API server that does not serve the resource.
    pub(crate) fn is_missing(&self, plural: &str) -> bool {
        let Self::Api { code, status, .. } = self else { return false };
        let kind = status.details.as_ref().map(|details| details.kind.as_str());
        *code == StatusCode::NOT_FOUND && status.reason == "NotFound" && kind == Some(plural)
    }

    /// Returns whether the rest of a list has expired.
    pub(crate) fn is_expired(&self) -> bool {
        self.code() == Some(StatusCode::GONE)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api { code: StatusCode::UNAUTHORIZED, .. } => f.write_str(NO_CREDENTIALS),
            Self::Api { code, status, .. } => write!(f, "{code}: {}", status.message),
            Self::Transport(message) => f.write_str(message),
        }
    }
}

/// `Retry-After` is in seconds here; the API server never sends a date.
fn retry_after(headers: &HeaderMap, status: &Status) -> Option<Duration> {
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let details = status.details.as_ref().map(|details| u64::from(details.retry_after_seconds));
    let asked = header.or(details).filter(|seconds| *seconds > 0).map(Duration::from_secs);
    asked.map(|asked| asked.min(MAX_RETRY_AFTER))
}
