//! Mistakes with extended resources in pod templates and quotas: the API server rejects such pods when they are
//! created, and ignores such a line of a quota, without naming the manifest.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use super::resource_refs::{PodTemplate, pod_template, quota};
use super::violation::Violation;
use crate::manifest::{Document, Path};
use crate::model::label::excerpt;
use crate::model::pod::{Pod, Requests};
use crate::model::quantity::Quantity;
use crate::model::resource_name::{in_ignored_quota_key, is_extended};
use crate::model::spelling::closest;

/// Returns the problems in one document.
pub(super) fn check(document: &Document) -> Vec<Diagnostic> {
    let mut violations = Vec::new();
    if let Some(template) = pod_template(document) {
        for (container, path) in template.containers().into_iter().filter(is_whole) {
            check_container(container, &path.key("resources"), &mut violations);
        }
    }
    let quota = quota_keys(document).into_iter();
    let warn = |diagnostic| Diagnostic { severity: Severity::Warning, ..diagnostic };
    let warnings = quota.map(|violation| warn(Diagnostic::found(violation, document)));
    let errors = violations.into_iter().map(|violation| Diagnostic::found(violation, document));
    errors.chain(warnings).collect()
}

/// Returns the requests of one pod of a document, counted like the scheduler does.
pub(super) fn requests(document: &Document) -> Requests {
    let Some(template) = pod_template(document) else { return Requests::default() };
    let trimmed = |list: &str| -> Value {
        let containers = template.spec.get(list).and_then(Value::as_array).into_iter().flatten();
        let containers = containers.map(|container| {
            // A limit alone is also a request.
            let mut requests = amounts(container, "limits");
            requests.extend(amounts(container, "requests"));
            let policy = container.get("restartPolicy").and_then(Value::as_str);
            json!({"resources": {"requests": requests}, "restartPolicy": policy})
        });
        containers.collect()
    };
    let spec = json!({
        "containers": trimmed("containers"),
        "initContainers": trimmed("initContainers"),
    });
    serde_json::from_value::<Pod>(json!({"spec": spec})).map(|pod| Requests::of(&pod)).unwrap_or_default()
}

/// Returns the extended resources in `limits` or `requests`.
fn amounts(container: &Value, map: &str) -> BTreeMap<String, String> {
    let fields = container.pointer(&format!("/resources/{map}")).and_then(Value::as_object);
    let fields = fields.into_iter().flatten().filter(|(name, _)| is_extended(name));
    fields.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns whether a container is complete: without an image, it is part of a patch, and the patched object may have
/// the missing fields.
fn is_whole((container, _): &(&Value, Path)) -> bool {
    container.get("image").and_then(Value::as_str).is_some_and(|image| !image.is_empty())
}

fn check_container(container: &Value, path: &Path, violations: &mut Vec<Violation>) {
    let Some(resources) = container.get("resources").and_then(Value::as_object) else { return };
    check_fields(resources, path, violations);
    let [limits, requests] = ["limits", "requests"].map(|map| amounts(container, map));
    for (map, amounts) in [("limits", &limits), ("requests", &requests)] {
        for (name, text) in amounts {
            let quantity = text.parse::<Quantity>();
            if quantity.is_ok_and(|quantity| quantity.whole().is_none()) {
                let message = format!("Invalid value: \"{}\": must be an integer", excerpt(text));
                let hint = "extended resources cannot be split: to share one, declare thousandths \
                            of it as a separate resource, such as example.com/dongle-milli";
                let violation = Violation::new(&path.key(map).key(name), Code::PodFraction, message);
                violations.push(violation.hint(Some(hint.to_owned())));
            }
        }
    }
    for (name, request) in &requests {
        let at = path.key("requests").key(name);
        let Some(limit) = limits.get(name) else {
            let message = "Required value: limit must be set for non overcommitable resources";
            let hint = format!("write it under limits; requests then defaults to the same value: {request}");
            let violation = Violation::new(&at, Code::PodLimitMissing, message);
            violations.push(violation.hint(Some(hint)));
            continue;
        };
        if let (Ok(one), Ok(other)) = (request.parse::<Quantity>(), limit.parse::<Quantity>())
            && one != other
        {
            let message =
                format!("Invalid value: \"{}\": must be equal to {name} limit of {}", excerpt(request), excerpt(limit));
            let hint = "extended resources cannot be overcommitted: give the limit alone";
            let violation = Violation::new(&at, Code::PodRequestsLimits, message);
            violations.push(violation.hint(Some(hint.to_owned())));
        }
    }
}

/// Checks only blocks with extended resources: kubectl checks the rest.
fn check_fields(resources: &Map<String, Value>, path: &Path, violations: &mut Vec<Violation>) {
    for (field, value) in resources {
        let known = ["limits", "requests"];
        let Some(amounts) = value.as_object() else { continue };
        if known.contains(&field.as_str()) || !amounts.keys().any(|name| is_extended(name)) {
            continue;
        }
        let at = path.key(field);
        let hint = match closest(field, known) {
            Some(close) => format!("did you mean {close}?"),
            None => "write limits, or limits and requests".to_owned(),
        };
        let violation = Violation::new(&at, Code::UnknownField, format!("unknown field \"{at}\""));
        violations.push(violation.hint(Some(hint)).at_key());
    }
}

/// A quota counts an extended resource as `requests.<name>`, and ignores any other key for it.
fn quota_keys(document: &Document) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (key, _) in quota(document).into_iter().flatten() {
        let Some(name) = in_ignored_quota_key(key) else { continue };
        let path = Path::from_keys(["spec", "hard", key]);
        let message = "ignored: a quota counts an extended resource as requests.<name>";
        let violation = Violation::new(&path, Code::QuotaKey, message).at_key();
        violations.push(violation.hint(Some(format!("did you mean requests.{name}?"))));
    }
    violations
}

impl PodTemplate<'_> {
    /// Returns the containers, each with its path.
    fn containers(&self) -> Vec<(&Value, Path)> {
        let lists = ["initContainers", "containers"].into_iter();
        lists
            .flat_map(|list| {
                let containers = self.spec.get(list).and_then(Value::as_array);
                let containers = containers.into_iter().flatten().enumerate();
                containers.map(move |(index, it)| (it, self.path.key(list).item(index)))
            })
            .collect()
    }
}
