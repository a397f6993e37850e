//! What nodes share that have the same ledger, extended resources and field managers.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::field_managers::FieldManagers;
use super::resources::ResourceList;

/// The ledger, extended resources and field managers of a node. Two are equal if the nodes share them through one
/// [`Interner`](super::Interner); compared are addresses, which stay in use as long as this exists.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(super) ledger: Option<Arc<str>>,
    pub(super) capacity: Option<ResourceList>,
    pub(super) allocatable: Option<ResourceList>,
    pub(super) managers: FieldManagers,
}

impl Shape {
    /// Returns the addresses; 0 for what the node lacks.
    fn addresses(&self) -> [usize; 4] {
        let Self { ledger, capacity, allocatable, managers } = self;
        let list = |list: &Option<ResourceList>| list.as_ref().map_or(0, ResourceList::address);
        let ledger = ledger.as_ref().map_or(0, |text| Arc::as_ptr(text).addr());
        [ledger, list(capacity), list(allocatable), managers.address()]
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.addresses() == other.addresses()
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.addresses().hash(state);
    }
}
