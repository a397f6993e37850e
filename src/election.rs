//! Decides what to do with the Lease. It is pure, so that every order of events can be tested.

pub(crate) mod backoff;
pub(crate) mod holder;
pub mod participant;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use crate::model::resource_version;
use holder::{KEPT_UNTIL, Kind, LABEL, duration, holder, kept_until, remaining};

/// The maximum interval before the next write after a failed one.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A candidate and its Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// The holder identity: unique among processes, including those of the same pod.
    pub identity: String,
    /// How long the others wait after the last renewal that they observe: whole seconds, at least 3.
    pub duration: Duration,
    /// From which holders it takes the Lease.
    pub acquire: Acquire,
    /// Whether it takes the Lease from another process again after losing it.
    pub reacquires: bool,
}

#[cfg(test)]
impl Candidate {
    /// Returns the candidate of a controller, for the Lease system/lease.
    pub(crate) fn for_test(identity: &str) -> Self {
        Self {
            namespace: "system".to_owned(),
            name: "lease".to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            acquire: Acquire::WhenFree,
            reacquires: true,
        }
    }
}

/// From which holders a candidate takes the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// From none: it waits until the Lease is free.
    WhenFree,
    /// From a `prune` that has ended and keeps the Lease; otherwise it waits until the Lease is free.
    FromEndedPrune,
    /// From any holder, at once.
    Force,
}

/// What to do with the Lease when the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// Release it, so that another process takes it at once: every request of this process has a response.
    Release,
    /// Let it expire: a request of this process may still be applied.
    Expire,
}

/// What the watch shows of the Lease, and whether this process holds it.
#[derive(Clone, Debug)]
pub(crate) struct Election {
    candidate: Candidate,
    /// Whether the watch has completed a list.
    listed: bool,
    /// Whether a list in progress contains the Lease.
    listing: bool,
    seen: Option<Seen>,
    held: Option<Held>,
    /// The writes since the last response.
    sent: Vec<Sent>,
    /// Whether this process has held the Lease.
    acquired: bool,
    not_before: Option<Instant>,
    /// Until when it leaves the Lease to another process.
    yields_until: Option<Instant>,
}

/// The Lease, as the watch shows it.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    /// When this state was first observed.
    since: Instant,
    /// The time until its expiry then, by the wall clock.
    remaining: Duration,
    /// How much longer a `prune` had promised to keep it then, by the wall clock.
    kept: Duration,
    /// Whether it is deleted. Its holder may not know, and keeps its time.
    deleted: bool,
}

/// The Lease while this process holds it.
#[derive(Clone, Debug)]
struct Held {
    /// Its newest known version, which the next renewal replaces; `None` if it is deleted and must be recreated.
    base: Option<Lease>,
    /// When the last renewal that is known to be applied was sent: no other process can have observed it before.
    renewed: Instant,
}

/// A write that may be applied.
#[derive(Clone, Debug)]
struct Sent {
    /// The renewal time in the write, in microseconds, as the API server stores it. If the response is lost, the watch
    /// shows by this time that the write is applied.
    renew_time: Option<i64>,
    /// When it was sent.
    started: Instant,
}

/// The next step.
#[derive(Debug, PartialEq)]
enum Step {
    /// Write this Lease, to acquire or renew it.
    Write(Box<Lease>),
    /// Wait until this time, or until the watch has an event.
    Wait(Option<Instant>),
}

/// The result of writing the Lease.
#[derive(Debug)]
pub(crate) enum Written {
    /// Written.
    Done(Box<Lease>),
    /// Changed in the meantime.
    Conflict,
    /// Rejected by the API server.
    Refused(String),
    /// No response, or none that shows whether it is written.
    Failed(String),
}

impl Election {
    fn new(candidate: Candidate) -> Self {
        Self {
            candidate,
            listed: false,
            listing: false,
            seen: None,
            held: None,
            sent: Vec::new(),
            acquired: false,
            not_before: None,
            yields_until: None,
        }
    }

    /// Returns whether the watch has completed a list.
    fn listed(&self) -> bool {
        self.listed
    }

    /// Returns until when this process may write; `None` while it may not.
    fn leads_until(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.renewed + renew_deadline(self.candidate.duration))
    }

    /// Returns the holder of the Lease, by the watch.
    fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|seen| holder(&seen.lease))
    }

    /// Returns whether another process has written a Lease since the one that was observed last.
    fn is_renewed_elsewhere(&self, lease: &Lease) -> bool {
        let is_other = holder(lease).is_some_and(|holder| holder != self.candidate.identity);
        is_other && self.seen.as_ref().is_none_or(|seen| renew_time(&seen.lease) != renew_time(lease))
    }

    /// Handles an event of the watch. `wall` is the same time on the wall clock.
    fn observe(&mut self, event: Event<Lease>, now: Instant, wall: Timestamp) {
        match event {
            Event::Init => self.listing = false,
            Event::InitDone => {
                self.listed = true;
                if !self.listing {
                    self.delete();
                }
            }
            Event::Apply(_) | Event::InitApply(_) => {
                // A write that this process observes needs only its own clock.
                let just_written = self.listed && matches!(event, Event::Apply(_));
                let is_listed = matches!(event, Event::InitApply(_));
                let (Event::Apply(lease) | Event::InitApply(lease)) = event else { return };
                // After a conflict the Lease is read, and the watch may be behind. A list is not.
                let is_newer = |seen: &Seen| version(&seen.lease) > version(&lease);
                if !is_listed && self.seen.as_ref().is_some_and(is_newer) {
                    return;
                }
                self.listing = true;
                self.observe_own(&lease);
                if self.seen.as_ref().is_none_or(|seen| seen.deleted || seen.lease != lease) {
                    let remaining =
                        if just_written { duration(&lease).unwrap_or_default() } else { remaining(&lease, wall) };
                    let kept = kept_until(&lease, wall).map(|until| until.duration_since(wall));
                    let kept = kept.and_then(|kept| Duration::try_from(kept).ok());
                    let kept = kept.unwrap_or_default();
                    self.seen = Some(Seen { lease, since: now, remaining, kept, deleted: false });
                }
            }
            // If this process held it, the next renewal detects the deletion.
            Event::Delete(_) => self.delete(),
        }
    }

    /// Compares the Lease in the watch with what this process holds.
    fn observe_own(&mut self, lease: &Lease) {
        let is_older = |held: &Held| version(lease) <= held.base.as_ref().and_then(version);
        if self.held.as_ref().is_some_and(is_older) {
            return;
        }
        if holder(lease) != Some(&self.candidate.identity) {
            self.held = None;
            return;
        }
        // Another client has changed it, or a write of this process is applied and its response is pending. The renewal
        // time is compared with what was sent, and with no clock.
        let applied = self.sent.iter().filter(|sent| sent.renew_time == renew_time(lease));
        let renewed = applied.map(|sent| sent.started).min();
        let renewed = renewed.max(self.held.as_ref().map(|held| held.renewed));
        if let Some(renewed) = renewed {
            self.held = Some(Held { base: Some(lease.clone()), renewed });
            self.acquired = true;
        }
    }

    fn delete(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.deleted = true;
        }
    }

    /// Decides what to do now. Drops a Lease that could not be renewed in time.
    fn next(&mut self, now: Instant, wall: Timestamp) -> Step {
        let renew_deadline = renew_deadline(self.candidate.duration);
        self.held.take_if(|held| held.renewed + renew_deadline <= now);
        let Self { candidate, held, seen, .. } = &*self;
        let until = held.as_ref().map(|held| held.renewed + renew_deadline);
        if let Some(yields_until) = self.yields_until.filter(|yields_until| now < *yields_until) {
            return Step::Wait(until.or(Some(yields_until)));
        }
        let (due, base) = match (held, seen) {
            (Some(held), _) => (held.renewed + candidate.duration / 3, held.base.as_ref()),
            _ if !self.listed => return Step::Wait(None),
            (None, Some(seen)) if self.is_lost_to(seen) => return Step::Wait(None),
            (None, Some(seen)) => {
                let base = Some(&seen.lease).filter(|_| !seen.deleted);
                (seen.free_from(candidate), base)
            }
            (None, None) => (now, None),
        };
        let due = self.not_before.map_or(due, |not_before| due.max(not_before));
        if due <= now {
            let lease = self.lease(base, wall);
            self.sent.retain(|sent| sent.started + renew_deadline > now);
            self.sent.push(Sent { renew_time: renew_time(&lease), started: now });
            return Step::Write(Box::new(lease));
        }
        Step::Wait(Some(until.map_or(due, |until| until.min(due))))
    }

    /// Returns whether the Lease is lost to another process for good.
    fn is_lost_to(&self, seen: &Seen) -> bool {
        let is_own = holder(&seen.lease) == Some(&self.candidate.identity);
        self.acquired && !self.candidate.reacquires && !is_own
    }

    /// Handles the result of a write that was sent at `started`.
    fn written(&mut self, written: Written, started: Instant, now: Instant) {
        let retry_interval = write_interval(self.candidate.duration).min(MAX_RETRY_INTERVAL);
        self.not_before = Some(now.max(started + retry_interval));
        match written {
            Written::Done(lease) => {
                self.not_before = None;
                self.sent.clear();
                self.acquired = true;
                let newer = self.seen.as_ref().map(|seen| &seen.lease);
                let newer = newer.filter(|seen| version(seen) > version(&lease)).cloned();
                let base = newer.unwrap_or(*lease);
                let is_own = holder(&base) == Some(&self.candidate.identity);
                self.held = is_own.then_some(Held { base: Some(base), renewed: started });
            }
            // The watch shows the reason. Until then, and until its deadline, the Lease is held.
            Written::Conflict => {
                let is_gone = self.seen.as_ref().is_none_or(|seen| seen.deleted);
                if let Some(held) = self.held.as_mut().filter(|_| is_gone) {
                    held.base = None;
                }
            }
            Written::Refused(_) | Written::Failed(_) => {}
        }
    }

    /// Leaves the Lease to another process until this time: it is neither renewed nor acquired. It expires rather than
    /// being released, since requests of this process may still be applied.
    fn yield_until(&mut self, until: Instant) {
        self.yields_until = Some(until);
    }

    /// Returns the candidate.
    pub(crate) fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The identity of this process.
    pub(crate) fn identity(&self) -> &str {
        &self.candidate.identity
    }

    /// Returns the Lease if this process holds it.
    pub(crate) fn held(self) -> Option<Lease> {
        self.held?.base
    }

    /// Returns whether this process holds the Lease, or a write of it may have acquired it.
    pub(crate) fn may_hold(&self) -> bool {
        self.held.is_some() || !self.sent.is_empty()
    }

    /// Returns whether this process has held the Lease.
    pub(crate) fn has_led(&self) -> bool {
        self.acquired
    }

    /// Returns the Lease with this process as its holder, based on its current state.
    fn lease(&self, base: Option<&Lease>, wall: Timestamp) -> Lease {
        let Candidate { namespace, name, identity, duration, .. } = &self.candidate;
        let now = MicroTime(wall);
        let before = base.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let renews = before.holder_identity.as_ref() == Some(identity);
        let transitions = before.lease_transitions.unwrap_or_default();
        let spec = LeaseSpec {
            holder_identity: Some(identity.clone()),
            lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
            acquire_time: if renews { before.acquire_time } else { Some(now.clone()) },
            lease_transitions: Some(if renews || base.is_none() { transitions } else { transitions.saturating_add(1) }),
            renew_time: Some(now),
            ..before
        };
        let mut metadata = base.map_or_else(
            || ObjectMeta { name: Some(name.clone()), namespace: Some(namespace.clone()), ..ObjectMeta::default() },
            |lease| lease.metadata.clone(),
        );
        let (label, value) = LABEL;
        metadata.labels.get_or_insert_default().insert(label.to_owned(), value.to_owned());
        if let Some(annotations) = &mut metadata.annotations
            && Kind::of(identity) == Kind::Controller
        {
            annotations.remove(KEPT_UNTIL);
        }
        Lease { metadata, spec: Some(spec) }
    }
}

impl Seen {
    /// Returns when a candidate may take it.
    fn free_from(&self, candidate: &Candidate) -> Instant {
        let Some(holder) = holder(&self.lease).filter(|holder| *holder != candidate.identity) else {
            return self.since;
        };
        let held = duration(&self.lease).unwrap_or_default();
        match (Kind::of(holder), candidate.acquire) {
            (_, Acquire::Force) | (Kind::EndedPrune, Acquire::FromEndedPrune) => self.since,
            // Its holder writes no more, so different clocks do no harm, and deleting the Lease releases it.
            (Kind::EndedPrune, _) if self.deleted => self.since,
            (Kind::EndedPrune, _) => self.since + self.remaining,
            // It may have been killed, and the promise of the `prune` before it still holds.
            (Kind::Prune, Acquire::WhenFree) if !self.deleted => self.since + held.max(self.kept),
            _ => self.since + held,
        }
    }
}

/// Returns how long a leader may write after a renewal. The last third is left for requests in flight to end before
/// another process may take the Lease.
fn renew_deadline(duration: Duration) -> Duration {
    duration * 2 / 3
}

/// Returns the timeout of a write: the first renewal may take until its leadership ends. Where requests wait in a queue of
/// the API server, a timeout would send them to its end again.
fn write_timeout(duration: Duration) -> Duration {
    duration / 3
}

/// Returns after what time without a response another write is sent beside the first: the response may be lost. Both carry
/// the same resource version, so that one of them is applied at most.
fn write_interval(duration: Duration) -> Duration {
    duration / 9
}

fn renew_time(lease: &Lease) -> Option<i64> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0.as_microsecond())
}

fn version(lease: &Lease) -> Option<u64> {
    resource_version::number(lease.metadata.resource_version.as_deref()?)
}

#[cfg(test)]
mod tests;
