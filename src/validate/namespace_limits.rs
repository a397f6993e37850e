//! Mistakes with extended resources in quotas and LimitRanges.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::amounts::{self, Place};
use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use super::resource_refs::{names, quota};
use super::shape::{self, Shape, names_extended};
use super::violation::Violation;
use crate::manifest::{Document, Path};
use crate::model::label::{excerpt, is_qualified_name};
use crate::model::quantity::Quantity;
use crate::model::resource_name::{in_ignored_quota_key, is_extended};
use crate::model::spelling::closest;

/// The maps of a LimitRange's item.
const MAPS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

/// The types without a slash that an item can be for.
const TYPES: [&str; 3] = ["Container", "Pod", "PersistentVolumeClaim"];

const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Returns the problems of a quota or a LimitRange.
pub(super) fn check(document: &Document) -> Vec<Diagnostic> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    match document.kind() {
        "ResourceQuota" if document.group().is_empty() => {
            check_quota_shape(&document.value, &mut errors);
            if let Some(hard) = quota(document) {
                check_quota(hard, &mut errors, &mut warnings);
            }
        }
        "LimitRange" if document.group().is_empty() => {
            check_limit_range_shape(&document.value, &mut errors);
            let items = limit_range_items(document);
            items.iter().for_each(|item| item.check(&mut errors));
            items.iter().filter(|item| item.is("Container")).for_each(|item| item.check_supplied(&mut warnings));
            if document.value.get("spec").is_some_and(names_extended) {
                check_types(&items, &mut errors);
            }
        }
        _ => {}
    }
    let found = |mut violation: Violation| {
        violation.hint = violation.placeholder(document.at(&violation.path)).or(violation.hint.take());
        Diagnostic::found(violation, document)
    };
    let warn = |diagnostic| Diagnostic { severity: Severity::Warning, ..diagnostic };
    let errors: Vec<_> = errors.into_iter().map(found).collect();
    errors.into_iter().chain(warnings.into_iter().map(found).map(warn)).collect()
}

/// A quota counts an extended resource as `requests.<name>`, and ignores any other key for it.
fn check_quota(hard: &Map<String, Value>, errors: &mut Vec<Violation>, warnings: &mut Vec<Violation>) {
    for (key, value) in hard.iter().filter(|(key, _)| !amounts::is_native(key, Place::Quota)) {
        let path = Path::from_keys(["spec", "hard", key]);
        let is_valid = amounts::check_name(key, &path, Place::Quota, errors);
        amounts::check_quantity(key, value, &path, errors);
        let Some(name) = in_ignored_quota_key(key).filter(|_| is_valid) else { continue };
        let counted = format!("requests.{name}");
        let hint = match hard.contains_key(&counted) {
            true => format!("remove it: {counted} is there too"),
            false => format!("did you mean {counted}?"),
        };
        let message = "ignored by Kubernetes: a quota counts an extended resource as requests.<name>";
        warnings.push(Violation::new(&path, Code::QuotaKey, message).at_key().hint(Some(hint)));
    }
}

fn check_quota_shape(object: &Value, errors: &mut Vec<Violation>) {
    let hint = "a quota has it as spec.hard: {requests.example.com/dongle: 1}";
    let [spec, hard] = [&["spec"][..], &["spec", "hard"]].map(|keys| Path::from_keys(keys.iter().copied()));
    if let Value::Object(fields) = object {
        Shape { known: &OBJECT, hint }.check(fields, &Path::default(), errors);
    }
    if let Some(fields) = shape::map(object.get("spec"), &spec, hint, errors) {
        Shape { known: &["hard", "scopes", "scopeSelector"], hint }.check(fields, &spec, errors);
        shape::map(fields.get("hard"), &hard, hint, errors);
    }
}

fn check_limit_range_shape(object: &Value, errors: &mut Vec<Violation>) {
    let hint = "a LimitRange has it as spec.limits: [{type: Container, max: {example.com/dongle: 1}}]";
    let spec = Path::from_keys(["spec"]);
    if let Value::Object(fields) = object {
        Shape { known: &OBJECT, hint }.check(fields, &Path::default(), errors);
    }
    let Some(fields) = shape::map(object.get("spec"), &spec, hint, errors) else { return };
    Shape { known: &["limits"], hint }.check(fields, &spec, errors);
    let limits = spec.key("limits");
    match fields.get("limits") {
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                shape::map(Some(item), &limits.item(index), hint, errors);
            }
        }
        None | Some(Value::Null) => {}
        Some(other) => errors.push(shape::wrong_type(&limits, other, "a list", hint)),
    }
}

/// Reports types that do not exist, or that an earlier item has.
fn check_types(items: &[Item<'_>], errors: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for item in items {
        let path = item.path.key("type");
        let kind = match item.fields.get("type").unwrap_or(&Value::Null) {
            Value::String(kind) => kind.as_str(),
            Value::Null => "",
            other => {
                errors.push(shape::wrong_type(&path, other, "text", "write Container"));
                continue;
            }
        };
        let shown = excerpt(kind);
        let is_known = TYPES.contains(&kind) || kind.contains('/') && is_qualified_name(kind);
        if !is_known {
            let message = format!("Invalid value: \"{shown}\": must be a standard limit type or fully qualified");
            let hint = match closest(kind, TYPES) {
                Some(close) => format!("did you mean {close}?"),
                None => format!("write type: {}", TYPES.join(", or ")),
            };
            errors.push(Violation::new(&path, Code::LimitRange, message).hint(Some(hint)));
        }
        if !seen.insert(kind) {
            let message = format!("Duplicate value: \"{shown}\"");
            let hint = "write all limits of a type into one item".to_owned();
            errors.push(Violation::new(&path, Code::LimitRange, message).hint(Some(hint)));
        }
    }
}

/// Returns what LimitRanges supply as the limit of a container: the default, or the maximum.
pub(super) fn default_limits(document: &Document) -> Vec<(String, Quantity)> {
    let items = limit_range_items(document).into_iter().filter(|item| item.is("Container"));
    let limits = items.flat_map(|item| {
        let names: BTreeSet<&String> = item.names().collect();
        names.into_iter().filter_map(|name| Some((name.clone(), item.default(name)?))).collect::<Vec<_>>()
    });
    limits.filter(|(name, _)| is_extended(name)).collect()
}

/// Returns the extended resources that a LimitRange references for containers and pods, each with the path of its key:
/// others count objects, such as images.
pub(super) fn references(document: &Document) -> Vec<(String, Path)> {
    let items = limit_range_items(document).into_iter().filter(|item| item.place() == Place::Container);
    items.flat_map(|item| item.references()).filter(|(name, _)| is_extended(name)).collect()
}

/// An item of a LimitRange: the limits of one type of object.
struct Item<'t> {
    fields: &'t Map<String, Value>,
    path: Path,
}

fn limit_range_items(document: &Document) -> Vec<Item<'_>> {
    if !document.group().is_empty() || document.kind() != "LimitRange" {
        return Vec::new();
    }
    let items = document.value.pointer("/spec/limits").and_then(Value::as_array).into_iter().flatten().enumerate();
    let limits = Path::from_keys(["spec", "limits"]);
    items.filter_map(|(index, item)| Some(Item { fields: item.as_object()?, path: limits.item(index) })).collect()
}

impl Item<'_> {
    fn is(&self, name: &str) -> bool {
        self.fields.get("type").is_some_and(|kind| kind == name)
    }

    fn amounts(&self, map: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.fields.get(map).and_then(Value::as_object).into_iter().flatten()
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        MAPS.iter().flat_map(|map| self.amounts(map)).map(|(name, _)| name)
    }

    fn references(&self) -> Vec<(String, Path)> {
        let maps = MAPS.iter().filter_map(|map| Some(names(self.fields.get(*map)?.as_object()?, &self.path.key(map))));
        maps.flatten().collect()
    }

    fn value(&self, map: &str, name: &str) -> Option<Quantity> {
        self.fields.get(map)?.get(name).and_then(amounts::quantity)
    }

    /// Returns the limit that it supplies. The API server sets a container's from the maximum.
    fn default(&self, name: &str) -> Option<Quantity> {
        let max = || self.value("max", name).filter(|_| self.is("Container"));
        self.value("default", name).or_else(max)
    }

    fn default_request(&self, name: &str) -> Option<Quantity> {
        let supplied = || self.default(name).or_else(|| self.value("min", name)).filter(|_| self.is("Container"));
        self.value("defaultRequest", name).or_else(supplied)
    }

    /// Returns whether it is for pods or containers, whose resources have rules of their own.
    fn place(&self) -> Place {
        if self.is("Container") || self.is("Pod") { Place::Container } else { Place::OtherLimits }
    }

    fn check(&self, errors: &mut Vec<Violation>) {
        let known = [&["type"], MAPS.as_slice()].concat();
        let hint = "write max: {example.com/dongle: 1}, or another field of a LimitRange";
        Shape { known: &known, hint }.check(self.fields, &self.path, errors);
        let place = self.place();
        let mut names = BTreeSet::new();
        for map in MAPS {
            let path = self.path.key(map);
            let amounts = shape::map(self.fields.get(map), &path, hint, errors).into_iter().flatten();
            for (name, value) in amounts.filter(|(name, _)| !amounts::is_native(name, place)) {
                let path = path.key(name);
                if amounts::check_syntax(value, &path, errors) && amounts::check_name(name, &path, place, errors) {
                    names.insert(name);
                }
                if self.is("Pod") && map.starts_with("default") {
                    let message = format!("Forbidden: may not be specified when `type` is 'Pod': {map}");
                    let hint = "set it for the type Container".to_owned();
                    errors.push(Violation::new(&path, Code::LimitRange, message).at_key().hint(Some(hint)));
                }
            }
        }
        if !names.is_empty() {
            self.check_storage(errors);
        }
        for name in names {
            self.check_order(name, errors);
        }
    }

    /// Reports requests that the API server gives to each container that does not name the resource, without a limit.
    fn check_supplied(&self, warnings: &mut Vec<Violation>) {
        let has = |map: &str, name: &str| self.amounts(map).any(|(known, _)| known == name);
        let names: BTreeSet<_> = self.names().filter(|name| is_extended(name)).collect();
        for name in names.into_iter().filter(|name| !has("default", name) && !has("max", name)) {
            let Some(request) = self.default_request(name) else { continue };
            let map = if has("defaultRequest", name) { "defaultRequest" } else { "min" };
            let path = self.path.key(map).key(name);
            let message = "a container that does not name it gets this request without a limit: its pod is rejected";
            let hint =
                format!("remove it; or write default: {{{name}: {request}}}, with which every container requests it");
            warnings.push(Violation::new(&path, Code::PodLimitMissing, message).at_key().hint(Some(hint)));
        }
    }

    /// Reports claims of volumes without a limit of their storage.
    fn check_storage(&self, errors: &mut Vec<Violation>) {
        let has = |map: &str| self.amounts(map).any(|(name, _)| name == "storage");
        if self.is("PersistentVolumeClaim") && !has("min") && !has("max") {
            let message =
                "Required value: either minimum or maximum storage value is required, but neither was provided";
            let hint = "write storage into max, or set it for the type Container".to_owned();
            errors.push(Violation::new(&self.path, Code::LimitRange, message).hint(Some(hint)));
        }
    }

    /// Reports values that contradict each other.
    fn check_order(&self, name: &str, errors: &mut Vec<Violation>) {
        let (min, max) = (self.value("min", name), self.value("max", name));
        let (default, request) = (self.default(name), self.default_request(name));
        let ratio = self.value("maxLimitRequestRatio", name);
        let mut report = |map: &str, message: String| {
            let path = self.path.key(map).key(name);
            let hint = match map {
                "maxLimitRequestRatio" => {
                    "remove it: the limit of an extended resource is its request, so that it is 1"
                }
                _ => "extended resources cannot be overcommitted: give max, or one default",
            };
            let hint = hint.to_owned();
            errors.push(Violation::new(&path, Code::LimitRange, format!("Invalid value: {message}")).hint(Some(hint)));
        };
        for ((low, least), (high, most)) in [
            (("min", min), ("max", max)),
            (("min", min), ("defaultRequest", request)),
            (("min", min), ("default", default)),
            (("defaultRequest", request), ("max", max)),
            (("default", default), ("max", max)),
        ] {
            if let (Some(least), Some(most)) = (least, most)
                && least > most
            {
                report(low, format!("{low} value {least} is greater than {high} value {most}"));
            }
        }
        if let Some(ratio) = ratio.filter(|ratio| *ratio < Quantity::from(1)) {
            report("maxLimitRequestRatio", format!("ratio {ratio} is less than 1"));
        }
        if let (Some(ratio), Some(min), Some(max)) = (ratio, min, max) {
            let most = max.to_float() / min.to_float();
            if ratio.to_float() > most {
                report("maxLimitRequestRatio", format!("ratio {ratio} is greater than max/min = {most}"));
            }
        }
        if let (Some(default), Some(request)) = (default, request)
            && default != request
        {
            let message = format!("default value {default} must equal to defaultRequest value {request} in {name}");
            report("defaultRequest", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Limits, read_text};

    #[test]
    fn references_are_found_in_every_field_of_a_limit_range() {
        for map in MAPS {
            let text = format!(
                "apiVersion: v1\nkind: LimitRange\nspec:\n  limits:\n  - {{type: openshift.io/Image, \
                 {map}: {{example.com/b: 1}}}}\n  - {{type: Pod, {map}: {{example.com/a: 1, cpu: 1}}}}"
            );
            let mut found = Vec::new();
            read_text("a.yaml", text, &Limits::default(), &mut |document| found.extend(references(&document.unwrap())));
            let found: Vec<_> = found.into_iter().map(|(name, path)| format!("{name} {path}")).collect();
            assert_eq!(found, [format!("example.com/a spec.limits[1].{map}[example.com/a]")]);
        }
    }

    #[test]
    fn limit_range_that_supplies_a_request_without_a_limit_is_reported() {
        for (item, place) in [
            ("type: Container, min: {example.com/a: 2}", "min"),
            ("type: Container, defaultRequest: {example.com/a: 2}", "defaultRequest"),
            ("type: Container, min: {example.com/a: 1}, defaultRequest: {example.com/a: 2}", "defaultRequest"),
            ("type: Container, min: {example.com/a: 2}, max: {example.com/a: 2}", ""),
            ("type: Container, min: {example.com/a: 2}, default: {example.com/a: 2}", ""),
            ("type: Container, min: {cpu: 2}", ""),
            ("type: Pod, min: {example.com/a: 2}", ""),
        ] {
            let text = format!("apiVersion: v1\nkind: LimitRange\nspec: {{limits: [{{{item}}}]}}\n");
            let mut found = Vec::new();
            read_text("a.yaml", text, &Limits::default(), &mut |document| found.extend(check(&document.unwrap())));
            let titles: Vec<_> = found.iter().map(|found| (found.severity, &*found.path)).collect();
            let path = format!("spec.limits[0].{place}[example.com/a]");
            let expected = (!place.is_empty()).then_some((Severity::Warning, &*path));
            assert_eq!(titles, expected.into_iter().collect::<Vec<_>>(), "{item}");
            assert!(found.iter().all(|found| found.hint.as_ref().unwrap().contains("default: {example.com/a: 2}")));
        }
    }
}
