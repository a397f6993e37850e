//! When another writer keeps undoing a value: after some repairs within some minutes it is given way
//! to, and tried again after growing pauses, until there has been no fight for a while.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::planner::input::{Contest, Contested};

/// The kubelet's name in managedFields.
const KUBELET: &str = "kubelet";
/// So many repairs of one resource on one node within `WINDOW` are a contest.
pub(super) const LIMIT: usize = 5;
/// And so long without one ends it.
pub(super) const WINDOW: Duration = Duration::from_secs(10 * 60);
/// A kubelet sets all extended resources to 0 when it starts after a reboot. One that does so again
/// within this time has not been away: it is a kubelet that knows of a device plugin which is gone.
const APART: Duration = Duration::from_secs(30);
/// The first pause in a contest; each is twice the one before, up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// The repairs on one node, by resource.
#[derive(Debug, Default)]
pub(super) struct Repairs(BTreeMap<Arc<str>, History>);

#[derive(Debug, Default)]
struct History {
    /// The last ones, at most `LIMIT`.
    repairs: VecDeque<Repair>,
    /// Who had to be repaired after, the last time.
    writer: Option<Arc<str>>,
    /// In a contest: the pause that began with the last repair.
    pause: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Repair {
    at: Instant,
    /// Of a 0 that a kubelet had written.
    of_zero: bool,
}

impl Repairs {
    /// A resource has been repaired: `found` was there, written by `writer`. True where this begins a
    /// contest.
    pub(super) fn add(
        &mut self,
        resource: &str,
        found: &str,
        writer: Option<&Arc<str>>,
        now: Instant,
    ) -> bool {
        let history = self.0.entry(resource.into()).or_default();
        if history.is_over(now) {
            *history = History::default();
        }
        if history.repairs.len() == LIMIT {
            history.repairs.pop_front();
        }
        let of_zero = found == "0" && writer.is_some_and(|writer| &**writer == KUBELET);
        history.repairs.push_back(Repair { at: now, of_zero });
        history.writer = writer.cloned().or(history.writer.take());
        let many = history.is_fight(now);
        let before = history.pause;
        history.pause = match before {
            Some(pause) => Some((pause * 2).min(LONGEST_PAUSE)),
            None => many.then_some(FIRST_PAUSE),
        };
        before.is_none() && history.pause.is_some()
    }

    /// The contests at this moment, for the plan.
    pub(super) fn contested(&mut self, now: Instant) -> Contested {
        self.0.retain(|_, history| !history.is_over(now));
        let contests = self.0.iter().filter_map(|(resource, history)| {
            let until = history.pause_end()?;
            let contest = Contest { may_repair: until <= now, writer: history.writer.clone() };
            Some((Arc::clone(resource), contest))
        });
        contests.collect()
    }

    /// When the next pause, or the next contest, ends: the node is to be planned again then.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let contests = self.0.values().filter(|history| history.pause.is_some());
        let ends = contests.flat_map(|history| [history.pause_end(), history.end()]);
        ends.flatten().filter(|end| *end > now).min()
    }
}

impl History {
    fn pause_end(&self) -> Option<Instant> {
        Some(self.repairs.back()?.at + self.pause?)
    }

    fn end(&self) -> Option<Instant> {
        self.repairs.back().map(|last| last.at + WINDOW)
    }

    /// Whether there have been so many repairs within the time, none of which was after a reboot.
    fn is_fight(&self, now: Instant) -> bool {
        let repairs: Vec<_> = self.repairs.iter().collect();
        let near = |one: &Repair, other: Option<&&Repair>| {
            other.is_some_and(|other| {
                one.at.max(other.at).duration_since(one.at.min(other.at)) <= APART
            })
        };
        let is_blow = |(number, repair): (usize, &&Repair)| {
            let before = number.checked_sub(1).and_then(|before| repairs.get(before));
            !repair.of_zero || near(repair, before) || near(repair, repairs.get(number + 1))
        };
        repairs.len() == LIMIT
            && repairs.first().is_some_and(|first| now.duration_since(first.at) <= WINDOW)
            && repairs.iter().enumerate().all(is_blow)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.end().is_some_and(|end| end <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONGLE: &str = "example.com/dongle";

    #[tokio::test(start_paused = true)]
    async fn a_fight_is_given_way_to_with_growing_pauses_and_ends_in_calm() {
        let mut repairs = Repairs::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let kubelet: Arc<str> = "kubelet".into();
        for second in 0..4 {
            assert!(!repairs.add(DONGLE, "7", Some(&kubelet), at(second)));
            assert!(repairs.contested(at(second)).is_empty());
        }
        assert!(repairs.add(DONGLE, "7", None, at(4)), "the fifth begins a contest");
        let contest = |may_repair| Contest { may_repair, writer: Some(Arc::clone(&kubelet)) };
        let mut now = 4;
        for pause in [30, 60, 120, 240, 300, 300] {
            assert_eq!(repairs.next_change(at(now)), Some(at(now + pause)));
            assert_eq!(repairs.contested(at(now + pause - 1)).get(DONGLE), Some(&contest(false)));
            assert_eq!(repairs.contested(at(now + pause)).get(DONGLE), Some(&contest(true)));
            now += pause;
            assert!(!repairs.add(DONGLE, "7", Some(&kubelet), at(now)), "it is no new contest");
        }
        assert!(!repairs.contested(at(now + 599)).is_empty());
        assert_eq!(repairs.next_change(at(now + 599)), Some(at(now + 600)));
        assert!(repairs.contested(at(now + 600)).is_empty(), "calm again");
        assert_eq!(repairs.next_change(at(now + 600)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn repairs_far_apart_or_of_different_resources_are_no_contest() {
        let mut repairs = Repairs::default();
        let start = Instant::now();
        for number in 0..20 {
            let now = start + Duration::from_secs(number * 151);
            assert!(!repairs.add(DONGLE, "7", None, now), "{number}");
        }
        for number in 0..20 {
            assert!(!repairs.add(&format!("example.com/{number}"), "7", None, start));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reboots_are_no_contest_and_a_kubelet_that_writes_0_again_and_again_is() {
        let kubelet: Arc<str> = "kubelet".into();
        let start = Instant::now();
        for (apart, begins) in [(31, None), (10, Some(4))] {
            let mut repairs = Repairs::default();
            let mut zeroed = |number: u64| {
                let now = start + Duration::from_secs(number * apart);
                repairs.add(DONGLE, "0", Some(&kubelet), now)
            };
            assert_eq!((0..15).find(|number| zeroed(*number)), begins, "{apart} s apart");
        }
        let mut repairs = Repairs::default();
        let admin: Arc<str> = "kubectl-patch".into();
        let mut written = |number: u64| {
            let now = start + Duration::from_secs(number * 31);
            repairs.add(DONGLE, "0", Some(&admin), now)
        };
        assert_eq!((0..15).find(|number| written(*number)), Some(4), "it is no kubelet");
    }
}
