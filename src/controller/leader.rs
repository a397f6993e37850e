//! Whether this process writes, and the end of the process.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tracing::warn;

use super::effect::{Effect, Now, Request};
use crate::cluster::lease::{Candidate, Leadership, Participant, Written};

/// How long requests in flight may take to end once the process is to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long releasing the Lease may take then.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(super) struct Leader {
    /// `None` once the Lease is being released.
    participant: Option<Participant>,
    lease_duration: Duration,
    /// What was known of the Lease when that was last asked.
    reported: Option<Leadership>,
    /// Whether it led when that was last asked.
    led: bool,
    /// Since when the process is to end.
    stopping: Option<Instant>,
    is_releasing: bool,
    /// Whether the API server is at an earlier state than it was.
    server_went_back: bool,
}

/// How far the end of the process is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Requests are in flight, until then at most.
    Draining(Instant),
    /// The Lease is being given back.
    Releasing,
    Done,
}

impl Leader {
    pub(super) fn new(candidate: Candidate) -> Self {
        Self {
            lease_duration: candidate.duration,
            participant: Some(Participant::new(candidate)),
            reported: None,
            led: false,
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

    /// Takes in what came of a write that was sent at `started`; and the Lease as it is, where it was read after
    /// a conflict.
    pub(super) fn written(
        &mut self,
        written: Written,
        found: Option<Lease>,
        started: Instant,
        now: Now,
    ) {
        if let Some(participant) = &mut self.participant {
            participant.written(written, found, started, (now.instant, now.wall));
            if participant.server_went_back() && !self.server_went_back {
                warn!(
                    "the API server went back to an earlier state, as after a restore of etcd"
                );
                self.server_went_back = true;
                self.stop(now.instant);
            }
        }
    }

    /// The Lease has been released, or not.
    pub(super) fn released(&mut self) {
        self.is_releasing = false;
    }

    /// Writes the Lease where that is due. Returns when there is more to do, where that is known.
    pub(super) fn next(&mut self, now: Now, requests: &mut Vec<Request>) -> Option<Instant> {
        let participant = self.participant.as_mut()?;
        let (write, wake) = participant.next(now.instant, now.wall);
        if let Some(lease) = write {
            let deadline = now.instant + participant.write_timeout();
            requests.push(Request { effect: Effect::WriteLease(lease), deadline });
        }
        wake
    }

    /// Whether this process leads, where that has changed since the last call.
    pub(super) fn take_change(&mut self, now: Instant) -> Option<bool> {
        let leads = self.leads(now);
        (std::mem::replace(&mut self.led, leads) != leads).then_some(leads)
    }

    /// What is known of the Lease, where that has changed since the last call.
    pub(super) fn take_report(&mut self) -> Option<Leadership> {
        let now = self.leadership()?;
        if self.reported.as_ref() == Some(now) {
            return None;
        }
        self.reported = Some(now.clone());
        self.reported.clone()
    }

    /// What is known of the Lease; `None` once it is being released.
    fn leadership(&self) -> Option<&Leadership> {
        self.participant.as_ref().map(Participant::leadership)
    }

    pub(super) fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// Whether this process may write.
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.leadership().is_some_and(|leadership| leadership.leads(now))
    }

    /// Until when a request that is sent now may be answered: a write must not land once another process
    /// may lead. `None` where this one does not.
    pub(super) fn write_deadline(&self, now: Instant, timeout: Duration) -> Option<Instant> {
        let Some(Leadership::Leader { until }) = self.leadership() else { return None };
        // Another process waits for the whole duration; this one stops after two thirds of it.
        let expiry = *until + self.lease_duration / 3;
        if *until <= now {
            return None;
        }
        Some(expiry.min(now + timeout))
    }

    /// The process is to end.
    pub(super) fn stop(&mut self, now: Instant) {
        self.stopping.get_or_insert(now);
    }

    /// Whether the process ends since the API server is at an earlier state than it was.
    pub(super) fn server_went_back(&self) -> bool {
        self.server_went_back
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Releases the Lease once nothing is in flight. While a write may still be applied, nobody else is to write:
    /// the Lease is kept then, and expires. `may_land` is whether a patch without a response may be.
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
                warn!(
                    in_flight,
                    "stopped with requests unanswered: the lease is kept until it expires"
                );
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
