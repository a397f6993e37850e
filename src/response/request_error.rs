//! Why requests fail.

use std::fmt;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use kube::core::Status;

use super::error::NO_CREDENTIALS;

/// The longest accepted `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

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

    /// Returns whether the node differs from what the patch assumed: a conflict of resourceVersion or uid, or a failed
    /// `test`. The latter is a 422 without causes; with causes, the value is rejected.
    pub(crate) fn is_stale(&self) -> bool {
        match self {
            Self::Api { code: StatusCode::CONFLICT, .. } => true,
            Self::Api { code: StatusCode::UNPROCESSABLE_ENTITY, status, .. } => {
                status.details.as_ref().is_none_or(|details| details.causes.is_empty())
            }
            _ => false,
        }
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
