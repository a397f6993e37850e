//! Limits the requests in flight, and the rate of rollouts.
//!
//! Repairs have their own slots, and nothing slows them. For all other writes, the limit is halved when the API server
//! is overloaded or slow, and grows again with each success; pauses that the API server requests are kept. Patches that
//! follow from an edit of rules have a maximum rate as well: each is an event for every client that watches nodes.

mod pace;

use std::time::Duration;

use tokio::time::Instant;

use super::work_queue::Rank;
use pace::Pace;

/// The number of patches beyond the limit that may be in flight if they are repairs.
const REPAIR_SLOTS: usize = 2;
/// The number of statuses, and of Events, written concurrently.
const MAX_SIDE_WRITES: usize = 4;
/// Failures within this interval count as one: requests that are in flight together fail together.
const REACTION_INTERVAL: Duration = Duration::from_secs(1);

/// A patch that takes longer is slow: the API server's own objective for 99 % of all writes
/// (<https://github.com/kubernetes/community/blob/master/sig-scalability/slos/api_call_latency.md>).
const SLOW: Duration = Duration::from_secs(1);
/// And that many times longer than the fastest one of the last minutes: where an admission webhook makes every patch
/// slow, fewer of them at the same time do not help.
const SLOW_FACTOR: u32 = 4;
const FASTEST_INTERVAL: Duration = Duration::from_secs(60);
/// Slow patches alone lower the limit no further.
const MIN_WINDOW_WHEN_SLOW: f64 = 4.0;

/// The pauses between requests when even one request at a time fails; each is twice the previous one.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Repair,
    /// A patch that no edit of rules caused.
    Patch,
    /// A patch that follows from an edit of rules.
    Rollout,
    Status,
    Event,
}

impl Kind {
    /// Returns the kind of a patch of this rank.
    pub(super) fn of_patch(rank: Rank) -> Self {
        match rank {
            Rank::Repair => Self::Repair,
            Rank::Changed => Self::Patch,
            Rank::Replan => Self::Rollout,
        }
    }
}

/// A place for one request in flight. It goes out with the request and comes back with the response, and nothing else
/// frees it.
#[derive(Debug, PartialEq, Eq)]
// Explored worlds are cloned with all that is in flight.
#[cfg_attr(test, derive(Clone))]
#[must_use]
pub(crate) struct Slot {
    kind: Kind,
    /// No other slot of this process has it.
    number: u64,
}

impl Slot {
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        Self { kind: Kind::Status, number: 0 }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

#[derive(Clone, Debug)]
pub(super) struct Limiter {
    max_patches: usize,
    /// The current limit of patches in flight: at most `max_patches`.
    window: f64,
    in_flight: [usize; 5],
    /// How many slots were taken so far.
    number: u64,
    /// Of [`Kind::Rollout`].
    rollouts: Pace,
    /// The shortest time that a patch has taken: in the current interval, and in the one before.
    fastest: [Option<Duration>; 2],
    fastest_since: Option<Instant>,
    paused_until: Option<Instant>,
    /// The pause for statuses: their failures slow no patch.
    side_paused_until: Option<Instant>,
    reduced_at: Option<Instant>,
    /// The number of consecutive failures while one request at a time is sent.
    failures: u32,
}

impl Limiter {
    /// Without `rollout_rate`, in patches per second, rollouts are as fast as the slots allow.
    pub(super) fn new(max_patches: usize, rollout_rate: Option<u32>) -> Self {
        Self {
            max_patches,
            window: max_patches as f64,
            in_flight: [0; 5],
            number: 0,
            rollouts: Pace::new(rollout_rate),
            fastest: [None; 2],
            fastest_since: None,
            paused_until: None,
            side_paused_until: None,
            reduced_at: None,
            failures: 0,
        }
    }

    /// Takes a slot, if one is free.
    pub(super) fn take(&mut self, kind: Kind, now: Instant) -> Option<Slot> {
        if !self.is_free(kind, now) {
            return None;
        }
        self.in_flight[kind as usize] += 1;
        if kind == Kind::Rollout {
            self.rollouts.take(now);
        }
        self.number += 1;
        Some(Slot { kind, number: self.number })
    }

    /// Returns whether a slot is free.
    pub(super) fn is_free(&self, kind: Kind, now: Instant) -> bool {
        let in_flight = |kind: Kind| self.in_flight[kind as usize];
        let patches = self.patches();
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        let is_side_paused = self.side_paused_until.is_some_and(|until| now < until);
        match kind {
            Kind::Repair => patches < self.max_patches + REPAIR_SLOTS,
            Kind::Patch => !is_paused && patches < (self.window as usize).max(1),
            Kind::Rollout => self.is_free(Kind::Patch, now) && self.rollouts.is_due(now),
            Kind::Status => !is_paused && !is_side_paused && in_flight(kind) < MAX_SIDE_WRITES,
            Kind::Event => !is_paused && in_flight(kind) < MAX_SIDE_WRITES,
        }
    }

    /// Frees the slot of a request that has ended.
    pub(super) fn give_back(&mut self, slot: Slot) {
        self.in_flight[slot.kind as usize] -= 1;
    }

    /// Records a patch that succeeded after this time.
    pub(super) fn patched(&mut self, time: Duration, now: Instant) {
        let since = *self.fastest_since.get_or_insert(now);
        if now.duration_since(since) >= FASTEST_INTERVAL {
            self.fastest = [None, self.fastest[0]];
            self.fastest_since = Some(now);
        }
        self.fastest[0] = Some(self.fastest[0].map_or(time, |fastest| fastest.min(time)));
        let fastest = self.fastest.into_iter().flatten().min().unwrap_or(time);
        let is_slow = time > SLOW && time > fastest * SLOW_FACTOR;
        if is_slow && self.window >= MIN_WINDOW_WHEN_SLOW {
            self.reduce(MIN_WINDOW_WHEN_SLOW, now);
            self.failures = 0;
        } else {
            self.succeeded();
        }
    }

    /// Halves the limit, but not below `least`. Does nothing if it was halved within the last second.
    fn reduce(&mut self, least: f64, now: Instant) {
        let is_new = self.reduced_at.is_none_or(|at| now.duration_since(at) >= REACTION_INTERVAL);
        if is_new && self.window > least {
            self.window = (self.window / 2.0).max(least);
            self.reduced_at = Some(now);
        }
    }

    /// Records a success.
    pub(super) fn succeeded(&mut self) {
        self.window = (self.window + 1.0 / self.window).min(self.max_patches as f64);
        self.failures = 0;
    }

    /// Records that the API server is overloaded, fails or does not respond.
    pub(super) fn overloaded(&mut self, retry_after: Option<Duration>, now: Instant) {
        self.reduce(1.0, now);
        // A refused connection fails faster than nodes can be planned.
        let pause = (self.window <= 1.0).then(|| {
            let pause = MIN_PAUSE * 2_u32.saturating_pow(self.failures.min(16));
            self.failures += 1;
            pause.min(MAX_PAUSE)
        });
        if let Some(retry_after) = retry_after.max(pause) {
            self.paused_until = self.paused_until.max(Some(now + retry_after));
        }
    }

    /// Records a failed status write for which the API server requests a pause: statuses keep the pause.
    pub(super) fn side_overloaded(&mut self, pause: Duration, now: Instant) {
        self.side_paused_until = self.side_paused_until.max(Some(now + pause));
    }

    /// Returns when more requests other than repairs may be sent, as far as time decides.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let pauses = [self.paused_until, self.side_paused_until, self.rollouts.next()];
        pauses.into_iter().flatten().filter(|until| now < *until).min()
    }

    /// Returns the number of patches of nodes in flight.
    fn patches(&self) -> usize {
        [Kind::Repair, Kind::Patch, Kind::Rollout].into_iter().map(|kind| self.in_flight[kind as usize]).sum()
    }

    /// Returns the number of writes in flight.
    pub(super) fn writes(&self) -> usize {
        let others = [Kind::Status, Kind::Event].map(|kind| self.in_flight[kind as usize]);
        self.patches() + others.iter().sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(limiter: &mut Limiter, kind: Kind, now: Instant) -> Vec<Slot> {
        std::iter::from_fn(|| limiter.take(kind, now)).take(100).collect()
    }

    fn give_back(limiter: &mut Limiter, slots: Vec<Slot>) {
        slots.into_iter().for_each(|slot| limiter.give_back(slot));
    }

    #[tokio::test(start_paused = true)]
    async fn repairs_have_slots_of_their_own() {
        let now = Instant::now();
        for max in [1, 16] {
            let mut limiter = Limiter::new(max, None);
            assert_eq!(fill(&mut limiter, Kind::Patch, now).len(), max);
            let mut repairs = fill(&mut limiter, Kind::Repair, now);
            assert_eq!(repairs.len(), REPAIR_SLOTS);
            limiter.give_back(repairs.remove(0));
            assert!(!limiter.is_free(Kind::Patch, now) && limiter.is_free(Kind::Repair, now));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn overload_slows_everything_but_repairs() {
        let now = Instant::now();
        let mut limiter = Limiter::new(16, None);
        for second in 0..10 {
            let now = now + Duration::from_secs(second);
            (0..16).for_each(|_| limiter.overloaded(None, now));
        }
        let now = now + Duration::from_secs(15);
        let probes = fill(&mut limiter, Kind::Patch, now);
        assert_eq!(probes.len(), 1);
        assert_eq!(fill(&mut limiter, Kind::Repair, now).len(), 17);
        limiter.overloaded(Some(Duration::from_secs(5)), now);
        give_back(&mut limiter, probes);
        assert!(!limiter.is_free(Kind::Patch, now), "the server asked for a pause");
        assert!(!limiter.is_free(Kind::Event, now) && !limiter.is_free(Kind::Status, now));
        assert_eq!(limiter.next_wake(now), Some(now + Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn limit_grows_with_success() {
        let now = Instant::now();
        let mut limiter = Limiter::new(16, None);
        limiter.overloaded(None, now);
        limiter.overloaded(None, now);
        assert_eq!(fill(&mut limiter, Kind::Patch, now).len(), 8, "failures together count once");
        (0..200).for_each(|_| limiter.succeeded());
        assert_eq!(fill(&mut limiter, Kind::Patch, now).len(), 8, "all sixteen are in flight");
    }

    #[tokio::test(start_paused = true)]
    async fn rollouts_have_a_rate_and_nothing_else_has() {
        let start = Instant::now();
        let mut limiter = Limiter::new(100, Some(10));
        let mut sent = 0;
        for tenth in 0..50 {
            let now = start + Duration::from_millis(100) * tenth;
            let rollouts = fill(&mut limiter, Kind::Rollout, now);
            sent += rollouts.len();
            give_back(&mut limiter, rollouts);
            assert!(!limiter.is_free(Kind::Rollout, now));
            assert!(limiter.is_free(Kind::Patch, now) && limiter.is_free(Kind::Repair, now));
        }
        // Ten at once, and then ten in each second.
        assert_eq!(sent, 10 + 49);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_patches_lower_the_limit() {
        let mut now = Instant::now();
        let (fast, slow) = (Duration::from_millis(20), Duration::from_secs(2));
        let mut limiter = Limiter::new(16, None);
        limiter.patched(fast, now);
        for expected in [8, 4, 4] {
            (0..8).for_each(|_| limiter.patched(slow, now));
            let slots = fill(&mut limiter, Kind::Patch, now);
            assert_eq!(slots.len(), expected);
            give_back(&mut limiter, slots);
            now += Duration::from_secs(2);
        }
        // Where every patch takes as long, fewer at the same time do not help: also if that began later.
        for _ in 0..400 {
            limiter.patched(slow, now);
            now += Duration::from_secs(1);
        }
        assert_eq!(fill(&mut limiter, Kind::Patch, now).len(), 16);
        let mut limiter = Limiter::new(16, None);
        (0..8).for_each(|_| limiter.patched(slow, now));
        assert_eq!(fill(&mut limiter, Kind::Patch, now).len(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn limit_recovers_from_an_overload_while_patches_are_slow() {
        let mut now = Instant::now();
        let mut limiter = Limiter::new(16, None);
        limiter.patched(Duration::from_millis(20), now);
        for _ in 0..5 {
            limiter.overloaded(None, now);
            now += Duration::from_secs(1);
        }
        (0..20).for_each(|_| limiter.patched(Duration::from_secs(2), now));
        assert_eq!(fill(&mut limiter, Kind::Patch, now + Duration::from_secs(9)).len(), 4);
    }
}
