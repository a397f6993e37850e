//! Values that this process has written back without leading: few, so that it never fights with whoever resets them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// So many repairs of one resource on one node within `WINDOW` are enough; what comes after is the leader's to judge.
const MAX_REPAIRS: usize = 2;
const WINDOW: Duration = Duration::from_secs(10 * 60);

/// What has been written back on one node, by resource.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct Resets(BTreeMap<String, Vec<Instant>>);

impl Resets {
    /// Before when the resource is not written back once more.
    pub(in crate::controller) fn not_before(
        &mut self,
        resource: &str,
        now: Instant,
    ) -> Option<Instant> {
        self.expire(now);
        let repairs = self.0.get(resource).filter(|repairs| repairs.len() >= MAX_REPAIRS)?;
        repairs.first().map(|first| *first + WINDOW)
    }

    /// Forgets what is too long ago to count.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, repairs| {
            repairs.retain(|at| now.duration_since(*at) < WINDOW);
            !repairs.is_empty()
        });
    }

    /// The resource has been written back.
    pub(in crate::controller) fn repaired(&mut self, resource: &str, now: Instant) {
        self.0.entry(resource.to_owned()).or_default().push(now);
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
