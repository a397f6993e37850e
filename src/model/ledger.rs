//! The ledger: the annotation on a node that lists what the controller advertises there.
//!
//! The same patch writes the ledger and the values, so that the two never disagree. The controller never withdraws what
//! the ledger does not list.
//!
//! The chart's policy reads it too, in CEL, which has no JSON parser. So that both read the same, an entry holds no object,
//! no text has a brace or a backslash, and no resource is there twice. No later version may change that.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

use crate::model::api::DeletionPolicy;
use crate::model::label::excerpt;
use crate::model::quantity::{MAX_QUANTITY, Quantity};
use crate::model::resource_name;

/// The annotation's key.
pub const ANNOTATION: &str = "noderesource.dev/advertised";

/// The maximum size of a ledger, in bytes: about 500 resources.
pub const MAX_BYTES: usize = 64 * 1024;

/// What the controller advertises on one node, by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: BTreeMap<String, Entry>,
}

impl<'de> Deserialize<'de> for Ledger {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = BTreeMap<String, Entry>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = BTreeMap::new();
                while let Some((resource, entry)) = map.next_entry::<String, Entry>()? {
                    if entries.contains_key(&resource) {
                        return Err(M::Error::custom(format_args!("{} is there twice", excerpt(&resource))));
                    }
                    entries.insert(resource, entry);
                }
                Ok(entries)
            }
        }

        Ok(Self { entries: decoder.deserialize_map(Entries)? })
    }
}

/// One resource in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredEntry")]
pub struct Entry {
    /// The written quantity, in canonical form.
    pub quantity: String,
    /// The name of the rule that declared it.
    pub rule: String,
    /// What happens to the value when it is no longer declared: the rule may be gone by then.
    pub deletion_policy: DeletionPolicy,
    /// Whether no rule declares it anymore and it goes down as pods end, as [`DeletionPolicy::WhenUnused`] demands. A list
    /// that lacks its rule says nothing new.
    pub is_leaving: bool,
    /// Fields of later versions, which are kept. None is an object.
    pub unknown: BTreeMap<String, Value>,
}

/// An entry as the annotation has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEntry {
    quantity: String,
    rule: String,
    #[serde(default)]
    deletion_policy: StoredPolicy,
    /// A field of its own: a version that does not know it withdraws the value, where it could not read a ledger with a
    /// policy that it does not know.
    #[serde(default)]
    when_unused: bool,
    #[serde(default)]
    leaving: bool,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
enum StoredPolicy {
    #[default]
    Withdraw,
    Retain,
}

impl From<StoredEntry> for Entry {
    fn from(stored: StoredEntry) -> Self {
        let StoredEntry { quantity, rule, deletion_policy, when_unused, leaving, unknown } = stored;
        let deletion_policy = match deletion_policy {
            StoredPolicy::Retain => DeletionPolicy::Retain,
            StoredPolicy::Withdraw if when_unused => DeletionPolicy::WhenUnused,
            StoredPolicy::Withdraw => DeletionPolicy::Withdraw,
        };
        let is_leaving = leaving && deletion_policy == DeletionPolicy::WhenUnused;
        Self { quantity, rule, deletion_policy, is_leaving, unknown }
    }
}

/// Why a ledger cannot be read. It is unknown who changed it, so the controller does not change that node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidLedger {
    /// Longer than [`MAX_BYTES`].
    #[error("annotation {ANNOTATION} is {0} bytes long, more than {MAX_BYTES}")]
    TooLong(usize),
    /// A text that the chart's policy would read differently.
    #[error("annotation {ANNOTATION} has {0}")]
    Ambiguous(&'static str),
    /// Not JSON, or JSON with another schema.
    #[error("annotation {ANNOTATION} cannot be read: {0}")]
    Malformed(String),
    /// Lists a name that the controller never writes.
    #[error("annotation {ANNOTATION} lists {0:?}, which is not an extended resource")]
    NotExtended(String),
    /// Lists a quantity that no rule can declare.
    #[error("annotation {ANNOTATION} lists {0:?} with {1:?}, which cannot be declared")]
    Quantity(String, String),
}

impl Ledger {
    /// Parses the annotation's value; a node without the annotation has an empty ledger.
    ///
    /// # Errors
    /// If the controller does not write such a value.
    pub fn parse(annotation: Option<&str>) -> Result<Self, InvalidLedger> {
        let Some(text) = annotation else {
            return Ok(Self::default());
        };
        if text.len() > MAX_BYTES {
            return Err(InvalidLedger::TooLong(text.len()));
        }
        let ledger: Self = serde_json::from_str(text).map_err(|error| InvalidLedger::Malformed(error.to_string()))?;
        let is_other = |byte: u8| !(byte.is_ascii_graphic() || byte.is_ascii_whitespace()) || byte == b'\\';
        if text.bytes().any(is_other) {
            return Err(InvalidLedger::Ambiguous("a backslash, or a character that is not printable ASCII"));
        }
        // One brace for each entry, and one around all.
        if [b'{', b'}']
            .iter()
            .any(|brace| text.bytes().filter(|byte| byte == brace).count() != ledger.entries.len() + 1)
        {
            return Err(InvalidLedger::Ambiguous("an object inside an entry, or a brace in a text"));
        }
        // The policy drops whitespace before it looks for the field `quantity`.
        if ledger.entries.values().flat_map(|entry| entry.unknown.keys()).any(|field| field.contains(' ')) {
            return Err(InvalidLedger::Ambiguous("a space in the name of a field"));
        }
        for (resource, entry) in &ledger.entries {
            if !resource_name::is_extended(resource) {
                return Err(InvalidLedger::NotExtended(resource.clone()));
            }
            let whole = entry.quantity.parse::<Quantity>().ok().and_then(|it| it.whole());
            if !whole.is_some_and(|whole| (1..=MAX_QUANTITY.into()).contains(&whole)) {
                return Err(InvalidLedger::Quantity(resource.clone(), entry.quantity.clone()));
            }
        }
        Ok(ledger)
    }

    /// Returns the length of the annotation in bytes; 1 if it is empty.
    #[must_use]
    pub fn length(&self) -> usize {
        let entries = self.entries.iter();
        // Besides the entries there are two braces, and the last entry has no comma.
        1 + entries.map(|(resource, entry)| Self::length_of(resource, entry)).sum::<usize>()
    }

    /// Returns the length of an entry in bytes, with a comma.
    #[must_use]
    pub fn length_of(resource: &str, entry: &Entry) -> usize {
        format!("{}:{entry},", quoted(resource)).len()
    }

    /// Returns the entry of a resource.
    #[must_use]
    pub fn get(&self, resource: &str) -> Option<&Entry> {
        self.entries.get(resource)
    }

    /// Lists a resource, and replaces its entry.
    pub fn insert(&mut self, resource: &str, entry: Entry) {
        self.entries.insert(resource.to_owned(), entry);
    }

    /// Removes the entry of a resource.
    pub fn remove(&mut self, resource: &str) {
        self.entries.remove(resource);
    }

    /// Returns all entries, by resource name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(resource, entry)| (resource.as_str(), entry))
    }

    /// Returns the annotation's value; `None` for an empty ledger, which has no annotation.
    #[must_use]
    pub fn to_annotation(&self) -> Option<String> {
        if self.entries.is_empty() {
            return None;
        }
        let entries = self.entries.iter();
        let entries = entries.map(|(resource, entry)| format!("{}:{entry}", quoted(resource)));
        Some(format!("{{{}}}", entries.collect::<Vec<_>>().join(",")))
    }
}

/// Compact JSON: quantity, rule, the optional fields, then fields of later versions by name.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantity, rule, deletion_policy, is_leaving, unknown } = self;
        write!(f, r#"{{"quantity":{},"rule":{}"#, quoted(quantity), quoted(rule))?;
        f.write_str(match deletion_policy {
            DeletionPolicy::Withdraw => "",
            DeletionPolicy::WhenUnused if *is_leaving => r#","whenUnused":true,"leaving":true"#,
            DeletionPolicy::WhenUnused => r#","whenUnused":true"#,
            DeletionPolicy::Retain => r#","deletionPolicy":"Retain""#,
        })?;
        for (key, value) in unknown {
            write!(f, ",{}:{value}", quoted(key))?;
        }
        f.write_str("}")
    }
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledger_roundtrip_is_lossless() {
        let kept = r#""example.com/key":{"quantity":"4","rule":"a","deletionPolicy":"Retain"}"#;
        let text = format!(
            r#"{{"example.com/dongle":{{"quantity":"4","rule":"dongle"}},"example.com/idle":{{"quantity":"4","rule":"a","whenUnused":true}},"example.com/idler":{{"quantity":"4","rule":"a","whenUnused":true,"leaving":true}},{kept}}}"#
        );
        let mut ledger = Ledger::parse(Some(&text)).unwrap();
        assert_eq!(ledger.length(), text.len());
        assert_eq!(ledger.to_annotation(), Some(text));
        ledger.remove("example.com/dongle");
        ledger.remove("example.com/idle");
        ledger.remove("example.com/idler");
        assert_eq!(ledger.length(), kept.len() + 2);
        assert_eq!(ledger.to_annotation(), Some(format!("{{{kept}}}")));
        ledger.remove("example.com/key");
        assert_eq!(ledger.to_annotation(), None);
        assert_eq!(Ledger::parse(None), Ok(Ledger::default()));
    }

    #[test]
    fn ledger_fields_of_a_later_version_are_preserved() {
        let text = r#"{"example.com/a":{"quantity":"4","rule":"a","at":[1,[null]],"fraction":5e-231,"later":true}}"#;
        assert_eq!(Ledger::parse(Some(text)).unwrap().to_annotation().as_deref(), Some(text));
    }

    #[test]
    fn ledger_accepts_every_quantity_that_can_be_declared() {
        let text = |quantity: i64| format!(r#"{{"example.com/a":{{"quantity":"{quantity}","rule":"a"}}}}"#);
        for quantity in [1, MAX_QUANTITY] {
            assert!(Ledger::parse(Some(&text(quantity))).is_ok(), "{quantity}");
        }
        assert!(Ledger::parse(Some(&text(MAX_QUANTITY + 1))).is_err());
    }

    #[test]
    fn ledger_rejects_entries_it_never_writes() {
        let long = format!("{{{}}}", " ".repeat(MAX_BYTES));
        for (text, expected) in [
            ("", "cannot be read"),
            ("[]", "cannot be read"),
            (r#"{"example.com/a":4}"#, "cannot be read"),
            (r#"{"cpu":{"quantity":"4","rule":"a"}}"#, "not an extended"),
            (r#"{"example.com/a":{"quantity":"x","rule":"a"}}"#, "cannot be declared"),
            (r#"{"example.com/a":{"quantity":"1","rule":"a","deletionPolicy":"?"}}"#, "cannot be read"),
            (r#"{"example.com/a":{"quantity":"1","rule":"a","deletionPolicy":"WhenUnused"}}"#, "cannot be read"),
            (r#"{"example.com/a":{"quantity":"1","rule":"a","whenUnused":"true"}}"#, "cannot be read"),
            (r#"{"example.com/a":{"quantity":"0","rule":"a"}}"#, "cannot be declared"),
            (r#"{"example.com/a":{"quantity":"-1","rule":"a"}}"#, "cannot be declared"),
            (r#"{"example.com/a":{"quantity":"1.5","rule":"a"}}"#, "cannot be declared"),
            (long.as_str(), "bytes long"),
            // The policy splits the text, and would find another resource, none, or another quantity.
            (
                r#"{"example.com/a":{"quantity":"4","rule":"a","y":{"z":1},"b.com/b":{"quantity":"1"}}}"#,
                "an object inside an entry",
            ),
            (r#"{"example.com/a":{"x":{},"quantity":"8","rule":"r"}}"#, "an object inside an entry"),
            (r#"{"example.com/a":{"x":[{}],"quantity":"8","rule":"r"}}"#, "an object inside an entry"),
            (r#"{"example.com/a":{"x":"},","quantity":"8","rule":"r"}}"#, "a brace in a text"),
            (r#"{"example.com/a":{"x":"{","y":"}","quantity":"8","rule":"r"}}"#, "a brace in a text"),
            (r#"{"example.com/a":{"quan tity":"9","quantity":"8","rule":"r"}}"#, "a space"),
            (r#"{"example.com/a":{"quantity":"8","r\u0075le":"r"}}"#, "a backslash"),
            (r#"{"example.com/a":{"quantity":"8","rule":"r","x":"é"}}"#, "not printable ASCII"),
            (
                r#"{"example.com/a":{"quantity":"8","rule":"r"},"example.com/a":{"quantity":"9","rule":"r"}}"#,
                "is there twice",
            ),
            (r#"{"example.com/a":{"quantity":"8","rule":"r","quantity":"9"}}"#, "duplicate field"),
        ] {
            let error = Ledger::parse(Some(text)).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:.40}: {error}");
        }
    }
}
