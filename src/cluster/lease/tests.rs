//! The election's requests, and how it ends, against a fake API server.

use tokio::task::JoinHandle;

use super::fake_api::{FakeApi, Fault};
use super::*;

struct Process {
    leadership: watch::Receiver<Leadership>,
    end: oneshot::Sender<AtEnd>,
    election: JoinHandle<Ended>,
}

/// Starts an election, and waits until it leads.
async fn leader(api: &FakeApi) -> Process {
    let mut process = start(api);
    let leads = |leadership: &Leadership| matches!(leadership, Leadership::Leader { .. });
    process.leadership.wait_for(leads).await.unwrap();
    process
}

fn start(api: &FakeApi) -> Process {
    let (lead, leadership) = watch::channel(Leadership::Standby(None));
    let (end, ended) = oneshot::channel();
    let election = tokio::spawn(run(api.client(), Candidate::for_test("a"), lead, ended));
    Process { leadership, end, election }
}

impl Process {
    async fn end(self, at_end: AtEnd) -> Ended {
        self.end.send(at_end).unwrap();
        self.election.await.unwrap()
    }
}

fn holder_of(api: &FakeApi) -> Option<String> {
    holder::holder(&api.lease("lease")).map(str::to_owned)
}

/// Writes the Lease as somebody else does.
fn give_to(api: &FakeApi, identity: &str) {
    let mut lease = api.lease("lease");
    lease.spec.as_mut().unwrap().holder_identity = Some(identity.to_owned());
    api.put(lease);
}

#[tokio::test(start_paused = true)]
async fn release_frees_the_lease_and_expiry_leaves_it() {
    let api = FakeApi::default();
    assert_eq!(leader(&api).await.end(AtEnd::Release).await, Ended::Released);
    assert_eq!(holder_of(&api), None);
    assert_eq!(leader(&api).await.end(AtEnd::Expire).await, Ended::Expires);
    assert_eq!(holder_of(&api).as_deref(), Some("a"));
    // What is under way where the sender is dropped is not known.
    let api = FakeApi::default();
    let Process { end, election, .. } = leader(&api).await;
    drop(end);
    assert_eq!(election.await.unwrap(), Ended::Expires);
    assert_eq!(holder_of(&api).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn lost_renewal_costs_no_leadership() {
    for fault in [Fault::AppliedUnanswered, Fault::Lost, Fault::Rejected(500), Fault::Rejected(409)] {
        let api = FakeApi::default();
        let process = leader(&api).await;
        api.fail_next("lease", fault);
        let mut end = Instant::now();
        for _ in 0..600 {
            end += Duration::from_millis(100);
            sleep_until(end).await;
            let leads = process.leadership.borrow().leads(Instant::now());
            assert!(leads, "{fault:?} ends leadership");
        }
        assert_eq!(process.end(AtEnd::Release).await, Ended::Released);
    }
}

/// A watch may be as silent as the connection on which the answer was lost.
#[tokio::test(start_paused = true)]
async fn conflict_is_explained_without_a_watch() {
    let api = FakeApi::default();
    let process = leader(&api).await;
    api.silence_watches();
    api.fail_next("lease", Fault::AppliedUnanswered);
    sleep_until(Instant::now() + Duration::from_secs(30)).await;
    assert!(process.leadership.borrow().leads(Instant::now()));
    give_to(&api, "b");
    sleep_until(Instant::now() + Duration::from_secs(6)).await;
    assert_eq!(*process.leadership.borrow(), Leadership::Standby(Some("b".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn release_after_a_lost_renewal_frees_the_lease() {
    let api = FakeApi::default();
    let process = leader(&api).await;
    api.silence_watches();
    api.fail_next("lease", Fault::AppliedUnanswered);
    sleep_until(Instant::now() + Duration::from_secs(7)).await;
    assert_eq!(process.end(AtEnd::Release).await, Ended::Released);
    assert_eq!(holder_of(&api), None);
}

#[tokio::test(start_paused = true)]
async fn release_of_a_lease_that_another_has_taken_leaves_it() {
    let api = FakeApi::default();
    let process = leader(&api).await;
    api.silence_watches();
    give_to(&api, "b");
    assert_eq!(process.end(AtEnd::Release).await, Ended::Lost);
    assert_eq!(holder_of(&api).as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn standby_has_nothing_to_release() {
    let api = FakeApi::default();
    leader(&api).await.end(AtEnd::Release).await;
    give_to(&api, "b");
    let mut process = start(&api);
    let stands_by = |leadership: &Leadership| matches!(leadership, Leadership::Standby(Some(_)));
    process.leadership.wait_for(stands_by).await.unwrap();
    assert_eq!(process.end(AtEnd::Release).await, Ended::NotHeld);
    assert_eq!(holder_of(&api).as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn acquisition_whose_answer_is_lost_is_released_too() {
    let api = FakeApi::default();
    api.silence_watches();
    api.fail_next("lease", Fault::AppliedUnanswered);
    let process = start(&api);
    sleep_until(Instant::now() + Duration::from_secs(3)).await;
    assert_eq!(process.end(AtEnd::Release).await, Ended::Released);
    assert_eq!(holder_of(&api), None);
}
