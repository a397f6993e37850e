//! An election with its observations and errors: pure, like the election itself. The caller sends the writes and feeds
//! the watch.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::election::{Candidate, Election, Step, Written, version, write_timeout};
use crate::cluster::error::{describe_watch, is_expired};

/// Whether this process may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It may not write, and cannot lead until this error is fixed: the Lease cannot be read or written.
    Unavailable(String),
    /// Another process with this identity holds the Lease, or none does yet.
    Standby(Option<String>),
    /// It may write until this time; renewing the Lease extends it.
    Leader {
        /// Well before another process may take the Lease.
        until: Instant,
    },
}

impl Leadership {
    /// Returns whether this process may write now. A process that was suspended for longer than its Lease detects that
    /// here, before it does anything else.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        matches!(self, Self::Leader { until } if now < *until)
    }
}

/// A participant in an election.
#[derive(Clone, Debug)]
pub(crate) struct Participant {
    election: Election,
    write_timeout: Duration,
    /// Whether a write is in flight: only one at a time, so that its outcome is known.
    is_writing: bool,
    /// The newest known version of the Lease, and the one known when the last write was sent.
    newest: Option<u64>,
    newest_at_write: Option<u64>,
    /// Whether the API server responded to a write with a version older than one known before.
    server_went_back: bool,
    /// Why the Lease can be neither read nor written.
    last_error: Option<String>,
    /// The last logged error of the watch, while it is broken.
    last_warning: Option<String>,
    leadership: Leadership,
}

impl Participant {
    pub(crate) fn new(candidate: Candidate) -> Self {
        Self {
            write_timeout: write_timeout(candidate.duration),
            election: Election::new(candidate),
            is_writing: false,
            newest: None,
            newest_at_write: None,
            server_went_back: false,
            last_error: None,
            last_warning: None,
            leadership: Leadership::Standby(None),
        }
    }

    /// Handles an event of the watch. `wall` is the same time on the wall clock.
    pub(crate) fn observe(&mut self, event: watcher::Result<Event<Lease>>, now: Instant, wall: Timestamp) {
        match event {
            Ok(event) => {
                if !matches!(event, Event::Init) {
                    self.last_warning = None;
                }
                if let Event::Apply(lease) | Event::InitApply(lease) = &event {
                    self.newest = self.newest.max(version(lease));
                }
                let listed = self.election.listed();
                self.election.observe(event, now, wall);
                if self.election.listed() && !listed {
                    self.last_error = None;
                }
            }
            Err(error) if is_expired(&error) => debug!("lease: the watch is too old"),
            Err(error) => {
                let message = format!("lease: {}", describe_watch(&error, ""));
                if self.last_warning.as_ref() != Some(&message) {
                    warn!("{message}");
                }
                self.last_warning = Some(message.clone());
                // Later, the API server does not respond to anything else either.
                if !self.election.listed() {
                    self.last_error = Some(message);
                }
            }
        }
    }

    /// Handles the result of a write that was sent at `started`, and the current Lease if it was read after a conflict.
    pub(crate) fn written(
        &mut self,
        written: Written,
        found: Option<Lease>,
        started: Instant,
        (now, wall): (Instant, Timestamp),
    ) {
        self.is_writing = false;
        match &written {
            Written::Refused(message) => {
                warn!("{message}");
                self.last_error = Some(message.clone());
            }
            Written::Failed(message) => warn!("{message}"),
            Written::Done(_) | Written::Conflict => self.last_error = None,
        }
        let answer = match &written {
            Written::Done(lease) => Some(&**lease),
            _ => found.as_ref(),
        };
        if let Some(answer) = answer.and_then(version) {
            // The watch may be ahead of an earlier read, so only what was known when the write was sent counts.
            self.server_went_back |= Some(answer) < self.newest_at_write;
            self.newest = self.newest.max(Some(answer));
        }
        self.election.written(written, started, now);
        if let Some(lease) = found {
            self.election.observe(Event::Apply(lease), now, wall);
        }
    }

    /// Returns the Lease to write, if that is due, and when the next step is due, if known.
    pub(crate) fn next(&mut self, now: Instant, wall: Timestamp) -> (Option<Box<Lease>>, Option<Instant>) {
        let (mut write, mut wake) = (None, None);
        if !self.is_writing {
            match self.election.next(now, wall) {
                Step::Write(lease) => {
                    self.is_writing = true;
                    self.newest_at_write = self.newest;
                    write = Some(lease);
                }
                Step::Wait(until) => wake = until,
            }
        }
        let until = self.election.leads_until();
        let leadership = match (until, &self.last_error) {
            (Some(until), _) => Leadership::Leader { until },
            (None, Some(last_error)) => Leadership::Unavailable(last_error.clone()),
            (None, None) => Leadership::Standby(self.election.holder().map(str::to_owned)),
        };
        if leadership != self.leadership {
            log_change(&self.leadership, &leadership);
            self.leadership = leadership;
        }
        // Leadership ends on its own, also while a write is in flight.
        (write, wake.into_iter().chain(until.filter(|until| now < *until)).min())
    }

    /// Returns the timeout of a write.
    pub(crate) fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Returns whether the API server went back to an earlier state, for example because etcd was restored. Its watches
    /// are then silent until it has caught up, which may take days: they resume from versions that do not exist yet.
    pub(crate) fn server_went_back(&self) -> bool {
        self.server_went_back
    }

    pub(crate) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Returns the election, for the release of the Lease.
    pub(crate) fn into_election(self) -> Election {
        self.election
    }
}

fn log_change(before: &Leadership, now: &Leadership) {
    let led = matches!(before, Leadership::Leader { .. });
    match now {
        Leadership::Leader { .. } if led => {}
        Leadership::Leader { .. } => info!("this process is now the leader"),
        _ if led => warn!("this process is no longer the leader"),
        _ => {}
    }
    if let Leadership::Standby(Some(holder)) = now {
        info!(%holder, "standing by");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::clock;

    /// A candidate that has listed no Lease, and written one of version 100.
    fn leader() -> Participant {
        let mut participant = Participant::new(Candidate::for_test("a"));
        participant.observe(Ok(Event::Init), Instant::now(), clock::now());
        participant.observe(Ok(Event::InitDone), Instant::now(), clock::now());
        let lease = write(&mut participant);
        answer(&mut participant, Written::Done(Box::new(at(lease, "100"))), None);
        participant
    }

    /// What it writes next, whenever that is due.
    fn write(participant: &mut Participant) -> Lease {
        let later = Instant::now() + Duration::from_secs(60);
        *participant.next(later, clock::now()).0.expect("a write is due")
    }

    fn answer(participant: &mut Participant, written: Written, found: Option<Lease>) {
        let now = Instant::now();
        participant.written(written, found, now, (now, clock::now()));
    }

    fn at(mut lease: Lease, version: &str) -> Lease {
        lease.metadata.resource_version = Some(version.to_owned());
        lease
    }

    #[test]
    fn older_version_after_a_write_shows_that_the_server_went_back() {
        for is_gone in [false, true] {
            let mut participant = leader();
            let lease = write(&mut participant);
            if is_gone {
                answer(&mut participant, Written::Conflict, None);
                assert!(!participant.server_went_back());
                let gone = Event::Delete(at(lease.clone(), "101"));
                participant.observe(Ok(gone), Instant::now(), clock::now());
                write(&mut participant);
                answer(&mut participant, Written::Done(Box::new(at(lease, "50"))), None);
            } else {
                answer(&mut participant, Written::Conflict, Some(at(lease, "50")));
            }
            assert!(participant.server_went_back(), "gone: {is_gone}");
        }
    }

    /// The watch is ahead of a response that was on its way, and behind the next one.
    #[test]
    fn versions_that_overtake_one_another_show_nothing() {
        let mut participant = leader();
        let lease = write(&mut participant);
        let shown = Event::Apply(at(lease.clone(), "103"));
        participant.observe(Ok(shown), Instant::now(), clock::now());
        answer(&mut participant, Written::Done(Box::new(at(lease.clone(), "102"))), None);
        assert!(!participant.server_went_back());
        let shown = Event::Apply(at(lease.clone(), "90"));
        participant.observe(Ok(shown), Instant::now(), clock::now());
        write(&mut participant);
        answer(&mut participant, Written::Done(Box::new(at(lease, "104"))), None);
        assert!(!participant.server_went_back());
    }
}
