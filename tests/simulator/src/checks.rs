//! Checks that the API server makes before it reads the stored object.

use serde_json::Value;

use crate::failure::Failure;
use crate::kind::{Key, Kind};
use crate::strategy;

/// Reads an object to be stored.
pub(crate) fn decode(kind: Kind, object: &mut Value) -> Result<(), Failure> {
    strategy::decode(kind, object).map_err(|why| {
        let (name, version) = (kind.name(), kind.version());
        Failure::bad_request(format!("{name} in version \"{version}\" cannot be handled as a {name}: {why}"))
    })
}

pub(crate) fn check_name(key: &Key, object: &Value) -> Result<(), Failure> {
    let (expected, name) = (&key.name, text(object, "name"));
    if name.is_empty() {
        let why = "was undeterminable: name must be provided";
        return Err(Failure::bad_request(format!("the name of the object ({expected} based on URL) {why}")));
    }
    if name != expected {
        let why = format!("does not match the name on the URL ({expected})");
        return Err(Failure::bad_request(format!("the name of the object ({name}) {why}")));
    }
    Ok(())
}

pub(crate) fn check_uid(kind: Kind, key: &Key, object: &Value, found: &str) -> Result<(), Failure> {
    let uid = text(object, "uid");
    if uid.is_empty() || uid == found {
        return Ok(());
    }
    Err(Failure::precondition(kind, key, uid, found))
}

pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
