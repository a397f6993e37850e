use crate::{program, read};

#[test]
fn crd_file_is_up_to_date() {
    let output = program(&["crd"]);
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let file = read("crds/noderesource.dev_nodeextendedresources.yaml");
    assert!(printed == file, "crds/ is not what the types say: run `make crds`");
}

#[test]
fn json_schema_file_is_up_to_date() {
    let output = program(&["crd", "--output", "json-schema"]);
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let file = read("crds/json-schema/nodeextendedresource_v1alpha1.json");
    assert!(printed == file, "crds/json-schema/ is not what the types say: run `make crds`");

    let schema: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let spec = &schema["properties"]["spec"];
    assert_eq!(schema["properties"]["kind"]["enum"][0], "NodeExtendedResource");
    assert_eq!(spec["additionalProperties"], false);
    assert_eq!(spec["properties"]["quantity"]["type"][0], "integer");
    assert_eq!(spec["properties"]["allNodes"]["enum"][0], true);
    let labels = &spec["properties"]["nodeSelector"]["properties"]["matchLabels"];
    assert_eq!(labels["additionalProperties"]["type"], "string");
    assert!(!printed.contains("\"x-") && !printed.contains("nullable"), "{printed}");
}

/// What selects nodes, or states where the quantity is, belongs to one field manager in server-side apply.
#[test]
fn crd_fields_that_select_are_atomic() {
    let crd = serde_json::to_value(node_resource_advertiser::model::api::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for (field, kind) in [("nodeSelector", "map"), ("quantityFrom", "map"), ("nodeNames", "list")] {
        assert_eq!(spec[field][format!("x-kubernetes-{kind}-type")], "atomic", "{field}");
    }
}

/// The schema, walked: whatever `kubectl explain` can be asked for has an answer, and nothing is
/// without a bound, which CEL on the API server demands.
#[test]
fn crd_fields_are_described_and_bounded() {
    let crd = serde_json::to_value(node_resource_advertiser::model::api::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut wrong = Vec::new();
    for part in ["spec", "status"] {
        check(part, &schema["properties"][part], &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(schema["properties"]["status"]["default"]["observedGeneration"], -1);
}

fn check(path: &str, schema: &serde_json::Value, wrong: &mut Vec<String>) {
    if schema["description"].as_str().unwrap_or("").is_empty() {
        wrong.push(format!("{path} has no description"));
    }
    if schema["description"].as_str().is_some_and(|text| text.replace("\n\n", "").contains('\n')) {
        wrong.push(format!("{path} has a description with line breaks in it"));
    }
    let in_spec = path.starts_with("spec");
    let bound = match schema["type"].as_str() {
        Some("array") => "maxItems",
        Some("string") if in_spec && schema.get("enum").is_none() => "maxLength",
        _ => "",
    };
    if !bound.is_empty() && schema.get(bound).is_none() {
        wrong.push(format!("{path} has no {bound}"));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check(&format!("{path}.{name}"), property, wrong);
    }
    if let Some(properties) = schema["items"]["properties"].as_object() {
        for (name, property) in properties {
            check(&format!("{path}[].{name}"), property, wrong);
        }
    }
}
