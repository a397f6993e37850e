//! What to do about the Lease: pure, so that every order of events can be tried.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::holder::{Kind, LABEL, duration, holder, remaining};

/// How long a write that failed, or came too late, waits before the next.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

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
#[derive(Debug)]
pub(super) struct Election {
    candidate: Candidate,
    /// Whether the watch has told if there is a Lease.
    listed: bool,
    /// Whether a list under way has brought it.
    listing: bool,
    seen: Option<Seen>,
    held: Option<Held>,
    /// Whether this process has held the Lease.
    acquired: bool,
    not_before: Option<Instant>,
}

/// The Lease as it is, by the watch.
#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When it was first seen like that.
    since: Instant,
    /// How long it was until its expiry then, by the clock on the wall.
    remaining: Duration,
    /// It is gone. Its holder may not know, and has its time all the same.
    deleted: bool,
}

/// The Lease as this process last wrote it.
#[derive(Debug)]
struct Held {
    lease: Lease,
    /// When that request was sent: nobody can have seen it before.
    renewed: Instant,
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
pub(super) enum Written {
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
                let (Event::Apply(lease) | Event::InitApply(lease)) = event else { return };
                self.listing = true;
                let is_other = holder(&lease) != Some(&self.candidate.identity);
                let is_later = |held: &Held| version(&lease) > version(&held.lease);
                if is_other && self.held.as_ref().is_some_and(is_later) {
                    self.held = None;
                }
                if self.seen.as_ref().is_none_or(|seen| seen.deleted || seen.lease != lease) {
                    let remaining = if just_written {
                        duration(&lease).unwrap_or_default()
                    } else {
                        remaining(&lease, wall)
                    };
                    self.seen = Some(Seen { lease, since: now, remaining, deleted: false });
                }
            }
            // Where it was this process's own, the next renewal finds out.
            Event::Delete(_) => self.delete(),
        }
    }

    fn delete(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.deleted = true;
        }
    }

    /// What to do now. A Lease that could not be renewed in time is given up here.
    pub(super) fn next(&mut self, now: Instant) -> Step {
        let renew_deadline = renew_deadline(self.candidate.duration);
        self.held.take_if(|held| held.renewed + renew_deadline <= now);
        let Self { candidate, held, seen, .. } = &*self;
        let until = held.as_ref().map(|held| held.renewed + renew_deadline);
        let (due, base) = match (held, seen) {
            (Some(held), _) => (held.renewed + candidate.duration / 3, Some(&held.lease)),
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
            return Step::Write(Box::new(self.lease(base)));
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
        self.not_before = None;
        match written {
            Written::Done(lease) => {
                self.held = Some(Held { lease: *lease, renewed: started });
                self.acquired = true;
            }
            Written::Conflict => {
                self.held = None;
                self.not_before = Some(now + RETRY_INTERVAL);
            }
            Written::Refused(_) | Written::Failed(_) => {
                self.not_before = Some(now + RETRY_INTERVAL)
            }
        }
    }

    /// The Lease without a holder; `None` where this process does not hold it.
    pub(super) fn release(self) -> Option<Lease> {
        let mut lease = self.held?.lease;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        Some(lease)
    }

    /// The Lease in this process's name, on top of how it is.
    fn lease(&self, base: Option<&Lease>) -> Lease {
        let Candidate { namespace, name, identity, duration, .. } = &self.candidate;
        let now = MicroTime(Timestamp::now());
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
        match (Kind::of(holder), candidate.acquire) {
            (_, Acquire::Force) | (Kind::EndedPrune, Acquire::FromEndedPrune) => self.since,
            // It writes no more: clocks that differ can do no harm, and its deletion gives it back.
            (Kind::EndedPrune, _) if self.deleted => self.since,
            (Kind::EndedPrune, _) => self.since + self.remaining,
            _ => self.since + duration(&self.lease).unwrap_or_default(),
        }
    }
}

/// How long a leader may write after a renewal. A third is left for what is under way to end, before
/// another may take the Lease.
fn renew_deadline(duration: Duration) -> Duration {
    duration * 2 / 3
}

/// Resource versions of one resource type may be compared as numbers (Kubernetes 1.35, KEP-5504).
fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
