//! The documents in files, and the limits of what is read.

use std::sync::Arc;

use serde_json::Value;

use super::locations::Locations;
use super::path::{Path, Step};
use super::source::{Source, SourceLocation, Span};

/// The limits of what is read. Kubernetes stores no object above 1.5 MiB, so whole folders of manifests are far below
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of one file, in bytes.
    pub file: u64,
    /// The maximum size of all files together, in bytes.
    pub total: u64,
    /// The maximum number of values (maps, lists and scalars) in one document, including those that aliases repeat.
    /// Every 64 bytes of a text count as one more.
    pub values: usize,
    /// The maximum nesting of maps and lists.
    pub depth: usize,
}

impl Default for Limits {
    /// 16 MiB per file, 64 MiB in total, 500,000 values per document, nested 100 deep.
    fn default() -> Self {
        Self { file: 16 << 20, total: 64 << 20, values: 500_000, depth: 100 }
    }
}

impl Limits {
    pub(super) fn too_many(&self) -> String {
        format!("the document has more than {} values, its aliases followed: split it", self.values)
    }

    pub(super) fn too_deep(&self) -> String {
        format!("maps and lists are nested more than {} deep here", self.depth)
    }
}

/// One object in a file. The items of a List are separate documents.
#[derive(Clone, Debug)]
pub struct Document {
    /// The object, as kubectl would send it.
    pub value: Value,
    source: Arc<Source>,
    locations: Locations,
    is_item: bool,
}

/// What cannot be read, where, and why, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The location; only the name for a file that cannot be opened.
    pub location: SourceLocation,
    /// The reason.
    pub reason: String,
    /// Whether it may hold rules: it mentions them, comes from standard input or a pipe, or cannot be opened.
    pub may_hold_rules: bool,
}

impl ReadError {
    /// Adds the name of its file to those of the errors before it.
    pub fn add_file(&self, files: &mut Vec<String>) {
        let file = self.location.file();
        if files.last().is_none_or(|last| last != file) {
            files.push(file.to_owned());
        }
    }
}

impl Document {
    /// Returns `apiVersion`, or an empty text.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// Returns the API group; the core group is empty.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version().rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns `kind`, or an empty text.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Returns `metadata.name`, or an empty text.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Returns the value at `path`.
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

    /// Returns the location of the value at `path`, within one line: the key of a value that spans several lines, or
    /// the parent of a value that is missing.
    #[must_use]
    pub fn location(&self, path: &Path) -> SourceLocation {
        SourceLocation::within(&self.source, self.locations.shown(path, &self.source))
    }

    /// Returns the location of the key of the value at `path`; of the value itself if it has no key.
    #[must_use]
    pub fn key_location(&self, path: &Path) -> SourceLocation {
        SourceLocation::within(&self.source, self.locations.shown_key(path, &self.source))
    }

    /// Returns whether it is a List in a List.
    pub(super) fn is_nested_list(&self) -> bool {
        self.is_item && is_list(&self.value)
    }

    /// Returns the bytes of the document in its file.
    pub(super) fn span(&self) -> Span {
        self.locations.whole()
    }

    /// Returns a document, or the items if it is a List that has some.
    pub(super) fn flatten(source: &Arc<Source>, value: Value, locations: Locations) -> Vec<Self> {
        let is_item = is_list(&value) && value["items"] != Value::Array(Vec::new());
        let whole = |value, locations| Self { value, source: Arc::clone(source), locations, is_item };
        if !is_item {
            return vec![whole(value, locations)];
        }
        let (mut value, mut locations) = (value, locations);
        let mut items = match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        // kubectl gives items of a list of one kind with neither field those of the list.
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

fn is_list(value: &Value) -> bool {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") && value.get("items").is_some_and(Value::is_array)
}
