//! The election against an API server of one Lease, on a paused clock.

use k8s_openapi::jiff::SignedDuration;

use super::holder::{ended_identity, prune_identity, without_holder};
use super::*;

const DURATION: Duration = Duration::from_secs(15);

fn election(identity: &str) -> Election {
    Election::new(Candidate { duration: DURATION, ..Candidate::for_test(identity) })
}

/// The API server's part: one Lease, with a resource version that counts up.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    fn write(&mut self, mut lease: Lease) -> Written {
        let stored = self.lease.as_ref().and_then(|stored| stored.metadata.resource_version.as_ref());
        if stored != lease.metadata.resource_version.as_ref() {
            return Written::Conflict;
        }
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        Written::Done(Box::new(lease))
    }

    fn notify(&self, election: &mut Election, now: Instant) {
        election.observe(Event::Init, now, wall(now));
        if let Some(lease) = &self.lease {
            election.observe(Event::InitApply(lease.clone()), now, wall(now));
        }
        election.observe(Event::InitDone, now, wall(now));
    }
}

/// Does what the election says, if that is to write.
fn step(election: &mut Election, server: &mut Server, now: Instant) -> bool {
    let Step::Write(lease) = election.next(now, Timestamp::now()) else { return false };
    election.written(server.write(*lease), now, now);
    true
}

/// The clock on the wall, which goes as the paused one does.
fn wall(now: Instant) -> Timestamp {
    thread_local!(static START: (Instant, Timestamp) = (Instant::now(), Timestamp::now()));
    let (start, wall) = START.with(|start| *start);
    wall + SignedDuration::try_from(now - start).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn first_candidate_creates_and_renews_the_lease() {
    let (mut a, mut server, start) = (election("a"), Server::default(), Instant::now());
    assert_eq!(a.next(start, Timestamp::now()), Step::Wait(None), "whether there is one is not known yet");
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    assert_eq!(a.leads_until(), Some(start + seconds(10)));
    assert_eq!(a.next(start, Timestamp::now()), Step::Wait(Some(start + seconds(5))));
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
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    server.notify(&mut b, start);
    for second in 5..10 {
        let now = start + seconds(second);
        assert!(matches!(a.next(now, Timestamp::now()), Step::Write(_)), "tried every second");
        a.written(Written::Failed("no answer".to_owned()), now, now);
        assert_eq!(b.next(now, Timestamp::now()), Step::Wait(Some(start + DURATION)));
    }
    a.next(start + seconds(10), Timestamp::now());
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
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    let until = a.leads_until().unwrap();
    let leadership = super::participant::Leadership::Leader { until };
    assert!(leadership.leads(start + seconds(9)));
    assert!(!leadership.leads(start + seconds(60)));
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_acquired_at_once() {
    let (mut a, mut b) = (election("a"), election("b"));
    let (mut server, start) = (Server::default(), Instant::now());
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    server.notify(&mut b, start);
    assert!(!step(&mut b, &mut server, start + seconds(1)));
    server.write(without_holder(a.held().unwrap()));
    server.notify(&mut b, start + seconds(2));
    assert!(step(&mut b, &mut server, start + seconds(2)));
}

#[tokio::test(start_paused = true)]
async fn concurrent_candidates_elect_one_leader() {
    let (mut a, mut b) = (election("a"), election("b"));
    let (mut server, start) = (Server::default(), Instant::now());
    server.notify(&mut a, start);
    server.notify(&mut b, start);
    assert!(step(&mut a, &mut server, start) && step(&mut b, &mut server, start));
    assert!(a.leads_until().is_some() && b.leads_until().is_none());
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_was_taken_steps_down() {
    let (mut a, mut b) = (election("a"), election("b"));
    let (mut server, start) = (Server::default(), Instant::now());
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    let before = server.lease.clone();
    b.candidate.acquire = Acquire::Force;
    server.notify(&mut b, start);
    assert!(step(&mut b, &mut server, start), "it does not wait");
    server.notify(&mut a, start + seconds(1));
    assert_eq!(a.leads_until(), None);
    assert_eq!(a.holder(), Some("b"));
    // An event from before its own time does not take it away.
    let (mut c, mut server) = (election("c"), Server::default());
    server.notify(&mut c, start);
    step(&mut c, &mut server, start);
    c.observe(
        Event::Apply({
            let mut old = before.unwrap();
            old.metadata.resource_version = Some("0".to_owned());
            old
        }),
        start,
        wall(start),
    );
    assert!(c.leads_until().is_some());
}

#[tokio::test(start_paused = true)]
async fn deleted_lease_is_created_again() {
    let (mut a, mut b) = (election("a"), election("b"));
    let (mut server, start) = (Server::default(), Instant::now());
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    server.notify(&mut b, start);
    let gone = server.lease.take().unwrap();
    for election in [&mut a, &mut b] {
        election.observe(Event::Delete(gone.clone()), start, wall(start));
    }
    assert!(a.leads_until().is_some(), "nobody else has it");
    assert!(!step(&mut b, &mut server, start + seconds(14)), "nor may have it yet");
    assert!(step(&mut a, &mut server, start + seconds(5)), "the renewal finds out");
    assert_eq!(a.leads_until(), Some(start + seconds(10)), "nobody else has it");
    assert!(step(&mut a, &mut server, start + seconds(6)), "it is created again");
    assert_eq!(a.leads_until(), Some(start + seconds(16)));
}

/// A Lease that a `prune` has left behind at `now`, for ten minutes.
fn leave_behind(server: &mut Server, now: Instant) {
    let mut lease = server.lease.clone().unwrap_or_default();
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(ended_identity(&prune_identity(Timestamp::now())));
    spec.lease_duration_seconds = Some(600);
    spec.renew_time = Some(MicroTime(wall(now)));
    assert!(matches!(server.write(lease), Written::Done(_)));
}

#[tokio::test(start_paused = true)]
async fn lease_of_an_ended_prune_is_free_at_its_own_expiry() {
    let (mut standby, mut late) = (election("standby"), election("late"));
    let (mut server, start) = (Server::default(), Instant::now());
    leave_behind(&mut server, start);
    server.notify(&mut standby, start);
    assert_eq!(standby.next(start, Timestamp::now()), Step::Wait(Some(start + seconds(600))));
    // One that starts later does not wait ten minutes of its own.
    server.notify(&mut late, start + seconds(590));
    assert_eq!(late.next(start + seconds(590), Timestamp::now()), Step::Wait(Some(start + seconds(600))));
    assert!(step(&mut late, &mut server, start + seconds(600)));
    let mut after = election("after");
    leave_behind(&mut server, start);
    server.notify(&mut after, start + seconds(3600));
    assert!(step(&mut after, &mut server, start + seconds(3600)), "it expired long ago");
}

#[tokio::test(start_paused = true)]
async fn clocks_that_differ_delay_by_no_more_than_the_duration() {
    let (mut server, start) = (Server::default(), Instant::now());
    leave_behind(&mut server, start + seconds(7200));
    let mut slow = election("slow");
    server.notify(&mut slow, start);
    assert_eq!(slow.next(start, Timestamp::now()), Step::Wait(Some(start + seconds(600))));
}

#[tokio::test(start_paused = true)]
async fn deleting_the_lease_of_an_ended_prune_gives_it_back() {
    let (mut standby, mut server, start) = (election("standby"), Server::default(), Instant::now());
    leave_behind(&mut server, start);
    server.notify(&mut standby, start);
    let now = start + seconds(5);
    assert!(!step(&mut standby, &mut server, now));
    let gone = server.lease.take().unwrap();
    standby.observe(Event::Delete(gone), now, wall(now));
    assert!(step(&mut standby, &mut server, now));
    assert!(standby.leads_until().is_some());
}

/// The second run under a Lease that the first one keeps.
#[tokio::test(start_paused = true)]
async fn prune_that_is_killed_does_not_shorten_what_the_one_before_keeps() {
    let (mut server, start) = (Server::default(), Instant::now());
    leave_behind(&mut server, start);
    let until = wall(start + seconds(600)).to_string();
    let annotations = [(KEPT_UNTIL.to_owned(), until)].into();
    server.lease.as_mut().unwrap().metadata.annotations = Some(annotations);
    let mut prune = election(&prune_identity(Timestamp::now()));
    prune.candidate.acquire = Acquire::FromEndedPrune;
    server.notify(&mut prune, start);
    assert!(step(&mut prune, &mut server, start));

    let (mut standby, mut next) = (election("standby"), election(&prune_identity(Timestamp::now())));
    next.candidate.acquire = Acquire::FromEndedPrune;
    server.notify(&mut standby, start);
    server.notify(&mut next, start);
    assert_eq!(standby.next(start, Timestamp::now()), Step::Wait(Some(start + seconds(600))));
    assert_eq!(next.next(start, Timestamp::now()), Step::Wait(Some(start + DURATION)), "a prune may go on at once");
    let mut late = election("late");
    server.notify(&mut late, start + seconds(300));
    assert_eq!(late.next(start + seconds(300), Timestamp::now()), Step::Wait(Some(start + seconds(600))));
    // What a controller then holds is kept for nobody.
    assert!(step(&mut standby, &mut server, start + seconds(600)));
    assert_eq!(server.lease.unwrap().metadata.annotations, Some([].into()));
}

#[tokio::test(start_paused = true)]
async fn prune_takes_the_lease_of_an_ended_prune_but_not_of_a_controller() {
    let start = Instant::now();
    let mut server = Server::default();
    leave_behind(&mut server, start);
    let mut prune = election(&prune_identity(Timestamp::now()));
    prune.candidate.acquire = Acquire::FromEndedPrune;
    server.notify(&mut prune, start);
    assert!(step(&mut prune, &mut server, start));

    let (mut a, mut server) = (election("a"), Server::default());
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    let mut prune = election(&prune_identity(Timestamp::now()));
    prune.candidate.acquire = Acquire::FromEndedPrune;
    server.notify(&mut prune, start);
    assert_eq!(prune.next(start, Timestamp::now()), Step::Wait(Some(start + DURATION)));
}

#[tokio::test(start_paused = true)]
async fn prune_that_lost_its_lease_does_not_take_it_again() {
    let (mut a, mut server, start) = (election("a"), Server::default(), Instant::now());
    let mut prune = election(&prune_identity(Timestamp::now()));
    prune.candidate.acquire = Acquire::Force;
    prune.candidate.reacquires = false;
    server.notify(&mut prune, start);
    assert!(step(&mut prune, &mut server, start));
    a.candidate.acquire = Acquire::Force;
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    server.notify(&mut prune, start + seconds(1));
    for second in 1..60 {
        assert_eq!(prune.next(start + seconds(second), Timestamp::now()), Step::Wait(None));
    }
    // Another change of its own Lease is no loss.
    let mut prune = election(&prune_identity(Timestamp::now()));
    prune.candidate.reacquires = false;
    let mut server = Server::default();
    server.notify(&mut prune, start);
    assert!(step(&mut prune, &mut server, start));
    let annotated = server.lease.clone().unwrap();
    server.write(annotated);
    server.notify(&mut prune, start + seconds(4));
    assert!(step(&mut prune, &mut server, start + seconds(5)));
    assert_eq!(prune.leads_until(), Some(start + seconds(15)));
}

#[tokio::test(start_paused = true)]
async fn lease_carries_the_label_by_which_prune_finds_it() {
    let (mut a, mut server, start) = (election("a"), Server::default(), Instant::now());
    server.write(Lease::default());
    server.notify(&mut a, start);
    assert!(step(&mut a, &mut server, start));
    let labels = server.lease.unwrap().metadata.labels.unwrap();
    assert_eq!(labels.get(LABEL.0).map(String::as_str), Some(LABEL.1));
}

mod lost_answers;
