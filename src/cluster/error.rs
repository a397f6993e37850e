//! What errors of requests and watches mean, in words.

use std::error::Error as StdError;
use std::fmt::Write as _;

use kube::runtime::watcher;

/// An error with its causes, each said once: "client error (Connect): Connection refused".
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {next}");
        }
        cause = error.source();
    }
    text
}

/// What went wrong with a request, in the API server's own words where it answered.
#[must_use]
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(error) => {
            format!("the API server cannot be reached: {}", chain(&**error))
        }
        other => chain(other),
    }
}

/// Whether the server no longer has what happened since; which is nothing unusual.
#[must_use]
pub fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

/// What a watch has run into, and what to do about it.
#[must_use]
pub fn describe_watch(error: &watcher::Error, missing: &str) -> String {
    let cause = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(status) => {
            return format!(
                "the watch was ended by the server, and is started again: {}",
                status.message
            );
        }
        watcher::Error::NoResourceVersion => return error.to_string(),
    };
    let hint = match cause {
        kube::Error::Api(status) if status.code == 404 => missing,
        kube::Error::Api(status) if status.code == 403 => "; grant the verbs list and watch",
        _ => "",
    };
    format!("cannot be watched, trying again: {}{hint}", describe(cause))
}
