//! Everything that decides when requests are sent: the work queue, the slots, and requests that are not about one node.

mod kept_back;
mod lists_ahead;
pub(super) mod patches;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::effect::RequestId;
use super::limiter::{Kind, Limiter};
use super::options::RolloutLimits;
use super::rollouts::Rollouts;
use super::rules::Mark;
use super::work_queue::{Stage, WorkQueue};
use crate::cluster::backoff::Backoff;
use kept_back::KeptBack;
use lists_ahead::ListsAhead;

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) queue: WorkQueue,
    pub(super) limiter: Limiter,
    pub(super) rollouts: Rollouts,
    /// The list of rules that a new leader needs.
    pub(super) rules: RulesList,
    /// The lists of all pods in flight, at most one of each kind, and the nodes that wait for each.
    pod_batches: Vec<(RequestId, Vec<Arc<str>>)>,
    /// How many unfinished pods a thousand nodes have, by the last list of all pods, unless that failed.
    pub(super) pods_per_thousand: Option<usize>,
    /// Since when pod lists wait for the end of a rollout.
    pub(super) lists_due_since: Option<Instant>,
    /// How many nodes of rollouts may be ahead with their lists of pods.
    pub(super) lists_ahead: ListsAhead,
    /// Whether nodes are being planned until as many are ahead as may be.
    pub(super) fills_lists_ahead: bool,
    /// Nodes of rollouts whose last list of pods failed. They count as ahead: if all lists fail, others are not tried.
    pub(super) unlisted: BTreeSet<Arc<str>>,
    /// Whether the last patch was from [`Stage::PatchAsListed`].
    pub(super) sent_as_listed: bool,
    /// Whether the last list of pods was for [`Stage::ListAhead`].
    pub(super) listed_ahead: bool,
    /// Nodes in flight whose rules have changed: they are planned for their states.
    pub(super) standings_due: BTreeSet<Arc<str>>,
    pub(super) kept_back: KeptBack,
    number: u64,
    seed: u64,
}

/// Whether this leader knows all rules.
#[derive(Clone, Debug)]
pub(super) enum RulesList {
    /// The rules must be listed, but not before this time.
    Needed {
        not_before: Option<Instant>,
        backoff: Backoff,
    },
    /// The list is in flight; with what was known before.
    InFlight {
        id: RequestId,
        mark: Mark,
        backoff: Backoff,
    },
    Done,
}

impl Schedule {
    pub(super) fn new(max_patches: usize, limits: RolloutLimits, seed: u64) -> Self {
        Self {
            queue: WorkQueue::default(),
            limiter: Limiter::new(max_patches, limits.patches_per_second),
            rollouts: Rollouts::new(limits.max_failed_nodes),
            rules: RulesList::Needed { not_before: None, backoff: Backoff::new(seed) },
            pod_batches: Vec::new(),
            pods_per_thousand: None,
            lists_due_since: None,
            lists_ahead: ListsAhead::new(limits.max_listed),
            fills_lists_ahead: false,
            unlisted: BTreeSet::new(),
            sent_as_listed: false,
            listed_ahead: false,
            standings_due: BTreeSet::new(),
            kept_back: KeptBack::default(),
            number: 0,
            seed,
        }
    }

    /// Returns whether the pods of another node of a rollout may be listed before it is its turn to be patched.
    pub(super) fn has_room_for_lists(&self) -> bool {
        self.ahead() < self.lists_ahead.limit()
    }

    /// Returns the number of nodes of rollouts whose pods are being listed, or were, and that wait for their patch.
    fn ahead(&self) -> usize {
        let batch = self.pod_batch(Kind::PodListAhead).map_or(0, <[_]>::len);
        let [listing, listed] = [Stage::ListAhead, Stage::PatchAsListed].map(|stage| self.queue.len(stage));
        listing + batch + listed + self.unlisted.len()
    }

    /// Records a list of all pods for which these nodes wait.
    pub(super) fn start_pod_batch(&mut self, id: RequestId, nodes: Vec<Arc<str>>) {
        self.pod_batches.push((id, nodes));
    }

    /// Returns the nodes that wait for a list of all pods of this kind, if it is in flight.
    pub(super) fn pod_batch(&self, kind: Kind) -> Option<&[Arc<str>]> {
        self.pod_batches.iter().find(|(id, _)| id.kind == kind).map(|(_, nodes)| nodes.as_slice())
    }

    /// Ends a list of all pods. Returns the nodes that waited for it.
    pub(super) fn end_pod_batch(&mut self, id: RequestId) -> Vec<Arc<str>> {
        let place = self.pod_batches.iter().position(|(batch, _)| *batch == id);
        place.map(|place| self.pod_batches.swap_remove(place).1).unwrap_or_default()
    }

    /// Returns whether few nodes are ahead.
    pub(super) fn has_few_ahead(&self) -> bool {
        self.ahead() < self.lists_ahead.limit().div_ceil(2)
    }

    /// Returns a unique request number.
    pub(super) fn request_id(&mut self, kind: Kind) -> RequestId {
        self.number += 1;
        RequestId { number: self.number, kind }
    }

    /// Returns a new seed, so that each failure has its own pauses.
    pub(super) fn seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        self.seed
    }

    /// Requires a new list of the rules, at the start of leadership.
    pub(super) fn list_rules(&mut self) {
        let backoff = Backoff::new(self.seed());
        self.rules = RulesList::Needed { not_before: None, backoff };
    }
}

impl RulesList {
    /// Returns the earliest time of the next list of rules.
    pub(super) fn not_before(&self) -> Option<Instant> {
        match self {
            Self::Needed { not_before, .. } => *not_before,
            Self::InFlight { .. } | Self::Done => None,
        }
    }
}
