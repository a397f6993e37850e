//! The extended resources that pod templates and quotas reference.

use serde_json::{Map, Value};

use crate::manifest::{Document, Path};
use crate::model::resource_name::is_extended;

/// The prefix of extended resources in quotas.
const IN_QUOTAS: &str = "requests.";

/// Returns the extended resources that a document references, each with the path of its key.
pub(super) fn resource_refs(document: &Document) -> Vec<(String, Path)> {
    if let Some(quota) = quota(document) {
        let names = names(quota, &Path::from_keys(["spec", "hard"]));
        let extended = names
            .into_iter()
            .filter_map(|(name, path)| name.strip_prefix(IN_QUOTAS).map(|name| (name.to_owned(), path)));
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

/// Returns the spec of a document's pods, if its kind has pods.
pub(super) fn pod_template(document: &Document) -> Option<PodTemplate<'_>> {
    let keys = pod_spec(group(document), document.kind())?;
    let spec = document.value.pointer(&format!("/{}", keys.join("/")))?;
    Some(PodTemplate { spec, path: Path::from_keys(keys.iter().copied()) })
}

/// Returns the keys of a quota, with their limits.
pub(super) fn quota(document: &Document) -> Option<&Map<String, Value>> {
    let is_quota = group(document).is_empty() && document.kind() == "ResourceQuota";
    document.value.pointer("/spec/hard").and_then(Value::as_object).filter(|_| is_quota)
}

/// Returns the API group of a document; the core group is empty.
fn group(document: &Document) -> &str {
    document.api_version().rsplit_once('/').map_or("", |(group, _)| group)
}

/// Returns the path of the pod spec in a kind. The same kind in another group is a different kind.
fn pod_spec(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("", "Pod") => Some(&["spec"]),
        ("", "PodTemplate") => Some(&["template", "spec"]),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("", "ReplicationController")
        | ("batch", "Job") => Some(&["spec", "template", "spec"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

/// Returns the names in `resources` of a container or of a whole pod.
fn resources(owner: &Value, path: &Path) -> Vec<(String, Path)> {
    let resources = path.key("resources");
    let maps = ["limits", "requests"].into_iter();
    maps.flat_map(|map| {
        let fields = owner.get("resources").and_then(|resources| resources.get(map));
        let fields = fields.and_then(Value::as_object);
        fields.map(|fields| names(fields, &resources.key(map))).unwrap_or_default()
    })
    .collect()
}

fn names(fields: &Map<String, Value>, path: &Path) -> Vec<(String, Path)> {
    fields.iter().map(|(name, _)| (name.clone(), path.key(name))).collect()
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
            ("v1 Pod", "spec: POD", "spec"),
            ("v1 PodTemplate", "template: {spec: POD}", "template.spec"),
            ("apps/v1 Deployment", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("apps/v1 StatefulSet", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("apps/v1beta1 DaemonSet", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("apps/v1 ReplicaSet", "spec: {template: {spec: POD}}", "spec.template.spec"),
            ("batch/v1 Job", "spec: {template: {spec: POD}}", "spec.template.spec"),
            (
                "batch/v1 CronJob",
                "spec: {jobTemplate: {spec: {template: {spec: POD}}}}",
                "spec.jobTemplate.spec.template.spec",
            ),
        ] {
            let (version, kind) = kind.split_once(' ').unwrap();
            let shape = shape.replace("POD", spec);
            let other = format!("apiVersion: example.com/v1\nkind: {kind}\n{shape}");
            assert_eq!(found(&other), [""; 0], "{kind}");
            let yaml = format!("apiVersion: {version}\nkind: {kind}\n{shape}");
            assert_eq!(
                found(&yaml),
                [
                    format!("example.com/p {prefix}.resources.requests[example.com/p]"),
                    format!("example.com/i {prefix}.initContainers[0].resources.limits[example.com/i]"),
                    format!("example.com/c {prefix}.containers[1].resources.limits[example.com/c]"),
                    format!("example.com/c {prefix}.containers[1].resources.requests[example.com/c]"),
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
            assert_eq!(found(&format!("apiVersion: v1\nkind: Pod\nspec: {spec}")), [""; 0], "{spec}");
        }
    }
}
