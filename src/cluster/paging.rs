//! Lists of objects, read page by page, so that no answer of the API server has to be held in full.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// How many objects are listed a request. More makes for fewer requests and a higher peak of memory.
pub(crate) const PAGE_SIZE: u32 = 200;

/// A part of a list.
pub(crate) enum Page<K> {
    /// What came so far is void: the list begins again.
    Restarted,
    Items(Vec<K>),
}

/// Lists all objects of a kind.
///
/// # Errors
/// Where they cannot be listed.
pub(crate) async fn list<K>(
    api: &Api<K>,
    mut on_page: impl FnMut(Page<K>),
) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut page = ListParams::default().limit(PAGE_SIZE);
    loop {
        let list = match api.list(&page).await {
            // It has taken so long that the server no longer has it.
            Err(kube::Error::Api(status))
                if status.code == 410 && page.continue_token.is_some() =>
            {
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
