//! Every key is in exactly one place, whatever happens to it.

use std::time::Duration;

use super::*;

fn key(number: u32) -> Arc<str> {
    format!("node-{number}").into()
}

fn sent(number: u64) -> Sent {
    Sent { number, at: Instant::now(), changes: Vec::new(), version: None }
}

impl WorkQueue {
    /// Fails unless the places and the orders by rank and by time agree.
    fn check(&self) {
        let ready: usize = self.ready.iter().map(BTreeMap::len).sum();
        let count = |is: fn(&Place) -> bool| self.places.values().filter(|place| is(place)).count();
        let waiting = count(|place| matches!(place, Place::Waiting { .. }));
        let in_flight = count(|place| matches!(place, Place::InFlight { .. }));
        let awaiting = count(|place| matches!(place, Place::AwaitsUsage { .. }));
        assert_eq!(self.places.len(), ready + waiting + awaiting + in_flight);
        let timed =
            |place: &Place| matches!(place, Place::Ready { wake: Some(_), .. } | Place::AwaitsUsage { until: Some(_) });
        assert_eq!(self.due.len(), waiting + count(timed));
        for (key, place) in &self.places {
            match *place {
                Place::Ready { stage, rank, sequence, wake } => {
                    assert_eq!(self.ready[stage as usize].get(&(rank, sequence)), Some(key));
                    assert!(wake.is_none_or(|at| self.due.contains(&(at, key.clone()))));
                }
                Place::Waiting { until } => assert!(self.due.contains(&(until, key.clone()))),
                Place::AwaitsUsage { until } => {
                    assert!(until.is_none_or(|at| self.due.contains(&(at, key.clone()))));
                }
                Place::InFlight { .. } => {}
            }
        }
    }
}

#[test]
fn keys_are_popped_by_rank_and_then_by_age() {
    let mut queue = WorkQueue::default();
    for (number, rank) in [(1, Rank::Replan), (2, Rank::Changed), (3, Rank::Repair), (4, Rank::Changed)] {
        queue.add(&key(number), Stage::Plan, rank);
    }
    let popped: Vec<_> = std::iter::from_fn(|| queue.pop(Stage::Plan)).collect();
    assert_eq!(popped, [3, 2, 4, 1].map(key));
}

#[test]
fn key_that_becomes_urgent_moves_ahead() {
    let mut queue = WorkQueue::default();
    for number in 0..10 {
        queue.add(&key(number), Stage::Patch, Rank::Replan);
    }
    queue.add(&key(9), Stage::Patch, Rank::Repair);
    assert_eq!(queue.pop(Stage::Patch), Some(key(9)));
    assert_eq!(queue.first_rank(Stage::Patch), Some(Rank::Replan), "the others are not that urgent");
    queue.add(&key(5), Stage::Plan, Rank::Replan);
    queue.add(&key(3), Stage::Patch, Rank::Changed);
    queue.add(&key(3), Stage::Plan, Rank::Replan);
    assert_eq!(queue.first_rank(Stage::Plan), Some(Rank::Changed), "it keeps its rank");
    assert_eq!(queue.pop(Stage::Plan), Some(key(3)));
    queue.check();
}

#[test]
fn key_in_flight_is_dirty_and_not_ready() {
    let mut queue = WorkQueue::default();
    queue.start(&key(1), sent(1));
    assert!(!queue.add(&key(1), Stage::Plan, Rank::Replan));
    assert!(!queue.add(&key(1), Stage::Plan, Rank::Repair));
    queue.wait(&key(1), Instant::now());
    assert_eq!(queue.pop(Stage::Plan), None);
    assert_eq!(queue.next_due(), None);
    for another in [0, 2] {
        assert!(queue.end(&key(1), another).is_none(), "of the node that had this name before");
    }
    let (sent, dirty) = queue.end(&key(1), 1).unwrap();
    assert_eq!((sent.number, dirty), (1, Some(Rank::Repair)));
    assert!(!queue.has(&key(1)));
    queue.check();
}

#[tokio::test(start_paused = true)]
async fn waiting_key_is_due_once() {
    let mut queue = WorkQueue::default();
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    queue.wait(&key(1), later);
    queue.wait(&key(1), now);
    queue.wait(&key(2), later);
    assert_eq!(queue.pop_due(now), Some(key(1)));
    assert_eq!(queue.pop_due(now), None);
    queue.add(&key(2), Stage::Plan, Rank::Changed);
    assert_eq!(queue.next_due(), None, "it waits no longer");
    queue.check();
}

#[tokio::test(start_paused = true)]
async fn ready_key_with_a_time_is_due_unless_it_is_popped_or_moved_before() {
    let mut queue = WorkQueue::default();
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    for number in 1..=3 {
        queue.add(&key(number), Stage::Patch, Rank::Replan);
        queue.wake_at(&key(number), later);
    }
    assert_eq!(queue.pop_due(now), None);
    assert_eq!(queue.pop(Stage::Patch), Some(key(1)));
    queue.add(&key(2), Stage::Plan, Rank::Replan);
    queue.add(&key(3), Stage::Patch, Rank::Replan);
    assert_eq!(queue.pop_due(later), Some(key(3)));
    assert_eq!((queue.pop_due(later), queue.len(Stage::Patch)), (None, 0));
    queue.wake_at(&key(3), later);
    queue.start(&key(2), sent(1));
    queue.wake_at(&key(2), later);
    assert_eq!(queue.next_due(), None, "neither is ready");
    queue.check();
}

#[test]
fn random_operations_leave_every_key_in_one_place() {
    let mut random = fastrand::Rng::with_seed(7);
    let start = Instant::now();
    let mut queue = WorkQueue::default();
    let stages = [Stage::Plan, Stage::Patch];
    let mut popped = [0; 2];
    for _ in 0..40_000 {
        let key = key(random.u32(0..8));
        let rank = [Rank::Repair, Rank::Changed, Rank::Replan][random.usize(0..3)];
        let stage = stages[random.usize(0..stages.len())];
        let at = start + Duration::from_millis(random.u64(0..50));
        match random.u32(0..9) {
            0 => drop(queue.add(&key, stage, rank)),
            1 => queue.wait(&key, at),
            2 => queue.start(&key, sent(1)),
            3 => drop(queue.end(&key, random.u64(1..3))),
            4 => queue.remove(&key),
            5 => popped[stage as usize] += usize::from(queue.pop(stage).is_some()),
            6 => queue.wake_at(&key, at),
            7 => queue.await_usage(&key, random.bool().then_some(at)),
            _ => drop(queue.pop_due(at)),
        }
        queue.check();
    }
    assert!(popped.iter().all(|times| *times > 20), "keys popped by stage: {popped:?}");
}
