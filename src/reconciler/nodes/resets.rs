//! Values that this process restored as a standby: only a few, so that it never fights the client that resets them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The maximum number of repairs of one resource on one node within `WINDOW`; the leader decides about further ones.
const MAX_REPAIRS: usize = 2;
const WINDOW: Duration = Duration::from_secs(10 * 60);

/// The restored values of one node, by resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resets(BTreeMap<String, Vec<Instant>>);

impl Resets {
    /// Returns the earliest time to restore the resource again.
    pub(crate) fn not_before(&self, resource: &str, now: Instant) -> Option<Instant> {
        let mut recent = self.0.get(resource)?.iter().filter(|at| now.duration_since(**at) < WINDOW);
        let first = *recent.next()?;
        (1 + recent.count() >= MAX_REPAIRS).then_some(first + WINDOW)
    }

    /// Returns when the next repair becomes too old to count.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        self.0.values().flatten().map(|at| *at + WINDOW).filter(|end| *end > now).min()
    }

    /// Forgets repairs that are too old to count.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, repairs| {
            repairs.retain(|at| now.duration_since(*at) < WINDOW);
            !repairs.is_empty()
        });
    }

    /// Records that the resource was restored.
    pub(crate) fn repaired(&mut self, resource: &str, now: Instant) {
        self.0.entry(resource.to_owned()).or_default().push(now);
    }

    /// Returns whether there are no repairs.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
