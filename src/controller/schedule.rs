//! Everything that decides when requests are sent: the work queue, the slots, and requests that are not about one node.

mod kept_back;
pub(super) mod patches;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::limiter::Limiter;
use super::options::RolloutLimits;
use super::rollouts::Rollouts;
use super::work_queue::WorkQueue;
use kept_back::KeptBack;

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) queue: WorkQueue,
    pub(super) limiter: Limiter,
    pub(super) rollouts: Rollouts,
    /// Nodes in flight whose rules have changed: they are planned for their states.
    pub(super) standings_due: BTreeSet<Arc<str>>,
    pub(super) kept_back: KeptBack,
    seed: u64,
}

impl Schedule {
    pub(super) fn new(max_patches: usize, limits: RolloutLimits, seed: u64) -> Self {
        Self {
            queue: WorkQueue::default(),
            limiter: Limiter::new(max_patches, limits.patches_per_second),
            rollouts: Rollouts::new(limits.max_failed_nodes),
            standings_due: BTreeSet::new(),
            kept_back: KeptBack::default(),
            seed,
        }
    }

    /// Returns a new seed, so that each failure has its own pauses.
    pub(super) fn seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        self.seed
    }
}
