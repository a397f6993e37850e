//! What the objects themselves say: metadata, managedFields, conditions and taints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node as K8sNode, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::conditions;
use super::entry::{Entry, Source, When};
use super::field_owners::{self, Owner};
use super::records::RuleObject;
use crate::model::{ledger, resource_name};

/// Returns the entries of a node.
pub(super) fn node(object: &K8sNode) -> Vec<Entry> {
    let K8sNode { metadata, spec, status } = object;
    let mut entries = metadata_entries(metadata, None);
    entries.extend(field_owners::owners(metadata).filter_map(of_node));
    let taints = spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    entries.extend(taints.map(|taint| tainted(metadata, taint)));
    let all = status.iter().flat_map(|status| status.conditions.iter().flatten());
    entries.extend(conditions::entries(metadata, None, all));
    entries
}

/// Returns the entries of a rule.
pub(super) fn rule(rule: &RuleObject) -> Vec<Entry> {
    let RuleObject { name, metadata, conditions } = rule;
    let mut entries = metadata_entries(metadata, Some(name));
    entries.extend(field_owners::owners(metadata).filter_map(|owner| of_rule(owner, name)));
    entries.extend(conditions::entries(metadata, Some(name), conditions));
    entries
}

/// Returns when an object was created, and when its deletion began.
fn metadata_entries(metadata: &ObjectMeta, rule: Option<&str>) -> Vec<Entry> {
    let entry = |when: When, what: String| Entry {
        when,
        source: Source::Metadata,
        rule: rule.map(str::to_owned),
        who: None,
        is_warning: false,
        what,
        owns: Vec::new(),
    };
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    let edited = metadata.generation.filter(|generation| *generation > 1 && rule.is_some());
    let edited = edited.map(|generation| format!("; the spec is at generation {generation} now"));
    let created = entry(created.into(), format!("created{}", edited.unwrap_or_default()));
    let deleted = metadata.deletion_timestamp.as_ref().map(|time| {
        let finalizers = metadata.finalizers.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
        let waits = if finalizers.is_empty() { String::new() } else { format!("; waits for {finalizers}") };
        entry(When::At(time.0), format!("deletion began{waits}"))
    });
    [Some(created), deleted].into_iter().flatten().collect()
}

/// Returns the last write of a manager that owns extended resources or the ledger; `None` if it owns none.
fn of_node(owner: Owner<'_>) -> Option<Entry> {
    let mut maps = BTreeMap::<&str, Vec<&str>>::new();
    for (map, key) in [("capacity", "f:capacity"), ("allocatable", "f:allocatable")] {
        for name in owner.names(&["f:status", key]).filter(|name| resource_name::is_extended(name)) {
            maps.entry(name).or_default().push(map);
        }
    }
    let resources = maps.into_iter().map(|(resource, maps)| match maps.as_slice() {
        [map] => format!("{resource} ({map})"),
        _ => resource.to_owned(),
    });
    let annotation = format!("f:{}", ledger::ANNOTATION);
    let ledger = owner.field(&["f:metadata", "f:annotations", &annotation]).map(|_| "the ledger".to_owned());
    last_write(owner, ledger.into_iter().chain(resources).collect(), None)
}

/// Returns the last write of a manager that owns part of a rule's spec; `None` if it owns none.
fn of_rule(owner: Owner<'_>, rule: &str) -> Option<Entry> {
    let fields = owner.names(&["f:spec"]).map(str::to_owned).collect();
    last_write(owner, fields, Some(rule))
}

fn last_write(owner: Owner<'_>, owns: Vec<String>, rule: Option<&str>) -> Option<Entry> {
    (!owns.is_empty()).then(|| Entry {
        when: owner.entry().time.as_ref().map(|time| time.0).into(),
        source: Source::ManagedFields,
        rule: rule.map(str::to_owned),
        who: Some(owner.name().to_owned()),
        is_warning: false,
        what: owner.last_write(),
        owns,
    })
}

fn tainted(metadata: &ObjectMeta, taint: &Taint) -> Entry {
    let Taint { key, value, effect, time_added } = taint;
    let value = value.as_deref().filter(|value| !value.is_empty()).map(|value| format!("={value}"));
    Entry {
        when: time_added.as_ref().map(|time| time.0).into(),
        source: Source::Taint,
        rule: None,
        who: field_owners::of_field(metadata, &["f:spec", "f:taints"]),
        is_warning: false,
        what: format!("tainted {key}{}:{effect}", value.unwrap_or_default()),
        owns: Vec::new(),
    }
}
