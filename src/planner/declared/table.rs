//! A table of quantities by the value of a label: read once for each rule, and looked up for each node.

use std::collections::BTreeMap;

use super::checked::{InvalidQuantity, advertisable};
use crate::model::api::{DeclaredQuantity, MAX_ENTRIES, MAX_ENTRIES_LENGTH};
use crate::model::label::{excerpt, is_label_value};
use crate::model::quantity::Quantity;

/// What an entry takes besides its text, in bytes.
const ENTRY_SIZE: usize = 96;

/// Quantities by the value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(BTreeMap<Box<str>, Quantity>);

impl Table {
    /// Checks the entries.
    ///
    /// # Errors
    /// If there is none or are too many, or one is not valid.
    pub(super) fn new(entries: &BTreeMap<String, DeclaredQuantity>) -> Result<Self, InvalidQuantity> {
        let length = entries.keys().map(String::len).sum();
        if entries.is_empty() {
            return Err(InvalidQuantity::NoEntry);
        }
        if entries.len() > MAX_ENTRIES || length > MAX_ENTRIES_LENGTH {
            return Err(InvalidQuantity::TooManyEntries(entries.len(), length));
        }
        let read = |(value, declared): (&String, &DeclaredQuantity)| {
            if !is_label_value(value) {
                return Err(InvalidQuantity::NotALabelValue(excerpt(value)));
            }
            let field = format!("spec.quantityFrom.nodeLabel.values: {value}");
            Ok((value.as_str().into(), advertisable(field, declared)?))
        };
        entries.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the quantity for a value.
    #[must_use]
    pub fn get(&self, value: &str) -> Option<Quantity> {
        self.0.get(value).copied()
    }

    pub(super) fn most(&self) -> Quantity {
        self.0.values().max().copied().unwrap_or_default()
    }

    pub(super) fn size(&self) -> usize {
        self.0.keys().map(|value| ENTRY_SIZE + value.len()).sum()
    }

    /// Returns the values that have a quantity.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|value| &**value)
    }

    /// Returns the values of each quantity.
    #[must_use]
    pub fn by_quantity(&self) -> BTreeMap<Quantity, Vec<&str>> {
        let mut by_quantity = BTreeMap::<_, Vec<_>>::new();
        for (value, quantity) in &self.0 {
            by_quantity.entry(*quantity).or_default().push(&**value);
        }
        by_quantity
    }
}
