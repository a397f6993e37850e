//! The statuses that are to be written: at most one write per second and rule, and in thirty seconds if only what pods
//! request has changed, with pauses after failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::nodes::Attempt;
use super::rules::ObservedStatus;
use crate::election::backoff::Backoff;

/// The minimum time between two writes to one rule.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum time between any write to a rule and one for what pods request alone: they come and go all the time.
const MIN_USE_INTERVAL: Duration = Duration::from_secs(30);
/// How long a first change waits for others, so that a rule that becomes ready within this time costs one write.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The status writes of each rule.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusWrites {
    rules: BTreeMap<Arc<str>, StatusWrite>,
    /// The rules whose status is to be written, with the time of each.
    due: BTreeSet<(Instant, Arc<str>)>,
}

#[derive(Clone, Debug, Default)]
struct StatusWrite {
    place: Place,
    /// When the last write was sent.
    at: Option<Instant>,
    /// The status that was sent last, until it is written.
    unwritten: Option<ObservedStatus>,
    /// Set while writes fail.
    backoff: Option<Backoff>,
    /// The earliest time of the next write after a failure.
    not_before: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// Nothing is to be written.
    #[default]
    Rest,
    Due(Instant),
    InFlight {
        /// Whether the status has changed since it was sent.
        is_dirty: bool,
    },
}

impl StatusWrites {
    /// Records that a status has changed, or may have.
    pub(super) fn touch(&mut self, rule: &Arc<str>, now: Instant) {
        self.touch_after(MIN_WRITE_INTERVAL, rule, now);
    }

    /// Records that what pods request has changed, or may have.
    pub(super) fn touch_use(&mut self, rule: &Arc<str>, now: Instant) {
        self.touch_after(MIN_USE_INTERVAL, rule, now);
    }

    fn touch_after(&mut self, interval: Duration, rule: &Arc<str>, now: Instant) {
        let write = self.rules.entry(Arc::clone(rule)).or_default();
        let earliest = write.at.map(|at| at + interval).max(write.not_before);
        let due = earliest.max(Some(now + DEBOUNCE)).unwrap_or(now);
        match &mut write.place {
            Place::InFlight { is_dirty } => *is_dirty = true,
            Place::Due(before) if *before <= due => {}
            place => {
                if let Place::Due(before) = place {
                    self.due.remove(&(*before, Arc::clone(rule)));
                }
                *place = Place::Due(due);
                self.due.insert((due, Arc::clone(rule)));
            }
        }
    }

    /// Returns whether a change of what pods request may be written now, if nothing else has changed.
    pub(super) fn may_write_use(&self, rule: &str, now: Instant) -> bool {
        let at = self.rules.get(rule).and_then(|write| write.at);
        at.is_none_or(|at| at + MIN_USE_INTERVAL <= now)
    }

    /// Removes and returns a rule whose status is to be written now.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Arc<str>> {
        self.due.first().filter(|(due, _)| *due <= now)?;
        let (_, rule) = self.due.pop_first()?;
        if let Some(write) = self.rules.get_mut(&rule) {
            write.place = Place::Rest;
        }
        Some(rule)
    }

    /// Returns when the next status becomes due.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        // Those that are due wait for a slot, and there may be thousands.
        let later = (now + Duration::from_nanos(1), Arc::<str>::default());
        self.due.range(later..).next().map(|(due, _)| *due)
    }

    /// Records that a status was sent.
    pub(super) fn sent(&mut self, rule: &Arc<str>, status: ObservedStatus, now: Instant) {
        let write = self.rules.entry(Arc::clone(rule)).or_default();
        (write.place, write.at) = (Place::InFlight { is_dirty: false }, Some(now));
        write.unwritten = Some(status);
    }

    /// Returns what the status of a rule is to be, unless it is written.
    pub(super) fn unwritten(&self, rule: &str) -> Option<&ObservedStatus> {
        self.rules.get(rule)?.unwritten.as_ref()
    }

    /// Records that a write has ended. Returns whether the status has changed since.
    pub(super) fn ended(&mut self, rule: &str) -> bool {
        let Some(write) = self.rules.get_mut(rule) else { return false };
        matches!(std::mem::take(&mut write.place), Place::InFlight { is_dirty: true })
    }

    /// Records that a status was written.
    pub(super) fn succeeded(&mut self, rule: &str) {
        if let Some(write) = self.rules.get_mut(rule) {
            (write.unwritten, write.backoff, write.not_before) = (None, None, None);
        }
    }

    /// Records that a status write failed.
    pub(super) fn failed(&mut self, rule: &str, attempt: Attempt) {
        if let Some(write) = self.rules.get_mut(rule) {
            let backoff = write.backoff.get_or_insert_with(|| Backoff::new(attempt.seed));
            write.not_before = Some(attempt.ended + backoff.next(attempt.retry_after));
        }
    }

    /// Forgets a deleted rule, unless a write is in flight.
    pub(super) fn forget(&mut self, rule: &Arc<str>) {
        match self.rules.get(rule).map(|write| write.place) {
            Some(Place::InFlight { .. }) => return,
            Some(Place::Due(due)) => drop(self.due.remove(&(due, Arc::clone(rule)))),
            Some(Place::Rest) | None => {}
        }
        self.rules.remove(rule);
    }

    /// Returns these without what is only reported.
    #[cfg(test)]
    pub(super) fn without_unwritten(&self) -> Self {
        let mut writes = self.clone();
        writes.rules.values_mut().for_each(|write| write.unwritten = None);
        writes
    }

    /// Returns whether a status is to be written, or being written.
    #[cfg(test)]
    pub(super) fn is_pending(&self, rule: &str) -> bool {
        self.rules.get(rule).is_some_and(|write| !matches!(write.place, Place::Rest))
    }
}
