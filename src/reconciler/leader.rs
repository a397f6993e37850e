//! Whether this process may write, and how it stops.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use super::effect::{Effect, Now, Request};
use super::happening::Happening;
use crate::election::participant::{Leadership, Participant};
use crate::election::{Candidate, Written};

/// How long requests in flight may take after the process is asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long releasing the Lease may take then.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(super) struct Leader {
    /// `None` once the Lease is being released.
    participant: Option<Participant>,
    lease_duration: Duration,
    /// The leadership as of the last report.
    reported: Option<Leadership>,
    /// Since when this process has led, as of the last call.
    led_since: Option<Instant>,
    /// Since when the process is stopping.
    stopping: Option<Instant>,
    is_releasing: bool,
    /// Whether the API server went back to an earlier state.
    server_went_back: bool,
}

/// The progress of stopping.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Requests are in flight; the drain ends at this time at the latest.
    Draining(Instant),
    /// The Lease is being released.
    Releasing,
    /// The end, with writes that may still be applied: the Lease is kept, and expires.
    Unanswered,
    Done,
}

impl Leader {
    pub(super) fn new(candidate: Candidate) -> Self {
        Self {
            lease_duration: candidate.duration,
            participant: Some(Participant::new(candidate)),
            reported: None,
            led_since: None,
            stopping: None,
            is_releasing: false,
            server_went_back: false,
        }
    }

    pub(super) fn observe(&mut self, event: watcher::Result<Event<Lease>>, now: Now) {
        if let Some(participant) = &mut self.participant {
            participant.observe(event, now.instant, now.wall);
        }
    }

    /// Handles the response to a write that was sent at `started`, and the current Lease if it was read after a
    /// conflict. Returns whether the API server turns out to have gone back.
    pub(super) fn written(
        &mut self,
        written: Written,
        found: Option<Lease>,
        started: Instant,
        now: Now,
    ) -> Option<Happening> {
        let participant = self.participant.as_mut()?;
        participant.written(written, found, started, now.instant, now.wall);
        if !participant.server_went_back() || self.server_went_back {
            return None;
        }
        self.server_went_back = true;
        self.stop(now.instant);
        Some(Happening::WentBack)
    }

    /// Returns what has happened in the election since the last call.
    pub(super) fn take_notes(&mut self) -> impl Iterator<Item = Happening> {
        self.participant.iter_mut().flat_map(Participant::take_notes).map(Happening::Election)
    }

    /// Handles the end of the release, successful or not.
    pub(super) fn released(&mut self) {
        self.is_releasing = false;
    }

    /// Writes the Lease when that is due. Returns when the next step is due, if known.
    pub(super) fn next(&mut self, now: Now, requests: &mut Vec<Request>) -> Option<Instant> {
        let participant = self.participant.as_mut()?;
        let (write, wake) = participant.next(now.instant, now.wall);
        if let Some(write) = write {
            let deadline = now.instant + participant.write_timeout();
            requests.push(Request { effect: Effect::WriteLease(write), deadline });
        }
        wake
    }

    /// Returns whether this process leads, if that has changed since the last call.
    pub(super) fn take_change(&mut self, now: Instant) -> Option<bool> {
        let leads = self.leads(now);
        if leads == self.led_since.is_some() {
            return None;
        }
        self.led_since = leads.then_some(now);
        Some(leads)
    }

    /// Returns since when this process leads.
    pub(super) fn led_since(&self) -> Option<Instant> {
        self.led_since
    }

    /// Leaves the Lease to another process: for as long as it takes to expire, and as long again.
    pub(super) fn yield_lease(&mut self, now: Instant) {
        let until = now + self.lease_duration * 2;
        self.participant.iter_mut().for_each(|participant| participant.yield_until(until));
    }

    /// Returns the leadership, if it has changed since the last call.
    pub(super) fn take_report(&mut self) -> Option<Leadership> {
        let now = self.leadership()?;
        if self.reported.as_ref() == Some(now) {
            return None;
        }
        self.reported = Some(now.clone());
        self.reported.clone()
    }

    /// Returns the leadership; `None` once the Lease is being released.
    fn leadership(&self) -> Option<&Leadership> {
        self.participant.as_ref().map(Participant::leadership)
    }

    pub(super) fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// Returns whether this process may write.
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.leadership().is_some_and(|leadership| leadership.leads(now))
    }

    /// Returns the deadline for the response to a request sent now: a write must not be applied once another process
    /// may lead. `None` if this process does not lead.
    pub(super) fn write_deadline(&self, now: Instant, timeout: Duration) -> Option<Instant> {
        let Some(Leadership::Leader { until }) = self.leadership() else { return None };
        // Another process waits for the whole duration; this process stops after two thirds of it.
        let expiry = *until + self.lease_duration / 3;
        if *until <= now {
            return None;
        }
        Some(expiry.min(now + timeout))
    }

    /// Starts stopping.
    pub(super) fn stop(&mut self, now: Instant) {
        self.stopping.get_or_insert(now);
    }

    /// Returns whether the process ends because the API server went back to an earlier state.
    pub(super) fn server_went_back(&self) -> bool {
        self.server_went_back
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Releases the Lease once nothing is in flight. While a write may still be applied, no other process may write, so
    /// the Lease is kept and expires. `may_land` returns whether a patch without a response may still be applied.
    pub(super) fn end(
        &mut self,
        in_flight: usize,
        may_land: impl FnOnce() -> bool,
        now: Instant,
        requests: &mut Vec<Request>,
    ) -> Ending {
        let Some(since) = self.stopping else { return Ending::Draining(now) };
        let deadline = since + DRAIN_TIMEOUT;
        let is_writing = self.participant.as_ref().is_some_and(Participant::is_writing);
        if now < deadline && (in_flight > 0 || is_writing) {
            return Ending::Draining(deadline);
        }
        let leads = self.leads(now);
        match self.participant.take() {
            Some(_) if leads && (in_flight > 0 || may_land()) => {
                return Ending::Unanswered;
            }
            Some(participant) => {
                self.is_releasing = true;
                let effect = Effect::ReleaseLease(Box::new(participant.into_election()));
                requests.push(Request { effect, deadline: now + RELEASE_TIMEOUT });
            }
            None => {}
        }
        if self.is_releasing { Ending::Releasing } else { Ending::Done }
    }
}
