//! Messages for errors of requests and watches.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::time::Duration;

use kube::client::AuthError;
use kube::config::KubeconfigError;
use kube::core::Status;
use kube::runtime::watcher;
use thiserror::Error;

use super::credentials::{auth_reason, without_userinfo, yaml_reason};

/// A watch that breaks after this time is considered to have worked: a proxy may end each watch after a minute.
pub(crate) const STABLE: Duration = Duration::from_secs(5);

/// A watch that showed nothing for so long, not even a bookmark.
#[derive(Debug, Error)]
#[error(
    "nothing for {} s, not even a bookmark: the connection is dead, a proxy holds events back, or nothing changes and etcd \
     reports its progress rarely",
    .0.as_secs()
)]
pub(crate) struct Silent(pub(crate) Duration);

/// Returns an error with its causes, each once: "client error (Connect): Connection refused". None of them quotes
/// credentials.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let guarded = without_credentials(error);
        next = if guarded.is_some() { None } else { error.source() };
        let reason = guarded.unwrap_or_else(|| error.to_string());
        if text.is_empty() {
            text = reason;
        } else if !text.contains(&reason) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {reason}");
        }
    }
    text
}

/// Returns the reason and its causes, for an error that itself may quote credentials.
fn without_credentials(error: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<AuthError>() {
        return Some(auth_reason(error, None));
    }
    if let Some(KubeconfigError::Parse(error)) = error.downcast_ref() {
        return Some(yaml_reason(error));
    }
    // These errors repeat their cause.
    match error.downcast_ref()? {
        kube::Error::Auth(error) => Some(auth_reason(error, None)),
        kube::Error::InferKubeconfig(error) => Some(chain(error)),
        kube::Error::Service(error) => Some(chain(&**error)),
        kube::Error::ProxyProtocolUnsupported { proxy_url } => {
            let url = without_userinfo(proxy_url);
            Some(format!("the proxy {url} is not supported; use an http, https or socks5 proxy"))
        }
        _ => None,
    }
}

/// What the API server's own message, Unauthorized, means.
pub(crate) const NO_CREDENTIALS: &str = "the API server does not accept your credentials (401 Unauthorized): log in \
                                         again, or correct the user of the context";

/// Describes the error of a request; the message of the API server if it responded.
#[must_use]
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 401 => NO_CREDENTIALS.to_owned(),
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(error) => {
            format!("cannot reach the API server: {}", chain(&**error))
        }
        other => chain(other),
    }
}

/// Returns whether the requested resource version has expired, which is normal.
#[must_use]
pub fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

/// Returns whether the API server is unreachable, overloaded or fails: the cause of a failed watch is not in this process.
#[must_use]
pub fn is_outage(error: &watcher::Error) -> bool {
    let is_unreachable = |cause: &kube::Error| matches!(cause, kube::Error::Service(_) | kube::Error::HyperError(_));
    let is_of_server = |status: &Status| status.code == 429 || status.code >= 500;
    status(error).is_some_and(is_of_server) || cause(error).is_some_and(is_unreachable)
}

/// Returns whether the API server responds that it is overloaded or fails, as it probably does to every client. A gateway
/// (502, 504) may be in front of this one only; the API server itself responds with 504 and a reason.
#[must_use]
pub fn is_failing(error: &watcher::Error) -> bool {
    let is_of_server = |status: &Status| match status.code {
        504 => status.reason == "Timeout",
        code => matches!(code, 429 | 500 | 501 | 503),
    };
    status(error).is_some_and(is_of_server)
}

fn status(error: &watcher::Error) -> Option<&Status> {
    match (error, cause(error)) {
        (watcher::Error::WatchError(status), _) | (_, Some(kube::Error::Api(status))) => Some(status),
        _ => None,
    }
}

fn cause(error: &watcher::Error) -> Option<&kube::Error> {
    match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => Some(cause),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    }
}

/// Returns whether a watch failed because it was silent.
#[must_use]
pub fn is_silent(error: &watcher::Error) -> bool {
    let mut next = Some(error as &(dyn StdError + 'static));
    while let Some(error) = next {
        if error.is::<Silent>() {
            return true;
        }
        // The source of such an error is that of the one in it.
        let inner = error.downcast_ref().and_then(io::Error::get_ref);
        next = inner.map(|inner| inner as _).or_else(|| error.source());
    }
    false
}

/// Returns whether the API server does not serve the watched resource.
#[must_use]
pub fn is_missing(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return false;
    };
    matches!(cause, kube::Error::Api(status) if status.code == 404)
}

/// Returns whether the cluster does not serve a watch of the kind, or grants no permission for it.
pub(crate) fn is_refused(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 403 | 404)
}

/// Returns whether the cluster does not serve the kind.
pub(crate) fn is_not_served(error: &watcher::Error) -> bool {
    list_code(error) == Some(404)
}

/// Returns the status code of a failed list.
pub(crate) fn list_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Returns whether no server listens at the address, for example while an API server restarts.
#[must_use]
pub fn is_unreachable(error: &kube::Error) -> bool {
    let mut next = Some(error as &(dyn StdError + 'static));
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(io, Some(ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable))
        {
            return true;
        }
        next = match error.downcast_ref() {
            Some(kube::Error::Service(error)) => Some(&**error),
            _ => error.source(),
        };
    }
    false
}

/// Describes the error of a watch, and what to do about it.
#[must_use]
pub fn describe_watch(error: &watcher::Error, missing: &str) -> String {
    let cause = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(status) => {
            return format!("watch ended by the API server, restarting: {}", status.message);
        }
        watcher::Error::NoResourceVersion => return error.to_string(),
    };
    let hint = match cause {
        kube::Error::Api(status) if status.code == 404 => missing,
        kube::Error::Api(status) if status.code == 403 => "; grant the verbs list and watch",
        _ => "",
    };
    format!("cannot be watched, retrying: {}{hint}", describe(cause))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::api::ListParams;
    use kube::{Api, Config};

    use super::*;
    use crate::cluster::client;

    #[tokio::test]
    async fn refused_connection_is_no_response() {
        // No process listens there by now.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
        let nodes = Api::<Node>::all(client::with_config(config).await.unwrap());
        let error = nodes.list(&ListParams::default()).await.unwrap_err();
        assert!(is_unreachable(&error), "{error:?}");
        let status = kube::core::Status { code: 503, ..kube::core::Status::default() };
        assert!(!is_unreachable(&kube::Error::Api(Box::new(status))));
    }
}
