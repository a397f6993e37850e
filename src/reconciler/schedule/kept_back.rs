//! The nodes that wait for a condition that affects all: an API server that is overloaded, or a missing permission.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::reconciler::nodes::Cause;

/// The interval at which one of these nodes is probed while other patches succeed.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(super) struct KeptBack {
    /// The nodes that wait, each with its cause.
    waiting: BTreeMap<Arc<str>, Cause>,
    /// The nodes that a success elsewhere has released. Their own successes release no others: a recovery costs one
    /// walk over the nodes, and nodes that still fail are not tried once for each that does not.
    released: BTreeMap<Arc<str>, Cause>,
    /// How many of both wait for a permission.
    forbidden: usize,
    /// The last probed node, and when it was probed.
    probed: Option<Arc<str>>,
    probed_at: Option<Instant>,
}

impl KeptBack {
    /// Records that the patch of a node failed.
    pub(super) fn insert(&mut self, node: &Arc<str>, cause: Cause) {
        self.remove(node);
        self.forbidden += usize::from(cause == Cause::Forbidden);
        self.waiting.insert(Arc::clone(node), cause);
    }

    /// Records that a node waits no longer. Returns what it has waited for until then, unless it was released.
    pub(super) fn remove(&mut self, node: &str) -> Option<Cause> {
        let waiting = self.waiting.remove(node);
        let cause = waiting.or_else(|| self.released.remove(node));
        self.forbidden -= usize::from(cause == Some(Cause::Forbidden));
        waiting
    }

    pub(super) fn clear(&mut self) {
        *self = Self { probed: self.probed.take(), probed_at: self.probed_at, ..Self::default() };
    }

    /// Returns whether a node waits for a permission.
    pub(super) fn is_any_forbidden(&self) -> bool {
        self.forbidden > 0
    }

    /// Returns the nodes to try after a successful patch: all that waited for the same cause as its node, which shows
    /// that it is over; otherwise one from time to time, since a permission may exist only for some nodes.
    pub(super) fn released_by(&mut self, had_waited_for: Option<Cause>, now: Instant) -> Vec<Arc<str>> {
        if let Some(cause) = had_waited_for {
            let waits = |_: &Arc<str>, other: &mut Cause| *other == cause;
            let mut released: BTreeMap<_, _> = self.waiting.extract_if(.., waits).collect();
            let names: Vec<_> = released.keys().cloned().collect();
            self.released.append(&mut released);
            if !names.is_empty() {
                self.probed_at = Some(now);
                return names;
            }
        }
        if self.probed_at.is_some_and(|at| now.duration_since(at) < PROBE_INTERVAL) {
            return Vec::new();
        }
        // In turn, since some may never get a permission.
        let after = self.probed.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.waiting.range::<Arc<str>, _>((after, Bound::Unbounded)).next();
        let Some((next, _)) = next.or_else(|| self.waiting.iter().next()) else { return Vec::new() };
        self.probed = Some(Arc::clone(next));
        self.probed_at = Some(now);
        vec![Arc::clone(next)]
    }
}
