//! Lists of the objects of a cluster, each of which may be refused on its own.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Resource as _};
use serde::de::DeserializeOwned;

use crate::cluster::paging::{self, PAGE_SIZE, Page};
use crate::cluster::requests::Requests;
use crate::cluster::stored::Stored;
use crate::election::holder;
use crate::response::request_error::RequestError;

/// Where the API server has nodes.
pub(crate) const NODES: &str = "/api/v1/nodes";

/// Longer than any page takes on a server that responds at all.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a cluster lacks that does not serve the kind of rules.
pub(crate) const NOT_INSTALLED: &str =
    "the cluster has no CustomResourceDefinition of rules: node-resource-advertiser is not installed";

/// Why a list is refused, in the API server's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    /// Returns what an answer lacks in consequence, without a period.
    pub(crate) fn gap(&self, kind: &str, lack: &str) -> String {
        format!("you lack permission to list {kind}: {lack} (the server says: {})", self.0)
    }
}

/// Returns what sends the requests of a command that reads.
pub(crate) fn requests(client: &Client) -> Requests {
    Requests::new(client.clone(), TIMEOUT)
}

/// Lists objects, and keeps a part of each.
pub(crate) async fn list<T: DeserializeOwned, U>(
    requests: &Requests,
    path: &str,
    params: ListParams,
    mut keep: impl FnMut(T) -> Option<U>,
) -> Result<Vec<U>, RequestError> {
    let params = ListParams { limit: params.limit.or(Some(PAGE_SIZE)), ..params };
    let mut kept = Vec::new();
    let on_page = |page| match page {
        Page::Restarted => kept.clear(),
        Page::Items(items) => kept.extend(items.into_iter().filter_map(&mut keep)),
    };
    paging::list_at(requests, &Request::new(path), params, on_page).await?;
    Ok(kept)
}

/// Lists all objects at a path.
pub(crate) async fn all<T: DeserializeOwned>(requests: &Requests, path: &str) -> Result<Vec<T>, RequestError> {
    list(requests, path, ListParams::default(), Some).await
}

/// Lists the Leases of controllers, in one namespace or in all.
pub(crate) async fn leases(requests: &Requests, namespace: Option<&str>) -> Result<Vec<Lease>, RequestError> {
    let (label, value) = holder::LABEL;
    let params = ListParams::default().labels(&format!("{label}={value}"));
    list(requests, &Lease::url_path(&(), namespace), params, |Stored(lease)| Some(lease)).await
}

/// Returns the list, or that the cluster does not grant permission to list it.
///
/// # Errors
/// If the list fails otherwise.
pub(crate) fn granted<T>(list: Result<T, RequestError>) -> Result<Result<T, Refusal>, RequestError> {
    match list {
        Err(error) if error.code() == Some(StatusCode::FORBIDDEN) => Ok(Err(Refusal(error.to_string()))),
        list => list.map(Ok),
    }
}

/// Returns the list, or an empty one and a gap if it is refused.
///
/// # Errors
/// If the list fails otherwise.
pub(crate) fn granted_or_gap<T: Default>(
    list: Result<T, RequestError>,
    kind: &str,
    lack: &str,
    gaps: &mut Vec<String>,
) -> Result<T, RequestError> {
    Ok(granted(list)?.unwrap_or_else(|refusal| {
        gaps.push(refusal.gap(kind, lack));
        T::default()
    }))
}

/// Returns what was read, or `None` if there is no such object, or the cluster does not serve the kind.
///
/// # Errors
/// If the request fails otherwise.
pub(crate) fn found<T>(read: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match read {
        Err(error) if is_not_served(&error) => Ok(None),
        read => read.map(Some),
    }
}

/// Returns whether the cluster does not serve the kind.
pub(crate) fn is_not_served(error: &RequestError) -> bool {
    error.code() == Some(StatusCode::NOT_FOUND)
}
