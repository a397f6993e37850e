//! Lists of objects, read page by page, so that no response has to be held in full.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::core::Request;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::requests::{self, Requests};
use crate::response::request_error::RequestError;

/// The page size. Larger pages mean fewer requests and a higher memory peak.
pub(crate) const PAGE_SIZE: u32 = 200;

/// How often a list starts again before it fails: one that expires each time would never end.
const MAX_RESTARTS: usize = 3;

/// A part of a list.
pub(crate) enum Page<K> {
    /// The list starts again: discard what came before.
    Restarted,
    Items(Vec<K>),
}

/// Lists all objects of a kind. A list that takes so long that its rest expires starts again, a few times.
///
/// # Errors
/// If they cannot be listed.
pub(crate) async fn list<K>(api: &Api<K>, mut on_page: impl FnMut(Page<K>)) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut page = ListParams::default().limit(PAGE_SIZE);
    let mut restarts = 0;
    loop {
        let list = match api.list(&page).await {
            // The list took so long that its rest has expired.
            Err(kube::Error::Api(status))
                if status.code == 410 && page.continue_token.is_some() && restarts < MAX_RESTARTS =>
            {
                restarts += 1;
                on_page(Page::Restarted);
                page.continue_token = None;
                continue;
            }
            list => list?,
        };
        on_page(Page::Items(list.items));
        page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
        if page.continue_token.is_none() {
            return Ok(());
        }
    }
}

/// The page size of Events, which have a kilobyte each.
pub(crate) const EVENT_PAGE_SIZE: u32 = 1000;

/// Lists objects of any shape at a path, with the page size and selectors of `page`. A list that takes so long that its
/// rest expires starts again, a few times.
///
/// # Errors
/// If they cannot be listed.
pub(crate) async fn list_at<T: DeserializeOwned>(
    requests: &Requests,
    path: &Request,
    mut page: ListParams,
    mut on_page: impl FnMut(Page<T>),
) -> Result<(), RequestError> {
    let (mut restarts, mut buffer) = (0, Vec::new());
    loop {
        let sent = requests.send_in(path.list(&page), &mut buffer).await;
        let mut list: requests::Page<T> = match sent.map(|(page, _)| page) {
            Err(error) if error.is_expired() && page.continue_token.is_some() && restarts < MAX_RESTARTS => {
                restarts += 1;
                on_page(Page::Restarted);
                page.continue_token = None;
                continue;
            }
            list => list?,
        };
        on_page(Page::Items(std::mem::take(&mut list.items)));
        page.continue_token = list.next();
        if page.continue_token.is_none() {
            return Ok(());
        }
    }
}

/// Collects a part of each object at a path, as [`list_at`] lists them.
///
/// # Errors
/// If they cannot be listed.
pub(crate) async fn collect_at<T: DeserializeOwned, U>(
    requests: &Requests,
    path: &Request,
    page: ListParams,
    mut keep: impl FnMut(T) -> Option<U>,
) -> Result<Vec<U>, RequestError> {
    let mut kept = Vec::new();
    let on_page = |page| match page {
        Page::Restarted => kept.clear(),
        Page::Items(items) => kept.extend(items.into_iter().filter_map(&mut keep)),
    };
    list_at(requests, path, page, on_page).await?;
    Ok(kept)
}
