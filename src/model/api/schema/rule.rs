//! CEL rules, and what several of them share.

use serde_json::{Value, json};

/// The input that CEL's `quantity` may get: an exponent below 100, because a large one keeps a core of the API
/// server busy for minutes. No larger exponent makes a whole number of such a short text.
pub(super) const QUANTITY: &str = r"^[+-]?([0-9]+[.]?|[.][0-9])[0-9]*([numk]|Ki|[MGTPE]i?|[eE][+-]?0*[0-9]{1,2})?$";
pub(super) const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
pub(super) const BAD_VALUE: &str =
    "not a label value: at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends";

/// One `x-kubernetes-validations` entry.
pub(super) fn rule(rule: impl AsRef<str>, message: &str) -> Value {
    json!({ "rule": rule.as_ref(), "message": message })
}

/// A rule of a map that each `key` must meet. Its message begins with a key that does not.
pub(super) fn rule_of_each(condition: &str, message: &str) -> Value {
    let quoted = message.replace('\'', "\\'");
    json!({
        "rule": format!("self.all(key, {condition})"),
        "message": message,
        "messageExpression": format!("self.filter(key, !({condition}))[0] + ': {quoted}'"),
    })
}
