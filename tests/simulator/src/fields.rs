//! `managedFields`: the last field manager of each field, as the API server records it for updates (not for
//! server-side apply).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::server::Writer;

/// Fields by their path, in the notation of `fieldsV1`: `f:name`, `k:{"type":"Ready"}`.
type Fields = BTreeSet<Vec<String>>;

/// Fields that are maps in the schema, not structures: the map itself has an owner.
const MAPS: [&str; 4] =
    ["f:metadata/f:labels", "f:metadata/f:annotations", "f:status/f:capacity", "f:status/f:allocatable"];

/// Lists whose items have separate owners, with the key field.
const LISTS: [(&str, &str); 2] = [("f:status/f:conditions", "type"), ("f:status/f:addresses", "type")];

/// Fields without an owner.
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

/// Records the changes of `writer` in the object to be stored.
pub(crate) fn record(
    before: Option<&Value>,
    after: &mut Value,
    (writer, subresource, time): (&Writer, &str, &str),
    ignored: &str,
) {
    let old = before.map(|before| flatten(before, ignored)).unwrap_or_default();
    let new = flatten(after, ignored);
    let changed: Fields =
        new.iter().filter(|(path, value)| old.get(*path) != Some(*value)).map(|(path, _)| path.clone()).collect();
    let removed: Fields = old.keys().filter(|path| !new.contains_key(*path)).cloned().collect();
    let entries = before.map_or(&Value::Null, |before| &before["metadata"]["managedFields"]);
    let mut entries: Vec<Value> = entries.as_array().cloned().unwrap_or_default();
    // An unowned field of an existing object gets no owner through an update.
    let is_tracked = before.is_none() || !entries.is_empty();
    let is_own = |entry: &Value| {
        entry["manager"] == writer.manager.as_str()
            && entry["operation"] == "Update"
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    };
    if is_tracked && (!changed.is_empty() || !removed.is_empty()) {
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

/// Returns the fields of an object with their values; `ignored` is the part that the request cannot change.
fn flatten(object: &Value, ignored: &str) -> BTreeMap<Vec<String>, Value> {
    let mut fields = BTreeMap::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        if name != ignored && !matches!(name.as_str(), "apiVersion" | "kind") {
            visit(&mut vec![format!("f:{name}")], value, &mut fields);
        }
    }
    fields
}

fn visit(path: &mut Vec<String>, value: &Value, fields: &mut BTreeMap<Vec<String>, Value>) {
    if let [first, second] = path.as_slice()
        && first == "f:metadata"
        && UNOWNED.iter().any(|name| second[2..] == **name)
    {
        return;
    }
    let joined = path.join("/");
    let list = LISTS.iter().find(|(list, _)| *list == joined);
    let is_item = path.last().is_some_and(|part| part.starts_with("k:"));
    if is_item || list.is_some() || MAPS.contains(&joined.as_str()) {
        fields.insert(path.clone(), Value::Null);
    }
    let members: Vec<_> = match (value, list) {
        (Value::Object(members), _) => members.iter().map(|(name, value)| (format!("f:{name}"), value)).collect(),
        (Value::Array(items), Some((_, key))) => {
            items.iter().map(|item| (format!("k:{}", json!({*key: item[*key]})), item)).collect()
        }
        _ => {
            fields.insert(path.clone(), value.clone());
            return;
        }
    };
    for (part, value) in members {
        path.push(part);
        visit(path, value, fields);
        path.pop();
    }
}

/// Parses `fieldsV1` into paths. An empty map is a field; a map with members is one only if it contains `.`.
fn read(fields: &Value) -> Fields {
    fn visit(at: &Value, path: &mut Vec<String>, fields: &mut Fields) {
        let members = at.as_object().filter(|members| !members.is_empty());
        if members.is_none_or(|members| members.contains_key(".")) && !path.is_empty() {
            fields.insert(path.clone());
        }
        for (key, value) in members.into_iter().flatten().filter(|(key, _)| *key != ".") {
            path.push(key.clone());
            visit(value, path, fields);
            path.pop();
        }
    }
    let mut paths = Fields::new();
    visit(fields, &mut Vec::new(), &mut paths);
    paths
}

/// Formats paths as `fieldsV1`.
fn write(fields: &Fields) -> Value {
    let mut root = json!({});
    for path in fields {
        let mut at = &mut root;
        for (length, part) in path.iter().enumerate() {
            if length > 0 && fields.contains(&path[..length]) {
                at["."] = json!({});
            }
            at = &mut at[part.as_str()];
            if at.is_null() {
                *at = json!({});
            }
        }
    }
    root
}
