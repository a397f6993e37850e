//! What files are read into, and how much of them is read.

use std::sync::Arc;

use serde_json::Value;

use super::locations::Locations;
use super::path::{Path, Step};
use super::source::{Source, SourceLocation};

/// How much is read. Kubernetes stores no object above 1.5 MiB, so that whole folders of manifests
/// are far below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of all files together.
    pub total: u64,
    /// Values (maps, lists and scalars) in one document, those that aliases repeat included. Every
    /// 64 bytes of a text count as one more.
    pub values: usize,
    /// Maps and lists within each other.
    pub depth: usize,
}

impl Default for Limits {
    /// 16 MiB a file, 64 MiB in all, 500,000 values a document, 100 of them within each other.
    fn default() -> Self {
        Self { file: 16 << 20, total: 64 << 20, values: 500_000, depth: 100 }
    }
}

/// One object of a file. The items of a List are documents of their own.
#[derive(Clone, Debug)]
pub struct Document {
    /// The object, as kubectl would send it.
    pub value: Value,
    source: Arc<Source>,
    locations: Locations,
}

/// What cannot be read, where, and why, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Where; a file that cannot be opened has no more than its name.
    pub location: SourceLocation,
    /// Why.
    pub reason: String,
}

impl Document {
    /// `apiVersion`, or nothing.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// `kind`, or nothing.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// `metadata.name`, or nothing.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The value at `path`.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&Value> {
        path.steps().iter().try_fold(&self.value, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Item(index) => value.get(index),
        })
    }

    fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Where the value at `path` stands, as far as one line can show it: a value that goes over
    /// several lines is shown by its key, and one that is not there by what it should be in.
    #[must_use]
    pub fn location(&self, path: &Path) -> SourceLocation {
        SourceLocation::within(&self.source, self.locations.shown(path, &self.source))
    }

    /// Where the key of the value at `path` stands; the value itself where it has none.
    #[must_use]
    pub fn key_location(&self, path: &Path) -> SourceLocation {
        SourceLocation::within(&self.source, self.locations.shown_key(path, &self.source))
    }

    /// A document, or those that it is a List of.
    pub(super) fn flatten(source: &Arc<Source>, value: Value, locations: Locations) -> Vec<Self> {
        let whole = |value, locations| Self { value, source: Arc::clone(source), locations };
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !kind.ends_with("List") || !value.get("items").is_some_and(Value::is_array) {
            return vec![whole(value, locations)];
        }
        let (mut value, mut locations) = (value, locations);
        let mut items = match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        // As kubectl decodes a list of one kind: items with neither field have those of the list.
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let kind = Value::from(kind.strip_suffix("List").unwrap_or_default());
        let api_version = value.get("apiVersion").cloned().unwrap_or_default();
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            if !["apiVersion", "kind"].into_iter().any(|key| item.contains_key(key)) {
                item.insert("apiVersion".to_owned(), api_version.clone());
                item.insert("kind".to_owned(), kind.clone());
            }
        }
        items.into_iter().zip(locations.take_items("items")).map(|(v, l)| whole(v, l)).collect()
    }
}
