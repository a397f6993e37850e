//! Checks rendered objects with kubeconform, against the schemas that the API server publishes.
//!
//! Method: split the server's OpenAPI document into a JSON schema for each kind, reject unknown
//! fields in all of them, and run kubeconform over what helm rendered.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Cluster, Output, wait_until};
use serde_json::{Map, Value, json};

/// Writes the schema of every kind that the API server publishes, and returns the path pattern with
/// which kubeconform finds them.
pub fn write_schemas(cluster: &Cluster) -> String {
    // The document contains a CRD's kind a moment after the CRD is Established.
    let document = wait_until("the kinds of all CRDs to be published", || {
        let text = cluster.control_plane.get("/openapi/v2")?;
        Ok(["NodeExtendedResource", "PrometheusRule", "ServiceMonitor"]
            .iter()
            .all(|kind| text.contains(&format!("\"kind\":\"{kind}\"")))
            .then_some(text))
    });
    let document: Value = serde_json::from_str(&document.unwrap()).unwrap();
    let mut definitions = document["definitions"].as_object().unwrap().clone();
    definitions.values_mut().for_each(reject_unknown_fields);
    let int_or_string = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    definitions.insert(int_or_string.to_owned(), json!({"type": ["integer", "string"]}));

    let dir = cluster.control_plane.dir().join("schemas");
    fs::create_dir_all(&dir).unwrap();
    let mut written = 0;
    for (name, definition) in &definitions {
        let kinds = definition["x-kubernetes-group-version-kind"].as_array();
        // Kinds that belong to several groups are lists and options, which no manifest contains.
        let Some([kind]) = kinds.map(Vec::as_slice) else { continue };
        let field = |name: &str| kind[name].as_str().unwrap_or_default().to_lowercase();
        // kubeconform uses the first word of the group.
        let group = field("group").split('.').next().unwrap_or_default().to_owned();
        let suffix: Vec<_> =
            [field("kind"), group, field("version")].into_iter().filter(|part| !part.is_empty()).collect();
        let mut needed = Map::new();
        collect(&format!("#/definitions/{name}"), &definitions, &mut needed);
        let schema = json!({"$ref": format!("#/definitions/{name}"), "definitions": needed});
        fs::write(dir.join(format!("{}.json", suffix.join("-"))), schema.to_string()).unwrap();
        written += 1;
    }
    assert!(written > 50, "{written} kinds");
    format!("{}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json", dir.display())
}

/// OpenAPI accepts unknown fields unless the schema forbids them.
fn reject_unknown_fields(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let open = fields.contains_key("additionalProperties")
                || fields.contains_key("x-kubernetes-preserve-unknown-fields");
            if fields.get("properties").is_some_and(Value::is_object) && !open {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            fields.values_mut().for_each(reject_unknown_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(reject_unknown_fields),
        _ => {}
    }
}

/// Adds a definition, and those that it references.
fn collect(reference: &str, definitions: &Map<String, Value>, needed: &mut Map<String, Value>) {
    let Some(name) = reference.strip_prefix("#/definitions/") else { return };
    if needed.contains_key(name) {
        return;
    }
    let definition = &definitions[name];
    needed.insert(name.to_owned(), definition.clone());
    let mut open = vec![definition];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    collect(reference, definitions, needed);
                }
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

/// Checks every object of a rendered variant.
pub fn check(schemas: &str, variant: &Path, rendered: &str) {
    let mut kubeconform = Command::new(harness::tool("kubeconform").unwrap());
    kubeconform.args(["-strict", "-summary", "-schema-location", schemas, "-"]);
    let Output { stdout, code, .. } = Output::run(&mut kubeconform, Some(rendered)).unwrap();
    assert!(code == 0 && stdout.contains("Skipped: 0"), "{}: {stdout}", variant.display());
}
