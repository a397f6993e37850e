//! The extended resources that pod templates and quotas ask for.

use serde_json::Value;

use crate::manifest::{Document, Path};
use crate::model::resource_name::is_extended;

/// What a quota calls an extended resource begins with.
const IN_QUOTAS: &str = "requests.";

/// The extended resources that a document asks for, each with the path of the key that names it.
pub(super) fn resource_refs(document: &Document) -> Vec<(String, Path)> {
    let object = &document.value;
    if document.kind() == "ResourceQuota" {
        let hard = Path::from_keys(["spec", "hard"]);
        let names = names(object.pointer("/spec/hard"), &hard);
        let extended = names.into_iter().filter_map(|(name, path)| {
            name.strip_prefix(IN_QUOTAS).map(|name| (name.to_owned(), path))
        });
        return extended.filter(|(name, _)| is_extended(name)).collect();
    }
    let Some(PodTemplate { spec, path }) = pod_template(document) else { return Vec::new() };
    let mut found = resources(spec, &path);
    for list in ["initContainers", "containers"] {
        let containers = spec.get(list).and_then(Value::as_array).into_iter().flatten();
        for (index, container) in containers.enumerate() {
            found.extend(resources(container, &path.key(list).item(index)));
        }
    }
    found.retain(|(name, _)| is_extended(name));
    found
}

/// The spec of an object's pods.
pub(super) struct PodTemplate<'t> {
    pub(super) spec: &'t Value,
    pub(super) path: Path,
}

/// The spec of a document's pods, where its kind has pods.
pub(super) fn pod_template(document: &Document) -> Option<PodTemplate<'_>> {
    let keys = pod_spec(document.kind())?;
    let spec = document.value.pointer(&format!("/{}", keys.join("/")))?;
    Some(PodTemplate { spec, path: Path::from_keys(keys.iter().copied()) })
}

/// Where a kind has the spec of its pods.
fn pod_spec(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "Pod" => Some(&["spec"]),
        "PodTemplate" => Some(&["template", "spec"]),
        "Deployment"
        | "StatefulSet"
        | "DaemonSet"
        | "ReplicaSet"
        | "ReplicationController"
        | "Job" => Some(&["spec", "template", "spec"]),
        "CronJob" => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

/// The names in `resources` of a container, or of a pod as a whole.
fn resources(owner: &Value, path: &Path) -> Vec<(String, Path)> {
    let resources = path.key("resources");
    let maps = ["limits", "requests"].into_iter();
    maps.flat_map(|map| {
        let fields = owner.get("resources").and_then(|resources| resources.get(map));
        names(fields, &resources.key(map))
    })
    .collect()
}

fn names(fields: Option<&Value>, path: &Path) -> Vec<(String, Path)> {
    let fields = fields.and_then(Value::as_object).into_iter().flatten();
    fields.map(|(name, _)| (name.clone(), path.key(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Limits, read_text};

    fn found(yaml: &str) -> Vec<String> {
        let mut found = Vec::new();
        read_text("a.yaml", yaml.to_owned(), &Limits::default(), &mut |document| {
            let requests = resource_refs(&document.unwrap()).into_iter();
            found.extend(requests.map(|(name, path)| format!("{name} {path}")));
        });
        found
    }

    #[test]
    fn manifest_requests_are_found_in_every_pod_template() {
        let spec = "{resources: {requests: {example.com/p: 1}}, initContainers: [{resources: {limits: {example.com/i: 1, cpu: 1}}}], containers: [{}, {resources: {limits: {example.com/c: 1}, requests: {example.com/c: 1}}}]}";
        for (kind, shape, prefix) in [
            ("Pod", "spec: POD", "spec"),
            ("PodTemplate", "template: {spec: POD}", "template.spec"),
            ("Deployment", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("StatefulSet", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("DaemonSet", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("ReplicaSet", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("Job", "spec: {template: {spec: POD}}", "spec.template.spec"),
            (
                "CronJob",
                "spec: {jobTemplate: {spec: {template: {spec: POD}}}}",
                "spec.jobTemplate.spec.template.spec",
            ),
        ] {
            let yaml = format!("apiVersion: v1\nkind: {kind}\n{}", shape.replace("POD", spec));
            assert_eq!(
                found(&yaml),
                [
                    format!("example.com/p {prefix}.resources.requests[example.com/p]"),
                    format!(
                        "example.com/i {prefix}.initContainers[0].resources.limits[example.com/i]"
                    ),
                    format!("example.com/c {prefix}.containers[1].resources.limits[example.com/c]"),
                    format!(
                        "example.com/c {prefix}.containers[1].resources.requests[example.com/c]"
                    ),
                ],
                "{kind}"
            );
        }
    }

    #[test]
    fn manifest_requests_are_found_in_quotas() {
        let quota = "apiVersion: v1\nkind: ResourceQuota\nspec: {hard: {requests.example.com/a: 4, requests.cpu: 1, pods: 4, example.com/b: 1}}";
        assert_eq!(found(quota), ["example.com/a spec.hard[requests.example.com/a]"]);
    }

    #[test]
    fn manifest_of_unexpected_shape_has_no_requests() {
        for spec in ["", "5", "[]", "{containers: 5}", "{containers: [5, {resources: [1]}]}"] {
            assert_eq!(
                found(&format!("apiVersion: v1\nkind: Pod\nspec: {spec}")),
                [""; 0],
                "{spec}"
            );
        }
    }
}
