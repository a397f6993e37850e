//! The versions and uids that a server has assigned. Those of two servers are compared by their order.

use serde_json::Value;
use simulator::{Key, Kind};

/// The length of a uid.
const UID_LENGTH: usize = 36;

/// The assigned values, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    versions: Vec<(String, Option<(Kind, Key)>)>,
    uids: Vec<(String, Kind, Key)>,
    /// The versions before this index have been compacted.
    compacted: usize,
}

impl History {
    /// Creates a history that begins at a version.
    pub(crate) fn since(version: &str) -> Self {
        Self { versions: vec![(version.to_owned(), None)], uids: Vec::new(), compacted: 0 }
    }

    /// Records the version and uid of an object in a response, or of its deletion.
    pub(crate) fn note(&mut self, kind: Kind, key: &Key, object: &Value) {
        let metadata = &object["metadata"];
        if let Some(version) = metadata["resourceVersion"].as_str().filter(|text| !text.is_empty())
            && self.versions.iter().all(|(other, _)| other != version)
        {
            self.versions.push((version.to_owned(), Some((kind, key.clone()))));
        }
        if let Some(uid) = metadata["uid"].as_str()
            && self.uids.iter().all(|(other, ..)| other != uid)
        {
            self.uids.push((uid.to_owned(), kind, key.clone()));
        }
    }

    /// Returns whether a version is of a write after all known ones.
    pub(crate) fn is_next(&self, version: &str) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        let newest = self.versions.iter().filter_map(|(version, _)| number(version)).max();
        number(version) > newest
    }

    /// Returns the version of the write this number of writes ago, or of the oldest.
    pub(crate) fn version(&self, ago: usize) -> &str {
        self.at(self.index(ago))
    }

    /// Returns the same, to begin a watch. Whether a watch can begin right before a compaction depends on other writes
    /// in between, such as those of the real server itself, so it begins at that version.
    pub(crate) fn version_to_watch(&self, ago: usize) -> &str {
        let index = self.index(ago);
        self.at(if index + 1 == self.compacted { self.compacted } else { index })
    }

    /// Returns the same, for a compaction.
    pub(crate) fn compact(&mut self, ago: usize) -> &str {
        self.compacted = self.compacted.max(self.index(ago));
        self.at(self.compacted)
    }

    fn index(&self, ago: usize) -> usize {
        self.versions.len().saturating_sub(ago + 1)
    }

    fn at(&self, index: usize) -> &str {
        self.versions.get(index).map_or("0", |(version, _)| version)
    }

    /// Replaces `@uid N` and `@version N` by the uid and the version of the request's object, `N` uids or writes ago.
    pub(crate) fn resolve(&self, value: &Value, kind: Kind, key: &Key) -> Value {
        match value {
            Value::String(text) => {
                let number = |prefix| text.strip_prefix(prefix).and_then(|ago: &str| ago.parse::<usize>().ok());
                let found = if let Some(ago) = number("@uid ") {
                    let mut uids = self.uids.iter().rev().filter(|(_, of, at)| *of == kind && at == key);
                    uids.nth(ago).map_or("00000000-0000-0000-0000-00000000dead", |(uid, ..)| uid)
                } else if let Some(ago) = number("@version ") {
                    let of_object = |(_, of): &&(_, Option<(Kind, Key)>)| {
                        of.as_ref().is_some_and(|(of, at)| *of == kind && at == key)
                    };
                    let mut versions = self.versions.iter().rev().filter(of_object);
                    versions.nth(ago).map_or("9007199254740993", |(version, _)| version)
                } else {
                    text
                };
                Value::String(found.to_owned())
            }
            Value::Array(items) => items.iter().map(|item| self.resolve(item, kind, key)).collect(),
            Value::Object(members) => {
                let members = members.iter();
                Value::Object(members.map(|(name, value)| (name.clone(), self.resolve(value, kind, key))).collect())
            }
            other => other.clone(),
        }
    }

    /// Returns the index of a version; for a list, that of the last write before it.
    pub(crate) fn number(&self, version: &str) -> String {
        let Ok(number) = version.parse::<u64>() else { return format!("{version:?}") };
        let before = self.versions.iter().filter_map(|(other, _)| other.parse::<u64>().ok());
        format!("version {}", before.filter(|other| *other <= number).count())
    }

    /// Replaces each uid in a text by its index.
    pub(crate) fn mask_uids(&self, text: &str) -> String {
        if text.len() < UID_LENGTH {
            return text.to_owned();
        }
        let uids = self.uids.iter().enumerate();
        uids.fold(
            text.to_owned(),
            |text, (number, (uid, ..))| {
                if text.contains(uid) { text.replace(uid, &format!("uid {number}")) } else { text }
            },
        )
    }
}
