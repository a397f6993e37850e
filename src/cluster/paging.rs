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

/// Lists all objects of a kind, as [`list_at`] does, with the errors of kube, which distinguish why there is no response.
///
/// # Errors
/// If they cannot be listed.
pub(crate) async fn list<K>(api: &Api<K>, on_page: impl FnMut(Page<K>)) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let send = async |page: &ListParams| {
        let list = api.list(page).await?;
        Ok((list.items, list.metadata.continue_.filter(|token| !token.is_empty())))
    };
    let is_expired = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 410);
    pages(ListParams::default().limit(PAGE_SIZE), send, is_expired, on_page).await
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
    page: ListParams,
    on_page: impl FnMut(Page<T>),
) -> Result<(), RequestError> {
    let mut buffer = Vec::new();
    let send = async |page: &ListParams| {
        let (mut list, _) = requests.send_in::<requests::Page<T>>(path.list(page), &mut buffer).await?;
        Ok((std::mem::take(&mut list.items), list.next()))
    };
    pages(page, send, RequestError::is_expired, on_page).await
}

/// Requests page after page. `send` returns the objects of one, and the token of the next.
async fn pages<T, E>(
    mut page: ListParams,
    mut send: impl AsyncFnMut(&ListParams) -> Result<(Vec<T>, Option<String>), E>,
    is_expired: impl Fn(&E) -> bool,
    mut on_page: impl FnMut(Page<T>),
) -> Result<(), E> {
    let mut restarts = 0;
    loop {
        let (items, next) = match send(&page).await {
            // The list took so long that its rest has expired.
            Err(error) if is_expired(&error) && page.continue_token.is_some() && restarts < MAX_RESTARTS => {
                restarts += 1;
                on_page(Page::Restarted);
                page.continue_token = None;
                continue;
            }
            list => list?,
        };
        on_page(Page::Items(items));
        page.continue_token = next;
        if page.continue_token.is_none() {
            return Ok(());
        }
    }
}
