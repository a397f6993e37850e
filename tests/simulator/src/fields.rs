//! `managedFields`: who has written which field last, as the API server records of updates (not of server-side
//! apply).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::server::Writer;

/// Fields by their path; a map that was created as such has a path that ends with `.`.
type Fields = BTreeSet<Vec<String>>;

/// What is a map by the schema, and not a structure: it has an owner of its own.
const MAPS: [&str; 4] =
    ["metadata.labels", "metadata.annotations", "status.capacity", "status.allocatable"];

/// What has no owner.
const UNOWNED: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "deletionTimestamp",
];

/// Records what `writer` has changed, in the object as it is to be stored.
pub(crate) fn record(
    before: Option<&Value>,
    after: &mut Value,
    (writer, subresource, time): (&Writer, &str, &str),
    ignored: &str,
) {
    let old = before.map(|before| flatten(before, ignored)).unwrap_or_default();
    let new = flatten(after, ignored);
    let changed: Fields = new
        .iter()
        .filter(|(path, value)| old.get(*path) != Some(*value))
        .map(|(path, _)| path.clone())
        .collect();
    let removed: Fields = old.keys().filter(|path| !new.contains_key(*path)).cloned().collect();
    let entries = before.map_or(&Value::Null, |before| &before["metadata"]["managedFields"]);
    let mut entries: Vec<Value> = entries.as_array().cloned().unwrap_or_default();
    let is_own = |entry: &Value| {
        entry["manager"] == writer.manager.as_str()
            && entry["operation"] == "Update"
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    };
    if !changed.is_empty() || !removed.is_empty() {
        let mut own = Fields::new();
        entries.retain_mut(|entry| {
            let mut fields = read(&entry["fieldsV1"]);
            fields.retain(|path| !changed.contains(path) && !removed.contains(path));
            if is_own(entry) {
                own = fields;
                return false;
            }
            entry["fieldsV1"] = write(&fields);
            !fields.is_empty()
        });
        own.extend(changed);
        if !own.is_empty() {
            let mut entry = json!({
                "manager": writer.manager, "operation": "Update", "apiVersion": after["apiVersion"],
                "time": time, "fieldsType": "FieldsV1", "fieldsV1": write(&own),
            });
            if !subresource.is_empty() {
                entry["subresource"] = json!(subresource);
            }
            entries.push(entry);
        }
    }
    if let Some(metadata) = after["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        if !entries.is_empty() {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }
}

/// The fields of an object, with their values; `ignored` is the part that the request could not change.
fn flatten(object: &Value, ignored: &str) -> BTreeMap<Vec<String>, Value> {
    let mut fields = BTreeMap::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        if name != ignored && !matches!(name.as_str(), "apiVersion" | "kind") {
            visit(&mut vec![name.clone()], value, &mut fields);
        }
    }
    fields
}

fn visit(path: &mut Vec<String>, value: &Value, fields: &mut BTreeMap<Vec<String>, Value>) {
    if let [first, second] = path.as_slice()
        && first == "metadata"
        && UNOWNED.contains(&second.as_str())
    {
        return;
    }
    let Some(members) = value.as_object() else {
        fields.insert(path.clone(), value.clone());
        return;
    };
    if MAPS.contains(&path.join(".").as_str()) {
        path.push(".".to_owned());
        fields.insert(path.clone(), Value::Null);
        path.pop();
    }
    for (name, value) in members {
        path.push(name.clone());
        visit(path, value, fields);
        path.pop();
    }
}

/// `fieldsV1` as paths.
fn read(fields: &Value) -> Fields {
    fn visit(at: &Value, path: &mut Vec<String>, fields: &mut Fields) {
        for (key, value) in at.as_object().into_iter().flatten() {
            path.push(key.strip_prefix("f:").unwrap_or(key).to_owned());
            if value.as_object().is_none_or(Map::is_empty) {
                fields.insert(path.clone());
            } else {
                visit(value, path, fields);
            }
            path.pop();
        }
    }
    let mut paths = Fields::new();
    visit(fields, &mut Vec::new(), &mut paths);
    paths
}

/// Paths as `fieldsV1`.
fn write(fields: &Fields) -> Value {
    let mut root = json!({});
    for path in fields {
        let mut at = &mut root;
        for part in path {
            let key = if part == "." { ".".to_owned() } else { format!("f:{part}") };
            let members = match at {
                Value::Object(members) => members,
                // Never: only objects are put in.
                _ => return root,
            };
            at = members.entry(key).or_insert_with(|| json!({}));
        }
    }
    root
}
