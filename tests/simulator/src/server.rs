//! The API server: reads, lists, watches and writes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::kind::{Key, Kind};
use crate::selector::Selector;
use crate::store::Store;
use crate::watch::{Watch, WatchEvent};
use crate::{fields, json_patch, strategy};

/// An API server and its store. A clone is another one, with the same history.
#[derive(Clone, Debug)]
pub struct ApiServer {
    store: Store,
    /// RFC 3339, as it is written into objects.
    time: String,
    uids: u64,
}

/// Who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The field manager.
    pub manager: String,
}

impl Writer {
    /// A writer by its field manager.
    pub fn new(manager: impl Into<String>) -> Self {
        Self { manager: manager.into() }
    }
}

/// The part of an object that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself, of which `status` cannot be written.
    None,
    /// `status`, beside which only metadata can be written, and of custom resources nothing.
    Status,
}

impl Subresource {
    fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Status => "status",
        }
    }
}

/// What is sent with PATCH.
#[derive(Clone, Debug)]
pub enum PatchBody {
    /// `application/json-patch+json`.
    Json(Value),
    /// `application/merge-patch+json`.
    Merge(Value),
}

/// What is asked of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Which objects.
    pub selector: Selector,
    /// How many objects a page has at most; 0 for all.
    pub limit: usize,
    /// The token of the page before.
    pub token: Option<String>,
    /// Answer as of this version and not as of now, as a server that is behind does.
    pub at: Option<u64>,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The version that it is of: a watch from there misses nothing.
    pub version: u64,
    /// The objects by namespace and name.
    pub items: Vec<Arc<Value>>,
    /// The token for the next page; `None` for the last one.
    pub next: Option<String>,
    /// How many objects are on the pages after this one.
    pub remaining: usize,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self { store: Store::default(), time: "2026-01-01T00:00:00Z".to_owned(), uids: 0 }
    }
}

impl ApiServer {
    /// Sets the time that is written into objects: RFC 3339, to the second.
    pub fn set_time(&mut self, time: impl Into<String>) {
        self.time = time.into();
    }

    /// Returns the version of the last write.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.store.version()
    }

    /// Forgets what was before a version.
    pub fn compact(&mut self, version: u64) {
        self.store.compact(version);
    }

    /// Reads an object.
    ///
    /// # Errors
    /// 404 where there is none.
    pub fn get(&self, kind: Kind, key: &Key) -> Result<Arc<Value>, Failure> {
        self.store.get(kind, key).ok_or_else(|| Failure::not_found(kind, key))
    }

    /// Lists objects.
    ///
    /// # Errors
    /// 410 for a token, or a version, that has been compacted; 400 for one that is none.
    pub fn list(&self, kind: Kind, options: &ListOptions) -> Result<List, Failure> {
        let (version, after) = match &options.token {
            Some(token) => read_token(token)?,
            None => (options.at.unwrap_or_else(|| self.store.version()), None),
        };
        if version < self.store.compacted() {
            let message =
                "The provided continue parameter is too old to display a consistent list result.";
            return Err(Failure::expired(message));
        }
        let objects = self.store.list(kind, version);
        let mut objects = objects
            .filter(|(key, object)| {
                after.as_ref().is_none_or(|after| *key > after) && options.selector.matches(object)
            })
            .map(|(_, object)| Arc::clone(object));
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        let items: Vec<_> = objects.by_ref().take(limit).collect();
        let remaining = objects.count();
        let next = items.last().filter(|_| remaining > 0).map(|last| {
            let Key { namespace, name } = Key::of(last);
            format!("{version}/{namespace}/{name}")
        });
        Ok(List { version, items, next, remaining })
    }

    /// Begins a watch of what is written after a version. What is wrong with it, its events tell.
    #[must_use]
    pub fn watch(&self, kind: Kind, selector: Selector, after: u64) -> Watch {
        Watch::new(kind, selector, after)
    }

    /// Returns what a watch shows next, if there is anything.
    pub fn next_event(&self, watch: &mut Watch) -> Option<WatchEvent> {
        watch.next(&self.store)
    }

    /// Returns a bookmark, where a watch has shown everything.
    pub fn bookmark(&self, watch: &mut Watch) -> Option<WatchEvent> {
        watch.bookmark(&self.store)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// 409 where there is one of that name; 422 where it is invalid.
    pub fn create(
        &mut self,
        kind: Kind,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        let key = Key::of(&object);
        if self.store.get(kind, &key).is_some() {
            return Err(Failure::already_exists(kind, &key));
        }
        strategy::prepare_create(kind, &mut object);
        strategy::validate(kind, &key, &object)?;
        self.uids += 1;
        object["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{:012}", self.uids));
        object["metadata"]["creationTimestamp"] = json!(self.time);
        let ignored = strategy::restored(kind, Subresource::None);
        fields::record(None, &mut object, (writer, "", &self.time), ignored);
        self.store(kind, &key, object)
    }

    /// Replaces an object (PUT). One with a `resourceVersion` replaces that version only.
    ///
    /// # Errors
    /// 404 where there is none, 409 where it has another version or uid, 422 where it is invalid.
    pub fn replace(
        &mut self,
        kind: Kind,
        subresource: Subresource,
        object: Value,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        let key = Key::of(&object);
        let old = self.get(kind, &key)?;
        self.update(kind, (subresource, &key), &old, object, writer)
    }

    /// Patches an object: all of the patch, or nothing.
    ///
    /// # Errors
    /// 404 where there is none; 422 where a JSON Patch cannot be applied, or what comes of it is invalid;
    /// 409 where the patch sets another version or uid.
    pub fn patch(
        &mut self,
        kind: Kind,
        subresource: Subresource,
        key: &Key,
        patch: &PatchBody,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        let old = self.get(kind, key)?;
        let new = match patch {
            PatchBody::Json(patch) => json_patch::apply(&old, patch)?,
            PatchBody::Merge(patch) => {
                let mut new = (*old).clone();
                ::json_patch::merge(&mut new, patch);
                new
            }
        };
        self.update(kind, (subresource, key), &old, new, writer)
    }

    /// Deletes an object at once; with `uid`, that one only.
    ///
    /// # Errors
    /// 404 where there is none, 409 where it has another uid.
    pub fn delete(&mut self, kind: Kind, key: &Key, uid: Option<&str>) -> Result<(), Failure> {
        let old = self.get(kind, key)?;
        if uid.is_some_and(|uid| old["metadata"]["uid"] != uid) {
            return Err(Failure::conflict(kind, key, "the UID in the precondition does not match"));
        }
        self.store.put(kind, key, |_| None);
        Ok(())
    }

    fn update(
        &mut self,
        kind: Kind,
        (subresource, key): (Subresource, &Key),
        old: &Arc<Value>,
        mut new: Value,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        let version = &new["metadata"]["resourceVersion"];
        if !matches!(version.as_str(), None | Some(""))
            && *version != old["metadata"]["resourceVersion"]
        {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Failure::conflict(kind, key, why));
        }
        let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && old["metadata"]["uid"] != uid {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                old["metadata"]["uid"].as_str().unwrap_or_default()
            );
            return Err(Failure::conflict(kind, key, &why));
        }
        for field in ["uid", "creationTimestamp", "resourceVersion"] {
            new["metadata"][field] = old["metadata"][field].clone();
        }
        strategy::prepare_update(kind, subresource, old, &mut new);
        strategy::validate(kind, key, &new)?;
        let ignored = strategy::restored(kind, subresource);
        let write = (writer, subresource.name(), self.time.as_str());
        fields::record(Some(old), &mut new, write, ignored);
        if new == **old {
            return Ok(Arc::clone(old));
        }
        self.store(kind, key, new)
    }

    fn store(&mut self, kind: Kind, key: &Key, mut object: Value) -> Result<Arc<Value>, Failure> {
        self.store.put(kind, key, |version| {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            Some(object)
        });
        self.get(kind, key)
    }
}

/// The version that a list is of, and after which object it goes on.
fn read_token(token: &str) -> Result<(u64, Option<Key>), Failure> {
    let mut parts = token.splitn(3, '/');
    let version = parts.next().and_then(|version| version.parse().ok());
    match (version, parts.next(), parts.next()) {
        (Some(version), Some(namespace), Some(name)) => {
            Ok((version, Some(Key::namespaced(namespace, name))))
        }
        _ => Err(Failure::bad_request("continue key is not valid")),
    }
}
