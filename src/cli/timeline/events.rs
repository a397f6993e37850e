//! Events about a node, and about its rules.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Event, Node as K8sNode};
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
    let rules: HashSet<_> = rules.into_iter().flatten().map(|rule| &*rule.name).collect();
    // The controller reports what it does on a node there and on the rule, at one time.
    let reported: HashSet<_> = on_node.iter().map(identity).collect();
    let on_rules = on_rules.iter().filter(|event| match &event.related {
        Some(related) if related.kind.as_deref() == Some("Node") => {
            related.name.as_deref() == Some(name) && !reported.contains(&identity(event))
        }
        _ => event.involved_object.name.as_deref().is_some_and(|rule| rules.contains(rule)),
    });
    let on_rules = on_rules.map(|event| entry(event, event.involved_object.name.clone(), false));
    let on_node = on_node.iter().map(|event| entry(event, None, is_about_earlier(event, &node.metadata)));
    on_node.chain(on_rules).collect()
}

/// What an Event and its copy on another object have in common. The number of suppressed Events at the end of the
/// message differs.
fn identity(event: &Event) -> (Option<Timestamp>, Option<&str>, &str) {
    let message = event.message.as_deref().unwrap_or_default();
    let message = message.rsplit_once(" (and ").map_or(message, |(message, _)| message);
    (event.event_time.as_ref().map(|time| time.0), event.reason.as_deref(), message)
}

/// Returns whether an Event is about a deleted node of the same name. A kubelet gives the name in place of the UID.
fn is_about_earlier(event: &Event, node: &ObjectMeta) -> bool {
    let uid = event.involved_object.uid.as_deref().filter(|uid| !uid.is_empty());
    uid.is_some() && uid != node.uid.as_deref() && uid != node.name.as_deref()
}

fn entry(event: &Event, rule: Option<String>, is_about_earlier: bool) -> Entry {
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
    let earlier = if is_about_earlier { " (an earlier node of this name)" } else { "" };
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
