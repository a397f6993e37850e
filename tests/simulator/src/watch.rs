//! A watch: where it is in the history, and what it shows next.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::kind::Kind;
use crate::selector::Selector;
use crate::store::Store;

/// A watch of one kind. It shows what it is asked for, when it is asked: to delay it is to ask later.
#[derive(Clone, Debug)]
pub struct Watch {
    kind: Kind,
    selector: Selector,
    /// What was written up to this version has been shown.
    position: u64,
}

/// What a watch shows.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// An object is new, or selected from now on.
    Added(Arc<Value>),
    /// It has changed.
    Modified(Arc<Value>),
    /// It is gone, or selected no more. This is how it was last, with the version of its deletion.
    Deleted(Arc<Value>),
    /// Everything up to this version has been shown.
    Bookmark(u64),
    /// The watch has ended with an error.
    Error(Failure),
}

impl Watch {
    pub(crate) fn new(kind: Kind, selector: Selector, position: u64) -> Self {
        Self { kind, selector, position }
    }

    /// The version up to which it has shown everything.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Shows the next event that there is.
    pub(crate) fn next(&mut self, store: &Store, has_watch_cache: bool) -> Option<WatchEvent> {
        // What follows the version is what has to be there still.
        if self.position + 1 < store.compacted() {
            let message = match has_watch_cache {
                true => {
                    format!("too old resource version: {} ({})", self.position, store.compacted())
                }
                false => "The resourceVersion for the provided watch is too old.".to_owned(),
            };
            return Some(WatchEvent::Error(Failure::expired(message)));
        }
        for change in store.changes_after(self.position) {
            self.position = change.version;
            if change.kind != self.kind {
                continue;
            }
            let selected = |object: &Option<Arc<Value>>| {
                object.clone().filter(|object| self.selector.matches(object))
            };
            let event = match (selected(&change.before), selected(&change.after)) {
                (None, None) => continue,
                (None, Some(after)) => WatchEvent::Added(after),
                (Some(_), Some(after)) => WatchEvent::Modified(after),
                (Some(before), None) => {
                    let mut last = (*before).clone();
                    last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                    WatchEvent::Deleted(Arc::new(last))
                }
            };
            return Some(event);
        }
        None
    }

    /// A bookmark, where the watch is behind nothing.
    pub(crate) fn bookmark(&mut self, store: &Store) -> Option<WatchEvent> {
        let behind =
            store.changes_after(self.position).iter().any(|change| change.kind == self.kind);
        if behind || self.position + 1 < store.compacted() {
            return None;
        }
        self.position = store.version();
        Some(WatchEvent::Bookmark(self.position))
    }
}

impl WatchEvent {
    /// Returns the event as a line of a watch's response.
    #[must_use]
    pub fn to_json(&self, kind: Kind) -> Value {
        let (name, object) = match self {
            Self::Added(object) => ("ADDED", (**object).clone()),
            Self::Modified(object) => ("MODIFIED", (**object).clone()),
            Self::Deleted(object) => ("DELETED", (**object).clone()),
            Self::Bookmark(version) => {
                let metadata = json!({"resourceVersion": version.to_string()});
                let object = json!({"kind": kind.name(), "apiVersion": kind.api_version(), "metadata": metadata});
                ("BOOKMARK", object)
            }
            Self::Error(failure) => ("ERROR", failure.status.clone()),
        };
        json!({"type": name, "object": object})
    }
}
