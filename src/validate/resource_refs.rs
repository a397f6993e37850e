//! The extended resources that pods and quotas reference.

use serde_json::{Map, Value};

use super::amounts;
use super::pods::Pod;
use crate::manifest::{Document, Path};
use crate::model::resource_name::is_extended;

/// The prefix of extended resources in quotas.
const IN_QUOTAS: &str = "requests.";

/// Returns the extended resources that a quota references, each with the path of its key.
pub(super) fn of_quota(document: &Document) -> Vec<(String, Path)> {
    let Some(quota) = quota(document) else { return Vec::new() };
    let names = names(quota, &Path::from_keys(["spec", "hard"])).into_iter();
    let extended = names.filter_map(|(name, path)| name.strip_prefix(IN_QUOTAS).map(|name| (name.to_owned(), path)));
    extended.filter(|(name, _)| is_extended(name)).collect()
}

/// Returns the extended resources that a pod references, each with the path of its key.
pub(super) fn of_pod(pod: &Pod<'_>) -> Vec<(String, Path)> {
    let mut found = resources(pod.spec, &pod.path);
    for container in &pod.containers {
        found.extend(resources(container.value, &container.path));
        found.extend(devices(container.value, &container.path));
    }
    found.retain(|(name, _)| is_extended(name));
    found
}

/// Returns the keys of a quota, with their limits.
pub(super) fn quota(document: &Document) -> Option<&Map<String, Value>> {
    let is_quota = document.group().is_empty() && document.kind() == "ResourceQuota";
    document.value.pointer("/spec/hard").and_then(Value::as_object).filter(|_| is_quota)
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

/// Returns the resources that KubeVirt requests for the devices of a virtual machine.
fn devices(domain: &Value, path: &Path) -> Vec<(String, Path)> {
    let lists = ["gpus", "hostDevices"].into_iter();
    lists
        .flat_map(|list| {
            let path = path.key("devices").key(list);
            let devices = domain.get("devices").and_then(|devices| devices.get(list)).and_then(Value::as_array);
            devices.into_iter().flatten().enumerate().filter_map(move |(index, device)| {
                let name = device.get("deviceName").and_then(Value::as_str)?;
                Some((name.to_owned(), path.item(index).key("deviceName")))
            })
        })
        .collect()
}

/// Returns the names of the amounts that are not 0: a request of 0 needs nothing.
pub(super) fn names(fields: &Map<String, Value>, path: &Path) -> Vec<(String, Path)> {
    let needed = fields.iter().filter(|(_, value)| amounts::quantity(value).is_none_or(|quantity| !quantity.is_zero()));
    needed.map(|(name, _)| (name.clone(), path.key(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pods::pods;
    use super::*;
    use crate::manifest::{Limits, read_text};

    fn found(yaml: &str) -> Vec<String> {
        let mut found = Vec::new();
        read_text("a.yaml", yaml.to_owned(), &Limits::default(), &mut |document| {
            let document = document.unwrap();
            let mut refs = of_quota(&document);
            pods(&document).iter().for_each(|pod| refs.extend(of_pod(pod)));
            found.extend(refs.into_iter().map(|(name, path)| format!("{name} {path}")));
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
