//! Writes whose answers are lost or late, and Leases that somebody else touches.

use super::*;

/// A leader that has just taken the Lease, as its watch shows it.
fn leader(identity: &str) -> (Election, Server, Instant) {
    let (mut election, mut server, start) = (election(identity), Server::default(), Instant::now());
    server.notify(&mut election, start);
    assert!(step(&mut election, &mut server, start));
    show(&server, &mut election, start);
    (election, server, start)
}

/// The watch shows the Lease as it is.
fn show(server: &Server, election: &mut Election, now: Instant) {
    election.observe(Event::Apply(server.lease.clone().unwrap()), now, wall(now));
}

fn write_at(election: &mut Election, now: Instant) -> Lease {
    match election.next(now, Timestamp::now()) {
        Step::Write(lease) => *lease,
        Step::Wait(until) => panic!("waits until {until:?}"),
    }
}

fn lost() -> Written {
    Written::Failed("no answer".to_owned())
}

#[tokio::test(start_paused = true)]
async fn renewal_whose_answer_is_lost_counts_from_its_request() {
    let (mut a, mut server, start) = leader("a");
    let sent = start + seconds(5);
    server.write(write_at(&mut a, sent));
    a.written(lost(), sent, start + seconds(6));
    assert_eq!(a.leads_until(), Some(start + seconds(10)), "it may not have landed");
    show(&server, &mut a, start + seconds(7));
    assert_eq!(a.leads_until(), Some(start + seconds(15)), "from the request, not from the event");
    assert!(step(&mut a, &mut server, start + seconds(10)), "on top of what landed");
    assert_eq!(a.leads_until(), Some(start + seconds(20)));
    assert_eq!(server.lease.unwrap().spec.unwrap().lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn conflict_with_its_own_lost_renewal_keeps_leadership() {
    let (mut a, mut server, start) = leader("a");
    let sent = start + seconds(5);
    server.write(write_at(&mut a, sent));
    a.written(lost(), sent, start + seconds(6));
    // The watch is late.
    let again = start + seconds(6);
    let conflict = server.write(write_at(&mut a, again));
    assert!(matches!(conflict, Written::Conflict));
    a.written(conflict, again, again);
    assert_eq!(a.leads_until(), Some(start + seconds(10)));
    show(&server, &mut a, start + seconds(7));
    assert_eq!(a.leads_until(), Some(start + seconds(15)));
    assert!(step(&mut a, &mut server, start + seconds(10)));
}

#[tokio::test(start_paused = true)]
async fn conflict_that_stays_unexplained_ends_leadership_at_its_deadline() {
    let (mut a, _, start) = leader("a");
    for second in 5..10 {
        let now = start + seconds(second);
        write_at(&mut a, now);
        a.written(Written::Conflict, now, now);
        assert_eq!(a.leads_until(), Some(start + seconds(10)));
    }
    a.next(start + seconds(10), Timestamp::now());
    assert_eq!(a.leads_until(), None);
}

#[tokio::test(start_paused = true)]
async fn conflict_with_another_holder_ends_leadership() {
    let (mut a, mut server, start) = leader("a");
    let mut b = election("b");
    b.candidate.acquire = Acquire::Force;
    server.notify(&mut b, start);
    let renewal = write_at(&mut a, start + seconds(5));
    assert!(step(&mut b, &mut server, start + seconds(5)));
    show(&server, &mut a, start + seconds(5));
    assert_eq!(a.leads_until(), None);
    a.written(server.write(renewal), start + seconds(5), start + seconds(5));
    assert_eq!(a.leads_until(), None);
}

#[tokio::test(start_paused = true)]
async fn annotated_lease_is_renewed_without_a_conflict() {
    let (mut a, mut server, start) = leader("a");
    let annotated = server.lease.clone().unwrap();
    server.write(annotated);
    show(&server, &mut a, start + seconds(4));
    assert_eq!(a.leads_until(), Some(start + seconds(10)), "no renewal of its own");
    assert!(step(&mut a, &mut server, start + seconds(5)));
    assert_eq!(a.leads_until(), Some(start + seconds(15)));
}

/// Somebody copies the Lease, or a clock jumps: what the Lease says of its time is not evidence.
#[tokio::test(start_paused = true)]
async fn renewal_time_that_it_has_not_sent_extends_nothing() {
    let (mut a, mut server, start) = leader("a");
    let mut foreign = server.lease.clone().unwrap();
    foreign.spec.as_mut().unwrap().renew_time = Some(MicroTime(wall(start + seconds(3600))));
    server.write(foreign);
    show(&server, &mut a, start + seconds(4));
    assert_eq!(a.leads_until(), Some(start + seconds(10)));
}

#[tokio::test(start_paused = true)]
async fn acquisition_whose_answer_is_lost_counts_from_its_request() {
    let (mut a, mut server, start) = (election("a"), Server::default(), Instant::now());
    server.notify(&mut a, start);
    server.write(write_at(&mut a, start));
    a.written(lost(), start, start + seconds(1));
    assert_eq!(a.leads_until(), None);
    show(&server, &mut a, start + seconds(3));
    assert_eq!(a.leads_until(), Some(start + seconds(10)));
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_leaves_time_for_two_more_renewals() {
    for duration in [3, 10, 15, 60, 300] {
        let (mut a, mut server, start) = (election("a"), Server::default(), Instant::now());
        a.candidate.duration = seconds(duration);
        server.notify(&mut a, start);
        assert!(step(&mut a, &mut server, start));
        let mut now = start + a.candidate.duration / 3;
        let end = a.leads_until().unwrap();
        for write in 1..=3 {
            if let Step::Wait(until) = a.next(now, Timestamp::now()) {
                now = until.unwrap();
            }
            write_at(&mut a, now);
            let sent = now;
            now += write_interval(a.candidate.duration);
            assert!(now <= end, "write {write} of {duration} s ends after the deadline");
            a.written(lost(), sent, now);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn late_answer_does_not_restore_leadership_that_another_has_taken() {
    let (mut a, mut server, start) = leader("a");
    let sent = start + seconds(5);
    let done = server.write(write_at(&mut a, sent));
    let mut b = election("b");
    b.candidate.acquire = Acquire::Force;
    server.notify(&mut b, sent);
    assert!(step(&mut b, &mut server, sent));
    show(&server, &mut a, sent);
    assert_eq!(a.leads_until(), None);
    a.written(done, sent, start + seconds(6));
    assert_eq!(a.leads_until(), None, "the watch has shown a newer holder");
    assert!(!step(&mut a, &mut server, start + seconds(7)));
}

#[tokio::test(start_paused = true)]
async fn late_answer_does_not_replace_a_newer_version_of_its_own_lease() {
    let (mut a, mut server, start) = leader("a");
    let sent = start + seconds(5);
    let done = server.write(write_at(&mut a, sent));
    let annotated = server.lease.clone().unwrap();
    server.write(annotated);
    show(&server, &mut a, sent);
    a.written(done, sent, start + seconds(6));
    assert_eq!(a.leads_until(), Some(start + seconds(15)));
    assert!(step(&mut a, &mut server, start + seconds(10)));
    assert_eq!(a.leads_until(), Some(start + seconds(20)), "no conflict");
}

/// A prune that ends under the eyes of a standby whose clock is wrong by a day.
#[tokio::test(start_paused = true)]
async fn lease_seen_being_left_behind_is_free_after_its_duration_by_the_own_clock() {
    for day in [-86_400, 86_400] {
        let (mut standby, mut server, start) = (election("standby"), Server::default(), Instant::now());
        let wrong = |now| wall(now) + SignedDuration::from_secs(day);
        standby.observe(Event::Init, start, wrong(start));
        standby.observe(Event::InitDone, start, wrong(start));
        leave_behind(&mut server, start);
        standby.observe(Event::Apply(server.lease.clone().unwrap()), start, wrong(start));
        assert_eq!(standby.next(start, Timestamp::now()), Step::Wait(Some(start + seconds(600))), "{day}");
        assert!(step(&mut standby, &mut server, start + seconds(600)));
    }
}

/// After a conflict the Lease is read, past a watch that is late.
#[tokio::test(start_paused = true)]
async fn watch_behind_the_lease_that_was_read_changes_nothing() {
    let (mut a, mut server, start) = leader("a");
    let old = server.lease.clone().unwrap();
    let mut b = election("b");
    b.candidate.acquire = Acquire::Force;
    server.notify(&mut b, start);
    assert!(step(&mut b, &mut server, start));
    show(&server, &mut a, start + seconds(5));
    a.observe(Event::Apply(old), start + seconds(6), wall(start + seconds(6)));
    assert_eq!((a.leads_until(), a.holder()), (None, Some("b")));
    assert_eq!(a.next(start + seconds(6), Timestamp::now()), Step::Wait(Some(start + seconds(20))));
}
