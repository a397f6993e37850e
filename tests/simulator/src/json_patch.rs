//! JSON Patch as the API server applies it, with Go's evanphx/json-patch 4, which is laxer than RFC 6902: a missing
//! key equals `null`, so `test` for null succeeds, and `replace` adds the key.

use serde_json::Value;

use crate::failure::Failure;

/// Maximum number of operations in a patch.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a patch to an object, completely or not at all.
///
/// # Errors
/// If the API server would reject it.
pub fn apply(object: &Value, patch: &Value) -> Result<Value, Failure> {
    let Some(operations) = patch.as_array() else {
        return Err(Failure::bad_request("error decoding patch: it is no array"));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(Failure::too_large(operations.len(), MAX_OPERATIONS));
    }
    let mut patched = object.clone();
    for operation in operations {
        apply_one(&mut patched, operation).ok_or_else(Failure::unprocessable_patch)?;
    }
    Ok(patched)
}

/// Applies an operation; `None` if it fails.
fn apply_one(object: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str();
    let value = || operation.get("value").cloned().unwrap_or_default();
    match operation["op"].as_str()? {
        "add" => add(object, path?, value()),
        "remove" => remove(object, path?).map(drop),
        "replace" => replace(object, path?, value()),
        "test" => test(object, path?, &value()),
        "move" => {
            let value = remove(object, operation["from"].as_str()?)?;
            add(object, path?, value)
        }
        "copy" => {
            let (parent, key) = find(object, operation["from"].as_str()?)?;
            let value = get(parent, &key)?;
            add(object, path?, value)
        }
        _ => None,
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
    match find(object, path)? {
        (Value::Object(members), key) => drop(members.insert(key, value)),
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            let at = index(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Value, path: &str) -> Option<Value> {
    match find(object, path)? {
        (Value::Object(members), key) => members.remove(&key),
        (Value::Array(items), key) => Some(items.remove(index(&key, items.len())?)),
        _ => None,
    }
}

fn replace(object: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *object = value;
        return (object.is_object() || object.is_array()).then_some(());
    }
    match find(object, path)? {
        (Value::Object(members), key) => drop(members.insert(key, value)),
        (Value::Array(items), key) => {
            let at = index(&key, items.len())?;
            items[at] = value;
        }
        _ => return None,
    }
    Some(())
}

fn test(object: &mut Value, path: &str, value: &Value) -> Option<()> {
    if path.is_empty() {
        return (object == value).then_some(());
    }
    let (parent, key) = find(object, path)?;
    (get(parent, &key)? == *value).then_some(())
}

/// Returns a member: `null` if an object lacks it, `None` if an array does.
fn get(parent: &Value, key: &str) -> Option<Value> {
    match parent {
        Value::Object(members) => Some(members.get(key).cloned().unwrap_or_default()),
        Value::Array(items) => Some(items[index(key, items.len())?].clone()),
        _ => None,
    }
}

/// Returns the parent of a path's target, and the key in it. Text before the first slash is ignored.
fn find<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (_, path) = path.split_once('/')?;
    let mut keys: Vec<_> = path.split('/').map(decode).collect();
    let last = keys.pop()?;
    let mut parent = object;
    for key in keys {
        parent = match parent {
            Value::Object(members) => members.get_mut(&key)?,
            Value::Array(items) => {
                let at = index(&key, items.len())?;
                &mut items[at]
            }
            _ => return None,
        };
    }
    (parent.is_object() || parent.is_array()).then_some((parent, last))
}

/// Returns an index in an array, which may count from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    let at: isize = key.parse().ok()?;
    let at = if at < 0 { length.checked_sub(at.unsigned_abs())? } else { at.unsigned_abs() };
    (at < length).then_some(at)
}

fn decode(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}
