//! Events about nodes, and about their rules.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::entry::{Entry, Source, seconds};
use super::records::Records;
use super::scope::Scope;
use crate::model::api::FIELD_MANAGER;

/// What the controller reports its Events as.
const CONTROLLER: &str = "noderesource.dev/node-resource-advertiser";

/// Returns the Events that concern the scope: about its nodes, and about its rules.
pub(super) fn entries(scope: &Scope, records: &Records) -> Vec<Entry> {
    let objects = records.rules.as_deref().unwrap_or_default();
    let rules: HashMap<_, _> = objects.iter().map(|rule| (&*rule.name, &rule.metadata)).collect();
    let metadata = records.nodes.iter().map(|record| &record.object.metadata);
    let nodes: HashMap<_, _> = metadata.map(|node| (node.name.as_deref().unwrap_or_default(), node)).collect();
    let is_earlier = |about: &ObjectReference, present: &HashMap<&str, &ObjectMeta>| {
        let present = about.name.as_deref().and_then(|name| present.get(name));
        present.is_some_and(|present| is_about_earlier(about, present))
    };
    let of_node = |node: &ObjectReference| {
        let name = node.name.clone().filter(|_| scope.node.is_none());
        (name, is_earlier(node, &nodes).then_some("node"))
    };
    let is_shown = |event: &&Event, rule: Option<&str>| scope.has_event(event, rule, objects);
    let rule_of = |event: &Event| {
        let rule = event.related.as_ref().filter(|related| related.kind.as_deref() == Some("NodeExtendedResource"));
        rule.and_then(|rule| rule.name.clone())
    };
    // The controller reports what it does on a node there and on the rule, at one time.
    let reported: HashSet<_> = records.on_nodes.iter().map(identity).collect();
    let on_rules = records.on_rules.iter().filter(|event| match related_node(event) {
        Some(_) if reported.contains(&identity(event)) => false,
        Some(node) => scope.node.as_ref().is_none_or(|name| node.name.as_ref() == Some(name)),
        None => match event.involved_object.name.as_deref() {
            Some(rule) => rules.contains_key(rule) || scope.rule.as_deref() == Some(rule),
            None => false,
        },
    });
    let on_rules = on_rules.filter(|event| is_shown(event, event.involved_object.name.as_deref()));
    let on_rules = on_rules.map(|event| {
        let earlier_rule = is_earlier(&event.involved_object, &rules).then_some("rule");
        let (node, earlier_node) = related_node(event).map(of_node).unwrap_or_default();
        let entry = entry(event, earlier_rule.or(earlier_node));
        Entry { rule: event.involved_object.name.clone(), nodes: node.into_iter().collect(), ..entry }
    });
    let on_nodes = records.on_nodes.iter().filter(|event| is_shown(event, rule_of(event).as_deref()));
    let on_nodes = on_nodes.map(|event| {
        let (node, earlier) = of_node(&event.involved_object);
        Entry { nodes: node.into_iter().collect(), ..entry(event, earlier) }
    });
    on_nodes.chain(on_rules).collect()
}

fn related_node(event: &Event) -> Option<&ObjectReference> {
    event.related.as_ref().filter(|related| related.kind.as_deref() == Some("Node"))
}

/// What an Event and its copy on another object have in common. The number of suppressed Events at the end of the
/// message differs.
fn identity(event: &Event) -> (Option<Timestamp>, Option<&str>, &str) {
    let message = event.message.as_deref().unwrap_or_default();
    let message = message.rsplit_once(" (and ").map_or(message, |(message, _)| message);
    (event.event_time.as_ref().map(|time| time.0), event.reason.as_deref(), message)
}

/// Returns whether an Event is about a deleted object of the same name. A kubelet gives a node's name in place of its UID.
fn is_about_earlier(about: &ObjectReference, present: &ObjectMeta) -> bool {
    let uid = about.uid.as_deref().filter(|uid| !uid.is_empty());
    uid.is_some() && uid != present.uid.as_deref() && uid != present.name.as_deref()
}

/// Returns the entry of an Event. `earlier` is the kind of the object that it is about, if that has been deleted since.
fn entry(event: &Event, earlier: Option<&str>) -> Entry {
    let (first, last) = times(event);
    let series = event.series.as_ref().and_then(|series| series.count);
    let count = series.into_iter().chain(event.count).max().filter(|count| *count > 1);
    let count = count.map(|count| match first.filter(|first| Some(*first) != last) {
        Some(first) => format!(" ({count} times since {})", seconds(first)),
        None => format!(" ({count} times)"),
    });
    let source = event.source.as_ref().and_then(|source| source.component.clone());
    let mut named = [event.reporting_component.clone(), source].into_iter().flatten();
    let named = named.find(|who| !who.is_empty());
    let writer = other_writer(event).filter(|_| named.as_deref() == Some(CONTROLLER));
    let borrowed = writer.map(|_| format!(" (not from the controller: it only names {CONTROLLER})"));
    let reason = event.reason.as_deref().unwrap_or("<unknown>");
    let message = event.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    let earlier = earlier.map(|kind| format!(" (an earlier {kind} of this name)")).unwrap_or_default();
    Entry {
        when: last.into(),
        source: Source::Event,
        nodes: Vec::new(),
        rule: None,
        who: writer.map(str::to_owned).or(named),
        is_warning: event.type_.as_deref() == Some("Warning") || writer.is_some(),
        what: format!("{reason}{message}{}{earlier}{}", count.unwrap_or_default(), borrowed.unwrap_or_default()),
        owns: Vec::new(),
    }
}

/// Returns the field manager of an Event, if it is known, and not the controller. Whoever may create Events chooses what
/// reports them; the field manager is a choice too, but one that nobody makes by accident.
fn other_writer(event: &Event) -> Option<&str> {
    let mut managers = event.metadata.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref());
    let first = managers.next()?;
    (first != FIELD_MANAGER && managers.all(|manager| manager != FIELD_MANAGER)).then_some(first)
}

/// Returns when an Event was reported first and last. Which fields it has depends on the client that reported it.
fn times(event: &Event) -> (Option<Timestamp>, Option<Timestamp>) {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let precise = [series, event.event_time.as_ref()].map(|time| time.map(|time| time.0));
    let whole = [&event.first_timestamp, &event.last_timestamp].map(|time| time.as_ref().map(|time| time.0));
    let times = || precise.into_iter().chain(whole).flatten();
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (times().min().or(created), times().max().or(created))
}
