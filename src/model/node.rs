//! The part of a Node that planning reads.
//!
//! A Node is about 13 KB of JSON, most of it images, conditions and managedFields. [`ApiNode`] drops that while
//! decoding; [`Node`] is what stays in memory. Of managedFields, it keeps only which field managers wrote the extended
//! resources.

mod conditions;
mod facts;
mod field_managers;
mod interner;
mod labels;
pub mod object;
mod resources;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::model::quantity::Quantity;
use crate::model::{ledger, resource_version};
pub use conditions::CONDITION_TYPE;
pub(crate) use conditions::{Conditions, First};
use facts::Facts;
pub use facts::{Fact, FactNames, NotRead};
#[cfg(test)]
pub(crate) use field_managers::heartbeats;
pub use field_managers::{FieldManager, ResourceManagers, UNKNOWN_MANAGER};
use field_managers::{FieldManagers, ManagedFields};
pub use interner::Interner;
pub use labels::Labels;
use resources::Capacity;
pub use resources::ResourceList;
pub(crate) use shape::Shape;

/// A Node from the API server, decoded without unused fields.
#[derive(Clone, Debug, kube::Resource)]
#[resource(inherit = k8s_openapi::api::core::v1::Node)]
pub struct ApiNode {
    kind: Option<Box<str>>,
    metadata: ObjectMeta,
    status: ApiNodeStatus,
    managers: Vec<ManagedFields>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiNodeStatus {
    capacity: Option<Capacity>,
    allocatable: Option<ResourceList>,
    conditions: Option<Conditions>,
    node_info: Option<NodeInfo>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo {
    #[serde(rename = "bootID")]
    boot_id: Option<Box<str>>,
}

impl ApiNode {
    fn new(kind: Option<Box<str>>, metadata: TrimmedMetadata, status: ApiNodeStatus) -> Self {
        // In a file it may be invalid, in which case the node counts as old.
        let created = metadata.creation_timestamp.and_then(|text| text.parse().ok());
        Self {
            kind,
            metadata: ObjectMeta {
                name: metadata.name,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                creation_timestamp: created.map(Time),
                labels: metadata.labels,
                annotations: metadata.annotations,
                ..ObjectMeta::default()
            },
            status,
            managers: metadata.managed_fields.unwrap_or_default(),
        }
    }

    /// Returns the kind of the object: a file may hold others too. Items of a list from the API server have none.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Returns the values of a resource in capacity and allocatable, as the API server wrote them.
    #[must_use]
    pub fn values(&self, resource: &str) -> [Option<&str>; 2] {
        let ApiNodeStatus { capacity, allocatable, .. } = &self.status;
        [capacity.as_ref().map(|capacity| &capacity.extended), allocatable.as_ref()].map(|map| map?.get(resource))
    }

    /// Returns the extended resources that the controller was the last to write, according to managedFields.
    #[must_use]
    pub fn own_resources(&self) -> Vec<String> {
        field_managers::own_resources(&self.managers)
    }

    /// Returns the field managers that write the node's heartbeats: its kubelet.
    pub fn kubelets(&self) -> impl Iterator<Item = &str> {
        field_managers::kubelets(&self.managers)
    }

    /// Returns the extended resources in capacity that its kubelet owns, alone or with others, each with its field
    /// manager.
    #[must_use]
    pub fn kubelet_resources(&self) -> BTreeMap<String, Arc<str>> {
        field_managers::kubelet_resources(&self.managers)
    }
}

impl<'de> Deserialize<'de> for ApiNode {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(expecting = "a Node")]
        struct Trimmed {
            kind: Option<Box<str>>,
            metadata: TrimmedMetadata,
            status: Option<ApiNodeStatus>,
        }

        let Trimmed { kind, metadata, status } = Trimmed::deserialize(decoder)?;
        Ok(Self::new(kind, metadata, status.unwrap_or_default()))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrimmedMetadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    managed_fields: Option<Vec<ManagedFields>>,
}

/// A Node in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.uid`: a node recreated under the same name has another one.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`
    pub resource_version: Box<str>,
    /// `metadata.creationTimestamp`
    pub created: Option<Timestamp>,
    /// `metadata.labels`
    pub labels: Labels,
    /// Whether `metadata.annotations` exists: a JSON Patch cannot add to an absent map.
    pub has_annotations: bool,
    /// The ledger's annotation, verbatim: patches test it.
    pub ledger: Option<Arc<str>>,
    /// `status.capacity`, or `None` if the map itself is absent.
    pub capacity: Option<ResourceList>,
    /// `status.allocatable`, or `None` if the map itself is absent.
    pub allocatable: Option<ResourceList>,
    /// `status.nodeInfo.bootID`, which differs after each boot; empty if none is reported.
    pub boot_id: Box<str>,
    /// The field managers of the extended resources.
    managers: FieldManagers,
    /// What rules read besides labels.
    facts: Facts,
    /// `status.conditions`, if it is to be kept, or holds the controller's condition.
    conditions: Option<Arc<Conditions>>,
}

impl Node {
    /// Reduces `node` to what planning needs; its labels share their strings with other nodes through `interner`.
    #[must_use]
    pub fn new(node: ApiNode, interner: &mut Interner) -> Self {
        let ApiNode { kind: _, metadata, status, managers } = node;
        let Interner { strings, labels, managers: lists, resources, facts, conditions, keeps_conditions } = interner;
        let managers = FieldManagers::new(&managers, strings, lists);
        let name = metadata.name.unwrap_or_default();
        let labels = Labels::new(&metadata.labels.unwrap_or_default(), &name, strings, labels);
        let has_annotations = metadata.annotations.is_some();
        let annotations = metadata.annotations.unwrap_or_default();
        let has_capacity = status.capacity.is_some();
        let Capacity { extended, native } = status.capacity.unwrap_or_default();
        let facts = Facts::new(facts, &annotations, &native, strings);
        let seen = status.conditions.unwrap_or_default();
        let conditions = (*keeps_conditions || seen.own.is_some()).then(|| conditions.intern(&seen));
        Self {
            name: name.into(),
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            created: metadata.creation_timestamp.map(|time| time.0),
            labels,
            has_annotations,
            ledger: annotations.get(ledger::ANNOTATION).map(|ledger| strings.intern(ledger.as_str())),
            capacity: has_capacity.then(|| extended.shared(resources)),
            allocatable: status.allocatable.map(|list| list.shared(resources)),
            boot_id: status.node_info.and_then(|info| info.boot_id).unwrap_or_default(),
            managers,
            facts,
            conditions,
        }
    }

    /// Returns what the node may share with others.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            ledger: self.ledger.clone(),
            capacity: self.capacity.clone(),
            allocatable: self.allocatable.clone(),
            managers: self.managers.clone(),
        }
    }

    /// Returns the conditions, if they are kept, or hold the controller's.
    pub(crate) fn conditions(&self) -> Option<&Conditions> {
        self.conditions.as_deref()
    }

    /// Returns the extended resources that are 0 in both maps.
    pub fn zeros(&self) -> impl Iterator<Item = &str> {
        let is_zero = |text: &str| text.parse::<Quantity>().is_ok_and(|amount| amount.is_zero());
        let capacity = self.capacity.iter().flat_map(ResourceList::iter);
        capacity.filter(move |(_, text)| is_zero(text)).map(|(name, _)| name).filter(move |name| {
            let allocatable = self.allocatable.as_ref().and_then(|map| map.get(name));
            allocatable.is_some_and(is_zero)
        })
    }

    /// Returns every extended resource with its quantities in capacity and allocatable.
    #[must_use]
    pub fn resources(&self) -> BTreeMap<&str, [Option<Quantity>; 2]> {
        let mut resources = BTreeMap::<_, [_; 2]>::new();
        for (place, map) in [&self.capacity, &self.allocatable].into_iter().enumerate() {
            for (name, quantity) in map.iter().flat_map(ResourceList::iter) {
                if let Some(value) = resources.entry(name).or_default().get_mut(place) {
                    *value = quantity.parse().ok();
                }
            }
        }
        resources
    }

    /// Returns the values of a resource in capacity and allocatable, as the API server wrote them.
    #[must_use]
    pub fn values(&self, resource: &str) -> [Option<&str>; 2] {
        [&self.capacity, &self.allocatable].map(|map| map.as_ref()?.get(resource))
    }

    /// Returns the value of a fact, if the node has one.
    ///
    /// # Errors
    /// If it was not to be kept when the node was read.
    pub fn fact(&self, fact: &Fact) -> Result<Option<&str>, NotRead> {
        self.facts.get(fact, &self.labels)
    }

    /// Returns the field managers of a resource, if managedFields name any.
    #[must_use]
    pub fn field_managers(&self, resource: &str) -> Option<&ResourceManagers> {
        self.managers.get(resource)
    }

    /// Returns whether a kubelet has written a value of the controller since `before`, and admission has kept the value: a
    /// kubelet that writes an equal one does not become its manager.
    pub(crate) fn kept_from_kubelet(&self, before: &Self) -> bool {
        let values = |node: &Self, resource: &str| {
            [&node.capacity, &node.allocatable].map(|map| map.as_ref()?.get(resource).map(str::to_owned))
        };
        let is_kept = |managers: &ResourceManagers| {
            let resource = managers.resource();
            managers.are_kubelets()
                && before.managers.get(resource).is_some_and(ResourceManagers::are_own)
                && values(self, resource) == values(before, resource)
        };
        self.managers != before.managers && self.managers.iter().any(is_kept)
    }

    /// Returns the last manager of a resource that is not the controller.
    #[must_use]
    pub fn other_manager(&self, resource: &str) -> Option<&FieldManager> {
        self.managers.get(resource)?.last([true, true]).filter(|manager| !manager.is_own())
    }

    /// Returns the resource version as a number.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        resource_version::number(&self.resource_version)
    }

    /// Returns whether this state of the node precedes `other`. A state without a version is never older.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        match (self.version(), other.version()) {
            (Some(this), Some(other)) => this < other,
            _ => false,
        }
    }

    /// Returns whether rules select `other` as they select this node, and declare the same quantities for both.
    #[must_use]
    pub fn same_for_rules(&self, other: &Self) -> bool {
        self.name == other.name && self.labels == other.labels && self.facts == other.facts
    }

    /// Returns whether `other` gives the same plan: only the resource version and the boot may differ.
    #[must_use]
    pub fn same_for_planning(&self, other: &Self) -> bool {
        let Self {
            name,
            uid,
            resource_version: _,
            boot_id: _,
            created,
            labels,
            has_annotations,
            ledger,
            capacity,
            allocatable,
            managers,
            facts,
            conditions,
        } = self;
        *name == other.name
            && *uid == other.uid
            && *created == other.created
            && *labels == other.labels
            && *has_annotations == other.has_annotations
            && *ledger == other.ledger
            && *capacity == other.capacity
            && *allocatable == other.allocatable
            && managers.same_for_planning(&other.managers)
            && *facts == other.facts
            && match (conditions, &other.conditions) {
                (Some(this), Some(other)) => Arc::ptr_eq(this, other) || this.same_for_planning(other),
                (this, other) => this.is_none() == other.is_none(),
            }
    }
}

#[cfg(test)]
mod tests;
