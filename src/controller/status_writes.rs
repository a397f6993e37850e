//! Paces the status writes of rules: at most one per second and rule, with pauses after failures.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::backoff::Backoff;

/// The minimum time between two writes to one rule.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a first change waits for others, so that a rule that becomes ready within this time costs one write.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The time of the last status write per rule.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusWrites(HashMap<Arc<str>, StatusWrite>);

#[derive(Clone, Debug, Default)]
struct StatusWrite {
    at: Option<Instant>,
    /// Set while writes fail.
    backoff: Option<Backoff>,
    /// The earliest time of the next write after a failure.
    not_before: Option<Instant>,
}

impl StatusWrites {
    /// Returns when a changed status is written.
    pub(super) fn due(&mut self, rule: &Arc<str>, now: Instant) -> Instant {
        let write = self.of(rule);
        let earliest = write.at.map(|at| at + MIN_WRITE_INTERVAL).max(write.not_before);
        let debounced = now + DEBOUNCE;
        earliest.map_or(debounced, |earliest| earliest.max(debounced))
    }

    /// Records that a status was sent.
    pub(super) fn sent(&mut self, rule: &Arc<str>, now: Instant) {
        self.of(rule).at = Some(now);
    }

    /// Records that a status was written.
    pub(super) fn succeeded(&mut self, rule: &Arc<str>) {
        let write = self.of(rule);
        (write.backoff, write.not_before) = (None, None);
    }

    /// Records that a status write failed.
    pub(super) fn failed(&mut self, rule: &Arc<str>, retry_after: Option<Duration>, (now, seed): (Instant, u64)) {
        let write = self.of(rule);
        let backoff = write.backoff.get_or_insert_with(|| Backoff::new(seed));
        write.not_before = Some(now + backoff.next(retry_after));
    }

    /// Forgets a deleted rule.
    pub(super) fn forget(&mut self, rule: &str) {
        self.0.remove(rule);
    }

    fn of(&mut self, rule: &Arc<str>) -> &mut StatusWrite {
        self.0.entry(Arc::clone(rule)).or_default()
    }
}
