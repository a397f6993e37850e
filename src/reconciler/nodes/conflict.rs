//! Conflict loops: another field manager keeps undoing what the controller writes. After several writes within some
//! minutes, the controller backs off with growing pauses, until no conflict has occurred for a while.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::node::FieldManager;
use crate::planner::input::{Contest, Contested, Lost};

/// After this many writes of one resource on one node within `WINDOW`, each undone, its value is contested.
pub(crate) const MAX_REPAIRS: usize = 5;
/// A value is no longer contested after this time without a conflict.
pub(crate) const WINDOW: Duration = Duration::from_secs(10 * 60);
/// A kubelet sets all extended resources to 0 when it starts after a reboot. A kubelet that does so again within this
/// time has not rebooted: it knows of a device plugin that is gone.
const REBOOT_GAP_MIN: Duration = Duration::from_secs(30);
/// The first pause for a contested value; each pause is twice the previous one, up to `MAX_DELAY`.
const INITIAL_DELAY: Duration = Duration::from_secs(30);
const MAX_DELAY: Duration = Duration::from_secs(5 * 60);

/// What was undone on one node, by resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conflicts(BTreeMap<Arc<str>, History>);

#[derive(Clone, Debug, Default)]
struct History {
    /// The last repairs, at most `MAX_REPAIRS`.
    repairs: VecDeque<Repair>,
    /// The field manager whose change was last repaired.
    manager: Option<FieldManager>,
    /// What was last lost.
    lost: Lost,
    /// For a contested value, the pause since the last repair.
    pause: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Repair {
    at: Instant,
    /// Whether it replaced a 0 that a kubelet had written.
    of_zero: bool,
}

impl Conflicts {
    /// Records that an undone value was restored: `observed` had been written by `manager`. Returns whether the value
    /// becomes contested.
    pub(crate) fn add(
        &mut self,
        resource: &str,
        observed: &str,
        manager: Option<&FieldManager>,
        lost: Lost,
        now: Instant,
    ) -> bool {
        let history = self.0.entry(resource.into()).or_default();
        if history.is_over(now) {
            *history = History::default();
        }
        if history.repairs.len() == MAX_REPAIRS {
            history.repairs.pop_front();
        }
        let of_zero = observed == "0" && manager.is_some_and(FieldManager::is_kubelet);
        history.repairs.push_back(Repair { at: now, of_zero });
        history.manager = manager.cloned().or(history.manager.take());
        history.lost = lost;
        let many = history.is_conflict_loop(now);
        let before = history.pause;
        history.pause = match before {
            Some(pause) => Some((pause * 2).min(MAX_DELAY)),
            None => many.then_some(INITIAL_DELAY),
        };
        before.is_none() && history.pause.is_some()
    }

    /// Returns whether there is no history.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets what was calm for long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, history| !history.is_over(now));
    }

    /// Treats a value as contested that the previous leader reported.
    pub(crate) fn resume(&mut self, resource: &str, now: Instant) {
        let repairs = [Repair { at: now, of_zero: false }].into();
        let history = History { repairs, pause: Some(INITIAL_DELAY), ..History::default() };
        self.0.entry(resource.into()).or_insert(history);
    }

    /// Returns the current contests, for the plan.
    pub(crate) fn contested(&self, now: Instant) -> Contested {
        let contests = self.0.iter().filter(|(_, history)| !history.is_over(now)).filter_map(|(resource, history)| {
            let until = history.pause_end()?;
            let (manager, lost) = (history.manager.clone(), history.lost);
            let contest = Contest { may_repair: until <= now, manager, lost };
            Some((Arc::clone(resource), contest))
        });
        contests.collect()
    }

    /// Returns when the next pause or contest ends, or the next write becomes too old to count: the node is then
    /// planned again.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        let ends = self.0.values().flat_map(|history| [history.pause_end(), history.end()]);
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

    /// Returns whether there were `MAX_REPAIRS` repairs within `WINDOW`, none of them after a reboot.
    fn is_conflict_loop(&self, now: Instant) -> bool {
        let repairs: Vec<_> = self.repairs.iter().collect();
        let near = |one: &Repair, other: Option<&&Repair>| {
            other.is_some_and(|other| one.at.max(other.at).duration_since(one.at.min(other.at)) <= REBOOT_GAP_MIN)
        };
        let counts_as_conflict = |(number, repair): (usize, &&Repair)| {
            let before = number.checked_sub(1).and_then(|before| repairs.get(before));
            !repair.of_zero || near(repair, before) || near(repair, repairs.get(number + 1))
        };
        repairs.len() == MAX_REPAIRS
            && repairs.first().is_some_and(|first| now.duration_since(first.at) <= WINDOW)
            && repairs.iter().enumerate().all(counts_as_conflict)
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
    async fn repeated_reverts_back_off_until_a_calm_window() {
        let mut repairs = Conflicts::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let kubelet = FieldManager::kubelet("k3s");
        for second in 0..4 {
            assert!(!repairs.add(DONGLE, "7", Some(&kubelet), Lost::Value, at(second)));
            assert!(repairs.contested(at(second)).is_empty());
        }
        assert!(repairs.add(DONGLE, "7", None, Lost::Value, at(4)), "the fifth begins a contest");
        let contest = |may_repair| Contest { may_repair, manager: Some(kubelet.clone()), lost: Lost::Value };
        let mut now = 4;
        for pause in [30, 60, 120, 240, 300, 300] {
            assert_eq!(repairs.next_change(at(now)), Some(at(now + pause)));
            assert_eq!(repairs.contested(at(now + pause - 1)).get(DONGLE), Some(&contest(false)));
            assert_eq!(repairs.contested(at(now + pause)).get(DONGLE), Some(&contest(true)));
            now += pause;
            assert!(!repairs.add(DONGLE, "7", Some(&kubelet), Lost::Value, at(now)), "it is no new contest");
        }
        assert!(!repairs.contested(at(now + 599)).is_empty());
        assert_eq!(repairs.next_change(at(now + 599)), Some(at(now + 600)));
        assert!(repairs.contested(at(now + 600)).is_empty(), "calm again");
        assert_eq!(repairs.next_change(at(now + 600)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn sparse_or_unrelated_repairs_are_not_a_conflict() {
        let mut repairs = Conflicts::default();
        let start = Instant::now();
        for number in 0..20 {
            let now = start + Duration::from_secs(number * 151);
            assert!(!repairs.add(DONGLE, "7", None, Lost::Value, now), "{number}");
        }
        for number in 0..20 {
            assert!(!repairs.add(&format!("example.com/{number}"), "7", None, Lost::Value, start));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kubelet_zeroing_on_reboot_is_not_a_conflict() {
        let kubelet = FieldManager::kubelet("k3s");
        let start = Instant::now();
        for (apart, begins) in [(31, None), (10, Some(4))] {
            let mut repairs = Conflicts::default();
            let mut zeroed = |number: u64| {
                let now = start + Duration::from_secs(number * apart);
                repairs.add(DONGLE, "0", Some(&kubelet), Lost::Value, now)
            };
            assert_eq!((0..15).find(|number| zeroed(*number)), begins, "{apart} s apart");
        }
        let mut repairs = Conflicts::default();
        let admin = FieldManager::other("kubelet");
        let mut written = |number: u64| {
            let now = start + Duration::from_secs(number * 31);
            repairs.add(DONGLE, "0", Some(&admin), Lost::Value, now)
        };
        assert_eq!((0..15).find(|number| written(*number)), Some(4), "it is no kubelet");
    }
}
