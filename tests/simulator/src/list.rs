//! Paged lists of one version.

use std::sync::Arc;

use serde_json::Value;

use crate::failure::Failure;
use crate::kind::{Key, Kind};
use crate::selector::Selector;
use crate::server::ApiServer;

/// The options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// The selected objects.
    pub selector: Selector,
    /// Maximum number of objects per page; 0 for all.
    pub limit: usize,
    /// The token from the previous page.
    pub token: Option<String>,
    /// Return this version instead of the current one, like a server that lags behind.
    pub at: Option<u64>,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The version of the list: a watch from there misses nothing.
    pub version: u64,
    /// The objects, sorted by namespace and name.
    pub items: Vec<Arc<Value>>,
    /// The token for the next page; `None` for the last one. A page may be empty if it selects no more objects.
    pub next: Option<String>,
    /// The number of objects on later pages, selected or not. A server reports it only without a selector.
    pub remaining: usize,
}

impl ApiServer {
    /// Lists objects.
    ///
    /// # Errors
    /// 410 for a compacted token or version; 400 for an invalid one.
    pub fn list(&self, kind: Kind, options: &ListOptions) -> Result<List, Failure> {
        let (version, after) = match &options.token {
            Some(token) => read_token(token)?,
            None => (options.at, None),
        };
        let version = version.unwrap_or_else(|| self.store.version());
        if version < self.store.compacted() {
            return Err(match after {
                Some(Key { namespace, name }) => Failure::expired_token(&format!("{NOW}/{namespace}/{name}")),
                None => Failure::expired("The resourceVersion for the provided list is too old."),
            });
        }
        // The cache has an index of the current objects.
        let has_index = self.has_watch_cache && options.token.is_none() && options.at.is_none();
        let objects = self.store.list(kind, version);
        let mut objects = objects.filter(|(key, object)| {
            after.as_ref().is_none_or(|after| *key > after) && options.selector.is_read(object, has_index)
        });
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        let selected = objects.by_ref().filter(|(_, object)| options.selector.matches(object));
        let items: Vec<_> = selected.map(|(_, object)| Arc::clone(object)).take(limit).collect();
        // The server stops at the end of a page: the remaining objects may not be selected.
        let remaining = objects.count();
        let next = items.last().filter(|_| remaining > 0).map(|last| {
            let Key { namespace, name } = Key::of(last);
            format!("{version}/{namespace}/{name}")
        });
        Ok(List { version, items, next, remaining })
    }
}

/// Stands for the current version in a token.
const NOW: &str = "-1";

/// Returns the version of a list, `None` for the current one, and the object after which it continues.
fn read_token(token: &str) -> Result<(Option<u64>, Option<Key>), Failure> {
    let invalid = || Failure::bad_request("continue key is not valid");
    let mut parts = token.splitn(3, '/');
    let (Some(version), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(invalid());
    };
    let version = if version == NOW { None } else { Some(version.parse().map_err(|_| invalid())?) };
    Ok((version, Some(Key::namespaced(namespace, name))))
}
