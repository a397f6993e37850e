//! What to do about the Lease: pure, so that every order of events can be tried.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::holder::{KEPT_UNTIL, Kind, LABEL, duration, holder, kept_until, remaining};

/// How long after a write that failed the next one is sent at most.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Who wants which Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// What stands in the Lease: like no other process's, also of the same pod.
    pub identity: String,
    /// How long the others wait after the last renewal that they saw: whole seconds, at least 3.
    pub duration: Duration,
    /// From whom it takes the Lease.
    pub acquire: Acquire,
    /// Whether it takes the Lease from another once more after losing it.
    pub reacquires: bool,
}

#[cfg(test)]
impl Candidate {
    /// A controller's, for the Lease system/lease.
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

/// From whom a candidate takes the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// From nobody: it waits until the Lease is free.
    WhenFree,
    /// From a `prune` that has ended and keeps it; else it waits until the Lease is free.
    FromEndedPrune,
    /// From any holder, at once.
    Force,
}

/// What is known of the Lease, and whether this process holds it.
#[derive(Clone, Debug)]
pub(crate) struct Election {
    candidate: Candidate,
    /// Whether the watch has told if there is a Lease.
    listed: bool,
    /// Whether a list under way has brought it.
    listing: bool,
    seen: Option<Seen>,
    held: Option<Held>,
    /// The writes since the last answer.
    sent: Vec<Sent>,
    /// Whether this process has held the Lease.
    acquired: bool,
    not_before: Option<Instant>,
}

/// The Lease as it is, by the watch.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    /// When it was first seen like that.
    since: Instant,
    /// How long it was until its expiry then, by the clock on the wall.
    remaining: Duration,
    /// How much longer a `prune` has promised to keep it then, by the clock on the wall.
    kept: Duration,
    /// It is gone. Its holder may not know, and has its time all the same.
    deleted: bool,
}

/// The Lease while it is this process's.
#[derive(Clone, Debug)]
struct Held {
    /// The newest version of it that is known, which the next renewal replaces; `None` where it is gone,
    /// and is created again.
    base: Option<Lease>,
    /// When the last renewal that is known to be applied was sent: nobody can have seen it before.
    renewed: Instant,
}

/// A write that may be applied.
#[derive(Clone, Debug)]
struct Sent {
    /// The renewal time that it writes, in microseconds, as the API server stores it. The watch shows by
    /// it that the write is applied, where its answer is lost.
    renew_time: Option<i64>,
    /// When it was sent.
    started: Instant,
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Write this, to take or renew the Lease.
    Write(Box<Lease>),
    /// Nothing until then, or until the watch tells something.
    Wait(Option<Instant>),
}

/// What came of writing the Lease.
#[derive(Debug)]
pub(crate) enum Written {
    /// It is written.
    Done(Box<Lease>),
    /// It is not as it was seen.
    Conflict,
    /// The API server will not have it.
    Refused(String),
    /// There was no answer, or none that tells whether it is written.
    Failed(String),
}

impl Election {
    pub(super) fn new(candidate: Candidate) -> Self {
        Self {
            candidate,
            listed: false,
            listing: false,
            seen: None,
            held: None,
            sent: Vec::new(),
            acquired: false,
            not_before: None,
        }
    }

    /// Whether the watch has told if there is a Lease.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    /// Until when this process may write; `None` while it may not.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.renewed + renew_deadline(self.candidate.duration))
    }

    /// Who holds the Lease, by the watch.
    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|seen| holder(&seen.lease))
    }

    /// Takes in an event of the watch. `wall` is the same moment by the clock on the wall.
    pub(super) fn observe(&mut self, event: Event<Lease>, now: Instant, wall: Timestamp) {
        match event {
            Event::Init => self.listing = false,
            Event::InitDone => {
                self.listed = true;
                if !self.listing {
                    self.delete();
                }
            }
            Event::Apply(_) | Event::InitApply(_) => {
                // What is written under this process's eyes needs no clock but its own.
                let just_written = self.listed && matches!(event, Event::Apply(_));
                let is_listed = matches!(event, Event::InitApply(_));
                let (Event::Apply(lease) | Event::InitApply(lease)) = event else { return };
                // After a conflict the Lease is read, and the watch may be behind that. A list is not.
                let is_newer = |seen: &Seen| version(&seen.lease) > version(&lease);
                if !is_listed && self.seen.as_ref().is_some_and(is_newer) {
                    return;
                }
                self.listing = true;
                self.observe_own(&lease);
                if self.seen.as_ref().is_none_or(|seen| seen.deleted || seen.lease != lease) {
                    let remaining = if just_written {
                        duration(&lease).unwrap_or_default()
                    } else {
                        remaining(&lease, wall)
                    };
                    let kept = kept_until(&lease, wall).map(|until| until.duration_since(wall));
                    let kept = kept.and_then(|kept| Duration::try_from(kept).ok());
                    let kept = kept.unwrap_or_default();
                    self.seen = Some(Seen { lease, since: now, remaining, kept, deleted: false });
                }
            }
            // Where it was this process's own, the next renewal finds out.
            Event::Delete(_) => self.delete(),
        }
    }

    /// Compares a version of the Lease that the watch shows with what this process holds.
    fn observe_own(&mut self, lease: &Lease) {
        let is_older = |held: &Held| version(lease) <= held.base.as_ref().and_then(version);
        if self.held.as_ref().is_some_and(is_older) {
            return;
        }
        if holder(lease) != Some(&self.candidate.identity) {
            self.held = None;
            return;
        }
        // Somebody else has touched it, or this process's own write is applied and its answer is not
        // here. What the Lease says of its time is compared with what was sent, and with no clock.
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

    /// What to do now. A Lease that could not be renewed in time is given up here.
    pub(super) fn next(&mut self, now: Instant, wall: Timestamp) -> Step {
        let renew_deadline = renew_deadline(self.candidate.duration);
        self.held.take_if(|held| held.renewed + renew_deadline <= now);
        let Self { candidate, held, seen, .. } = &*self;
        let until = held.as_ref().map(|held| held.renewed + renew_deadline);
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

    /// Whether the Lease went to another, from whom it is not to be taken.
    fn is_lost_to(&self, seen: &Seen) -> bool {
        let is_own = holder(&seen.lease) == Some(&self.candidate.identity);
        self.acquired && !self.candidate.reacquires && !is_own
    }

    /// Takes in what came of a write that was sent at `started`.
    pub(super) fn written(&mut self, written: Written, started: Instant, now: Instant) {
        let retry_interval = write_timeout(self.candidate.duration).min(MAX_RETRY_INTERVAL);
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
            // The watch shows why. Until then, and until its deadline, the Lease is held.
            Written::Conflict => {
                let is_gone = self.seen.as_ref().is_none_or(|seen| seen.deleted);
                if let Some(held) = self.held.as_mut().filter(|_| is_gone) {
                    held.base = None;
                }
            }
            Written::Refused(_) | Written::Failed(_) => {}
        }
    }

    /// Who takes part.
    pub(super) fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The identity of this process.
    pub(super) fn identity(&self) -> &str {
        &self.candidate.identity
    }

    /// The Lease where this process holds it.
    pub(super) fn held(self) -> Option<Lease> {
        self.held?.base
    }

    /// Whether this process holds the Lease, or a write of its own may have taken it.
    pub(super) fn may_hold(&self) -> bool {
        self.held.is_some() || !self.sent.is_empty()
    }

    /// Whether this process has held the Lease.
    pub(super) fn has_led(&self) -> bool {
        self.acquired
    }

    /// The Lease in this process's name, on top of how it is.
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
            lease_transitions: Some(if renews || base.is_none() {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            renew_time: Some(now),
            ..before
        };
        let mut metadata = base.map_or_else(
            || ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
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
    /// When a candidate may take it.
    fn free_from(&self, candidate: &Candidate) -> Instant {
        let Some(holder) = holder(&self.lease).filter(|holder| *holder != candidate.identity)
        else {
            return self.since;
        };
        let held = duration(&self.lease).unwrap_or_default();
        match (Kind::of(holder), candidate.acquire) {
            (_, Acquire::Force) | (Kind::EndedPrune, Acquire::FromEndedPrune) => self.since,
            // It writes no more: clocks that differ can do no harm, and its deletion gives it back.
            (Kind::EndedPrune, _) if self.deleted => self.since,
            (Kind::EndedPrune, _) => self.since + self.remaining,
            // It may have been killed, and what the one before has promised still holds.
            (Kind::Prune, Acquire::WhenFree) if !self.deleted => self.since + held.max(self.kept),
            _ => self.since + held,
        }
    }
}

/// How long a leader may write after a renewal. A third is left for what is under way to end, before
/// another may take the Lease.
fn renew_deadline(duration: Duration) -> Duration {
    duration * 2 / 3
}

/// How long a write may take: where the answer to a renewal is lost, there is time for two more.
pub(super) fn write_timeout(duration: Duration) -> Duration {
    duration / 9
}

fn renew_time(lease: &Lease) -> Option<i64> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0.as_microsecond())
}

/// Resource versions of one resource type may be compared as numbers (Kubernetes 1.35, KEP-5504).
pub(super) fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
