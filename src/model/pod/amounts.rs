//! The amounts in a map of resources, reduced while decoding: most pods request only cpu and memory, and there are many.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::model::quantity::Quantity;
use crate::model::quantity::text::QuantityText;
use crate::model::resource_name;

/// The prefix of the names by which pods request a DeviceClass (KEP-5004).
const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Amounts of resources.
#[derive(Clone, Debug, Default)]
pub(super) struct Amounts {
    /// Of extended resources. The API server has validated the quantities; an invalid one is left out.
    pub(super) extended: Vec<(String, Quantity)>,
    /// The DeviceClasses that are requested by name.
    pub(super) classes: Vec<Box<str>>,
    pub(super) cpu: Option<Quantity>,
    pub(super) memory: Option<Quantity>,
}

/// A key of the map.
enum Name {
    Extended(String),
    Class(Box<str>),
    Cpu,
    Memory,
    /// Such as ephemeral-storage.
    Other,
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_any(AmountsVisitor)
    }
}

struct AmountsVisitor;

impl<'de> Visitor<'de> for AmountsVisitor {
    type Value = Amounts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of quantities")
    }

    fn visit_unit<E>(self) -> Result<Amounts, E> {
        Ok(Amounts::default())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Amounts, M::Error> {
        let mut amounts = Amounts::default();
        while let Some(name) = map.next_key_seed(NameVisitor)? {
            match name {
                Name::Extended(name) => {
                    if let Ok(quantity) = map.next_value::<QuantityText>()?.0.parse() {
                        amounts.extended.push((name, quantity));
                    }
                }
                Name::Class(class) => {
                    map.next_value::<IgnoredAny>()?;
                    amounts.classes.push(class);
                }
                Name::Cpu => amounts.cpu = map.next_value::<QuantityText>()?.0.parse().ok(),
                Name::Memory => amounts.memory = map.next_value::<QuantityText>()?.0.parse().ok(),
                Name::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(amounts)
    }
}

struct NameVisitor;

impl<'de> DeserializeSeed<'de> for NameVisitor {
    type Value = Name;

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<Name, D::Error> {
        decoder.deserialize_str(self)
    }
}

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a resource")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        Ok(match name.strip_prefix(CLASS_PREFIX) {
            Some(class) => Name::Class(class.into()),
            None if name == "cpu" => Name::Cpu,
            None if name == "memory" => Name::Memory,
            None if resource_name::is_extended(name) => Name::Extended(name.to_owned()),
            None => Name::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_those_of_extended_resources_and_device_classes() {
        let map = json!({"cpu": "1", "memory": 5, "example.com/a": "3", "example.com/odd": "no number",
            "deviceclass.resource.kubernetes.io/fast": "1", "requests.example.com/b": "1"});
        let amounts: Amounts = serde_json::from_value(map).unwrap();
        assert_eq!(amounts.extended, [("example.com/a".to_owned(), Quantity::from(3))]);
        assert_eq!(amounts.classes, ["fast".into()]);
        assert!(serde_json::from_value::<Amounts>(json!(null)).unwrap().extended.is_empty());
        for odd in [json!([]), json!("1"), json!({"example.com/a": {}})] {
            assert!(serde_json::from_value::<Amounts>(odd.clone()).is_err(), "{odd}");
        }
    }
}
