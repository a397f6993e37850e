//! What the objects themselves say: metadata, managedFields, conditions and taints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::entry::{Entry, Source, When};
use super::field_owners::{self, Owner};
use super::records::{NodeRecord, RuleObject};
use super::scope::Scope;
use super::{conditions, selection};
use crate::model::ledger::{self, Ledger};
use crate::model::resource_name;

/// Returns the entries of a node. Conditions and taints are about no resource.
pub(super) fn node(scope: &Scope, record: &NodeRecord, rules: &[RuleObject]) -> Vec<Entry> {
    let object = &record.object;
    let mut entries = metadata_entries(&object.metadata, None);
    let owners = field_owners::owners(&object.metadata);
    entries.extend(owners.filter_map(|owner| of_node(owner, scope, record, rules)));
    if scope.is_whole_node() {
        let taints = object.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        entries.extend(taints.map(|taint| tainted(&object.metadata, taint)));
        let all = object.status.iter().flat_map(|status| status.conditions.iter().flatten());
        entries.extend(conditions::entries(&object.metadata, None, all));
    }
    entries
}

/// Returns the entries of a rule.
pub(super) fn rule(rule: &RuleObject) -> Vec<Entry> {
    let RuleObject { name, metadata, conditions, .. } = rule;
    let mut entries = metadata_entries(metadata, Some(name));
    entries.extend(field_owners::owners(metadata).filter_map(|owner| of_rule(owner, rule)));
    entries.extend(conditions::entries(metadata, Some(name), conditions));
    entries
}

/// Returns when an object was created, and when its deletion began.
fn metadata_entries(metadata: &ObjectMeta, rule: Option<&str>) -> Vec<Entry> {
    let entry = |when: When, what: String| Entry {
        when,
        source: Source::Metadata,
        nodes: Vec::new(),
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

/// Returns the last write of a manager that owns extended resources, the ledger, or labels that rules depend on; `None` if
/// it owns none.
fn of_node(owner: Owner<'_>, scope: &Scope, record: &NodeRecord, rules: &[RuleObject]) -> Option<Entry> {
    let recorded = Ledger::parse(record.node.ledger.as_deref()).unwrap_or_default();
    let is_shown = |name: &&str| resource_name::is_extended(name) && scope.has_resource(name, &recorded, rules);
    let mut maps = BTreeMap::<&str, Vec<&str>>::new();
    for (map, key) in [("capacity", "f:capacity"), ("allocatable", "f:allocatable")] {
        for name in owner.names(&["f:status", key]).filter(is_shown) {
            maps.entry(name).or_default().push(map);
        }
    }
    let resources = maps.into_iter().map(|(resource, maps)| match maps.as_slice() {
        [map] => format!("{resource} ({map})"),
        _ => resource.to_owned(),
    });
    let resources: Vec<_> = resources.collect();
    let annotation = format!("f:{}", ledger::ANNOTATION);
    // It is about every resource.
    let is_ledger = |_: &_| scope.is_whole_node() || !resources.is_empty();
    let ledger = owner.field(&["f:metadata", "f:annotations", &annotation]).filter(is_ledger);
    let ledger = ledger.map(|_| "the ledger".to_owned());
    let labels = selection::owned(owner, record, rules);
    last_write(owner, ledger.into_iter().chain(resources).chain(labels).collect(), None)
}

/// Returns the last write of a manager that owns part of a rule's spec; `None` if it owns none. Whoever creates a rule
/// owns its defaults too; whoever owns nothing else has set them.
fn of_rule(owner: Owner<'_>, rule: &RuleObject) -> Option<Entry> {
    let all: Vec<_> = owner.names(&["f:spec"]).map(str::to_owned).collect();
    let chosen: Vec<_> = all.iter().filter(|field| !has_default(rule, field)).cloned().collect();
    last_write(owner, if chosen.is_empty() { all } else { chosen }, Some(&rule.name))
}

/// Returns whether a field of a rule's spec has its default.
fn has_default(rule: &RuleObject, field: &str) -> bool {
    let default = match field {
        "priority" => json!(0),
        "conflictPolicy" => json!("Keep"),
        "deletionPolicy" => json!("Withdraw"),
        "shrinkPolicy" => json!("WhenFree"),
        "paused" => json!(false),
        _ => return false,
    };
    rule.spec.get(field) == Some(&default)
}

fn last_write(owner: Owner<'_>, owns: Vec<String>, rule: Option<&str>) -> Option<Entry> {
    (!owns.is_empty()).then(|| Entry {
        when: owner.entry().time.as_ref().map(|time| time.0).into(),
        source: Source::ManagedFields,
        nodes: Vec::new(),
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
        nodes: Vec::new(),
        rule: None,
        who: field_owners::of_field(metadata, &["f:spec", "f:taints"]),
        is_warning: false,
        what: format!("tainted {key}{}:{effect}", value.unwrap_or_default()),
        owns: Vec::new(),
    }
}
