//! Mistakes with extended resources in pods: the API server rejects such pods when they are created, often without
//! naming the manifest, since a controller creates them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::amounts::{self, Place};
use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use super::pods::{Container, Origin, Pod, pod_spec};
use super::shape::{self, names_extended, unknown_field};
use super::violation::Violation;
use crate::manifest::{Document, Path, Step};
use crate::model::label::excerpt;
use crate::model::pod::{self, Requests};
use crate::model::quantity::Quantity;
use crate::model::resource_name::is_extended;
use crate::model::spelling::closest;

/// A problem in a pod.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) diagnostic: Diagnostic,
    /// Set if a LimitRange can solve it.
    pub(super) limit_missing: Option<LimitMissing>,
}

/// A request of a Pod without a limit.
#[derive(Clone, Debug)]
pub(super) struct LimitMissing {
    pub(super) namespace: String,
    pub(super) resource: String,
    pub(super) request: Quantity,
}

/// Returns the problems of a document with these pods.
pub(super) fn check(document: &Document, pods: &[Pod<'_>]) -> Vec<Problem> {
    let mut violations = Vec::new();
    check_beside(document, &mut violations);
    let mut problems: Vec<_> =
        violations.into_iter().map(|violation| problem(document, Origin::Template, violation)).collect();
    for pod in pods {
        let mut violations = Vec::new();
        check_pod(pod, &mut violations);
        problems.extend(violations.into_iter().map(|violation| problem(document, pod.origin, violation)));
    }
    problems
}

fn problem(document: &Document, origin: Origin, mut violation: Violation) -> Problem {
    violation.hint = violation.placeholder(document.at(&violation.path)).or(violation.hint.take());
    let limit_missing = (origin == Origin::Pod).then(|| limit_missing(document, &violation)).flatten();
    let mut diagnostic = Diagnostic::found(violation, document);
    if origin == Origin::Unknown {
        diagnostic.severity = Severity::Warning;
    }
    Problem { diagnostic, limit_missing }
}

fn limit_missing(document: &Document, violation: &Violation) -> Option<LimitMissing> {
    let (Code::PodLimitMissing, Some(Step::Key(resource))) = (violation.code, violation.path.steps().last()) else {
        return None;
    };
    let request = amounts::quantity(document.at(&violation.path)?)?;
    Some(LimitMissing { namespace: namespace(document).to_owned(), resource: resource.clone(), request })
}

/// Returns the namespace of a document; empty if kubectl fills it in.
pub(super) fn namespace(document: &Document) -> &str {
    document.value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the requests of one pod, counted like the scheduler does.
pub(super) fn requests(pod: &Pod<'_>) -> Requests {
    let trimmed = |is_init: bool| -> Value {
        let containers = pod.containers.iter().filter(|container| container.is_init == is_init);
        let containers = containers.map(|Container { value, .. }| {
            // A limit alone is also a request.
            let mut requests = extended(value, "limits");
            requests.extend(extended(value, "requests"));
            let policy = value.get("restartPolicy").and_then(Value::as_str);
            json!({"resources": {"requests": requests}, "restartPolicy": policy})
        });
        containers.collect()
    };
    let spec = json!({"containers": trimmed(false), "initContainers": trimmed(true)});
    serde_json::from_value::<pod::Pod>(json!({"spec": spec})).map(|pod| Requests::of(&pod)).unwrap_or_default()
}

/// Returns the extended resources in `limits` or `requests`.
fn extended(container: &Value, map: &str) -> BTreeMap<String, String> {
    let fields = container.pointer(&format!("/resources/{map}")).and_then(Value::as_object);
    let fields = fields.into_iter().flatten().filter(|(name, _)| is_extended(name));
    fields.filter_map(|(name, value)| Some((name.clone(), amounts::text(value)?))).collect()
}

/// The fields of a pod with containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Reports resources and containers that are beside the pod of an object, in any of the maps around it.
fn check_beside(document: &Document, violations: &mut Vec<Violation>) {
    let mut path = Path::default();
    let keys = pod_spec(document.group(), document.kind()).unwrap_or_default();
    for key in keys {
        let fields = match document.at(&path) {
            Some(Value::Object(fields)) => fields,
            list => return check_list(list, &path, violations),
        };
        for (field, value) in fields.iter().filter(|(field, _)| field != key) {
            let is_meant = closest(field, ["resources", "limits", "requests"]).is_some() && names_extended(value);
            // A status repeats the resources, and claims to volumes have their own.
            let has_others = || ["metadata", "status", "volumeClaimTemplates"].contains(&field.as_str());
            let claims = (document.kind() == "StatefulSet").then_some("volumeClaimTemplates");
            let hint = match closest(field, [*key].into_iter().chain(claims)) {
                _ if is_meant || is_extended(field) => "write it in resources of the container that uses it".to_owned(),
                _ if has_others() || !holds_containers(value) => continue,
                Some(close) => format!("did you mean {close}?"),
                None => format!("write the containers of a pod in {}.containers", keys.join(".")),
            };
            violations.push(unknown_field(&path.key(field), &hint));
        }
        path = path.key(key);
    }
    if !keys.is_empty() {
        check_list(document.at(&path), &path, violations);
    }
}

/// Reports a list with containers where a map belongs.
fn check_list(value: Option<&Value>, path: &Path, violations: &mut Vec<Violation>) {
    let list = value.filter(|value| value.is_array() && names_extended(value));
    let hint = "remove the dash before its first field";
    violations.extend(list.map(|list| shape::wrong_type(path, list, "a map", hint)));
}

/// Returns whether a value holds containers that name extended resources.
fn holds_containers(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| key == "resources" && names_extended(value) || holds_containers(value))
        }
        Value::Array(items) => items.iter().any(holds_containers),
        _ => false,
    }
}

/// Reports containers that are elsewhere in the spec of a pod, or in a map.
fn check_containers(spec: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    for (field, value) in spec {
        let is_known = CONTAINERS.contains(&field.as_str());
        // Claims to volumes have resources of their own.
        let is_other = ["volumes", "resources"].contains(&field.as_str());
        let holds = if is_known { names_extended } else { holds_containers };
        if is_known && value.is_array() || is_other || !holds(value) {
            continue;
        }
        let path = path.key(field);
        violations.push(match closest(field, ["containers", "initContainers", "volumes"]) {
            _ if is_known => shape::wrong_type(&path, value, "a list", "begin each container with - name:"),
            Some(close) => unknown_field(&path, &format!("did you mean {close}?")),
            None => unknown_field(&path, "write its containers in containers"),
        });
    }
}

fn check_pod(pod: &Pod<'_>, violations: &mut Vec<Violation>) {
    if let Some(fields) = pod.spec.as_object() {
        // Of other kinds, only templates: elsewhere, resources beside containers may be those of a container that is
        // not written.
        if pod.origin != Origin::Unknown || is_template(&pod.path) {
            // Containers have a check of their own, in a pod that is one for sure.
            let is_other = |field: &str| pod.origin == Origin::Unknown || !CONTAINERS.contains(&field);
            let others = fields.iter().filter(|(field, _)| is_other(field));
            check_place(others, &pod.path, pod.origin, violations);
            check_native_level(fields, &pod.path.key("resources"), violations);
        }
        // Other kinds may have fields of these names with another meaning.
        if pod.origin != Origin::Unknown {
            check_pod_level(fields, &pod.path, violations);
            check_containers(fields, &pod.path, violations);
            check_volumes(fields, &pod.path, violations);
            check_ephemeral(fields, &pod.path, violations);
            check_overhead(pod, violations);
        }
    }
    for container in pod.containers.iter().filter(|container| container.is_whole) {
        let Some(fields) = container.value.as_object() else { continue };
        check_place(fields.iter(), &container.path, pod.origin, violations);
        if pod.origin != Origin::Unknown {
            check_nested(fields, &container.path, violations);
        }
        check_native_only(fields, &container.path, violations);
        let path = container.path.key("resources");
        match fields.get("resources") {
            Some(Value::Object(resources)) => {
                check_fields(resources, &path, "write it in limits", violations);
                check_amounts(resources, &path, violations);
            }
            _ if pod.origin == Origin::Unknown => {}
            resources => {
                shape::map(resources, &path, IN_CONTAINER, violations);
            }
        }
    }
}

/// Returns whether a path is that of the pod in a template, such as `spec.workerTemplate.spec`.
fn is_template(path: &Path) -> bool {
    match path.steps() {
        [.., Step::Key(template), Step::Key(spec)] => spec == "spec" && template.to_lowercase().ends_with("template"),
        _ => false,
    }
}

/// What to do about a value that is no map in a container.
const IN_CONTAINER: &str = "write limits: {example.com/dongle: 1} below resources";

/// What to do about an extended resource that is not in a container.
const FOR_CONTAINER: &str = "write it in limits of the container that uses it";

/// Reports resources that are not where a pod or container has them; in kinds that are unknown here and may have other
/// fields, only extended ones.
fn check_place<'t>(
    fields: impl Iterator<Item = (&'t String, &'t Value)>,
    path: &Path,
    origin: Origin,
    violations: &mut Vec<Violation>,
) {
    let is_meant = |amounts: &Value| origin != Origin::Unknown || names_extended(amounts);
    for (field, value) in fields {
        let mut amounts = ["limits", "requests"].into_iter().filter_map(|map| value.get(map));
        let has_amounts = amounts.any(|amounts| amounts.is_object() && is_meant(amounts));
        let hint = match field.as_str() {
            "resources" => continue,
            _ if has_amounts || has_resources(field, value, origin) => "did you mean resources?",
            "limits" | "requests" if is_meant(value) => "write it below resources",
            name if is_extended(name) => "write it below resources, in limits",
            _ => continue,
        };
        violations.push(unknown_field(&path.key(field), hint));
    }
}

/// Reports lists of containers in a container, which are probably indented too far.
fn check_nested(container: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    let is_list = |field: &&&str| container.get(**field).is_some_and(|list| list.is_array() && holds_containers(list));
    let hint = "write it beside containers, with less indentation";
    violations.extend(CONTAINERS.iter().filter(is_list).map(|field| unknown_field(&path.key(field), hint)));
}

/// Returns whether a field of a pod or container has extended resources as its keys. Those of a label can look like one,
/// and only the kinds of Kubernetes have no other such fields.
fn has_resources(field: &str, value: &Value, origin: Origin) -> bool {
    origin != Origin::Unknown
        && !["nodeSelector", "overhead", "limits", "requests"].contains(&field)
        && value.as_object().is_some_and(|amounts| amounts.keys().any(|name| is_extended(name)))
}

/// Reports `spec.resources` of another shape, and invalid amounts in `spec.overhead`.
fn check_pod_level(spec: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    let [resources, overhead] = ["resources", "overhead"].map(|field| path.key(field));
    if let Some(fields) = shape::map(spec.get("resources"), &resources, FOR_CONTAINER, violations) {
        check_fields(fields, &resources, FOR_CONTAINER, violations);
        for map in ["limits", "requests"] {
            shape::map(fields.get(map), &resources.key(map), FOR_CONTAINER, violations);
        }
    }
    for (name, value) in shape::map(spec.get("overhead"), &overhead, FOR_CONTAINER, violations).into_iter().flatten() {
        check_amount(name, value, &overhead.key(name), violations);
    }
}

/// Reports overhead in a Pod without a RuntimeClass. Of a template, only its pods are rejected.
fn check_overhead(pod: &Pod<'_>, violations: &mut Vec<Violation>) {
    let field = |name: &str| pod.spec.get(name).filter(|value| !value.is_null() && **value != "");
    let has_overhead = pod.origin == Origin::Pod && field("overhead").is_some_and(Value::is_object);
    if has_overhead && field("runtimeClassName").is_none() {
        let message = "Forbidden: set without a RuntimeClass that defines it";
        let violation = Violation::new(&pod.path.key("overhead"), Code::PodResourcePlace, message).at_key();
        let hint = match field("overhead").is_some_and(names_extended) {
            true => FOR_CONTAINER,
            false => "remove it: the API server writes what the RuntimeClass of a pod defines",
        };
        violations.push(violation.hint(Some(hint.to_owned())));
    }
}

/// Reports extended resources in ephemeral containers, which have no resources.
fn check_ephemeral(spec: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    let containers = items(spec.get("ephemeralContainers"), &path.key("ephemeralContainers"));
    for (_, path) in containers.into_iter().filter(|(container, _)| names_extended(container)) {
        let message = "Forbidden: ephemeral containers have no resources";
        let hint = Some(FOR_CONTAINER.to_owned());
        violations.push(Violation::new(&path, Code::PodResourcePlace, message).hint(hint));
    }
}

fn check_amount(name: &str, value: &Value, path: &Path, violations: &mut Vec<Violation>) {
    if !amounts::is_native(name, Place::Container) {
        amounts::check_name(name, path, Place::Container, violations);
        amounts::check_quantity(name, value, path, violations);
    }
}

/// Reports extended resources in `spec.resources`.
fn check_native_level(spec: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    let resources = spec.get("resources").unwrap_or(&Value::Null);
    for map in ["limits", "requests"] {
        for name in resources.get(map).and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if ["cpu", "memory"].contains(&name.as_str()) || name.starts_with("hugepages-") {
                continue;
            }
            let message = format!(
                "Unsupported value: \"{}\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                excerpt(name)
            );
            let violation = Violation::new(&path.key(map).key(name), Code::PodResourcePlace, message).at_key();
            violations.push(violation.hint(Some(FOR_CONTAINER.to_owned())));
        }
    }
}

/// Reports files in volumes that show an extended resource.
fn check_volumes(spec: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    let volumes = items(spec.get("volumes"), &path.key("volumes"));
    for (volume, path) in volumes {
        let projected = path.key("projected").key("sources");
        let sources = items(volume.pointer("/projected/sources"), &projected);
        for (source, path) in sources.into_iter().chain([(volume, path)]) {
            let path = path.key("downwardAPI").key("items");
            for (item, path) in items(source.pointer("/downwardAPI/items"), &path) {
                check_shown(item, &path, violations);
            }
        }
    }
}

/// Returns the items of a list with the path of each.
fn items<'t>(list: Option<&'t Value>, path: &Path) -> Vec<(&'t Value, Path)> {
    let items = list.and_then(Value::as_array).into_iter().flatten().enumerate();
    items.map(|(index, item)| (item, path.item(index))).collect()
}

/// Reports an extended resource in `resourceFieldRef` of an owner.
fn check_shown(owner: &Value, path: &Path, violations: &mut Vec<Violation>) {
    let path = path.key("resourceFieldRef").key("resource");
    check_native(owner.pointer("/resourceFieldRef/resource"), &path, violations);
}

/// Reports extended resources in fields of a container that take native ones only.
fn check_native_only(container: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    for (item, path) in items(container.get("resizePolicy"), &path.key("resizePolicy")) {
        check_native(item.get("resourceName"), &path.key("resourceName"), violations);
    }
    for (item, path) in items(container.get("env"), &path.key("env")) {
        check_shown(item.get("valueFrom").unwrap_or(&Value::Null), &path.key("valueFrom"), violations);
    }
}

fn check_native(name: Option<&Value>, path: &Path, violations: &mut Vec<Violation>) {
    let Some(name) = name.and_then(Value::as_str).filter(|name| name.contains('/')) else { return };
    let message = format!("Unsupported value: \"{}\": not for extended resources", excerpt(name));
    let hint = "remove it: Kubernetes neither resizes nor exposes an extended resource".to_owned();
    violations.push(Violation::new(path, Code::PodResourcePlace, message).hint(Some(hint)));
}

/// Reports fields of `resources` that do not exist, if they hold extended resources or are one.
fn check_fields(resources: &Map<String, Value>, path: &Path, place: &str, violations: &mut Vec<Violation>) {
    for (field, value) in resources {
        let known = ["limits", "requests"];
        if known.contains(&field.as_str()) || field == "claims" {
            continue;
        }
        let holds = value.as_object().is_some_and(|amounts| amounts.keys().any(|name| is_extended(name)));
        let hint = match closest(field, known) {
            _ if is_extended(field) => place.to_owned(),
            Some(close) => format!("did you mean {close}?"),
            None if holds => "write limits, or limits and requests".to_owned(),
            None => continue,
        };
        violations.push(unknown_field(&path.key(field), &hint));
    }
}

fn check_amounts(resources: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    let none = Map::new();
    let mut maps = [&none, &none];
    for (map, place) in maps.iter_mut().zip(["limits", "requests"]) {
        let path = path.key(place);
        *map = shape::map(resources.get(place), &path, IN_CONTAINER, violations).unwrap_or(&none);
        for (name, value) in map.iter() {
            check_amount(name, value, &path.key(name), violations);
        }
    }
    let [limits, requests] = maps;
    for (name, request) in requests.iter().filter(|(name, _)| is_extended(name)) {
        check_request(request, limits.get(name), &path.key("requests").key(name), violations);
    }
}

fn check_request(request: &Value, limit: Option<&Value>, path: &Path, violations: &mut Vec<Violation>) {
    let (Some(text), Some(request)) = (amounts::text(request), amounts::quantity(request)) else { return };
    let Some(limit) = limit else {
        let message = "Required value: limit must be set for non overcommitable resources";
        let hint = format!("write it under limits; requests then defaults to the same value: {text}");
        violations.push(Violation::new(path, Code::PodLimitMissing, message).hint(Some(hint)));
        return;
    };
    if let (Some(limit_text), Some(limit)) = (amounts::text(limit), amounts::quantity(limit))
        && request != limit
    {
        let Some(Step::Key(name)) = path.steps().last() else { return };
        let message =
            format!("Invalid value: \"{}\": must be equal to {name} limit of {}", excerpt(&text), excerpt(&limit_text));
        let hint = "extended resources cannot be overcommitted: give the limit alone".to_owned();
        violations.push(Violation::new(path, Code::PodRequestsLimits, message).hint(Some(hint)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Limits, read_text};
    use crate::validate::pods::pods;

    #[test]
    fn resources_beside_containers_are_reported_only_in_a_template() {
        let containers = "containers: [{name: a, image: a}]";
        let resources = "resources: {requests: {ephemeral-storage: 1Gi}, limits: {example.com/dongle: 1}}";
        for (spec, found) in [
            (format!("{{{resources}, {containers}}}"), &[][..]),
            (format!("{{image: a, limits: {{max: 4}}, {resources}, {containers}}}"), &[]),
            (format!("{{image: a, limits: {{max: 4}}, {resources}}}"), &[]),
            (format!("{{storage: {{requests: {{storage: 10Gi}}}}, {containers}}}"), &[]),
            (format!("{{limits: {{example.com/dongle: 1}}, {containers}}}"), &[]),
            (
                format!("{{template: {{spec: {{{resources}, {containers}}}}}}}"),
                &[
                    "spec.template.spec.resources.limits[example.com/dongle]",
                    "spec.template.spec.resources.requests[ephemeral-storage]",
                ],
            ),
            (
                format!("{{workerTemplate: {{spec: {{limits: {{example.com/dongle: 1}}, {containers}}}}}}}"),
                &["spec.workerTemplate.spec.limits"],
            ),
            (format!("{{template: {{spec: {{storage: {{requests: {{storage: 10Gi}}}}, {containers}}}}}}}"), &[]),
            (
                "{containers: [{name: a, image: a, limits: {example.com/dongle: 1}, resource: {limits: {cpu: 1}}}]}"
                    .to_owned(),
                &["spec.containers[0].limits"],
            ),
        ] {
            let text = format!("apiVersion: example.com/v1\nkind: Shelf\nmetadata: {{name: a}}\nspec: {spec}\n");
            let mut paths = Vec::new();
            read_text("a.yaml", text, &Limits::default(), &mut |document| {
                let document = document.unwrap();
                let problems = check(&document, &pods(&document));
                assert!(problems.iter().all(|problem| problem.diagnostic.severity == Severity::Warning));
                paths.extend(problems.into_iter().map(|problem| problem.diagnostic.path));
            });
            assert_eq!(paths, found, "{spec}");
        }
    }
}
