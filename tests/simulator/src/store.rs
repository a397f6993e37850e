//! Every version of every object, as etcd keeps them until they are compacted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::kind::{Key, Kind};

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) kind: Kind,
    pub(crate) before: Option<Arc<Value>>,
    /// `None` if it was deleted.
    pub(crate) after: Option<Arc<Value>>,
}

/// The versions of an object, the oldest first; `None` marks a deletion.
type Versions = Vec<(u64, Option<Arc<Value>>)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<(Kind, Key), Versions>,
    /// The objects with an unset field that is defaulted on every read.
    defaulted: BTreeSet<(Kind, Key)>,
    changes: Vec<Change>,
    version: u64,
    /// Older versions have been compacted.
    compacted: u64,
}

impl Store {
    /// The version of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Returns the current object.
    pub(crate) fn get(&self, kind: Kind, key: &Key) -> Option<Arc<Value>> {
        let versions = self.objects.get(&(kind, key.clone()))?;
        versions.last().and_then(|(_, object)| object.clone())
    }

    /// Returns whether a field of an object is defaulted on read.
    pub(crate) fn is_defaulted(&self, kind: Kind, key: &Key) -> bool {
        self.defaulted.contains(&(kind, key.clone()))
    }

    pub(crate) fn set_defaulted(&mut self, kind: Kind, key: &Key, is_defaulted: bool) {
        let of = (kind, key.clone());
        if is_defaulted {
            self.defaulted.insert(of)
        } else {
            self.defaulted.remove(&of)
        };
    }

    /// Returns the objects of a kind at a version, sorted by namespace and name.
    pub(crate) fn list(&self, kind: Kind, version: u64) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let of_kind = self.objects.range((kind, Key::named(""))..);
        let of_kind = of_kind.take_while(move |((other, _), _)| *other == kind);
        of_kind.filter_map(move |((_, key), versions)| {
            let (_, object) = versions.iter().rfind(|(since, _)| *since <= version)?;
            object.as_ref().map(|object| (key, object))
        })
    }

    /// Stores or deletes an object at the next version, and returns that version.
    pub(crate) fn put(&mut self, kind: Kind, key: &Key, object: impl FnOnce(u64) -> Option<Value>) -> u64 {
        self.version += 1;
        let after = object(self.version).map(Arc::new);
        let before = self.get(kind, key);
        let versions = self.objects.entry((kind, key.clone())).or_default();
        versions.push((self.version, after.clone()));
        self.changes.push(Change { version: self.version, kind, before, after });
        self.version
    }

    /// Returns the writes after a version, the oldest first.
    pub(crate) fn changes_after(&self, version: u64) -> &[Change] {
        let from = self.changes.partition_point(|change| change.version <= version);
        &self.changes[from..]
    }

    /// Compacts the history before a version: watches that begin earlier, and lists of earlier versions, fail.
    pub(crate) fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version.min(self.version));
        let compacted = self.compacted;
        // A watch may begin right before that version, and shows its write.
        self.changes.retain(|change| change.version >= compacted);
        self.objects.retain(|_, versions| {
            let last = versions.partition_point(|(since, _)| *since <= compacted);
            versions.drain(..last.saturating_sub(1));
            versions.len() > 1 || versions.iter().any(|(_, object)| object.is_some())
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{ApiServer, Key, Kind, Selector, WatchEvent, Writer};

    /// etcd keeps the revision of a compaction, even if it is a deletion.
    #[test]
    fn watch_that_begins_right_before_a_compaction_misses_nothing() {
        for deletes in [false, true] {
            let mut api = ApiServer::default();
            let node = json!({"metadata": {"name": "node-1"}});
            let mut watch = api.watch(Kind::Node, Selector::default(), api.version());
            api.create(Kind::Node, node, &Writer::new("test")).unwrap();
            if deletes {
                watch = api.watch(Kind::Node, Selector::default(), api.version());
                api.delete(Kind::Node, &Key::named("node-1"), None).unwrap();
            }
            api.compact(api.version());
            let event = api.next_event(&mut watch);
            let is_shown = match event {
                Some(WatchEvent::Added(_)) => !deletes,
                Some(WatchEvent::Deleted(_)) => deletes,
                _ => false,
            };
            assert!(is_shown, "{event:?}");
        }
    }
}
