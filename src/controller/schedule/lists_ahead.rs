//! How far ahead of its patches a rollout lists pods.

use std::time::Duration;

use tokio::time::Instant;

use crate::controller::nodes::MAX_USAGE_AGE_OF_PATCH;

/// A list that is used before this age leaves time for others before it.
const YOUNG: Duration = Duration::from_secs(10);

/// Fewer would keep the slots for lists idle.
const MIN_AHEAD: usize = 8;

/// The number of nodes of a rollout whose pods may be listed before it is their turn: as many as are patched, at the rate
/// of the last patches, before the first of these lists is too old. Where each list is of one node, none is in vain.
#[derive(Clone, Debug)]
pub(in crate::controller) struct ListsAhead {
    max: usize,
    limit: usize,
    reduced_at: Option<Instant>,
}

impl ListsAhead {
    pub(super) fn new(max: usize) -> Self {
        Self { max, limit: max, reduced_at: None }
    }

    pub(in crate::controller) fn limit(&self) -> usize {
        self.limit
    }

    /// Records that the list of one of these nodes `ahead` was too old for its patch.
    pub(super) fn expired(&mut self, ahead: usize, now: Instant) {
        // Those that were listed with it are too old as well.
        if self.reduced_at.is_none_or(|at| now.duration_since(at) >= MAX_USAGE_AGE_OF_PATCH) {
            self.limit = (self.limit.min(ahead) / 2).max(MIN_AHEAD).min(self.max);
            self.reduced_at = Some(now);
        }
    }

    /// Records that a list was used at this age.
    pub(super) fn used(&mut self, age: Duration) {
        if age < YOUNG {
            self.limit = self.limit.saturating_add(1).min(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn limit_of_lists_ahead_follows_the_rate_of_patches() {
        let mut now = Instant::now();
        let mut lists = ListsAhead::new(256);
        lists.expired(256, now);
        lists.expired(255, now);
        assert_eq!(lists.limit(), 128, "those listed together count once");
        for expected in [64, 32, 16, 8, 8] {
            now += MAX_USAGE_AGE_OF_PATCH;
            lists.expired(lists.limit(), now);
            assert_eq!(lists.limit(), expected);
        }
        lists.used(YOUNG);
        assert_eq!(lists.limit(), 8);
        for _ in 0..300 {
            lists.used(Duration::ZERO);
        }
        assert_eq!(lists.limit(), 256);
    }

    #[tokio::test(start_paused = true)]
    async fn unlimited_lists_ahead_are_reduced_to_those_that_were_too_many() {
        let mut lists = ListsAhead::new(usize::MAX);
        lists.used(Duration::ZERO);
        lists.expired(1000, Instant::now());
        assert_eq!(lists.limit(), 500);
    }
}
