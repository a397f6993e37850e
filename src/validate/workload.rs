//! Mistakes with extended resources in pods: the API server rejects such pods when they are created, often without
//! naming the manifest, since a controller creates them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::amounts::{self, Place};
use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use super::pods::{Container, Origin, Pod, pods};
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

/// Returns the problems of the pods in a document.
pub(super) fn check(document: &Document) -> Vec<Problem> {
    let mut problems = Vec::new();
    for pod in pods(document) {
        let mut violations = Vec::new();
        check_pod(&pod, &mut violations);
        for mut violation in violations {
            violation.hint = violation.placeholder(document.at(&violation.path)).or(violation.hint.take());
            let limit_missing = (pod.origin == Origin::Pod).then(|| limit_missing(document, &violation)).flatten();
            let mut diagnostic = Diagnostic::found(violation, document);
            if pod.origin == Origin::Unknown {
                diagnostic.severity = Severity::Warning;
            }
            problems.push(Problem { diagnostic, limit_missing });
        }
    }
    problems
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

fn check_pod(pod: &Pod<'_>, violations: &mut Vec<Violation>) {
    if let Some(fields) = pod.spec.as_object() {
        check_place(fields, &pod.path, violations);
        check_pod_level(fields, &pod.path.key("resources"), violations);
    }
    for container in pod.containers.iter().filter(|container| container.is_whole) {
        let Some(fields) = container.value.as_object() else { continue };
        check_place(fields, &container.path, violations);
        check_native_only(fields, &container.path, violations);
        let path = container.path.key("resources");
        match fields.get("resources") {
            Some(Value::Object(resources)) => {
                check_fields(resources, &path, violations);
                check_amounts(resources, &path, violations);
            }
            None | Some(Value::Null) => {}
            Some(_) if pod.origin == Origin::Unknown => {}
            Some(other) => violations.push(not_a_map(&path, other)),
        }
    }
}

fn not_a_map(path: &Path, value: &Value) -> Violation {
    let kind = match value {
        Value::Array(_) => "a list",
        Value::String(_) => "text",
        _ => "a single value",
    };
    let hint = "write limits: {example.com/dongle: 1} below resources".to_owned();
    Violation::new(path, Code::Type, format!("must be a map, and is {kind}")).hint(Some(hint))
}

/// Reports resources that are not where a pod or container has them.
fn check_place(fields: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    for (field, value) in fields {
        let has_amounts = ["limits", "requests"].iter().any(|map| value.get(map).is_some_and(Value::is_object));
        let hint = match field.as_str() {
            "resources" => continue,
            _ if has_amounts => "did you mean resources?",
            "limits" | "requests" => "write it below resources",
            name if is_extended(name) => "write it below resources, in limits",
            _ => continue,
        };
        violations.push(unknown_field(&path.key(field), hint));
    }
}

fn unknown_field(path: &Path, hint: &str) -> Violation {
    let violation = Violation::new(path, Code::UnknownField, format!("unknown field \"{path}\""));
    violation.hint(Some(hint.to_owned())).at_key()
}

/// Reports extended resources in `spec.resources`.
fn check_pod_level(spec: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
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
            let hint = "write it in limits of the container that uses it".to_owned();
            let violation = Violation::new(&path.key(map).key(name), Code::PodResourcePlace, message).at_key();
            violations.push(violation.hint(Some(hint)));
        }
    }
}

/// Reports extended resources in fields of a container that take native ones only.
fn check_native_only(container: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    let items = |list: &str| container.get(list).and_then(Value::as_array).into_iter().flatten().enumerate();
    let resized = items("resizePolicy")
        .map(|(index, item)| (item.get("resourceName"), path.key("resizePolicy").item(index).key("resourceName")));
    let exposed = items("env").map(|(index, item)| {
        let at = path.key("env").item(index);
        let at = ["valueFrom", "resourceFieldRef", "resource"].iter().fold(at, |at, key| at.key(key));
        (item.pointer("/valueFrom/resourceFieldRef/resource"), at)
    });
    for (name, at) in resized.chain(exposed) {
        let Some(name) = name.and_then(Value::as_str).filter(|name| name.contains('/')) else { continue };
        let message = format!("Unsupported value: \"{}\": not for extended resources", excerpt(name));
        let hint = "remove it: Kubernetes neither resizes nor exposes an extended resource".to_owned();
        violations.push(Violation::new(&at, Code::PodResourcePlace, message).hint(Some(hint)));
    }
}

/// Reports fields of `resources` that do not exist, if they hold extended resources or are one.
fn check_fields(resources: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    for (field, value) in resources {
        let known = ["limits", "requests"];
        if known.contains(&field.as_str()) || field == "claims" {
            continue;
        }
        let holds = value.as_object().is_some_and(|amounts| amounts.keys().any(|name| is_extended(name)));
        let hint = match closest(field, known) {
            _ if is_extended(field) => "write it in limits".to_owned(),
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
        match resources.get(place) {
            Some(Value::Object(amounts)) => *map = amounts,
            None | Some(Value::Null) => {}
            Some(other) => violations.push(not_a_map(&path.key(place), other)),
        }
        for (name, value) in map.iter().filter(|(name, _)| !amounts::is_native(name, Place::Container)) {
            let at = path.key(place).key(name);
            amounts::check_name(name, &at, Place::Container, violations);
            amounts::check_quantity(name, value, &at, violations);
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
