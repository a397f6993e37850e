//! Nulls in a node selector. The API server drops nulls, which is harmless elsewhere: here a requirement may be lost,
//! so that the rule selects more nodes.

use serde_json::Value;

use super::code::Code;
use super::violation::Violation;
use crate::manifest::Path;

/// Adds a violation for each null that changes the selection, and removes violations that follow from it.
pub(super) fn check(object: &Value, violations: &mut Vec<Violation>) {
    let path = Path::from_keys(["spec", "nodeSelector"]);
    let nulls = object.pointer("/spec/nodeSelector").map(|selector| nulls(selector, &path));
    for null in nulls.into_iter().flatten() {
        violations.retain(|other| !(path.leads_to(&other.path) && other.path.leads_to(&null)));
        let message = "null: the API server drops it, so that the rule selects more nodes";
        let hint = "write a value (\"\" for an empty label), or remove the line".to_owned();
        violations.push(Violation::new(&null, Code::NullInSelector, message).hint(Some(hint)));
    }
}

/// Returns the labels without a value, and the blocks without which no requirement is left. In an expression, a null
/// changes nothing (the values of `Exists`), or the schema reports a missing field.
fn nulls(selector: &Value, path: &Path) -> Vec<Path> {
    let labels = path.key("matchLabels");
    let fields = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let values = fields.filter(|(_, value)| value.is_null()).map(|(key, _)| labels.key(key));
    let blocks = ["matchLabels", "matchExpressions"].map(|block| (block, selector.get(block)));
    let is_empty = |block: &Value| match block {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        other => other.is_null(),
    };
    let nothing_left = blocks.iter().all(|(_, block)| block.is_none_or(is_empty));
    let blocks = blocks.into_iter().filter(|(_, block)| block.is_some_and(Value::is_null));
    let blocks = blocks.filter(|_| nothing_left).map(|(block, _)| path.key(block));
    values.chain(blocks).collect()
}
