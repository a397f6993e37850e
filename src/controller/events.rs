//! Events: on a node, what was done about other writers' values; on a rule, what somebody has to
//! settle. Each kind is limited for each rule, so that many of one do not hide another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use tokio::time::Instant;
use tracing::debug;

use crate::api::{FIELD_MANAGER, NodeExtendedResource};
use crate::error::describe;
use crate::ledger::InvalidLedger;
use crate::plan::rules::InvalidRule;
use crate::plan::{Action, Change};

/// How many Events of a kind a rule may cause at once, and how long it is until it may cause one
/// more: ten thousand nodes that reboot together are told of by a handful.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(30);

/// The longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;

/// Writes Events, within a limit for each rule.
pub(super) struct Events {
    client: Client,
    timeout: Duration,
    /// By rule and reason.
    spent: HashMap<(Arc<str>, &'static str), Spent>,
}

/// A fight with another writer over a resource on a node.
pub(super) struct Contest<'a> {
    pub(super) node: &'a str,
    pub(super) uid: &'a str,
    pub(super) rule: &'a Arc<str>,
    pub(super) rule_uid: Option<String>,
    pub(super) resource: &'a str,
    pub(super) writer: &'a str,
}

/// What has been used of a limit.
struct Spent {
    events: u32,
    since: Instant,
}

impl Events {
    pub(super) fn new(client: Client, timeout: Duration) -> Self {
        let spent = HashMap::new();
        Self { client, timeout, spent }
    }

    /// Tells of a change on a node, if another writer may ask about it.
    pub(super) fn changed(
        &mut self,
        node: &Arc<str>,
        uid: &str,
        change: &Change,
        now: Instant,
    ) -> Option<BoxFuture<'static, ()>> {
        let Change { resource, action } = change;
        let (reason, done, quantity, rule, found, writer) = match action {
            Action::Repair { quantity, rule, found, writer } => {
                ("Repaired", "it is {} again", quantity, rule, found, writer)
            }
            Action::TakeOver { quantity, rule, found, writer } => {
                ("TookOver", "it is {} now", quantity, rule, found, writer)
            }
            Action::Advertise { .. }
            | Action::Hold { .. }
            | Action::Release { .. }
            | Action::Withdraw { .. }
            | Action::RemoveZero => {
                return None;
            }
        };
        let writer = writer.as_deref().unwrap_or("an unknown writer");
        let done = done.replace("{}", quantity);
        let note =
            format!("{resource} was {found}, written by {writer}; {done}, as rule {rule} declares");
        self.publish(rule, node_reference(node, uid), reason, "Patch", note, now)
    }

    /// Tells that a rule is invalid. Where it has not even the CRD's shape, the API server takes no
    /// status for it, and this is all there is to see.
    pub(super) fn invalid(
        &mut self,
        rule: &Arc<str>,
        uid: Option<String>,
        why: &InvalidRule,
        now: Instant,
    ) -> Option<BoxFuture<'static, ()>> {
        let note = format!("{why}. What it advertised before stays as it is");
        self.publish(rule, rule_reference(rule, uid), "InvalidSpec", "Validate", note, now)
    }

    /// Tells one of two rules about the other: both declare a quantity of their own on a node, with
    /// the same priority.
    pub(super) fn tied(
        &mut self,
        rule: &Arc<str>,
        uid: Option<String>,
        other: &str,
        now: Instant,
    ) -> Option<BoxFuture<'static, ()>> {
        let note = format!(
            "rule {other} declares another quantity of the same resource on the same node, with the \
             same priority; the older decides. Give one a higher priority"
        );
        self.publish(rule, rule_reference(rule, uid), "EqualPriority", "Resolve", note, now)
    }

    /// Tells of a contest on the node and on the rule.
    pub(super) fn contested(
        &mut self,
        contest: Contest<'_>,
        now: Instant,
    ) -> impl Iterator<Item = BoxFuture<'static, ()>> + use<> {
        let Contest { node, uid, rule, rule_uid, resource, writer } = contest;
        let note = format!(
            "{writer} keeps changing {resource} on node {node} back from what rule {rule} declares; it \
             is given way to, and tried again after pauses"
        );
        let subjects = [node_reference(node, uid), rule_reference(rule, rule_uid)];
        let mut publish =
            |subject| self.publish(rule, subject, "Contested", "Patch", note.clone(), now);
        subjects.map(&mut publish).into_iter().flatten()
    }

    /// Tells that a node is left alone since its ledger cannot be read.
    pub(super) fn unreadable(
        &mut self,
        node: &Arc<str>,
        uid: &str,
        why: &InvalidLedger,
        now: Instant,
    ) -> Option<BoxFuture<'static, ()>> {
        let note = format!("{why}; nothing on the node is touched until it is mended or removed");
        let no_rule = Arc::from("");
        self.publish(&no_rule, node_reference(node, uid), "LedgerUnreadable", "Plan", note, now)
    }

    fn publish(
        &mut self,
        rule: &Arc<str>,
        regarding: ObjectReference,
        reason: &'static str,
        action: &str,
        note: String,
        now: Instant,
    ) -> Option<BoxFuture<'static, ()>> {
        if !self.spend(rule, reason, now) {
            return None;
        }
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(shortened(note)),
            action: action.to_owned(),
            secondary: None,
        };
        // A new recorder for each: one that remembers would count an Event of the same reason as the
        // one before, and keep the old note.
        let recorder = Recorder::new(self.client.clone(), Reporter::from(FIELD_MANAGER));
        let timeout = self.timeout;
        let publish = async move {
            let published = recorder.publish(&event, &regarding);
            match tokio::time::timeout(timeout, published).await {
                Ok(Ok(())) => {}
                // The log has it already; an Event is a convenience.
                Ok(Err(error)) => debug!("an Event was not written: {}", describe(&error)),
                Err(_) => debug!("an Event was not written within {timeout:?}"),
            }
        };
        Some(publish.boxed())
    }

    fn spend(&mut self, rule: &Arc<str>, reason: &'static str, now: Instant) -> bool {
        let start = || Spent { events: 0, since: now };
        let spent = self.spent.entry((Arc::clone(rule), reason)).or_insert_with(start);
        while spent.events > 0 && now.duration_since(spent.since) >= REFILL {
            spent.events -= 1;
            spent.since += REFILL;
        }
        if spent.events == 0 {
            spent.since = now;
        }
        let allowed = spent.events < BURST;
        spent.events += u32::from(allowed);
        allowed
    }

    /// Forgets the rules that are gone.
    pub(super) fn retain(&mut self, exists: impl Fn(&Arc<str>) -> bool) {
        self.spent.retain(|(rule, _), _| rule.is_empty() || exists(rule));
    }
}

/// What of a note the API server takes.
fn shortened(mut note: String) -> String {
    let ends = note.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| *end <= MAX_NOTE).last().unwrap_or_default();
    note.truncate(end);
    note
}

fn node_reference(node: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn rule_reference(rule: &str, uid: Option<String>) -> ObjectReference {
    ObjectReference {
        api_version: Some(NodeExtendedResource::api_version(&()).into_owned()),
        kind: Some(NodeExtendedResource::kind(&()).into_owned()),
        name: Some(rule.to_owned()),
        uid,
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(shortened("short".to_owned()), "short");
        let long = shortened(format!("x{}", "é".repeat(MAX_NOTE)));
        assert_eq!((long.len(), long.ends_with('é')), (MAX_NOTE - 1, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_is_told_of_within_a_limit() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = crate::client::with_config(config).unwrap();
        let mut events = Events::new(client, Duration::from_secs(1));
        let rule: Arc<str> = "dongle".into();
        let start = Instant::now();
        let allowed = (0..100).filter(|_| events.spend(&rule, "Repaired", start)).count();
        assert_eq!(allowed, BURST as usize);
        assert!(!events.spend(&rule, "Repaired", start + REFILL / 2));
        assert!(events.spend(&rule, "Repaired", start + REFILL));
        assert!(!events.spend(&rule, "Repaired", start + REFILL));
        assert!(events.spend(&"other".into(), "Repaired", start));
        assert!(events.spend(&rule, "Contested", start));
    }
}
