//! When the pods of one node are listed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::backoff::Backoff;
use crate::model::pod::NodeRequests;

/// The minimum interval between lists of the pods on a node.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);
/// How long pod requests are valid for a plan; the list after a lowering shows later pods.
pub(in crate::controller) const MAX_USAGE_AGE: Duration = Duration::from_secs(2);
/// How long they are valid for the plan of a patch that has waited for its turn.
pub(in crate::controller) const MAX_USAGE_AGE_OF_PATCH: Duration = Duration::from_secs(30);
/// The initial interval between pod lists of a held node.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Each interval is extended by up to a half, in this many steps.
const JITTER_STEPS: u64 = 1000;
/// The maximum interval: a node may be held for weeks.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The schedule of pod lists for a node.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct PodPolls {
    /// The requests, and when they were listed.
    listed: Option<(NodeRequests, Instant)>,
    /// Why the last list failed.
    pub(in crate::controller) error: Option<Arc<str>>,
    /// The earliest time of the next list.
    pub(in crate::controller) not_before: Option<Instant>,
    /// While the node is held: the last interval, and when it ends.
    interval: Option<(Duration, Instant)>,
    backoff: Option<Backoff>,
}

impl PodPolls {
    /// Records a successful list.
    pub(in crate::controller) fn succeed(&mut self, requests: NodeRequests, now: Instant) {
        self.listed = Some((requests, now));
        (self.error, self.backoff) = (None, None);
        self.not_before = Some(now + MIN_LIST_INTERVAL);
    }

    /// Returns the requests if they were listed at most this long ago.
    pub(in crate::controller) fn usage(&self, max_age: Duration, now: Instant) -> Option<&NodeRequests> {
        let (requests, at) = self.listed.as_ref()?;
        (now.duration_since(*at) <= max_age).then_some(requests)
    }

    /// Returns the age of the requests for a patch, if there are any.
    pub(in crate::controller) fn age(&self, now: Instant) -> Option<Duration> {
        self.listed.as_ref().map(|(_, at)| now.duration_since(*at))
    }

    /// Forgets requests that were used or are old.
    pub(in crate::controller) fn forget_usage(&mut self) {
        self.listed = None;
    }

    /// Records that a list was abandoned, for a repair or because it may be too old.
    pub(in crate::controller) fn abandon(&mut self, now: Instant) {
        self.not_before = Some(now + MIN_LIST_INTERVAL);
    }

    /// Records a failed list.
    pub(in crate::controller) fn fail(
        &mut self,
        why: Arc<str>,
        retry_after: Option<Duration>,
        (now, seed): (Instant, u64),
    ) {
        let backoff = self.backoff.get_or_insert_with(|| Backoff::new(seed));
        self.not_before = Some(now + backoff.next(retry_after));
        self.error = Some(why);
    }

    /// Returns when to list the pods again if nothing changes, with growing intervals. `held` is the number of held
    /// nodes: they share ten lists per second.
    pub(in crate::controller) fn next(&mut self, held: usize, (now, seed): (Instant, u64)) -> Instant {
        let doubled = self.interval.map(|(interval, _)| (interval * 2).min(MAX_POLL_INTERVAL));
        let interval = doubled.unwrap_or(POLL_INTERVAL);
        let shared = Duration::from_millis(100).saturating_mul(u32::try_from(held).unwrap_or(u32::MAX));
        // Spreads nodes that were listed together.
        let jitter = u32::try_from(seed % JITTER_STEPS).unwrap_or_default();
        let end = now + interval.max(shared) + interval / 2 * jitter / JITTER_STEPS as u32;
        self.interval = Some((interval, end));
        end
    }

    /// Returns when the pods of a held node are to be listed again.
    pub(in crate::controller) fn next_poll(&self) -> Option<Instant> {
        self.interval.map(|(_, end)| end)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.listed.is_none() && self.error.is_none() && self.interval.is_none()
    }

    /// Restarts the intervals: nothing is held anymore, or something else is.
    pub(in crate::controller) fn restart(&mut self) {
        (self.interval, self.error, self.backoff) = (None, None, None);
    }
}
