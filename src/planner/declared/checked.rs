//! The quantities in a rule, checked.

use std::borrow::Cow;

use thiserror::Error;

use crate::model::api::{DeclaredQuantity, MAX_ENTRIES, MAX_ENTRIES_LENGTH};
use crate::model::quantity::{MAX_QUANTITY, MAX_QUANTITY_LENGTH, ParseQuantityError, Quantity};

/// Why `spec.quantity` or `spec.quantityFrom` declares nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidQuantity {
    /// Not a quantity.
    #[error("{0}: {1}")]
    Syntax(Cow<'static, str>, ParseQuantityError),
    /// Too long.
    #[error("{0}: {1} characters are too long: write the number in at most {MAX_QUANTITY_LENGTH}")]
    TooLong(Cow<'static, str>, usize),
    /// It has a fraction.
    #[error("{0}: {1} is not a whole number, and extended resources cannot be split")]
    NotWhole(Cow<'static, str>, Quantity),
    /// It is 0 or less.
    #[error("{0}: {1} is less than 1; to advertise nothing, delete the rule")]
    NotPositive(Cow<'static, str>, Quantity),
    /// It exceeds what the API server can count.
    #[error("{0}: {1} is more than {MAX_QUANTITY}, the most that can be advertised")]
    TooLarge(Cow<'static, str>, Quantity),
    /// There is not exactly one quantity.
    #[error("spec: give exactly one of quantity and quantityFrom")]
    NotOne,
    /// There is not exactly one source.
    #[error("spec.quantityFrom: give exactly one of nodeLabel, nodeAnnotation and resource")]
    NotOneSource,
    /// The key of a label or annotation cannot exist, or is the controller's own.
    #[error("spec.quantityFrom: {0:?} is not the key of a label or annotation that can be read")]
    Key(String),
    /// The resource may be one that a rule declares.
    #[error("spec.quantityFrom.resource.name: {0:?} is not a native resource")]
    NotNative(String),
    /// The divisor is 0 or less.
    #[error("spec.quantityFrom.resource.divisor: {0} is not more than 0")]
    Divisor(Quantity),
    /// The table has no entry.
    #[error("spec.quantityFrom.nodeLabel.values: the table is empty")]
    NoEntry,
    /// The table has too many entries, or longer ones.
    #[error(
        "spec.quantityFrom.nodeLabel.values holds {0} entries for values of {1} characters together, and at most {MAX_ENTRIES} \
         for {MAX_ENTRIES_LENGTH} are allowed"
    )]
    TooManyEntries(usize, usize),
    /// No label can have the value of an entry.
    #[error("spec.quantityFrom.nodeLabel.values: {0:?} is not a label value")]
    NotALabelValue(String),
    /// There is not exactly one bound.
    #[error("spec.quantityFrom: give exactly one of max and nodeLabel.values")]
    NotOneBound,
    /// A table takes no `min`.
    #[error("spec.quantityFrom: min has no meaning with nodeLabel.values")]
    MinOfTable,
    /// `min` or `default` exceeds `max`.
    #[error("spec.quantityFrom.{0} is more than max")]
    AboveMax(&'static str),
    /// Both say what to do without a quantity.
    #[error("spec.quantityFrom: give default or whenMissing, not both")]
    DefaultAndWhenMissing,
}

/// Returns a quantity, whatever it is for.
pub(super) fn quantity(
    field: impl Into<Cow<'static, str>>,
    declared: &DeclaredQuantity,
) -> Result<Quantity, InvalidQuantity> {
    let text = declared.to_string();
    let length = text.chars().count();
    if length > MAX_QUANTITY_LENGTH {
        return Err(InvalidQuantity::TooLong(field.into(), length));
    }
    text.parse().map_err(|error| InvalidQuantity::Syntax(field.into(), error))
}

/// Returns a quantity that a node can have.
pub(super) fn advertisable(
    field: impl Into<Cow<'static, str>>,
    declared: &DeclaredQuantity,
) -> Result<Quantity, InvalidQuantity> {
    let field = field.into();
    let quantity = quantity(field.clone(), declared)?;
    match quantity.whole() {
        None => Err(InvalidQuantity::NotWhole(field, quantity)),
        Some(..=0) => Err(InvalidQuantity::NotPositive(field, quantity)),
        Some(whole) if whole > MAX_QUANTITY.into() => Err(InvalidQuantity::TooLarge(field, quantity)),
        Some(_) => Ok(quantity),
    }
}
