//! The labels of a node in memory.

use std::sync::Arc;

/// A node's labels, sorted by key. Each is one text, `key=value`: a key has no `=`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Box<[Arc<str>]>);

impl Labels {
    /// Returns these labels, in the order of their keys.
    pub(super) fn new(labels: Box<[Arc<str>]>) -> Self {
        Self(labels)
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|label| parts(label).0.cmp(key)).ok()?;
        self.0.get(at).map(|label| parts(label).1)
    }

    /// Returns every label, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|label| parts(label))
    }

    /// Returns every label as `key=value`, by key.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|label| &**label)
    }
}

/// Returns the key and the value of a label.
fn parts(label: &str) -> (&str, &str) {
    label.split_once('=').unwrap_or((label, ""))
}
