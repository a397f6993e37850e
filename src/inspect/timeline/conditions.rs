//! Conditions: since when each has the status that it has now.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::entry::{Entry, Source, When};
use super::field_owners;

/// The condition that says how an object is; the others report problems.
const READY: &str = "Ready";

/// A condition of a node or of a rule.
pub(super) struct Transition<'a> {
    kind: &'a str,
    status: &'a str,
    reason: Option<&'a str>,
    when: When,
}

impl<'a> From<&'a NodeCondition> for Transition<'a> {
    fn from(condition: &'a NodeCondition) -> Self {
        let NodeCondition { type_, status, reason, last_transition_time, .. } = condition;
        let time = last_transition_time.as_ref().map(|time| time.0);
        Self { kind: type_, status, reason: reason.as_deref(), when: time.into() }
    }
}

impl<'a> From<&'a Condition> for Transition<'a> {
    fn from(condition: &'a Condition) -> Self {
        let Condition { type_, status, reason, last_transition_time, .. } = condition;
        Self { kind: type_, status, reason: Some(reason), when: When::At(last_transition_time.0) }
    }
}

impl Transition<'_> {
    fn is_idle(&self) -> bool {
        self.kind != READY && self.status == "False"
    }
}

/// Returns an entry for each time and writer of an object's conditions: a kubelet sets all of a node's at once. A problem
/// that is absent is left out, unless it has ended at a time of its own.
pub(super) fn entries<'a>(
    metadata: &ObjectMeta,
    rule: Option<&str>,
    conditions: impl IntoIterator<Item = impl Into<Transition<'a>>>,
) -> Vec<Entry> {
    let all: Vec<Transition<'a>> = conditions.into_iter().map(Into::into).collect();
    let first = all.iter().map(|condition| condition.when).min();
    let others = all.iter().filter(|condition| !condition.is_idle()).map(|condition| condition.when);
    let explained: BTreeSet<_> = others.chain(first).collect();
    let mut entries = Vec::<Entry>::new();
    for condition in all.into_iter().filter(|condition| !condition.is_idle() || !explained.contains(&condition.when)) {
        let Transition { kind, status, reason, when } = condition;
        let key = format!("k:{{\"type\":{}}}", serde_json::Value::from(kind));
        let who = field_owners::of_field(metadata, &["f:status", "f:conditions", &key]);
        let reason = reason.filter(|reason| !reason.is_empty()).map(|reason| format!(" ({reason})"));
        let what = format!("{kind}={status}{}", reason.unwrap_or_default());
        match entries.iter_mut().find(|entry| entry.when == when && entry.who == who) {
            Some(entry) => {
                entry.what += ", ";
                entry.what += &what;
            }
            None => entries.push(Entry {
                when,
                source: Source::Condition,
                nodes: Vec::new(),
                rule: rule.map(str::to_owned),
                who,
                is_warning: false,
                what: format!("since then {what}"),
                owns: Vec::new(),
            }),
        }
    }
    entries
}
