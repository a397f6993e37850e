//! Lists of one kind, each of which may fail on its own.

use http::StatusCode;
use kube::api::ListParams;
use kube::core::Request;
use serde::de::DeserializeOwned;

use super::finding::NotRun;
use crate::cluster::paging::{self, PAGE_SIZE};
use crate::cluster::requests::{RequestError, Requests};

/// Lists objects, and keeps a part of each.
pub(super) async fn list<T: DeserializeOwned, U>(
    requests: &Requests,
    path: &str,
    params: ListParams,
    keep: impl FnMut(T) -> Option<U>,
) -> Result<Vec<U>, RequestError> {
    let params = ListParams { limit: params.limit.or(Some(PAGE_SIZE)), ..params };
    paging::collect_at(requests, &Request::new(path), params, keep).await
}

/// Returns why something could not be done, such as `list nodes`.
pub(super) fn not_run(action: &'static str, error: RequestError) -> NotRun {
    match error.code() {
        Some(StatusCode::FORBIDDEN) => NotRun::Forbidden(action),
        Some(StatusCode::NOT_FOUND) => {
            NotRun::Unavailable(format!("cannot {action}, which this cluster does not serve"))
        }
        _ => NotRun::Failed(format!("cannot {action}: {error}")),
    }
}

pub(super) fn is_not_served(error: &RequestError) -> bool {
    error.code() == Some(StatusCode::NOT_FOUND)
}
