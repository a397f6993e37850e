//! The CRD's schema as a plain JSON Schema, for tools that do not read CRDs: kubeconform, editors.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

use super::schema::ONLY_TRUE;

/// Returns the JSON Schema of an object of one version. It has no CEL rules, which `validate` checks.
#[must_use]
pub fn json_schema(crd: &CustomResourceDefinition, version: &str) -> Option<Value> {
    let found = crd.spec.versions.iter().find(|known| known.name == version)?;
    let props = found.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    let mut schema = plain(serde_json::to_value(props).ok()?);
    let properties = schema.get_mut("properties")?.as_object_mut()?;
    let group = &crd.spec.group;
    properties.insert("apiVersion".into(), json!({"enum": [format!("{group}/{version}")]}));
    properties.insert("kind".into(), json!({"enum": [crd.spec.names.kind]}));
    properties.insert("metadata".into(), json!({"type": "object"}));
    schema["required"] = json!(["apiVersion", "kind", "metadata", "spec"]);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    Some(schema)
}

/// Translates OpenAPI and Kubernetes extensions to JSON Schema.
fn plain(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    let flag = |schema: &Map<String, Value>, key| schema.get(key) == Some(&Value::Bool(true));
    if flag(&schema, "x-kubernetes-int-or-string") {
        schema.insert("type".into(), json!(["integer", "string"]));
    }
    if schema.get("type") == Some(&"boolean".into())
        && schema.get("x-kubernetes-validations").and_then(|rules| rules.pointer("/0/rule")) == Some(&ONLY_TRUE.into())
    {
        schema.insert("enum".into(), json!([true]));
    }
    if flag(&schema, "nullable")
        && let Some(kind) = schema.get("type").cloned()
    {
        schema.insert("type".into(), json!([kind, "null"]));
    }
    // The API server drops unknown fields, which are usually mistakes.
    if schema.contains_key("properties") && !flag(&schema, "x-kubernetes-preserve-unknown-fields") {
        schema.entry("additionalProperties").or_insert(false.into());
    }
    schema.retain(|key, _| key != "nullable" && !key.starts_with("x-kubernetes-"));
    // A null in a map is kept, so that a CEL rule can reject it.
    if let Some(Value::Object(below)) = schema.get_mut("additionalProperties") {
        below.remove("nullable");
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(key) {
            *below = plain(below.take());
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|below| *below = plain(below.take()));
    }
    schema.into()
}
