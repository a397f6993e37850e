//! Quantities in objects that people write: text or a number.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// The text of a quantity. The API server writes text; in files a number is as good, and null is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuantityText(pub(crate) Box<str>);

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = QuantityText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E>(self, text: &str) -> Result<QuantityText, E> {
        Ok(QuantityText(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<QuantityText, E> {
        Ok(QuantityText(text.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<QuantityText, E> {
        Ok(QuantityText(number.to_string().into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<QuantityText, E> {
        Ok(QuantityText(number.to_string().into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<QuantityText, E> {
        Ok(QuantityText(number.to_string().into()))
    }

    fn visit_unit<E>(self) -> Result<QuantityText, E> {
        Ok(QuantityText("0".into()))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<QuantityText, E> {
        Err(E::custom(format_args!("{truth} is no quantity: write a number, such as 4")))
    }
}
