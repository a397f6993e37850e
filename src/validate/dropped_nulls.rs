//! Nulls in a node selector. Nowhere else does the API server's dropping them do harm: here each is a
//! requirement less, and the rule selects more nodes.

use serde_json::Value;

use super::code::Code;
use super::violation::Violation;
use crate::manifest::Path;

/// Adds a violation for each null, in place of those that follow from it.
pub(super) fn check(object: &Value, violations: &mut Vec<Violation>) {
    let path = Path::from_keys(["spec", "nodeSelector"]);
    let mut nulls = Vec::new();
    if let Some(selector) = object.pointer("/spec/nodeSelector") {
        find(selector, &path, &mut nulls);
    }
    for null in nulls {
        violations.retain(|other| !(path.leads_to(&other.path) && other.path.leads_to(&null)));
        let message = "null: the API server drops it, so that the rule selects more nodes";
        let hint = "write a value (\"\" for an empty label), or remove the line".to_owned();
        violations.push(Violation::new(&null, Code::NullInSelector, message).hint(Some(hint)));
    }
}

/// The fields that are null. A null in a list is not dropped: it is of the wrong type.
fn find(value: &Value, path: &Path, nulls: &mut Vec<Path>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = path.key(key);
                if value.is_null() {
                    nulls.push(path);
                } else {
                    find(value, &path, nulls);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find(item, &path.item(index), nulls);
            }
        }
        _ => {}
    }
}
