//! Events about a node, and about its rules.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{Event, Node as K8sNode, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::entry::{Entry, Source, seconds};
use super::records::RuleObject;

/// Returns the Events about a node, and those about rules that concern it.
pub(super) fn entries(
    node: &K8sNode,
    rules: Option<&[RuleObject]>,
    on_node: &[Event],
    on_rules: &[Event],
) -> Vec<Entry> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let rules: HashMap<_, _> = rules.into_iter().flatten().map(|rule| (&*rule.name, &rule.metadata)).collect();
    // The controller reports what it does on a node there and on the rule, at one time.
    let reported: HashSet<_> = on_node.iter().map(identity).collect();
    let on_rules = on_rules.iter().filter(|event| match &event.related {
        Some(related) if related.kind.as_deref() == Some("Node") => {
            related.name.as_deref() == Some(name) && !reported.contains(&identity(event))
        }
        _ => event.involved_object.name.as_deref().is_some_and(|rule| rules.contains_key(rule)),
    });
    let on_rules = on_rules.map(|event| {
        let rule = event.involved_object.name.clone();
        let present = rule.as_deref().and_then(|rule| rules.get(rule));
        let earlier_rule = present.is_some_and(|rule| is_about_earlier(&event.involved_object, rule));
        let related = event.related.as_ref().filter(|related| related.kind.as_deref() == Some("Node"));
        let earlier_node = related.is_some_and(|related| is_about_earlier(related, &node.metadata));
        let earlier = earlier_rule.then_some("rule").or(earlier_node.then_some("node"));
        entry(event, rule, earlier)
    });
    let on_node = on_node.iter().map(|event| {
        let is_earlier = is_about_earlier(&event.involved_object, &node.metadata);
        entry(event, None, is_earlier.then_some("node"))
    });
    on_node.chain(on_rules).collect()
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
fn entry(event: &Event, rule: Option<String>, earlier: Option<&str>) -> Entry {
    let (first, last) = times(event);
    let series = event.series.as_ref().and_then(|series| series.count);
    let count = series.into_iter().chain(event.count).max().filter(|count| *count > 1);
    let count = count.map(|count| match first.filter(|first| Some(*first) != last) {
        Some(first) => format!(" ({count} times since {})", seconds(first)),
        None => format!(" ({count} times)"),
    });
    let source = event.source.as_ref().and_then(|source| source.component.clone());
    let who = [event.reporting_component.clone(), source].into_iter().flatten().find(|who| !who.is_empty());
    let reason = event.reason.as_deref().unwrap_or("<unknown>");
    let message = event.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    let earlier = earlier.map(|kind| format!(" (an earlier {kind} of this name)")).unwrap_or_default();
    Entry {
        when: last.into(),
        source: Source::Event,
        rule,
        who,
        is_warning: event.type_.as_deref() == Some("Warning"),
        what: format!("{reason}{message}{}{earlier}", count.unwrap_or_default()),
        owns: Vec::new(),
    }
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
