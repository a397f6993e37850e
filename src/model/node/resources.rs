//! The resources of a node, as the API server writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::model::pool::Pool;
use crate::model::quantity::Quantity;
use crate::model::quantity::text::QuantityText;
use crate::model::resource_name;

/// The extended resources in `status.capacity` or `status.allocatable`, by name, with their quantities as the API server
/// wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(Arc<[Amount]>);

/// The name of a resource, and its quantity.
pub(super) type Amount = (Box<str>, Box<str>);

impl ResourceList {
    /// Returns the quantity of a resource, if the map holds it.
    #[must_use]
    pub fn get(&self, resource: &str) -> Option<&str> {
        let place = self.0.binary_search_by(|(name, _)| (**name).cmp(resource)).ok()?;
        self.0.get(place).map(|(_, quantity)| &**quantity)
    }

    /// Returns the name of every resource.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Returns the list that nodes with the same quantities share.
    pub(super) fn shared(&self, pool: &mut Pool<[Amount]>) -> Self {
        Self(pool.intern(&*self.0))
    }

    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns every resource with its quantity.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, quantity)| (&**name, &**quantity))
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let amounts = amounts(decoder)?;
        Ok(Self(amounts.filter(|(name, _)| resource_name::is_extended(name)).collect()))
    }
}

/// Returns the amounts in a map, sorted by name.
fn amounts<'de, D: Deserializer<'de>>(decoder: D) -> Result<impl Iterator<Item = Amount>, D::Error> {
    let amounts = BTreeMap::<Box<str>, QuantityText>::deserialize(decoder)?;
    Ok(amounts.into_iter().map(|(name, quantity)| (name, quantity.0)))
}

/// The native resources of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Native(Vec<Amount>);

impl Native {
    /// Returns the quantity of a resource, if it has one.
    pub(super) fn get(&self, resource: &str) -> Option<Quantity> {
        self.iter().find(|(name, _)| **name == *resource)?.1.parse().ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Amount> {
        self.0.iter()
    }
}

/// `status.capacity`: extended resources, and native ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    pub(super) extended: ResourceList,
    pub(super) native: Native,
}

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let amounts = amounts(decoder)?;
        let (extended, native): (Vec<_>, Vec<_>) = amounts.partition(|(name, _)| resource_name::is_extended(name));
        Ok(Self { extended: ResourceList(extended.into()), native: Native(native) })
    }
}
