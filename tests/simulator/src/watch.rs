//! A watch: its position in the history, and its next event.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::kind::Kind;
use crate::selector::Selector;
use crate::store::Store;

/// A watch of one kind. It returns events only on request, so a caller delays it by asking later.
#[derive(Clone, Debug)]
pub struct Watch {
    kind: Kind,
    selector: Selector,
    /// All writes up to this version have been shown.
    position: u64,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// An object is new, or newly selected.
    Added(Arc<Value>),
    /// An object has changed.
    Modified(Arc<Value>),
    /// An object is deleted, or no longer selected: its last state, with the version of the deletion.
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

    /// Returns the version up to which the watch has shown everything.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next event, if any.
    pub(crate) fn next(&mut self, store: &Store, has_watch_cache: bool) -> Option<WatchEvent> {
        // The history after the version must still exist.
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
            let selected = |object: &Option<Arc<Value>>| object.clone().filter(|object| self.selector.matches(object));
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

    /// Returns a bookmark if the watch has shown everything.
    pub(crate) fn bookmark(&mut self, store: &Store) -> Option<WatchEvent> {
        let behind = store.changes_after(self.position).iter().any(|change| change.kind == self.kind);
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
