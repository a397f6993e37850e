//! The API server: reads, lists, watches and writes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::checks::{check_name, check_uid, decode, text};
use crate::failure::{Failure, invalid_value};
use crate::kind::{Key, Kind};
use crate::selector::Selector;
use crate::store::Store;
use crate::watch::{Watch, WatchEvent};
use crate::{fields, json_patch, strategy};

/// An API server and its store. A clone is an independent server with the same history.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(crate) store: Store,
    /// The time for objects, in RFC 3339.
    time: String,
    uids: u64,
    /// Whether the server reads from a watch cache, as by default.
    pub(crate) has_watch_cache: bool,
}

/// A writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The field manager.
    pub manager: String,
}

impl Writer {
    /// Returns a writer with this field manager.
    pub fn new(manager: impl Into<String>) -> Self {
        Self { manager: manager.into() }
    }
}

/// The part of an object that a request concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself, without write access to `status`.
    None,
    /// `status`; besides it only metadata can be written, and nothing for custom resources.
    Status,
    /// `binding` of a pod, which sets its node.
    Binding,
}

impl Subresource {
    fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Status => "status",
            Self::Binding => "binding",
        }
    }
}

/// The body of a PATCH.
#[derive(Clone, Debug)]
pub enum PatchBody {
    /// `application/json-patch+json`.
    Json(Value),
    /// `application/merge-patch+json`.
    Merge(Value),
}

impl Default for ApiServer {
    fn default() -> Self {
        Self { store: Store::default(), time: "2026-01-01T00:00:00Z".to_owned(), uids: 0, has_watch_cache: true }
    }
}

impl ApiServer {
    /// Returns a server started with `--watch-cache=false`.
    #[must_use]
    pub fn without_watch_cache() -> Self {
        Self { has_watch_cache: false, ..Self::default() }
    }

    /// Sets the time for objects: RFC 3339, in seconds.
    pub fn set_time(&mut self, time: impl Into<String>) {
        self.time = time.into();
    }

    /// Returns the version of the last write.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.store.version()
    }

    /// Compacts the history before a version.
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

    /// Begins a watch of writes after a version. Its events report errors.
    #[must_use]
    pub fn watch(&self, kind: Kind, selector: Selector, after: u64) -> Watch {
        Watch::new(kind, selector, after)
    }

    /// Returns the next event of a watch, if any.
    pub fn next_event(&self, watch: &mut Watch) -> Option<WatchEvent> {
        watch.next(&self.store, self.has_watch_cache)
    }

    /// Returns a bookmark if a watch has shown everything.
    pub fn bookmark(&self, watch: &mut Watch) -> Option<WatchEvent> {
        watch.bookmark(&self.store)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// 409 if the object exists; 422 if it is invalid.
    pub fn create(&mut self, kind: Kind, mut object: Value, writer: &Writer) -> Result<Arc<Value>, Failure> {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        let key = Key::of(&object);
        decode(kind, &mut object)?;
        self.create_decoded(kind, &key, object, writer)
    }

    fn create_decoded(
        &mut self,
        kind: Kind,
        key: &Key,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        let ignored = strategy::restored(kind, Subresource::None);
        fields::record(None, &mut object, (writer, "", &self.time), ignored);
        strategy::prepare_create(kind, &mut object);
        strategy::validate(kind, key, &object, None)?;
        if self.store.get(kind, key).is_some() {
            return Err(Failure::already_exists(kind, key));
        }
        self.uids += 1;
        object["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{:012}", self.uids));
        object["metadata"]["creationTimestamp"] = json!(self.time);
        let is_defaulted = strategy::default_on_read(kind, &mut object);
        self.store.set_defaulted(kind, key, is_defaulted);
        self.store(kind, key, object)
    }

    /// Binds a pod to a node, which need not exist.
    ///
    /// # Errors
    /// 404 if there is no pod; 409 if it is bound.
    pub fn bind(&mut self, key: &Key, node: &str) -> Result<(), Failure> {
        let old = self.get(Kind::Pod, key)?;
        if let Some(other) = old["spec"]["nodeName"].as_str() {
            return Err(Failure::bound(key, other));
        }
        let mut pod = (*old).clone();
        pod["spec"]["nodeName"] = json!(node);
        self.store(Kind::Pod, key, pod).map(drop)
    }

    /// Replaces an object (PUT). With a `resourceVersion`, replaces only that version. A missing Lease or Event is
    /// created.
    ///
    /// # Errors
    /// 404 if there is no object, 409 if it has another version or uid, 422 if the new one is invalid.
    pub fn replace(
        &mut self,
        kind: Kind,
        subresource: Subresource,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        let key = Key::of(&object);
        decode(kind, &mut object)?;
        let old = match self.get(kind, &key) {
            Err(_) if strategy::creates_on_update(kind) => {
                check_uid(kind, &key, &object, "")?;
                return self.create_decoded(kind, &key, object, writer);
            }
            old => old?,
        };
        check_uid(kind, &key, &object, text(&old, "uid"))?;
        let new = self.updated(kind, (subresource, &key), &old, object, writer)?;
        self.store_changed(kind, &key, &old, new)
    }

    /// Patches an object, completely or not at all.
    ///
    /// # Errors
    /// 404 if there is no object; 422 if a JSON Patch cannot be applied, or its result is invalid; 409 if the patch
    /// sets another version or uid.
    pub fn patch(
        &mut self,
        kind: Kind,
        subresource: Subresource,
        key: &Key,
        patch: &PatchBody,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        let (old, new) = self.patched(kind, (subresource, key), patch, writer)?;
        self.store_changed(kind, key, &old, new)
    }

    /// Returns the result of a patch without storing it (`dryRun=All`).
    ///
    /// # Errors
    /// Those of [`patch`](Self::patch).
    pub fn dry_run_patch(
        &self,
        kind: Kind,
        subresource: Subresource,
        key: &Key,
        patch: &PatchBody,
        writer: &Writer,
    ) -> Result<Arc<Value>, Failure> {
        let (_, mut new) = self.patched(kind, (subresource, key), patch, writer)?;
        strategy::default_on_read(kind, &mut new);
        Ok(Arc::new(new))
    }

    fn patched(
        &self,
        kind: Kind,
        (subresource, key): (Subresource, &Key),
        patch: &PatchBody,
        writer: &Writer,
    ) -> Result<(Arc<Value>, Value), Failure> {
        let old = self.get(kind, key)?;
        let new = match patch {
            PatchBody::Json(patch) => json_patch::apply(&old, patch)?,
            PatchBody::Merge(patch) => {
                let mut new = (*old).clone();
                ::json_patch::merge(&mut new, patch);
                new
            }
        };
        let mut decoded = new.clone();
        // The patch may result in no object, or in one with another name.
        strategy::decode(kind, &mut decoded).map_err(|why| Failure::unreadable(&new, &why))?;
        check_name(key, &decoded)?;
        let new = self.updated(kind, (subresource, key), &old, decoded, writer)?;
        Ok((old, new))
    }

    /// Deletes an object at once; with `uid`, that one only.
    ///
    /// # Errors
    /// 404 if there is no object, 409 if it has another uid.
    pub fn delete(&mut self, kind: Kind, key: &Key, uid: Option<&str>) -> Result<(), Failure> {
        let old = self.get(kind, key)?;
        if let Some(uid) = uid.filter(|uid| old["metadata"]["uid"] != **uid) {
            return Err(Failure::deleted_other(kind, key, uid, text(&old, "uid")));
        }
        if kind == Kind::Pod {
            // Pods are first marked as deleted, even without a grace period.
            let mut marked = (*old).clone();
            let generation = marked["metadata"]["generation"].as_u64().unwrap_or(0);
            marked["metadata"]["generation"] = json!(generation + 1);
            marked["metadata"]["deletionTimestamp"] = json!(self.time);
            marked["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            self.store(kind, key, marked)?;
        }
        self.store.set_defaulted(kind, key, false);
        self.store.put(kind, key, |_| None);
        Ok(())
    }

    /// Returns the result of a write.
    fn updated(
        &self,
        kind: Kind,
        (subresource, key): (Subresource, &Key),
        old: &Arc<Value>,
        mut new: Value,
        writer: &Writer,
    ) -> Result<Value, Failure> {
        let version = text(&new, "resourceVersion");
        if version.is_empty() && !strategy::updates_unconditionally(kind) {
            let why = "must be specified for an update";
            let cause = invalid_value("metadata.resourceVersion", &json!(0), why);
            return Err(Failure::invalid_resource(kind, key, &[cause]));
        }
        if !version.is_empty() && version.parse::<u64>().is_err() {
            return Err(Failure::unreadable_version(version));
        }
        if !version.is_empty() && version != text(old, "resourceVersion") {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Failure::conflict(kind, key, why));
        }
        let uid = text(&new, "uid");
        if uid.is_empty() {
            new["metadata"]["uid"] = old["metadata"]["uid"].clone();
        }
        for field in ["creationTimestamp", "resourceVersion"] {
            new["metadata"][field] = old["metadata"][field].clone();
        }
        let ignored = strategy::restored(kind, subresource);
        let write = (writer, subresource.name(), self.time.as_str());
        fields::record(Some(old), &mut new, write, ignored);
        strategy::prepare_update(kind, subresource, old, &mut new);
        strategy::validate(kind, key, &new, Some(old))?;
        Ok(new)
    }

    /// Stores an object if it has changed.
    fn store_changed(
        &mut self,
        kind: Kind,
        key: &Key,
        old: &Arc<Value>,
        mut new: Value,
    ) -> Result<Arc<Value>, Failure> {
        let is_defaulted = strategy::default_on_read(kind, &mut new);
        // The server compares the new object with the stored one. A server with a cache first compares it with the
        // cached object, which has the defaults, and stops there if they are equal.
        let is_stored = !(is_defaulted && self.has_watch_cache) && is_defaulted == self.store.is_defaulted(kind, key);
        if is_stored && new == **old {
            return Ok(Arc::clone(old));
        }
        self.store.set_defaulted(kind, key, is_defaulted);
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
