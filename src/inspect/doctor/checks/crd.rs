//! The CustomResourceDefinition of rules.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray,
};

use super::controller::by_release;
use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Snapshot, known};
use crate::inspect::hint;
use crate::model::api::{self, VERSION};

fn fix() -> String {
    format!("{}, or upgrade with Helm", hint::install_crd())
}

/// Finds that the CRD is missing, is not served, or has other fields than this program.
pub(super) fn check(snapshot: &Snapshot) -> Outcome {
    let own = api::crd();
    let object = || vec![ObjectName::new("CustomResourceDefinition", own.metadata.name.clone().unwrap_or_default())];
    let missing = || {
        let problem = "it is not installed, so there are no rules".to_owned();
        vec![Finding::error(object(), problem, format!("install node-resource-advertiser {}", by_release()))]
    };
    // Who may not read the CRD sees that the kind is not served.
    if let Ok(None) = snapshot.rules {
        return Ok(match &snapshot.crd {
            Ok(Some(_)) => {
                let problem = "the API server does not serve the kind yet, or rejects its names".to_owned();
                vec![Finding::error(
                    object(),
                    problem,
                    format!("see its conditions: {}", hint::kubectl("describe crd")),
                )]
            }
            _ => missing(),
        });
    }
    let Some(crd) = known(&snapshot.crd)? else { return Ok(missing()) };
    let Some(served) = version(crd).filter(|version| version.served) else {
        let problem = format!("it does not serve the version {VERSION}");
        return Ok(vec![Finding::error(object(), problem, fix())]);
    };
    let (theirs, ours) = (fields(served), version(&own).map(fields).unwrap_or_default());
    let list = |fields: Vec<&String>| fields.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut findings = Vec::new();
    let lacks: Vec<_> = ours.difference(&theirs).collect();
    if !lacks.is_empty() {
        let problem = format!("it is older than this program, and drops these fields: {}", list(lacks));
        findings.push(Finding::error(object(), problem, fix()));
    }
    let more: Vec<_> = theirs.difference(&ours).collect();
    if !more.is_empty() {
        let problem = format!("it has fields that this program does not know: {}", list(more));
        findings.push(Finding::warning(object(), problem, "use the program of the same version"));
    }
    Ok(findings)
}

fn version(crd: &CustomResourceDefinition) -> Option<&CustomResourceDefinitionVersion> {
    crd.spec.versions.iter().find(|version| version.name == VERSION)
}

/// Returns the paths of all fields.
fn fields(version: &CustomResourceDefinitionVersion) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    if let Some(schema) = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()) {
        add_fields(schema, "", &mut fields);
    }
    fields
}

fn add_fields(schema: &JSONSchemaProps, path: &str, fields: &mut BTreeSet<String>) {
    for (name, schema) in schema.properties.iter().flatten() {
        let path = format!("{path}{}{name}", if path.is_empty() { "" } else { "." });
        add_fields(schema, &path, fields);
        fields.insert(path);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        add_fields(items, path, fields);
    }
}
