//! Which values can be adopted, and why the others cannot. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::snapshot::{Entry, Snapshot};
use crate::inspect::diff::label_filter::LabelFilter;
use crate::model::api::DeletionPolicy;
use crate::model::quantity::{MAX_QUANTITY, Quantity};
use crate::model::resource_name::ResourceName;

/// Selects the values to adopt. An empty list selects all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) labels: LabelFilter,
    pub(crate) resources: Vec<ResourceName>,
    pub(crate) managers: Vec<String>,
}

/// The values of the selected nodes.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// What can be adopted, by resource and quantity.
    pub(crate) groups: BTreeMap<(Arc<str>, Quantity), Group>,
    /// What cannot, by resource, and the nodes.
    pub(crate) left_out: BTreeMap<(String, Cause), Vec<usize>>,
    /// The managers of what could be adopted but is not selected.
    pub(crate) other_managers: BTreeSet<Arc<str>>,
}

/// The nodes that have one quantity of a resource.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// As indices into the snapshot's nodes, in their order.
    pub(crate) nodes: Vec<usize>,
    /// The field managers of the values in capacity, which a kubelet copies to allocatable.
    pub(crate) managers: BTreeSet<Arc<str>>,
    /// Whether some value is not the controller's own, which it adopts without being asked to overwrite it.
    pub(crate) has_foreign: bool,
    /// Whether Node Feature Discovery lists some value as its own.
    pub(crate) is_of_nfd: bool,
    /// Whether Gardener lists some value as its own.
    pub(crate) is_of_gardener: bool,
}

/// Why a value is not adopted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// No rule can declare the name, for this reason.
    Name(String),
    /// The ledger lists it for this rule.
    Listed(String),
    /// The ledger lists it for this rule, which does not exist.
    Orphan(String),
    /// The same, and the value stays when the controller removes the entry.
    Retained(String),
    /// This rule declares it.
    Declared(Arc<str>),
    /// The ledger of the node cannot be read.
    Ledger,
    /// This DeviceClass maps it.
    DeviceClass(String),
    Zero,
    /// Capacity and allocatable are different, or are no numbers.
    Unequal(String),
    Fraction(String),
    TooLarge(String),
    /// This kubelet has written it, perhaps before others.
    DevicePlugin(Arc<str>),
    /// managedFields name no manager.
    UnknownManager,
}

impl Survey {
    /// Looks at every extended resource of the selected nodes.
    pub(crate) fn new(snapshot: &Snapshot, filter: &Filter) -> Self {
        let mut survey = Self::default();
        for (place, entry) in snapshot.nodes.iter().enumerate() {
            if !filter.labels.matches(&labels(entry)) {
                continue;
            }
            if filter.resources.is_empty() {
                for name in &entry.odd {
                    let why = ResourceName::parse(name).err().map(|why| why.to_string()).unwrap_or_default();
                    survey.leave_out(name, Cause::Name(why), place);
                }
            }
            for (resource, values) in entry.node.resources() {
                if filter.resources.is_empty() || filter.resources.iter().any(|name| name.as_str() == resource) {
                    survey.take(snapshot, filter, (place, entry), resource, values);
                }
            }
        }
        survey
    }

    fn take(
        &mut self,
        snapshot: &Snapshot,
        filter: &Filter,
        (place, entry): (usize, &Entry),
        resource: &str,
        values: [Option<Quantity>; 2],
    ) {
        let (quantity, manager) = match examine(snapshot, entry, resource, values) {
            Ok(found) => found,
            Err(cause) => return self.leave_out(resource, cause, place),
        };
        if !filter.managers.is_empty() && !filter.managers.iter().any(|name| **name == *manager) {
            self.other_managers.insert(manager);
            return;
        }
        let group = self.groups.entry((resource.into(), quantity)).or_default();
        group.nodes.push(place);
        group.managers.insert(manager);
        let is_own = entry.node.field_managers(resource).is_some_and(|managers| managers.are_own());
        group.has_foreign |= !is_own;
        group.is_of_nfd |= entry.nfd.contains(resource);
        group.is_of_gardener |= entry.gardener.contains(resource);
    }

    fn leave_out(&mut self, resource: &str, cause: Cause, place: usize) {
        self.left_out.entry((resource.to_owned(), cause)).or_default().push(place);
    }

    /// Returns the number of values that can be adopted.
    pub(crate) fn len(&self) -> usize {
        self.groups.values().map(|group| group.nodes.len()).sum()
    }
}

fn labels(entry: &Entry) -> BTreeMap<String, String> {
    entry.node.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Returns the quantity and the field manager of a value that can be adopted.
fn examine(
    snapshot: &Snapshot,
    entry: &Entry,
    resource: &str,
    values: [Option<Quantity>; 2],
) -> Result<(Quantity, Arc<str>), Cause> {
    let Ok(ledger) = &entry.ledger else { return Err(Cause::Ledger) };
    if let Some(listed) = ledger.get(resource) {
        let rule = listed.rule.clone();
        return Err(match (snapshot.rules.may_exist(&rule), listed.deletion_policy) {
            (true, _) => Cause::Listed(rule),
            (false, DeletionPolicy::Retain) => Cause::Retained(rule),
            (false, _) => Cause::Orphan(rule),
        });
    }
    if let Some(rule) = snapshot.rules.set.declaring_resource(&entry.node, resource).first() {
        return Err(Cause::Declared(Arc::clone(&rule.name)));
    }
    if let Some(class) = snapshot.classes.get(resource) {
        return Err(Cause::DeviceClass(class.clone()));
    }
    let present = || entry.node.values(resource).map(|text| text.unwrap_or("absent"));
    if values.into_iter().flatten().all(|value| value.is_zero()) && values != [None; 2] {
        return Err(Cause::Zero);
    }
    // A kubelet copies capacity to allocatable, so that the managers of capacity decide.
    if let Some(kubelet) = entry.plugins.get(resource) {
        return Err(Cause::DevicePlugin(Arc::clone(kubelet)));
    }
    let managers = entry.node.field_managers(resource);
    let manager = managers.and_then(|managers| managers.last([true, false])).map(|manager| Arc::clone(manager.name()));
    let [Some(quantity), Some(allocatable)] = values else {
        let texts = present();
        // What the API server has stored can be read, unless it is out of range.
        let is_same = texts[0] == texts[1];
        return Err(if is_same { Cause::TooLarge(texts[0].to_owned()) } else { Cause::unequal(texts) });
    };
    if quantity != allocatable {
        return Err(Cause::unequal(present()));
    }
    match quantity.whole() {
        None => Err(Cause::Fraction(quantity.to_string())),
        Some(whole) if whole > MAX_QUANTITY.into() => Err(Cause::TooLarge(quantity.to_string())),
        // The API server accepts no negative quantity.
        Some(..=0) => Err(Cause::Zero),
        Some(_) => Ok((quantity, manager.ok_or(Cause::UnknownManager)?)),
    }
}

impl Cause {
    fn unequal([capacity, allocatable]: [&str; 2]) -> Self {
        Self::Unequal(format!("capacity is {capacity} and allocatable is {allocatable}"))
    }
}

impl fmt::Display for Cause {
    /// Why, and what to do, without a period.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(why) => write!(f, "no rule can declare it: {why}"),
            Self::Listed(rule) => write!(f, "the controller advertises it already, for rule {rule}"),
            Self::Orphan(rule) => write!(
                f,
                "the ledger lists it for rule {rule}, which does not exist, so that the controller withdraws it: to \
                 keep it, create that rule again"
            ),
            Self::Retained(rule) => write!(
                f,
                "the ledger lists it for rule {rule}, which does not exist, so that the controller removes the entry, \
                 and the value stays (deletionPolicy: Retain): run adopt again then"
            ),
            Self::Declared(rule) => write!(
                f,
                "rule {rule} declares it already; if the value is in conflict, set conflictPolicy: Overwrite there"
            ),
            Self::Ledger => {
                f.write_str("the annotation of the controller cannot be read: repair it first, as doctor describes")
            }
            Self::DeviceClass(class) => write!(
                f,
                "DeviceClass {class} maps it, and the scheduler asks DRA only where no node advertises it: remove the \
                 value, or the mapping"
            ),
            Self::Zero => f.write_str(
                "it is 0: a kubelet has reset it, or a device plugin has left it. If the node is to have it, add the \
                 node to a rule",
            ),
            Self::Unequal(values) => {
                write!(f, "{values}; a kubelet makes them equal within 10 seconds: run adopt again then")
            }
            Self::Fraction(quantity) => write!(f, "{quantity} is not a whole number, which no rule can declare"),
            Self::TooLarge(quantity) => {
                write!(f, "{quantity} is more than {MAX_QUANTITY}, the most that a rule can declare")
            }
            Self::DevicePlugin(kubelet) => {
                write!(f, "it may be a device plugin's, since {kubelet}, which is the node's kubelet, has written it")
            }
            Self::UnknownManager => f.write_str(
                "managedFields do not name its writer: an admission policy or webhook may add it to the writes of \
                 others, or a device plugin may have written it. If neither is the case, write the rule yourself",
            ),
        }
    }
}
