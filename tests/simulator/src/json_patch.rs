//! JSON Patch as the API server applies it: by Go's evanphx/json-patch, which is laxer than RFC 6902 in two places.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::failure::Failure;

/// How many operations a patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a patch to an object: all of it, or nothing.
pub(crate) fn apply(object: &Value, patch: &Value) -> Result<Value, Failure> {
    let patch: Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    if patch.0.len() > MAX_OPERATIONS {
        return Err(Failure::too_large(patch.0.len(), MAX_OPERATIONS));
    }
    let mut patched = object.clone();
    for operation in &patch.0 {
        if !apply_one(&mut patched, operation) {
            return Err(Failure::unprocessable_patch());
        }
    }
    Ok(patched)
}

fn apply_one(object: &mut Value, operation: &PatchOperation) -> bool {
    match operation {
        // A test for null holds also where there is no such key, if there is its parent.
        PatchOperation::Test(test) if test.value.is_null() && !test.path.is_root() => {
            let parent = test.path.parent().and_then(|parent| parent.resolve(object).ok());
            let is_object = parent.is_some_and(Value::is_object);
            is_object && test.path.resolve(object).map_or(true, Value::is_null)
        }
        // To replace what is missing is to add it.
        PatchOperation::Replace(replace) => {
            let add = json_patch::AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            };
            json_patch::patch(object, &[PatchOperation::Add(add)]).is_ok()
        }
        operation => json_patch::patch(object, std::slice::from_ref(operation)).is_ok(),
    }
}
