//! The field managers of a node's extended resources, and which of them is the node's kubelet.
//!
//! Of managedFields, some kilobytes on each node, this keeps two managers per extended resource. Nodes of one kind share
//! one list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::model::api::FIELD_MANAGER;
use crate::model::pool::Pool;
use crate::model::resource_name;

/// The name in messages if managedFields name no manager.
pub const UNKNOWN_MANAGER: &str = "an unknown field manager";

/// The writer in messages if a recorded value differs although the controller itself is its manager: managedFields are
/// computed before admission, and do not record who edits an annotation's text.
const CHANGED_SINCE: &str = "admission, or an edit of the annotation";

/// An entry of managedFields, reduced to resources and heartbeats. Decoding all of it would take longer than the rest of
/// the Node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagedFields {
    manager: Option<Box<str>>,
    subresource: Option<Box<str>>,
    /// In RFC 3339, in UTC and whole seconds, so that later times compare greater.
    time: Option<Box<str>>,
    fields_v1: Option<Fields>,
}

#[derive(Clone, Debug, Deserialize)]
struct Fields {
    #[serde(rename = "f:status")]
    status: Option<StatusFields>,
}

#[derive(Clone, Debug, Deserialize)]
struct StatusFields {
    #[serde(rename = "f:capacity")]
    capacity: Option<BTreeMap<Box<str>, IgnoredAny>>,
    #[serde(rename = "f:allocatable")]
    allocatable: Option<BTreeMap<Box<str>, IgnoredAny>>,
    #[serde(rename = "f:conditions")]
    conditions: Option<ConditionFields>,
}

#[derive(Clone, Debug, Deserialize)]
struct ConditionFields {
    #[serde(rename = r#"k:{"type":"Ready"}"#)]
    ready: Option<ReadyFields>,
}

#[derive(Clone, Debug, Deserialize)]
struct ReadyFields {
    #[serde(rename = "f:lastHeartbeatTime")]
    heartbeat: Option<IgnoredAny>,
}

impl ManagedFields {
    fn name(&self) -> &str {
        self.manager.as_deref().unwrap_or_default()
    }

    fn status(&self) -> Option<&StatusFields> {
        self.fields_v1.as_ref()?.status.as_ref()
    }

    /// Returns whether this manager writes the node's heartbeats, as its kubelet does: under the name `kubelet`, or
    /// that of the program that it is a part of, such as k3s, kubelite or hollow-kubelet. Other conditions have other
    /// writers, such as node-problem-detector, and the cloud provider's controller writes no heartbeat.
    fn is_kubelet(&self) -> bool {
        let ready = || self.status()?.conditions.as_ref()?.ready.as_ref()?.heartbeat.as_ref();
        self.subresource.as_deref() == Some("status") && !self.name().is_empty() && ready().is_some()
    }

    /// Returns the extended resources that this manager owns, in capacity and in allocatable.
    fn resources(&self) -> [impl Iterator<Item = &str>; 2] {
        let status = self.status();
        let capacity = status.and_then(|status| status.capacity.as_ref());
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        [capacity, allocatable].map(|map| {
            let fields = map.into_iter().flat_map(BTreeMap::keys);
            let names = fields.filter_map(|field| field.strip_prefix("f:"));
            names.filter(|name| resource_name::is_extended(name))
        })
    }
}

/// Returns the extended resources of which the controller owns a value, in either map.
pub(super) fn own_resources(entries: &[ManagedFields]) -> Vec<String> {
    let own = entries.iter().filter(|entry| entry.name() == FIELD_MANAGER);
    let own: BTreeSet<_> = own.flat_map(|entry| entry.resources().into_iter().flatten()).collect();
    own.into_iter().map(str::to_owned).collect()
}

/// Returns the names of the node's kubelets: one, unless another manager applies the same heartbeat.
pub(super) fn kubelets(entries: &[ManagedFields]) -> impl Iterator<Item = &str> {
    entries.iter().filter(|entry| entry.is_kubelet()).map(ManagedFields::name)
}

/// Returns the extended resources in capacity that a kubelet owns, alone or with others, each with its name.
pub(super) fn kubelet_resources(entries: &[ManagedFields]) -> BTreeMap<String, Arc<str>> {
    let mut resources = BTreeMap::new();
    for entry in entries.iter().filter(|entry| kubelets(entries).any(|name| name == entry.name())) {
        let [capacity, _] = entry.resources();
        resources.extend(capacity.map(|resource| (resource.to_owned(), entry.name().into())));
    }
    resources
}

/// A field manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldManager {
    name: Arc<str>,
    role: Role,
}

/// The program behind a field manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// This controller.
    Own,
    /// The node's kubelet.
    Kubelet,
    Other,
}

impl FieldManager {
    fn new(name: Arc<str>, is_kubelet: bool) -> Self {
        let role = match is_kubelet {
            _ if *name == *FIELD_MANAGER => Role::Own,
            true => Role::Kubelet,
            false => Role::Other,
        };
        Self { name, role }
    }

    /// Returns its name in managedFields.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns whether it is this controller.
    pub(crate) fn is_own(&self) -> bool {
        self.role == Role::Own
    }

    /// Returns whether it is the kubelet of the node.
    #[must_use]
    pub fn is_kubelet(&self) -> bool {
        self.role == Role::Kubelet
    }

    /// Returns how messages name the manager of a value.
    #[must_use]
    pub fn display(manager: Option<&Self>) -> &str {
        manager.map_or(UNKNOWN_MANAGER, |manager| &manager.name)
    }

    /// Returns how messages name the writer of a value that differs from the ledger's.
    #[must_use]
    pub fn display_changed(manager: Option<&Self>) -> &str {
        match manager {
            Some(Self { role: Role::Own, .. }) => CHANGED_SINCE,
            manager => Self::display(manager),
        }
    }

    /// Returns a manager that is no kubelet and not the controller, for tests.
    #[cfg(test)]
    pub(crate) fn other(name: &str) -> Self {
        Self { name: name.into(), role: Role::Other }
    }

    /// Returns a node's kubelet, for tests.
    #[cfg(test)]
    pub(crate) fn kubelet(name: &str) -> Self {
        Self { name: name.into(), role: Role::Kubelet }
    }
}

impl fmt::Display for FieldManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The field managers of a node's extended resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManagers(Arc<[ResourceManagers]>);

/// The field managers of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceManagers {
    resource: Arc<str>,
    /// The manager of its value in capacity. If several managers own it, as server-side apply allows, the last one that
    /// is not the controller.
    capacity: Option<FieldManager>,
    /// The manager of its value in allocatable, likewise.
    allocatable: Option<FieldManager>,
    /// Whether that manager wrote after the manager of capacity. The time of an entry is that of the manager's last
    /// change to any field, so this is a guess if both write often.
    allocatable_is_newer: bool,
}

/// A manager of a field. The greatest of several is the one to report: managers other than the controller are greater,
/// and then later ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Writer<'a> {
    is_other: bool,
    time: Option<&'a str>,
    name: &'a str,
}

impl FieldManagers {
    pub(super) fn new(entries: &[ManagedFields], names: &mut Pool<str>, lists: &mut Pool<[ResourceManagers]>) -> Self {
        let mut writers = BTreeMap::<&str, [Option<Writer<'_>>; 2]>::new();
        for entry in entries {
            let name = entry.name();
            let is_other = name != FIELD_MANAGER;
            let writer = Some(Writer { is_other, time: entry.time.as_deref(), name });
            for (map, resources) in entry.resources().into_iter().enumerate() {
                for resource in resources {
                    let [capacity, allocatable] = writers.entry(resource).or_default();
                    let last = if map == 0 { capacity } else { allocatable };
                    *last = writer.max(*last);
                }
            }
        }
        let list = writers.into_iter().map(|(resource, [capacity, allocatable])| {
            let [before, after] = [capacity, allocatable].map(|writer| writer.and_then(|writer| writer.time));
            let [capacity, allocatable] = [capacity, allocatable].map(|writer| {
                let Writer { name, .. } = writer?;
                Some(FieldManager::new(names.intern(name), kubelets(entries).any(|kubelet| kubelet == name)))
            });
            let resource = names.intern(resource);
            ResourceManagers { resource, capacity, allocatable, allocatable_is_newer: after > before }
        });
        Self(lists.intern(&list.collect::<Vec<_>>()))
    }

    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ResourceManagers> {
        self.0.iter()
    }

    /// Returns the managers of a resource, if managedFields name any.
    #[must_use]
    pub fn get(&self, resource: &str) -> Option<&ResourceManagers> {
        let place = self.0.binary_search_by(|managers| (*managers.resource).cmp(resource)).ok()?;
        self.0.get(place)
    }

    /// Returns whether `other` names the same managers, at any time.
    #[must_use]
    pub fn same_for_planning(&self, other: &Self) -> bool {
        let names = |managers: &ResourceManagers| {
            let ResourceManagers { resource, capacity, allocatable, .. } = managers.clone();
            (resource, capacity, allocatable)
        };
        Arc::ptr_eq(&self.0, &other.0) || self.0.iter().map(names).eq(other.0.iter().map(names))
    }
}

impl ResourceManagers {
    pub(super) fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns whether the controller, and no other manager, owns the value in both maps.
    #[must_use]
    pub fn are_own(&self) -> bool {
        self.all(|role| role == Role::Own)
    }

    /// Returns whether a kubelet was the last to write the value in both maps.
    #[must_use]
    pub fn are_kubelets(&self) -> bool {
        self.all(|role| role == Role::Kubelet)
    }

    /// Returns whether the value in each map is the controller's or a kubelet's.
    #[must_use]
    pub fn are_own_or_kubelets(&self) -> bool {
        self.all(|role| role != Role::Other)
    }

    fn all(&self, is: impl Fn(Role) -> bool) -> bool {
        [&self.capacity, &self.allocatable].into_iter().all(|manager| manager.as_ref().is_some_and(|one| is(one.role)))
    }

    /// Returns the manager responsible for the value in the chosen ones of the two maps.
    #[must_use]
    pub fn last(&self, [in_capacity, in_allocatable]: [bool; 2]) -> Option<&FieldManager> {
        let capacity = self.capacity.as_ref().filter(|_| in_capacity);
        let allocatable = self.allocatable.as_ref().filter(|_| in_allocatable);
        let (Some(one), Some(other)) = (capacity, allocatable) else {
            return capacity.or(allocatable);
        };
        // A kubelet copies to allocatable what another manager writes to capacity.
        let is_copy = other.is_kubelet();
        let allocatable_decides = one.is_own() || (!other.is_own() && !is_copy && self.allocatable_is_newer);
        Some(if allocatable_decides { other } else { one })
    }
}

/// Returns an entry of managedFields in which a kubelet of this name writes heartbeats.
#[cfg(test)]
pub(crate) fn heartbeats(kubelet: &str) -> serde_json::Value {
    let ready = serde_json::json!({".": {}, "f:lastHeartbeatTime": {}, "f:status": {}});
    serde_json::json!({
        "manager": kubelet, "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:conditions": {r#"k:{"type":"Ready"}"#: ready}}},
    })
}

#[cfg(test)]
mod tests;
