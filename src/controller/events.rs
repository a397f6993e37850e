//! Events: on a node, what was done there or stands in the way; on a rule, the same, and what somebody
//! has to settle. Each kind is limited for each rule, so that ten thousand nodes that reboot or fail
//! together are told of by a handful, and many of one kind do not hide another.

mod notes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, Recorder, Reporter};
use kube::{Client, Resource as _};
use tokio::time::Instant;
use tracing::debug;

use crate::cluster::error::describe;
use crate::model::api::NodeExtendedResource;
pub(super) use notes::Note;

/// How many Events of a kind a rule may cause at once on nodes, and on itself.
const BURST_ON_NODES: u32 = 10;
const BURST_ON_RULE: u32 = 3;
/// How long it is until it may cause one more.
const REFILL: Duration = Duration::from_secs(30);

/// Who reports, as Events name it: with a domain, as the Event API asks for.
const REPORTING_CONTROLLER: &str = "noderesource.dev/node-resource-advertiser";

/// The longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;

/// Writes Events, within limits.
pub(super) struct Events {
    client: Client,
    timeout: Duration,
    spent: HashMap<Account, Spent>,
}

/// Whose limit: a rule's, for Events with one reason, on nodes or on itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Account {
    rule: Arc<str>,
    reason: &'static str,
    on_rule: bool,
}

/// What has been used of a limit.
struct Spent {
    events: u32,
    since: Instant,
    /// How many have not been written since the last one that was.
    left_out: u32,
}

/// A rule, as an Event refers to it.
#[derive(Clone, Debug)]
pub(super) struct RuleSubject {
    pub(super) name: Arc<str>,
    /// `None` where it does not exist any more.
    pub(super) uid: Option<String>,
}

/// A node, as an Event refers to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSubject<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

type EventWrite = BoxFuture<'static, ()>;

impl Events {
    pub(super) fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout, spent: HashMap::new() }
    }

    /// Tells on a rule what concerns it alone.
    pub(super) fn on_rule(
        &mut self,
        rule: &RuleSubject,
        note: Note,
        now: Instant,
    ) -> Option<EventWrite> {
        let RuleSubject { name, uid } = rule;
        let uid = uid.clone()?;
        let account = Account { rule: Arc::clone(name), reason: note.reason, on_rule: true };
        let left_out = self.spend(account, now)?;
        Some(self.write(rule_reference(name, uid), None, note, left_out))
    }

    /// Tells on a node what concerns it alone.
    pub(super) fn on_node(
        &mut self,
        node: NodeSubject<'_>,
        note: Note,
        now: Instant,
    ) -> Option<EventWrite> {
        let account = Account { rule: Arc::from(""), reason: note.reason, on_rule: false };
        let left_out = self.spend(account, now)?;
        Some(self.write(node_reference(node), None, note, left_out))
    }

    /// Tells on a node and on a rule what the rule has led to there.
    pub(super) fn on_both(
        &mut self,
        node: NodeSubject<'_>,
        rule: &RuleSubject,
        note: &Note,
        now: Instant,
    ) -> impl Iterator<Item = EventWrite> + use<> {
        let RuleSubject { name, uid } = rule;
        let account = |on_rule| Account { rule: Arc::clone(name), reason: note.reason, on_rule };
        let on_node = self.spend(account(false), now).map(|left_out| {
            let related = uid.clone().map(|uid| rule_reference(name, uid));
            self.write(node_reference(node), related, note.clone(), left_out)
        });
        let on_rule = uid.clone().and_then(|uid| {
            let left_out = self.spend(account(true), now)?;
            let related = Some(node_reference(node));
            Some(self.write(rule_reference(name, uid), related, note.clone(), left_out))
        });
        [on_node, on_rule].into_iter().flatten()
    }

    fn write(
        &self,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
        note: Note,
        left_out: u32,
    ) -> EventWrite {
        let Note { kind, reason, action, text } = note;
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(shortened(text, left_out)),
            action: action.to_owned(),
            secondary: related,
        };
        // A new recorder for each: one that remembers would count an Event of the same reason as the
        // one before, and keep the old note.
        let recorder = Recorder::new(self.client.clone(), Reporter::from(REPORTING_CONTROLLER));
        let timeout = self.timeout;
        let write = async move {
            let published = recorder.publish(&event, &regarding);
            match tokio::time::timeout(timeout, published).await {
                Ok(Ok(())) => {}
                // The log has it already; an Event is a convenience.
                Ok(Err(error)) => debug!("an Event was not written: {}", describe(&error)),
                Err(_) => debug!("an Event was not written within {timeout:?}"),
            }
        };
        write.boxed()
    }

    /// How many have been left out since the last, if another may be written.
    fn spend(&mut self, account: Account, now: Instant) -> Option<u32> {
        let burst = if account.on_rule { BURST_ON_RULE } else { BURST_ON_NODES };
        let start = || Spent { events: 0, since: now, left_out: 0 };
        let spent = self.spent.entry(account).or_insert_with(start);
        while spent.events > 0 && now.duration_since(spent.since) >= REFILL {
            spent.events -= 1;
            spent.since += REFILL;
        }
        if spent.events == 0 {
            spent.since = now;
        }
        if spent.events >= burst {
            spent.left_out = spent.left_out.saturating_add(1);
            return None;
        }
        spent.events += 1;
        Some(std::mem::take(&mut spent.left_out))
    }

    /// Forgets the rules that are gone.
    pub(super) fn retain(&mut self, exists: impl Fn(&Arc<str>) -> bool) {
        self.spent.retain(|account, _| account.rule.is_empty() || exists(&account.rule));
    }
}

/// What of a note the API server takes, with how many like it there have been besides.
fn shortened(mut note: String, left_out: u32) -> String {
    let more = match left_out {
        0 => String::new(),
        _ => format!(" (and {left_out} more like this since the last one told of)"),
    };
    let room = MAX_NOTE - more.len();
    let ends = note.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| *end <= room).last().unwrap_or_default();
    note.truncate(end);
    note + &more
}

fn node_reference(node: NodeSubject<'_>) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name.to_owned()),
        uid: Some(node.uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn rule_reference(rule: &str, uid: String) -> ObjectReference {
    ObjectReference {
        api_version: Some(NodeExtendedResource::api_version(&()).into_owned()),
        kind: Some(NodeExtendedResource::kind(&()).into_owned()),
        name: Some(rule.to_owned()),
        uid: Some(uid),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(shortened("short".to_owned(), 0), "short");
        let long = shortened(format!("x{}", "é".repeat(MAX_NOTE)), 0);
        assert_eq!((long.len(), long.ends_with('é')), (MAX_NOTE - 1, true));
        let long = shortened("x".repeat(MAX_NOTE), 7);
        assert!(
            long.len() == MAX_NOTE
                && long.ends_with("(and 7 more like this since the last one told of)")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_is_told_of_within_a_limit() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = crate::cluster::client::with_config(config).unwrap();
        let mut events = Events::new(client, Duration::from_secs(1));
        let account = |rule: &str, reason, on_rule| Account { rule: rule.into(), reason, on_rule };
        let repaired = || account("dongle", "Repaired", false);
        let start = Instant::now();
        let allowed = (0..10_000).filter(|_| events.spend(repaired(), start).is_some()).count();
        assert_eq!(allowed, BURST_ON_NODES as usize);
        assert_eq!(events.spend(repaired(), start + REFILL / 2), None);
        let left_out = 10_000 - BURST_ON_NODES + 1;
        assert_eq!(events.spend(repaired(), start + REFILL), Some(left_out), "they are counted");
        assert_eq!(events.spend(repaired(), start + REFILL), None);
        for other in [
            account("other", "Repaired", false),
            account("dongle", "Contested", false),
            account("dongle", "Repaired", true),
        ] {
            assert_eq!(events.spend(other, start), Some(0));
        }
    }
}
