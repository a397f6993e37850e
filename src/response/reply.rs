//! The meaning of the response to a patch of a node.

use std::time::Duration;

use http::StatusCode;
use kube::core::Status;

use super::request_error::RequestError;
use crate::model::node::ApiNode;

/// The response to a patch.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Applied; this is the patched node.
    Patched(Box<ApiNode>),
    /// Not applied: the node has changed since it was observed.
    Stale {
        /// The current node.
        node: Box<ApiNode>,
        /// The message of the API server.
        message: String,
    },
    /// The node does not exist.
    NotFound,
    /// The controller has no permission to patch nodes.
    Forbidden(String),
    /// The API server rejects the change: by admission, or by the validation of the node.
    Rejected(String),
    /// An admission webhook denies the patch of this node for now. It is not applied.
    Deferred {
        /// The error.
        message: String,
        /// The pause that the webhook requests.
        retry_after: Option<Duration>,
    },
    /// Failed, but may succeed later.
    Failed {
        /// The error.
        message: String,
        /// The pause that the API server requests.
        retry_after: Option<Duration>,
        /// Whether the patch may have been applied anyway: there was no response, or the server failed.
        maybe_applied: bool,
    },
}

impl Reply {
    /// Returns the reply to a patch that failed because the node has changed, with the result of reading the node.
    pub(crate) fn stale(error: &RequestError, read: Result<Box<ApiNode>, Self>) -> Self {
        match read {
            Ok(node) => Self::Stale { node, message: error.to_string() },
            Err(Self::Failed { message, retry_after, .. }) => {
                Self::Failed { message, retry_after, maybe_applied: false }
            }
            Err(reply) => reply,
        }
    }

    /// Returns the result for the metrics.
    pub(crate) fn result(&self) -> &'static str {
        match self {
            Self::Patched(_) => "patched",
            Self::Stale { .. } => "stale",
            Self::NotFound => "not_found",
            Self::Forbidden(_) => "forbidden",
            Self::Rejected(_) | Self::Deferred { .. } | Self::Failed { .. } => "failed",
        }
    }
}

/// Returns whether the permission is missing. Admission responds with 403 too, about the one object.
fn is_missing_right(code: StatusCode, status: &Status) -> bool {
    code == StatusCode::FORBIDDEN && status.message.contains("cannot patch resource")
}

/// Returns whether the API server rejects the content of the request, and would do so again.
fn is_rejected(code: StatusCode) -> bool {
    matches!(
        code,
        StatusCode::BAD_REQUEST
            | StatusCode::FORBIDDEN
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
    )
}

impl From<RequestError> for Reply {
    fn from(error: RequestError) -> Self {
        let (message, retry_after, is_deferred) = (error.to_string(), error.retry_after(), error.is_by_webhook());
        if error.is_missing("nodes") {
            return Self::NotFound;
        }
        match error {
            RequestError::Api { code, status, .. } if is_missing_right(code, &status) => {
                Self::Forbidden(status.message)
            }
            RequestError::Api { code, .. } if is_rejected(code) => Self::Rejected(message),
            RequestError::Api { .. } if is_deferred => Self::Deferred { message, retry_after },
            RequestError::Api { code, .. } => {
                Self::Failed { message, retry_after, maybe_applied: code.is_server_error() }
            }
            RequestError::Transport(message) => Self::Failed { message, retry_after: None, maybe_applied: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn patch_that_would_be_rejected_again_is_rejected_and_any_other_is_repeated() {
        let reply = |code: u16| {
            let code = StatusCode::from_u16(code).unwrap();
            Reply::from(RequestError::from_response(code, &HeaderMap::new(), b"{}"))
        };
        for code in [400, 403, 413, 422] {
            assert!(matches!(reply(code), Reply::Rejected(_)), "{code}");
        }
        for code in [401, 404, 409, 410, 429, 500, 503, 504] {
            let is_applied = code >= 500;
            let is_right = matches!(reply(code), Reply::Failed { maybe_applied, .. } if maybe_applied == is_applied);
            assert!(is_right, "{code}");
        }
    }
}
