//! An election with its observations and errors: pure, like the election itself. The caller sends the writes, feeds the
//! watch, and logs the notes.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use super::{Candidate, Election, Step, Written, version, write_interval, write_timeout};
use crate::response::error::{describe_watch, is_expired};

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

/// What has happened in an election, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The watch begins anew with a list, because its version is too old.
    Expired,
    /// The Lease cannot be watched or written, for this reason.
    Failed(String),
    /// This process leads from now on.
    Leads,
    /// This process no longer leads.
    LeadsNoLonger,
    /// This process waits for another one, with this identity.
    StandsBy(String),
}

/// The maximum number of writes in flight.
const MAX_WRITES: usize = 3;

/// A write to send.
#[derive(Clone, Debug)]
pub(crate) struct LeaseWrite {
    pub(crate) lease: Box<Lease>,
    /// When it is sent; it identifies the write.
    pub(crate) sent: Instant,
    /// Whether another one has been in flight for long. Then this one needs a new connection: the other's may be dead.
    pub(crate) is_repeated: bool,
}

/// A write in flight.
#[derive(Clone, Debug)]
struct InFlight {
    sent: Instant,
    /// The newest version of the Lease that was known then.
    newest: Option<u64>,
}

/// A participant in an election.
#[derive(Clone, Debug)]
pub(crate) struct Participant {
    election: Election,
    duration: Duration,
    /// The writes in flight, oldest first.
    writes: Vec<InFlight>,
    /// The newest known version of the Lease.
    newest: Option<u64>,
    /// Whether the API server responded to a write with a version older than one known before.
    server_went_back: bool,
    /// Why the Lease can be neither read nor written.
    last_error: Option<String>,
    /// The last noted error of the watch, while it is broken.
    last_warning: Option<String>,
    leadership: Leadership,
    /// What has happened since the last call of `take_notes`.
    notes: Vec<Note>,
}

impl Participant {
    pub(crate) fn new(candidate: Candidate) -> Self {
        Self {
            duration: candidate.duration,
            election: Election::new(candidate),
            writes: Vec::new(),
            newest: None,
            server_went_back: false,
            last_error: None,
            last_warning: None,
            leadership: Leadership::Standby(None),
            notes: Vec::new(),
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
                // Then the Lease can be written, as far as a process shows that has no reason to do so itself.
                let is_renewed = matches!(&event, Event::Apply(lease) if self.election.is_renewed_elsewhere(lease));
                self.election.observe(event, now, wall);
                if self.election.listed() && !listed || is_renewed {
                    self.last_error = None;
                }
            }
            Err(error) if is_expired(&error) => self.notes.push(Note::Expired),
            Err(error) => {
                let message = format!("lease: {}", describe_watch(&error, ""));
                if self.last_warning.as_ref() != Some(&message) {
                    self.notes.push(Note::Failed(message.clone()));
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
        now: Instant,
        wall: Timestamp,
    ) {
        let write = self.writes.iter().position(|write| write.sent == started);
        let newest = write.and_then(|place| self.writes.remove(place).newest);
        match &written {
            Written::Refused(message) => {
                self.notes.push(Note::Failed(message.clone()));
                self.last_error = Some(message.clone());
            }
            Written::Failed(message) => self.notes.push(Note::Failed(message.clone())),
            Written::Done(_) | Written::Conflict => self.last_error = None,
        }
        let answer = match &written {
            Written::Done(lease) => Some(&**lease),
            _ => found.as_ref(),
        };
        if let Some(answer) = answer.and_then(version) {
            // The watch may be ahead of an earlier read, so only what was known when the write was sent counts.
            self.server_went_back |= Some(answer) < newest;
            self.newest = self.newest.max(Some(answer));
        }
        self.election.written(written, started, now);
        if let Some(lease) = found {
            self.election.observe(Event::Apply(lease), now, wall);
        }
    }

    /// Returns the write that is due, and when the next step is due, if known.
    pub(crate) fn next(&mut self, now: Instant, wall: Timestamp) -> (Option<LeaseWrite>, Option<Instant>) {
        let (mut write, mut wake) = (None, None);
        let not_before = self.writes.last().map(|last| last.sent + write_interval(self.duration));
        if self.writes.len() >= MAX_WRITES {
            // The next step follows a response.
        } else if let Some(not_before) = not_before.filter(|not_before| now < *not_before) {
            wake = Some(not_before);
        } else {
            match self.election.next(now, wall) {
                Step::Write(lease) => {
                    let is_repeated = !self.writes.is_empty();
                    self.writes.push(InFlight { sent: now, newest: self.newest });
                    write = Some(LeaseWrite { lease, sent: now, is_repeated });
                    wake = Some(now + write_interval(self.duration)).filter(|_| self.writes.len() < MAX_WRITES);
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
            self.note_change(&leadership);
            self.leadership = leadership;
        }
        // Leadership ends on its own, also while a write is in flight.
        (write, wake.into_iter().chain(until.filter(|until| now < *until)).min())
    }

    fn note_change(&mut self, now: &Leadership) {
        let led = matches!(self.leadership, Leadership::Leader { .. });
        match now {
            Leadership::Leader { .. } if led => {}
            Leadership::Leader { .. } => self.notes.push(Note::Leads),
            _ if led => self.notes.push(Note::LeadsNoLonger),
            _ => {}
        }
        if let Leadership::Standby(Some(holder)) = now {
            self.notes.push(Note::StandsBy(holder.clone()));
        }
    }

    /// Returns what has happened since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Returns the timeout of a write.
    pub(crate) fn write_timeout(&self) -> Duration {
        write_timeout(self.duration)
    }

    pub(crate) fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Leaves the Lease to another process until this time.
    pub(crate) fn yield_until(&mut self, until: Instant) {
        self.election.yield_until(until);
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
        let now = Instant::now();
        let mut writes = (1..100).map(|minutes| now + Duration::from_secs(60) * minutes);
        let write = writes.find_map(|later| participant.next(later, clock::now()).0);
        *write.expect("a write is due").lease
    }

    fn answer(participant: &mut Participant, written: Written, found: Option<Lease>) {
        let now = Instant::now();
        let sent = participant.writes.first().expect("a write is in flight").sent;
        participant.written(written, found, sent, now, clock::now());
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

    /// Requests wait before they are served. None is given up, and others are sent beside it.
    #[test]
    fn slow_renewal_is_repeated_beside_the_first() {
        let mut participant = leader();
        let start = participant.election.leads_until().unwrap() - Duration::from_secs(5);
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let (first, wake) = participant.next(start, clock::now());
        let first = first.unwrap();
        assert!(!first.is_repeated);
        assert_eq!(wake, Some(start + write_interval(Duration::from_secs(15))));
        assert!(participant.next(at(1666), clock::now()).0.is_none());
        let (second, _) = participant.next(at(1667), clock::now());
        let second = second.unwrap();
        assert!(second.is_repeated, "the connection of the first may be dead");
        let version = |write: &LeaseWrite| write.lease.metadata.resource_version.clone();
        assert_eq!(version(&first), version(&second), "at most one of them is applied");
        assert!(participant.next(at(3400), clock::now()).0.is_some());
        assert!(participant.next(at(4900), clock::now()).0.is_none(), "there are no more than three");
        // The first is served after all, and the second finds that.
        let done = Written::Done(Box::new(self::at(*first.lease.clone(), "101")));
        participant.written(done, None, first.sent, at(4900), clock::now());
        let found = self::at(*first.lease, "101");
        participant.written(Written::Conflict, Some(found), second.sent, at(4950), clock::now());
        assert!(participant.next(at(4951), clock::now()).0.is_none());
        assert!(participant.leadership().leads(at(9900)) && !participant.server_went_back());
    }

    /// Else it would not be ready until the other one ends.
    #[test]
    fn participant_whose_write_is_refused_stands_by_once_another_renews() {
        let mut participant = leader();
        let lease = write(&mut participant);
        answer(&mut participant, Written::Refused("forbidden".to_owned()), None);
        let later = Instant::now() + Duration::from_secs(60);
        participant.next(later, clock::now());
        assert_eq!(*participant.leadership(), Leadership::Unavailable("forbidden".to_owned()));
        let held_by = |holder: &str, version| {
            let mut lease = at(lease.clone(), version);
            let spec = lease.spec.as_mut().unwrap();
            spec.holder_identity = Some(holder.to_owned());
            lease
        };
        for (holder, version) in [("a", "101"), ("b", "102")] {
            assert!(matches!(participant.leadership(), Leadership::Unavailable(_)), "{holder}");
            let mut lease = held_by(holder, version);
            let renewed = lease.spec.as_mut().unwrap().renew_time.as_mut().unwrap();
            renewed.0 = clock::now() + Duration::from_secs(version.parse().unwrap());
            participant.observe(Ok(Event::Apply(lease)), Instant::now(), clock::now());
            participant.next(Instant::now(), clock::now());
        }
        assert_eq!(*participant.leadership(), Leadership::Standby(Some("b".to_owned())));
    }

    #[test]
    fn participant_that_yields_neither_renews_nor_acquires() {
        let mut participant = leader();
        let now = participant.election.leads_until().unwrap() - Duration::from_secs(10);
        let after = |seconds| now + Duration::from_secs(seconds);
        participant.yield_until(after(30));
        assert!(participant.next(after(6), clock::now()).0.is_none());
        assert!(participant.leadership().leads(after(6)), "requests in flight end first");
        let (write, wake) = participant.next(after(29), clock::now());
        assert!(write.is_none() && !participant.leadership().leads(after(29)));
        assert_eq!(wake, Some(after(30)));
        assert!(participant.next(after(30), clock::now()).0.is_some(), "no other process has taken it");
    }
}
