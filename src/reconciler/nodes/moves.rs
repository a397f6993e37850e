//! The quantities that are read from a node, and have moved a moment ago: each moves at most once in a while, so that a
//! label that flaps, or memory that a kubelet reports a little differently each time, causes no storm of patches. The
//! same holds for a condition that changes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::planner::Change;

/// The shortest time between two moves.
pub(crate) const PACE: Duration = Duration::from_secs(30);

/// The last moves of a node, by resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves(BTreeMap<Arc<str>, Instant>);

impl Moves {
    /// Records the changes of a patch that was applied, or may be.
    pub(crate) fn record(&mut self, changes: &[Change], now: Instant) {
        let moves = changes.iter().filter(|change| change.moves());
        self.0.extend(moves.map(|change| (change.name().into(), now)));
    }

    /// Returns the resources that do not move now.
    pub(crate) fn recent(&self, now: Instant) -> BTreeSet<Arc<str>> {
        self.0.iter().filter(|(_, at)| now < **at + PACE).map(|(resource, _)| Arc::clone(resource)).collect()
    }

    /// Returns when a resource may move, if not now.
    pub(crate) fn not_before(&self, resource: &str, now: Instant) -> Option<Instant> {
        self.0.get(resource).map(|at| *at + PACE).filter(|at| now < *at)
    }

    /// Returns when the next of them may move.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        self.0.values().map(|at| *at + PACE).filter(|at| now < *at).min()
    }

    /// Forgets the resources that may move.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, at| now < *at + PACE);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
