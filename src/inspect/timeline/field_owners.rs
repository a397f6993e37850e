//! managedFields: which field manager owns which fields, and when it last wrote.
//!
//! An entry has one time: that of the manager's last change to anything it owns. So it says who wrote a field, and a
//! moment after which the manager has not written it again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value};

use crate::model::node::UNKNOWN_MANAGER;

/// An entry of managedFields.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a>(&'a ManagedFieldsEntry);

/// Returns the entries of an object.
pub(crate) fn owners(metadata: &ObjectMeta) -> impl Iterator<Item = Owner<'_>> {
    metadata.managed_fields.iter().flatten().map(Owner)
}

/// Returns the manager of a field; the last to write, if there are several.
pub(super) fn of_field(metadata: &ObjectMeta, path: &[&str]) -> Option<String> {
    let owning = owners(metadata).filter(|owner| owner.field(path).is_some());
    let last = owning.max_by_key(|owner| owner.0.time.as_ref().map(|time| time.0))?;
    last.0.manager.clone()
}

impl<'a> Owner<'a> {
    pub(crate) fn name(self) -> &'a str {
        self.0.manager.as_deref().unwrap_or(UNKNOWN_MANAGER)
    }

    pub(crate) fn entry(self) -> &'a ManagedFieldsEntry {
        self.0
    }

    pub(super) fn writes_status(self) -> bool {
        self.0.subresource.as_deref() == Some("status")
    }

    /// Returns the fields below a path, such as `["f:status", "f:capacity"]`.
    pub(crate) fn field(self, path: &[&str]) -> Option<&'a Value> {
        let fields = &self.0.fields_v1.as_ref()?.0;
        path.iter().try_fold(fields, |fields, key| fields.get(key))
    }

    /// Returns the names of the fields below a path, in order.
    pub(super) fn names(self, path: &[&str]) -> impl Iterator<Item = &'a str> {
        let keys = self.field(path).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        keys.filter_map(|key| key.strip_prefix("f:"))
    }

    /// Returns what the manager last did, as far as the entry says it.
    pub(super) fn last_write(self) -> String {
        let part = if self.writes_status() { " the status" } else { "" };
        let how = if self.0.operation.as_deref() == Some("Apply") { " by server-side apply" } else { "" };
        format!("last wrote{part}{how}")
    }
}
