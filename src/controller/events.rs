//! Events: on a node, what was done there or stands in the way; on a rule, the same, and what somebody
//! has to settle. Each kind is limited for each rule, so that ten thousand nodes that reboot or fail
//! together are told of by a handful, and many of one kind do not hide another.

mod templates;

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
pub(super) use templates::{EventTemplate, contest};

/// How many Events of a kind a rule may cause at once on nodes, and on itself.
const BURST_ON_NODES: u32 = 10;
const BURST_ON_RULE: u32 = 3;
/// How long it is until it may cause one more.
const REFILL_INTERVAL: Duration = Duration::from_secs(30);

/// Who reports, as Events name it: with a domain, as the Event API asks for.
const REPORTING_CONTROLLER: &str = "noderesource.dev/node-resource-advertiser";

/// The longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;

/// Writes Events, within limits.
pub(super) struct Events {
    client: Client,
    timeout: Duration,
    buckets: HashMap<RateLimitKey, Bucket>,
}

/// Whose limit: a rule's, for Events with one reason, on nodes or on itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RateLimitKey {
    rule: Arc<str>,
    reason: &'static str,
    on_rule: bool,
}

/// What has been used of a limit.
struct Bucket {
    events: u32,
    since: Instant,
    /// How many have not been written since the last one that was.
    suppressed: u32,
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
        Self { client, timeout, buckets: HashMap::new() }
    }

    /// Tells on a rule what concerns it alone.
    pub(super) fn on_rule(
        &mut self,
        rule: &RuleSubject,
        template: EventTemplate,
        now: Instant,
    ) -> Option<EventWrite> {
        let RuleSubject { name, uid } = rule;
        let uid = uid.clone()?;
        let key = RateLimitKey { rule: Arc::clone(name), reason: template.reason, on_rule: true };
        let suppressed = self.try_acquire(key, now)?;
        Some(self.write(rule_reference(name, uid), None, template, suppressed))
    }

    /// Tells on a node what concerns it alone.
    pub(super) fn on_node(
        &mut self,
        node: NodeSubject<'_>,
        template: EventTemplate,
        now: Instant,
    ) -> Option<EventWrite> {
        let key = RateLimitKey { rule: Arc::from(""), reason: template.reason, on_rule: false };
        let suppressed = self.try_acquire(key, now)?;
        Some(self.write(node_reference(node), None, template, suppressed))
    }

    /// Tells on a node and on a rule what the rule has led to there.
    pub(super) fn on_both(
        &mut self,
        node: NodeSubject<'_>,
        rule: &RuleSubject,
        template: &EventTemplate,
        now: Instant,
    ) -> impl Iterator<Item = EventWrite> + use<> {
        let RuleSubject { name, uid } = rule;
        let key =
            |on_rule| RateLimitKey { rule: Arc::clone(name), reason: template.reason, on_rule };
        let on_node = self.try_acquire(key(false), now).map(|suppressed| {
            let related = uid.clone().map(|uid| rule_reference(name, uid));
            self.write(node_reference(node), related, template.clone(), suppressed)
        });
        let on_rule = uid.clone().and_then(|uid| {
            let suppressed = self.try_acquire(key(true), now)?;
            let related = Some(node_reference(node));
            Some(self.write(rule_reference(name, uid), related, template.clone(), suppressed))
        });
        [on_node, on_rule].into_iter().flatten()
    }

    fn write(
        &self,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
        template: EventTemplate,
        suppressed: u32,
    ) -> EventWrite {
        let EventTemplate { kind, reason, action, text } = template;
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(shortened(text, suppressed)),
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
    fn try_acquire(&mut self, key: RateLimitKey, now: Instant) -> Option<u32> {
        let burst = if key.on_rule { BURST_ON_RULE } else { BURST_ON_NODES };
        let start = || Bucket { events: 0, since: now, suppressed: 0 };
        let buckets = self.buckets.entry(key).or_insert_with(start);
        while buckets.events > 0 && now.duration_since(buckets.since) >= REFILL_INTERVAL {
            buckets.events -= 1;
            buckets.since += REFILL_INTERVAL;
        }
        if buckets.events == 0 {
            buckets.since = now;
        }
        if buckets.events >= burst {
            buckets.suppressed = buckets.suppressed.saturating_add(1);
            return None;
        }
        buckets.events += 1;
        Some(std::mem::take(&mut buckets.suppressed))
    }

    /// Forgets the rules that are gone.
    pub(super) fn retain(&mut self, exists: impl Fn(&Arc<str>) -> bool) {
        self.buckets.retain(|key, _| key.rule.is_empty() || exists(&key.rule));
    }
}

/// What of a note the API server takes, with how many like it there have been besides.
fn shortened(mut template: String, suppressed: u32) -> String {
    let more = match suppressed {
        0 => String::new(),
        _ => format!(" (and {suppressed} more like this since the last one told of)"),
    };
    let free_slot = MAX_NOTE - more.len();
    let ends = template.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| *end <= free_slot).last().unwrap_or_default();
    template.truncate(end);
    template + &more
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
    fn event_note_is_cut_at_a_character_boundary() {
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
    async fn events_of_a_rule_are_rate_limited() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = crate::cluster::client::with_config(config).unwrap();
        let mut events = Events::new(client, Duration::from_secs(1));
        let key = |rule: &str, reason, on_rule| RateLimitKey { rule: rule.into(), reason, on_rule };
        let repaired = || key("dongle", "Repaired", false);
        let start = Instant::now();
        let allowed =
            (0..10_000).filter(|_| events.try_acquire(repaired(), start).is_some()).count();
        assert_eq!(allowed, BURST_ON_NODES as usize);
        assert_eq!(events.try_acquire(repaired(), start + REFILL_INTERVAL / 2), None);
        let suppressed = 10_000 - BURST_ON_NODES + 1;
        assert_eq!(
            events.try_acquire(repaired(), start + REFILL_INTERVAL),
            Some(suppressed),
            "they are counted"
        );
        assert_eq!(events.try_acquire(repaired(), start + REFILL_INTERVAL), None);
        for other in [
            key("other", "Repaired", false),
            key("dongle", "Contested", false),
            key("dongle", "Repaired", true),
        ] {
            assert_eq!(events.try_acquire(other, start), Some(0));
        }
    }
}
