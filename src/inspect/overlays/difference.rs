//! What differs.

use serde::Serialize;

/// Something that is not as the rules declare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    /// The object or node group that has it, such as `NodeOverlay dongle`.
    pub(crate) object: String,
    /// The field, tag, label or annotation, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// A sentence, without a period.
    pub(crate) message: String,
}

impl Difference {
    /// Returns a difference of a whole object.
    pub(crate) fn of_object(object: String, message: String) -> Self {
        Self { object, field: None, expected: None, found: None, message }
    }

    /// Returns a difference of one field.
    pub(crate) fn of_field(object: &str, field: &str, expected: Option<String>, found: Option<String>) -> Self {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let message = format!("{field}: expected {}, found {}", shown(&expected), shown(&found));
        Self { object: object.to_owned(), field: Some(field.to_owned()), expected, found, message }
    }
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) differences: Vec<Difference>,
    /// How many objects or values were expected.
    pub(crate) compared: usize,
    pub(crate) notes: Vec<String>,
}
