//! Fields that do not exist or have another type, where extended resources are meant. kubectl rejects them.

use serde_json::{Map, Value};

use super::code::Code;
use super::violation::Violation;
use crate::manifest::Path;
use crate::model::resource_name::is_extended;
use crate::model::spelling::closest;

/// The fields at one place of an object, as Kubernetes has them.
pub(super) struct Shape<'t> {
    pub(super) known: &'t [&'t str],
    /// What to do about an extended resource in any other field.
    pub(super) hint: &'t str,
}

impl Shape<'_> {
    /// Reports each other field that names an extended resource.
    pub(super) fn check(&self, fields: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
        for (field, value) in fields {
            if self.known.contains(&field.as_str()) || !(is_named(field) || names_extended(value)) {
                continue;
            }
            let close = closest(field, self.known.iter().copied()).map(|close| format!("did you mean {close}?"));
            violations.push(unknown_field(&path.key(field), &close.unwrap_or_else(|| self.hint.to_owned())));
        }
    }
}

/// Returns whether a value has a key that is an extended resource, as pods or quotas name it.
pub(super) fn names_extended(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| is_named(key) || names_extended(value)),
        Value::Array(items) => items.iter().any(names_extended),
        _ => false,
    }
}

fn is_named(key: &str) -> bool {
    is_extended(key.strip_prefix("requests.").unwrap_or(key))
}

pub(super) fn unknown_field(path: &Path, hint: &str) -> Violation {
    let violation = Violation::new(path, Code::UnknownField, format!("unknown field \"{path}\""));
    violation.hint(Some(hint.to_owned())).at_key()
}

/// Returns the fields of a map; reports any other value but null.
pub(super) fn map<'t>(
    value: Option<&'t Value>,
    path: &Path,
    hint: &str,
    violations: &mut Vec<Violation>,
) -> Option<&'t Map<String, Value>> {
    match value? {
        Value::Object(fields) => return Some(fields),
        Value::Null => {}
        other => violations.push(wrong_type(path, other, "a map", hint)),
    }
    None
}

/// Returns the violation for a value that is not what it has to be.
pub(super) fn wrong_type(path: &Path, value: &Value, expected: &str, hint: &str) -> Violation {
    let kind = match value {
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
        Value::String(_) => "text",
        _ => "a single value",
    };
    Violation::new(path, Code::Type, format!("must be {expected}, and is {kind}")).hint(Some(hint.to_owned()))
}
