//! The quantity of a resource on a node.

use std::fmt;

use serde::Serialize;

use crate::model::node::{Node, ResourceList};
use crate::model::quantity::Quantity;

/// A resource in a node's two maps; `null` where it is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    /// In `status.capacity`.
    pub capacity: Option<String>,
    /// In `status.allocatable`.
    pub allocatable: Option<String>,
}

impl Amounts {
    pub(super) fn on(node: &Node, resource: &str) -> Self {
        let amount = |map: Option<&ResourceList>| map.and_then(|map| map.get(resource)).map(str::to_owned);
        Self { capacity: amount(node.capacity.as_ref()), allocatable: amount(node.allocatable.as_ref()) }
    }

    /// Returns whether both maps hold the same number, in any spelling, or nothing.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let parsed = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        self.capacity == self.allocatable || parsed(&self.capacity).is_some_and(|quantity| self.is(&quantity))
    }

    /// Returns whether both maps are at this quantity.
    fn is(&self, quantity: &Quantity) -> bool {
        let is = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok()) == Some(*quantity);
        is(&self.capacity) && is(&self.allocatable)
    }

    /// Returns whether there is no value but 0.
    pub(super) fn is_vacant(&self) -> bool {
        let is_zero = |text: &String| text.parse() == Ok(Quantity::from(0));
        [&self.capacity, &self.allocatable].into_iter().flatten().all(is_zero)
    }

    /// Returns this quantity in both maps. An equal number keeps its spelling.
    pub(super) fn set_to(&self, quantity: &str) -> Self {
        let parsed = quantity.parse::<Quantity>().ok();
        let set = |text: &Option<String>| {
            let same = text.as_deref().filter(|text| text.parse().ok() == parsed);
            Some(same.unwrap_or(quantity).to_owned())
        };
        Self { capacity: set(&self.capacity), allocatable: set(&self.allocatable) }
    }
}

impl fmt::Display for Amounts {
    /// One value if both maps agree, otherwise `capacity/allocatable`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |map: &Option<String>| map.clone().unwrap_or_else(|| "-".to_owned());
        f.write_str(&text(&self.capacity))?;
        if self.agrees() { Ok(()) } else { write!(f, "/{}", text(&self.allocatable)) }
    }
}
