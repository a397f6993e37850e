//! What to do about the Lease: pure, so that every order of events can be tried.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

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
    /// Whether it takes the Lease from another that holds it.
    pub force_acquire: bool,
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
    not_before: Option<Instant>,
}

/// The Lease as it is, by the watch.
#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When it was first seen like that.
    since: Instant,
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
        Self { candidate, listed: false, listing: false, seen: None, held: None, not_before: None }
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

    /// Takes in an event of the watch.
    pub(super) fn observe(&mut self, event: Event<Lease>, now: Instant) {
        match event {
            Event::Init => self.listing = false,
            Event::InitDone => {
                self.listed = true;
                if !self.listing {
                    self.delete();
                }
            }
            Event::Apply(lease) | Event::InitApply(lease) => {
                self.listing = true;
                let is_other = holder(&lease) != Some(&self.candidate.identity);
                let is_later = |held: &Held| version(&lease) > version(&held.lease);
                if is_other && self.held.as_ref().is_some_and(is_later) {
                    self.held = None;
                }
                if self.seen.as_ref().is_none_or(|seen| seen.deleted || seen.lease != lease) {
                    self.seen = Some(Seen { lease, since: now, deleted: false });
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

    /// Takes in what came of a write that was sent at `started`.
    pub(super) fn written(&mut self, written: Written, started: Instant, now: Instant) {
        self.not_before = None;
        match written {
            Written::Done(lease) => self.held = Some(Held { lease: *lease, renewed: started }),
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
        let metadata = base.map_or_else(
            || ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            |lease| lease.metadata.clone(),
        );
        Lease { metadata, spec: Some(spec) }
    }
}

impl Seen {
    /// When a candidate may take it.
    fn free_from(&self, candidate: &Candidate) -> Instant {
        match holder(&self.lease) {
            Some(holder) if holder != candidate.identity && !candidate.force_acquire => {
                self.since + duration(&self.lease).unwrap_or_default()
            }
            _ => self.since,
        }
    }
}

/// How long a leader may write after a renewal. A third is left for what is under way to end, before
/// another may take the Lease.
fn renew_deadline(duration: Duration) -> Duration {
    duration * 2 / 3
}

/// Who holds a Lease.
pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    Some(holder).filter(|holder| !holder.is_empty())
}

/// How long the holder has the Lease after each renewal, by its own word.
pub(crate) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Resource versions of one resource type may be compared as numbers (Kubernetes 1.35, KEP-5504).
fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn election(identity: &str) -> Election {
        Election::new(Candidate {
            namespace: "system".to_owned(),
            name: "lease".to_owned(),
            identity: identity.to_owned(),
            duration: DURATION,
            force_acquire: false,
        })
    }

    /// The API server's part: one Lease, with a resource version that counts up.
    #[derive(Default)]
    struct Server {
        lease: Option<Lease>,
        version: u64,
    }

    impl Server {
        fn write(&mut self, mut lease: Lease) -> Written {
            let stored =
                self.lease.as_ref().and_then(|stored| stored.metadata.resource_version.as_ref());
            if stored != lease.metadata.resource_version.as_ref() {
                return Written::Conflict;
            }
            self.version += 1;
            lease.metadata.resource_version = Some(self.version.to_string());
            self.lease = Some(lease.clone());
            Written::Done(Box::new(lease))
        }

        fn tell(&self, election: &mut Election, now: Instant) {
            election.observe(Event::Init, now);
            if let Some(lease) = &self.lease {
                election.observe(Event::InitApply(lease.clone()), now);
            }
            election.observe(Event::InitDone, now);
        }
    }

    /// Does what the election says, if that is to write.
    fn step(election: &mut Election, server: &mut Server, now: Instant) -> bool {
        let Step::Write(lease) = election.next(now) else { return false };
        election.written(server.write(*lease), now, now);
        true
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn first_candidate_creates_and_renews_the_lease() {
        let (mut a, mut server, start) = (election("a"), Server::default(), Instant::now());
        assert_eq!(a.next(start), Step::Wait(None), "whether there is one is not known yet");
        server.tell(&mut a, start);
        assert!(step(&mut a, &mut server, start));
        assert_eq!(a.leads_until(), Some(start + seconds(10)));
        assert_eq!(a.next(start), Step::Wait(Some(start + seconds(5))));
        assert!(step(&mut a, &mut server, start + seconds(5)));
        assert_eq!(a.leads_until(), Some(start + seconds(15)));
        let spec = server.lease.unwrap().spec.unwrap();
        assert_eq!(spec.lease_transitions, Some(0));
        assert_eq!(spec.lease_duration_seconds, Some(15));
    }

    #[tokio::test(start_paused = true)]
    async fn leader_without_renewal_stops_before_lease_expiry() {
        let (mut a, mut b) = (election("a"), election("b"));
        let (mut server, start) = (Server::default(), Instant::now());
        server.tell(&mut a, start);
        assert!(step(&mut a, &mut server, start));
        server.tell(&mut b, start);
        for second in 5..10 {
            let now = start + seconds(second);
            assert!(matches!(a.next(now), Step::Write(_)), "tried every second");
            a.written(Written::Failed("no answer".to_owned()), now, now);
            assert_eq!(b.next(now), Step::Wait(Some(start + DURATION)));
        }
        a.next(start + seconds(10));
        assert_eq!(a.leads_until(), None);
        assert!(!step(&mut b, &mut server, start + seconds(14)));
        assert!(step(&mut b, &mut server, start + seconds(15)));
        assert_eq!(b.leads_until(), Some(start + seconds(25)));
        let spec = server.lease.unwrap().spec.unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("b"), Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn suspended_leader_does_not_lead_after_lease_expiry() {
        let (mut a, mut server, start) = (election("a"), Server::default(), Instant::now());
        server.tell(&mut a, start);
        assert!(step(&mut a, &mut server, start));
        let until = a.leads_until().unwrap();
        let leadership = crate::cluster::lease::Leadership::Leader { until };
        assert!(leadership.leads(start + seconds(9)));
        assert!(!leadership.leads(start + seconds(60)));
    }

    #[tokio::test(start_paused = true)]
    async fn released_lease_is_acquired_at_once() {
        let (mut a, mut b) = (election("a"), election("b"));
        let (mut server, start) = (Server::default(), Instant::now());
        server.tell(&mut a, start);
        assert!(step(&mut a, &mut server, start));
        server.tell(&mut b, start);
        assert!(!step(&mut b, &mut server, start + seconds(1)));
        server.write(a.release().unwrap());
        server.tell(&mut b, start + seconds(2));
        assert!(step(&mut b, &mut server, start + seconds(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_candidates_elect_one_leader() {
        let (mut a, mut b) = (election("a"), election("b"));
        let (mut server, start) = (Server::default(), Instant::now());
        server.tell(&mut a, start);
        server.tell(&mut b, start);
        assert!(step(&mut a, &mut server, start) && step(&mut b, &mut server, start));
        assert!(a.leads_until().is_some() && b.leads_until().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn leader_whose_lease_was_taken_steps_down() {
        let (mut a, mut b) = (election("a"), election("b"));
        let (mut server, start) = (Server::default(), Instant::now());
        server.tell(&mut a, start);
        assert!(step(&mut a, &mut server, start));
        let before = server.lease.clone();
        b.candidate.force_acquire = true;
        server.tell(&mut b, start);
        assert!(step(&mut b, &mut server, start), "it does not wait");
        server.tell(&mut a, start + seconds(1));
        assert_eq!(a.leads_until(), None);
        assert_eq!(a.holder(), Some("b"));
        // An event from before its own time does not take it away.
        let (mut c, mut server) = (election("c"), Server::default());
        server.tell(&mut c, start);
        step(&mut c, &mut server, start);
        c.observe(
            Event::Apply({
                let mut old = before.unwrap();
                old.metadata.resource_version = Some("0".to_owned());
                old
            }),
            start,
        );
        assert!(c.leads_until().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_lease_is_created_again() {
        let (mut a, mut b) = (election("a"), election("b"));
        let (mut server, start) = (Server::default(), Instant::now());
        server.tell(&mut a, start);
        assert!(step(&mut a, &mut server, start));
        server.tell(&mut b, start);
        let gone = server.lease.take().unwrap();
        for election in [&mut a, &mut b] {
            election.observe(Event::Delete(gone.clone()), start);
        }
        assert!(a.leads_until().is_some(), "nobody else has it");
        assert!(!step(&mut b, &mut server, start + seconds(14)), "nor may have it yet");
        assert!(step(&mut a, &mut server, start + seconds(5)), "the renewal finds out");
        assert_eq!(a.leads_until(), None);
        assert!(step(&mut a, &mut server, start + seconds(6)), "it is made again");
        assert!(a.leads_until().is_some());
    }
}
