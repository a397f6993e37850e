//! The metadata of objects, which the API server validates outside of CRDs (`ValidateObjectMeta` in
//! `k8s.io/apimachinery/pkg/api/validation`).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::cel::CelEnv;
use super::code::Code;
use super::schema::Schema;
use super::violation::Violation;
use crate::manifest::Path;
use crate::model::label::{excerpt, is_dns_subdomain, is_label_value, is_qualified_name};

/// The most bytes that the annotations of an object may have, keys and values together.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Returns the schema of metadata, from the API's own type.
///
/// # Errors
/// If it is not a schema, which a test would show.
pub(super) fn schema(cel: &CelEnv) -> Result<Schema, String> {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<ObjectMeta>();
    let props: JSONSchemaProps = serde_json::from_value(schema.to_value()).map_err(|error| error.to_string())?;
    let mut schema = Schema::new(&props, cel)?;
    // managedFields are written by the API server, and have no fixed fields.
    if let Some(managed) = schema.property_mut("managedFields") {
        managed.allow_any();
    }
    Ok(schema)
}

/// Checks what the schema cannot express.
pub(super) fn check(object: &Value) -> Vec<Violation> {
    let mut violations = check_name(object);
    for (path, key, value) in entries(object, "labels") {
        if !is_qualified_name(key) {
            violations.push(not_a_key(&path, Code::MetadataLabel, key));
        }
        if value.as_str().is_some_and(|value| !is_label_value(value)) {
            let message = format!("Invalid value: {}: not a label value", shown(value));
            violations.push(Violation::new(&path, Code::MetadataLabel, message).hint(Some(
                "write at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends".to_owned(),
            )));
        }
    }
    for (path, key, _) in entries(object, "annotations") {
        // Unlike labels, annotations may have uppercase letters in the domain.
        if !is_qualified_name(&key.to_lowercase()) {
            violations.push(not_a_key(&path, Code::MetadataAnnotation, key));
        }
    }
    violations.extend(check_size(object));
    violations.extend(["creationTimestamp", "deletionTimestamp"].iter().filter_map(|field| check_time(object, field)));
    violations
}

fn check_size(object: &Value) -> Option<Violation> {
    let annotations = entries(object, "annotations");
    let sizes = annotations.iter().map(|(_, key, value)| key.len() + value.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() <= MAX_ANNOTATIONS {
        return None;
    }
    let message = format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes");
    let hint = "keep long texts elsewhere, such as in a ConfigMap".to_owned();
    let path = Path::from_keys(["metadata", "annotations"]);
    Some(Violation::new(&path, Code::MaxLength, message).hint(Some(hint)))
}

fn check_time(object: &Value, field: &str) -> Option<Violation> {
    // Values of another type are reported by the schema.
    let value = object.pointer(&format!("/metadata/{field}")).filter(|value| value.is_string())?;
    if serde_json::from_value::<Time>(value.clone()).is_ok() {
        return None;
    }
    let message = format!("Invalid value: {}: not a time", shown(value));
    let hint = "remove it: the API server sets it".to_owned();
    Some(Violation::new(&Path::from_keys(["metadata", field]), Code::Pattern, message).hint(Some(hint)))
}

fn check_name(object: &Value) -> Vec<Violation> {
    let path = Path::from_keys(["metadata"]);
    let field = |name| {
        let value = object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
        value.filter(|value| !value.is_empty())
    };
    // Values of another type are reported by the schema.
    let metadata = object.get("metadata").filter(|metadata| !metadata.is_null());
    let name = metadata.and_then(|metadata| metadata.get("name")).filter(|name| !name.is_null());
    if metadata.is_some_and(|metadata| !metadata.is_object()) || name.is_some_and(|name| !name.is_string()) {
        return Vec::new();
    }
    let (key, name, valid) = match (field("name"), field("generateName")) {
        (Some(name), _) => ("name", name, is_dns_subdomain(name)),
        // The API server appends letters and digits.
        (None, Some(prefix)) => ("generateName", prefix, is_dns_subdomain(&format!("{prefix}x"))),
        (None, None) => {
            let message = "Required value: name or generateName is required";
            let hint = "every object needs a name: metadata: {name: dongle}".to_owned();
            return vec![Violation::new(&path.key("name"), Code::MetadataName, message).hint(Some(hint))];
        }
    };
    if valid {
        return Vec::new();
    }
    let message = format!("Invalid value: \"{}\": not the name of an object", excerpt(name));
    let hint = "write lower case letters, digits, '-' and '.', with a letter or digit at both ends";
    vec![Violation::new(&path.key(key), Code::MetadataName, message).hint(Some(hint.to_owned()))]
}

fn entries<'t>(object: &'t Value, map: &str) -> Vec<(Path, &'t String, &'t Value)> {
    let path = Path::from_keys(["metadata", map]);
    let fields = object.pointer(&format!("/metadata/{map}")).and_then(Value::as_object);
    fields.into_iter().flatten().map(|(key, value)| (path.key(key), key, value)).collect()
}

fn not_a_key(path: &Path, code: Code, key: &str) -> Violation {
    let what = if code == Code::MetadataLabel { "a label" } else { "an annotation" };
    let message = format!("Invalid value: \"{}\": not the key of {what}", excerpt(key));
    let hint = "write <name> or <domain>/<name>, the name of 1 to 63 letters, digits, '-', '_' or '.'";
    Violation::new(path, code, message).hint(Some(hint.to_owned())).at_key()
}

fn shown(value: &Value) -> String {
    format!("\"{}\"", excerpt(value.as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_validation_covers_names_labels_and_annotations() {
        for (metadata, says) in [
            (json!({"name": "a.b-c"}), ""),
            (json!({"generateName": "dongle-"}), ""),
            (json!({"name": "a", "labels": {"Example": "A", "example.com/b": ""}}), ""),
            (json!({"name": "a", "annotations": {"Example.com/A": "any text"}}), ""),
            (json!({}), "metadata.name Required value: name or generateName is required"),
            (json!({"name": ""}), "metadata.name Required value"),
            (json!({"name": "A_b"}), "metadata.name Invalid value: \"A_b\""),
            (json!({"generateName": "-a"}), "metadata.generateName Invalid value"),
            (
                json!({"name": "a", "labels": {"-a": "b"}}),
                "metadata.labels[-a] Invalid value: \"-a\": not the key of a label",
            ),
            (json!({"name": "a", "labels": {"Example.com/a": "b"}}), "metadata.labels[Example.com/a] "),
            (json!({"name": "a", "labels": {"a": "b c"}}), "metadata.labels.a Invalid value: \"b c\""),
            (
                json!({"name": "a", "annotations": {"a/b/c": "b"}}),
                "metadata.annotations[a/b/c] Invalid value: \"a/b/c\": not the key of an annotation",
            ),
            (json!({"name": "a", "annotations": {"a": "b".repeat((256 << 10) - 1)}}), ""),
            (
                json!({"name": "a", "annotations": {"a": "b".repeat(256 << 10)}}),
                "metadata.annotations Too long: may not be more than 262144 bytes",
            ),
            (json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": null}), ""),
            (
                json!({"name": "a", "creationTimestamp": "yesterday"}),
                "metadata.creationTimestamp Invalid value: \"yesterday\": not a time",
            ),
            (json!({"name": "a", "deletionTimestamp": ""}), "metadata.deletionTimestamp Invalid value: \"\""),
        ] {
            let violations = check(&json!({"metadata": metadata}));
            let found = violations.iter().map(|violation| format!("{} {}", violation.path, violation.message));
            let found = found.collect::<Vec<_>>().join("; ");
            assert_eq!(found.is_empty(), says.is_empty(), "{metadata}: {found}");
            assert!(found.starts_with(says), "{metadata}: {found}");
        }
    }

    #[test]
    fn metadata_schema_matches_the_api() {
        let cel = CelEnv::new().unwrap();
        let schema = schema(&cel).unwrap();
        let violations = |metadata| schema.check(&metadata, &cel);
        let fine = json!({"name": "a", "labels": {"a": "b"}, "creationTimestamp": null,
            "uid": "x", "generation": 3, "managedFields": [{"fieldsV1": {"f:spec": {}}}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "x"}]});
        assert_eq!(violations(fine), []);
        assert_eq!(violations(json!({"labels": {"a": true}}))[0].code, Code::Type);
        let found = violations(json!({"labelz": {}}));
        assert_eq!(found[0].hint.as_deref(), Some("did you mean labels?"));
    }
}
