//! Events: on a node, what changed there or what blocks a change; on a rule, the same, and what an administrator must
//! resolve. Each kind of Event is limited per rule, so that ten thousand nodes that reboot or fail together cause only
//! a few Events, and many of one kind do not hide another.

mod templates;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as KubeEvent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Resource as _;
use kube::runtime::events::EventType;
use tokio::time::Instant;

use super::effect::Now;
use super::happening::Happening;
use super::nodes::NodeSubject;
use crate::election::backoff::Backoff;
use crate::model::api::NodeExtendedResource;
use crate::response::request_error::RequestError;
pub(super) use templates::EventTemplate;
pub(crate) use templates::contest;

/// How many Events of one kind a rule may cause in a burst, on nodes and on itself.
const BURST_ON_NODES: u32 = 10;
const BURST_ON_RULE: u32 = 3;
/// How long until the rule may cause one more.
const REFILL_INTERVAL: Duration = Duration::from_secs(30);

/// The reporting controller, with a domain, as the Event API requires.
const REPORTING_CONTROLLER: &str = "noderesource.dev/node-resource-advertiser";

/// How often buckets are compacted, in Events, and the age at which an unused bucket is dropped.
const COMPACT_INTERVAL: u64 = 256;
const MAX_BUCKET_AGE: Duration = Duration::from_secs(60 * 60);
/// How many buckets there are. More rules than these share one for each reason: whoever may write rules could create and
/// delete them without end.
const MAX_BUCKETS: usize = 20_000;

/// The longest note that the API server accepts, in bytes.
const MAX_NOTE: usize = 1024;

/// The maximum number of Events in the outbox. Beyond it, the oldest are dropped: Events are a convenience, and the log
/// has all of them.
const MAX_OUTBOX: usize = 1000;
/// The maximum number of attempts to send an Event.
const MAX_TRIES: u32 = 5;
/// The namespace of Events about cluster-scoped objects.
const NAMESPACE: &str = "default";
/// How much of an object's name an Event's name repeats.
const MAX_NAME: usize = 200;

/// The Events to write, within limits.
#[derive(Clone, Debug)]
pub(super) struct Events {
    buckets: HashMap<RateLimitKey, Bucket>,
    /// Each with the number of attempts.
    outbox: VecDeque<(Box<KubeEvent>, u32)>,
    in_flight: HashMap<String, u32>,
    /// The backoff while the API server is overloaded, and when its last pause ends.
    backoff: Option<Backoff>,
    not_before: Option<Instant>,
    /// The identity of this process, for `reportingInstance`.
    instance: String,
    seed: u64,
    number: u64,
}

/// The key of a limit: Events of a rule with one reason, on nodes or on the rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RateLimitKey {
    rule: Arc<str>,
    reason: &'static str,
    on_rule: bool,
}

/// The usage of a limit.
#[derive(Clone, Debug)]
struct Bucket {
    events: u32,
    since: Instant,
    /// The number of Events suppressed since the last written one.
    suppressed: u32,
}

/// A rule as the subject of an Event.
#[derive(Clone, Debug)]
pub(super) struct RuleSubject {
    pub(super) name: Arc<str>,
    /// `None` if the rule no longer exists.
    pub(super) uid: Option<String>,
}

impl Events {
    pub(super) fn new(instance: String, seed: u64) -> Self {
        let (buckets, outbox, in_flight) = Default::default();
        let (backoff, not_before) = (None, None);
        Self { buckets, outbox, in_flight, backoff, not_before, instance, seed, number: 0 }
    }

    /// Reports an Event on a rule. Returns false if the limit suppresses it.
    pub(super) fn on_rule(&mut self, rule: &RuleSubject, template: &EventTemplate, now: Now) -> bool {
        let RuleSubject { name, uid } = rule;
        let Some(uid) = uid else { return false };
        let key = RateLimitKey { rule: Arc::clone(name), reason: template.reason, on_rule: true };
        self.report(key, || rule_reference(name, uid.clone()), None, template, now)
    }

    /// Reports an Event on a node.
    pub(super) fn on_node(&mut self, node: &NodeSubject, template: &EventTemplate, now: Now) {
        let key = RateLimitKey { rule: Arc::from(""), reason: template.reason, on_rule: false };
        self.report(key, || node_reference(node), None, template, now);
    }

    /// Reports an Event on a node and on the rule that caused it. Returns false if the limit suppresses it.
    pub(super) fn on_both(
        &mut self,
        node: &NodeSubject,
        rule: &RuleSubject,
        template: &EventTemplate,
        now: Now,
    ) -> bool {
        let RuleSubject { name, uid } = rule;
        let key = |on_rule| RateLimitKey { rule: Arc::clone(name), reason: template.reason, on_rule };
        let reference = uid.clone().map(|uid| rule_reference(name, uid));
        let on_node = self.report(key(false), || node_reference(node), reference.clone(), template, now);
        let on_rule = reference
            .is_some_and(|reference| self.report(key(true), || reference, Some(node_reference(node)), template, now));
        on_node || on_rule
    }

    fn report(
        &mut self,
        key: RateLimitKey,
        regarding: impl FnOnce() -> ObjectReference,
        related: Option<ObjectReference>,
        template: &EventTemplate,
        now: Now,
    ) -> bool {
        let Some(suppressed) = self.try_acquire(key, now.instant) else { return false };
        let event = self.event(regarding(), related, template, suppressed, now);
        if self.outbox.len() >= MAX_OUTBOX {
            self.outbox.pop_front();
        }
        self.outbox.push_back((Box::new(event), 0));
        true
    }

    fn event(
        &mut self,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
        template: &EventTemplate,
        suppressed: u32,
        now: Now,
    ) -> KubeEvent {
        let EventTemplate { kind, reason, action, text } = template;
        self.number += 1;
        if self.number.is_multiple_of(COMPACT_INTERVAL) {
            self.compact(now.instant);
        }
        let subject: String = regarding.name.iter().flat_map(|name| name.chars()).take(MAX_NAME).collect();
        let subject = subject.trim_end_matches(['.', '-']);
        // The seed differs between processes, and the number between Events of one process.
        let name = format!("{subject}.{:x}{:06x}", self.seed, self.number);
        KubeEvent {
            metadata: ObjectMeta { name: Some(name), namespace: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() },
            event_time: Some(MicroTime(now.wall)),
            type_: Some(match kind {
                EventType::Normal => "Normal".to_owned(),
                EventType::Warning => "Warning".to_owned(),
            }),
            reason: Some((*reason).to_owned()),
            action: Some((*action).to_owned()),
            note: Some(shortened(text.clone(), suppressed)),
            regarding: Some(regarding),
            related,
            reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..KubeEvent::default()
        }
    }

    /// Returns the next Event to send.
    pub(super) fn pop(&mut self) -> Option<Box<KubeEvent>> {
        let (event, tries) = self.outbox.pop_front()?;
        self.in_flight.extend(event.metadata.name.clone().map(|name| (name, tries + 1)));
        Some(event)
    }

    /// Returns whether an Event may be sent.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        !self.outbox.is_empty() && self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// Drops all pending Events: another process reports from now on.
    pub(super) fn clear(&mut self) {
        self.outbox.clear();
        self.in_flight.clear();
    }

    /// Returns when the current pause of the Events ends.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|not_before| !self.outbox.is_empty() && now < *not_before)
    }

    /// Handles the response to an Event. If the API server was overloaded, the Event is sent again after a pause.
    /// Returns whether it is lost.
    pub(super) fn written(
        &mut self,
        event: Box<KubeEvent>,
        result: Result<(), RequestError>,
        now: Instant,
    ) -> Option<Happening> {
        let tries = event.metadata.name.as_ref().and_then(|name| self.in_flight.remove(name));
        let Err(error) = result else {
            self.backoff = None;
            return None;
        };
        if !error.is_overload() {
            self.backoff = None;
            return Some(Happening::EventNotWritten { error: error.to_string() });
        }
        // Events that were in flight together fail together.
        if self.not_before.is_none_or(|not_before| not_before <= now) {
            let seed = self.seed.wrapping_add(self.number);
            let backoff = self.backoff.get_or_insert_with(|| Backoff::new(seed));
            self.not_before = Some(now + backoff.next(error.retry_after()));
        }
        let Some(tries) = tries.filter(|tries| *tries < MAX_TRIES) else {
            return Some(Happening::EventNotWritten { error: error.to_string() });
        };
        self.outbox.push_back((event, tries));
        None
    }

    /// Returns the number of Events suppressed since the last one, if another Event may be written.
    fn try_acquire(&mut self, key: RateLimitKey, now: Instant) -> Option<u32> {
        let has_own = self.buckets.len() < MAX_BUCKETS || self.buckets.contains_key(&key);
        let key = if has_own { key } else { RateLimitKey { rule: Arc::from(""), ..key } };
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

    /// Drops buckets that have been unused for long: rules come and go.
    fn compact(&mut self, now: Instant) {
        self.buckets.retain(|_, bucket| now.duration_since(bucket.since) < MAX_BUCKET_AGE);
    }
}

/// Shortens a note to what the API server accepts, and appends the number of suppressed Events.
fn shortened(mut template: String, suppressed: u32) -> String {
    let more = match suppressed {
        0 => String::new(),
        _ => format!(" (and {suppressed} more like this since the last one)"),
    };
    let free_slot = MAX_NOTE - more.len();
    let ends = template.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| *end <= free_slot).last().unwrap_or_default();
    template.truncate(end);
    template + &more
}

fn node_reference(node: &NodeSubject) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name.to_string()),
        uid: Some(node.uid.to_string()),
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
        assert!(long.len() == MAX_NOTE && long.ends_with("(and 7 more like this since the last one)"));
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_a_rule_are_rate_limited() {
        let mut events = Events::new("pod-1".to_owned(), 7);
        let key = |rule: &str, reason, on_rule| RateLimitKey { rule: rule.into(), reason, on_rule };
        let repaired = || key("dongle", "Repaired", false);
        let start = Instant::now();
        let allowed = (0..10_000).filter(|_| events.try_acquire(repaired(), start).is_some()).count();
        assert_eq!(allowed, BURST_ON_NODES as usize);
        assert_eq!(events.try_acquire(repaired(), start + REFILL_INTERVAL / 2), None);
        let suppressed = 10_000 - BURST_ON_NODES + 1;
        assert_eq!(events.try_acquire(repaired(), start + REFILL_INTERVAL), Some(suppressed), "they are counted");
        assert_eq!(events.try_acquire(repaired(), start + REFILL_INTERVAL), None);
        for other in
            [key("other", "Repaired", false), key("dongle", "Contested", false), key("dongle", "Repaired", true)]
        {
            assert_eq!(events.try_acquire(other, start), Some(0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rules_that_come_and_go_take_limited_memory() {
        let mut events = Events::new("pod-1".to_owned(), 7);
        let start = Instant::now();
        let key = |number: usize| RateLimitKey { rule: number.to_string().into(), reason: "Withdrawn", on_rule: false };
        let reported = (0..MAX_BUCKETS * 2).filter(|number| events.try_acquire(key(*number), start).is_some()).count();
        assert_eq!(events.buckets.len(), MAX_BUCKETS + 1);
        assert_eq!(reported, MAX_BUCKETS + BURST_ON_NODES as usize);
        assert_eq!(events.try_acquire(key(7), start), Some(0), "one that has its own");
    }

    #[tokio::test(start_paused = true)]
    async fn unused_limits_are_forgotten() {
        let mut events = Events::new("pod-1".to_owned(), 7);
        let start = Instant::now();
        for number in 0..100 {
            let rule = format!("rule-{number}").into();
            events.try_acquire(RateLimitKey { rule, reason: "Withdrawn", on_rule: false }, start);
        }
        events.compact(start + MAX_BUCKET_AGE / 2);
        assert_eq!(events.buckets.len(), 100);
        events.compact(start + MAX_BUCKET_AGE);
        assert!(events.buckets.is_empty());
    }
}
