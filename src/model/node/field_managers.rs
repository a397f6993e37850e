//! The field managers of a node's extended resources.
//!
//! Of managedFields, some kilobytes on each node, this keeps two names per extended resource. Nodes of one kind share
//! one list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::pool::Pool;
use crate::model::api::FIELD_MANAGER;
use crate::model::resource_name;

/// The name in messages if managedFields name no manager.
pub const UNKNOWN_MANAGER: &str = "an unknown field manager";

/// The field manager of kubelets.
pub const KUBELET: &str = "kubelet";

/// An entry of managedFields, reduced to resources. Decoding all of it would take longer than the rest of the Node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagedFields {
    manager: Option<Box<str>>,
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
}

impl ManagedFields {
    fn name(&self) -> &str {
        self.manager.as_deref().unwrap_or_default()
    }

    /// Returns the extended resources that this manager owns, in capacity and in allocatable.
    fn resources(&self) -> [impl Iterator<Item = &str>; 2] {
        let status = self.fields_v1.as_ref().and_then(|fields| fields.status.as_ref());
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

/// The field managers of a node's extended resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManagers(Arc<[ResourceManagers]>);

/// The field managers of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceManagers {
    resource: Arc<str>,
    /// The manager of its value in capacity. If several managers own it, as server-side apply allows, the last one that
    /// is not the controller.
    capacity: Option<Arc<str>>,
    /// The manager of its value in allocatable, likewise.
    allocatable: Option<Arc<str>>,
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
            let [capacity, allocatable] =
                [capacity, allocatable].map(|writer| writer.map(|writer| names.intern(writer.name)));
            let resource = names.intern(resource);
            ResourceManagers { resource, capacity, allocatable, allocatable_is_newer: after > before }
        });
        Self(lists.intern(&list.collect::<Vec<_>>()))
    }

    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns the managers of a resource, if managedFields name any.
    #[must_use]
    pub fn get(&self, resource: &str) -> Option<&ResourceManagers> {
        self.0.iter().find(|managers| &*managers.resource == resource)
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
    /// Returns whether the controller, and no other manager, owns the value in both maps.
    #[must_use]
    pub fn are_own(&self) -> bool {
        self.are(FIELD_MANAGER)
    }

    /// Returns whether the value in each map is the controller's or a kubelet's.
    #[must_use]
    pub fn are_own_or_kubelet(&self) -> bool {
        let is = |manager: &Option<Arc<str>>| {
            manager.as_deref().is_some_and(|manager| [FIELD_MANAGER, KUBELET].contains(&manager))
        };
        is(&self.capacity) && is(&self.allocatable)
    }

    /// Returns whether this manager was the last to write the value in both maps.
    #[must_use]
    pub fn are(&self, manager: &str) -> bool {
        let is = |other: &Option<Arc<str>>| other.as_deref() == Some(manager);
        is(&self.capacity) && is(&self.allocatable)
    }

    /// Returns the manager responsible for the value in one of the maps, or in both.
    #[must_use]
    pub fn last(&self, in_capacity: bool, in_allocatable: bool) -> Option<&Arc<str>> {
        let capacity = self.capacity.as_ref().filter(|_| in_capacity);
        let allocatable = self.allocatable.as_ref().filter(|_| in_allocatable);
        let (Some(one), Some(other)) = (capacity, allocatable) else {
            return capacity.or(allocatable);
        };
        // A kubelet copies to allocatable what another manager writes to capacity.
        let is_copy = **other == *KUBELET;
        let allocatable_decides = is_own(one) || (!is_own(other) && !is_copy && self.allocatable_is_newer);
        Some(if allocatable_decides { other } else { one })
    }
}

fn is_own(manager: &Arc<str>) -> bool {
    **manager == *FIELD_MANAGER
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OWN: &str = FIELD_MANAGER;

    /// Each entry is a manager, the second in which it wrote, and the maps in which it has the dongle.
    fn managers(entries: &[(&str, u32, &[&str])]) -> FieldManagers {
        let entries = entries.iter().map(|(manager, second, maps)| {
            let maps = maps.iter().map(|map| (format!("f:{map}"), json!({"f:example.com/a": {}})));
            json!({
                "manager": manager, "operation": "Update", "subresource": "status",
                "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": maps.collect::<serde_json::Map<_, _>>()},
            })
        });
        read(Value::Array(entries.collect()))
    }

    fn read(entries: Value) -> FieldManagers {
        let entries: Vec<ManagedFields> = serde_json::from_value(entries).unwrap();
        FieldManagers::new(&entries, &mut Pool::default(), &mut Pool::default())
    }

    fn named(managers: &FieldManagers) -> Option<&str> {
        managers.get("example.com/a")?.last(true, true).map(|manager| &**manager)
    }

    const BOTH: &[&str] = &["capacity", "allocatable"];
    const CAPACITY: &[&str] = &["capacity"];
    const ALLOCATABLE: &[&str] = &["allocatable"];

    #[test]
    fn value_is_own_only_with_no_other_manager_in_either_map() {
        let are_own = |managers: &FieldManagers| managers.get("example.com/a").is_some_and(ResourceManagers::are_own);
        assert!(are_own(&managers(&[("kubelet", 9, &[]), (OWN, 1, BOTH)])));
        for other in [BOTH, CAPACITY, ALLOCATABLE] {
            // Co-owned by server-side apply, however long ago.
            let managers = managers(&[("helm", 0, other), (OWN, 1, BOTH)]);
            assert!(!are_own(&managers), "{other:?}");
            assert_eq!(named(&managers), Some("helm"), "{other:?}");
        }
        for one in [CAPACITY, ALLOCATABLE] {
            assert!(!are_own(&managers(&[(OWN, 1, one)])), "{one:?}");
        }
        assert!(!are_own(&managers(&[])));
    }

    #[test]
    fn named_manager_is_the_one_that_answers_for_the_value() {
        for (entries, name) in [
            // A person writes capacity, and the kubelet copies it.
            ([("kubectl", 1, CAPACITY), ("kubelet", 2, ALLOCATABLE)], "kubectl"),
            ([("kubelet", 1, CAPACITY), ("kubectl", 2, ALLOCATABLE)], "kubectl"),
            // managedFields are sorted with the oldest first.
            ([("nfd", 1, CAPACITY), ("kubectl", 2, ALLOCATABLE)], "kubectl"),
            ([("nfd", 1, ALLOCATABLE), ("kubectl", 2, CAPACITY)], "kubectl"),
            ([(OWN, 2, ALLOCATABLE), ("kubectl", 1, CAPACITY)], "kubectl"),
            ([(OWN, 2, CAPACITY), ("kubelet", 1, ALLOCATABLE)], "kubelet"),
            // Two appliers of one field.
            ([("argocd", 2, BOTH), ("flux", 1, BOTH)], "argocd"),
            ([("argocd", 1, BOTH), ("flux", 2, BOTH)], "flux"),
        ] {
            assert_eq!(named(&managers(&entries)), Some(name), "{entries:?}");
        }
        let both = managers(&[("nfd", 1, CAPACITY), ("kubectl", 2, ALLOCATABLE)]);
        let both = both.get("example.com/a").unwrap();
        assert_eq!(both.last(true, false).map(|name| &**name), Some("nfd"));
        assert_eq!(both.last(false, false), None);
    }

    #[test]
    fn managers_compare_without_their_times() {
        let at = |second| managers(&[("nfd", 5, CAPACITY), ("kubectl", second, ALLOCATABLE)]);
        assert!(at(1).same_for_planning(&at(9)));
        assert!(!at(1).same_for_planning(&managers(&[("nfd", 5, BOTH)])));
    }

    #[test]
    fn incomplete_entries_name_no_manager() {
        for entry in [
            json!({}),
            json!({"manager": null, "time": null, "fieldsV1": null}),
            json!({"manager": OWN, "fieldsV1": {"f:status": null}}),
            json!({"manager": OWN, "fieldsV1": {"f:status": {"f:capacity": null}}}),
            json!({"manager": OWN, "fieldsV1": {"f:status": {"f:capacity": {".": {}, "f:cpu": {}}}}}),
            json!({"manager": OWN, "fieldsType": "FieldsV2", "fieldsV2": "x"}),
        ] {
            assert_eq!(named(&read(json!([entry.clone()]))), None, "{entry}");
        }
    }

    #[test]
    fn nodes_of_one_kind_share_one_list() {
        let entries = json!([{"manager": OWN, "fieldsV1": {"f:status": {"f:capacity": {"f:example.com/a": {}}}}}]);
        let entries: Vec<ManagedFields> = serde_json::from_value(entries).unwrap();
        let (mut names, mut lists) = (Pool::default(), Pool::default());
        let mut new = || FieldManagers::new(&entries, &mut names, &mut lists);
        assert!(Arc::ptr_eq(&new().0, &new().0));
    }
}
