//! When the statuses of rules are written: each at most once a second, and after failures with pauses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::backoff::Backoff;

/// The least time between two writes to one rule.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a first change waits for others, so that a rule which is in force within that time costs one
/// write.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// When each rule's status has been written.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusWrites(HashMap<Arc<str>, StatusWrite>);

#[derive(Clone, Debug, Default)]
struct StatusWrite {
    at: Option<Instant>,
    /// While writes fail.
    backoff: Option<Backoff>,
    /// Before when it is not written again after a failure.
    not_before: Option<Instant>,
}

impl StatusWrites {
    /// Returns when a status is written that has something new to report now.
    pub(super) fn due(&mut self, rule: &Arc<str>, now: Instant) -> Instant {
        let write = self.of(rule);
        let earliest = write.at.map(|at| at + MIN_WRITE_INTERVAL).max(write.not_before);
        let debounced = now + DEBOUNCE;
        earliest.map_or(debounced, |earliest| earliest.max(debounced))
    }

    /// A status has been sent.
    pub(super) fn sent(&mut self, rule: &Arc<str>, now: Instant) {
        self.of(rule).at = Some(now);
    }

    /// It has been written.
    pub(super) fn succeeded(&mut self, rule: &Arc<str>) {
        let write = self.of(rule);
        (write.backoff, write.not_before) = (None, None);
    }

    /// It has not been written.
    pub(super) fn failed(
        &mut self,
        rule: &Arc<str>,
        retry_after: Option<Duration>,
        (now, seed): (Instant, u64),
    ) {
        let write = self.of(rule);
        let backoff = write.backoff.get_or_insert_with(|| Backoff::new(seed));
        write.not_before = Some(now + backoff.next(retry_after));
    }

    /// The rule is gone.
    pub(super) fn forget(&mut self, rule: &str) {
        self.0.remove(rule);
    }

    fn of(&mut self, rule: &Arc<str>) -> &mut StatusWrite {
        self.0.entry(Arc::clone(rule)).or_default()
    }
}
