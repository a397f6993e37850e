//! When a rule's status is written: at most once a second, however many nodes move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two writes to one rule.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a first change waits for others, so that a rule which is in force within that time
/// costs one write.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Rules whose status may have to be written, each with the time before which it is not.
#[derive(Debug, Default)]
pub(super) struct StatusQueue {
    due: BTreeMap<Arc<str>, Instant>,
    written: BTreeMap<Arc<str>, Instant>,
    writing: BTreeSet<Arc<str>>,
}

impl StatusQueue {
    /// Something about the rule has changed.
    pub(super) fn mark_dirty(&mut self, rule: &Arc<str>, now: Instant) {
        let earliest = self.written.get(rule).map(|written| *written + MIN_WRITE_INTERVAL);
        let gathered = now + DEBOUNCE;
        self.due
            .entry(Arc::clone(rule))
            .or_insert_with(|| earliest.map_or(gathered, |earliest| earliest.max(gathered)));
    }

    /// The rule's status is being written, so a next time has to wait.
    pub(super) fn started(&mut self, rule: &Arc<str>, now: Instant) {
        self.writing.insert(Arc::clone(rule));
        self.written.insert(Arc::clone(rule), now);
    }

    /// The write has ended; where it failed, it is tried again after `pause`.
    pub(super) fn ended(&mut self, rule: &Arc<str>, retry: Option<Instant>) {
        self.writing.remove(rule);
        if let Some(until) = retry {
            self.due.insert(Arc::clone(rule), until);
        }
    }

    /// Forgets the rules that are gone.
    pub(super) fn retain(&mut self, exists: impl Fn(&Arc<str>) -> bool) {
        self.due.retain(|rule, _| exists(rule));
        self.written.retain(|rule, _| exists(rule));
    }

    /// When the first rule is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.due.iter().filter(|(rule, _)| !self.writing.contains(*rule));
        due.map(|(_, at)| *at).min()
    }

    /// The rules that are due, which then no longer are.
    pub(super) fn pop_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let writing = &self.writing;
        let due = self.due.iter().filter(|(rule, at)| **at <= now && !writing.contains(*rule));
        let due: Vec<_> = due.map(|(rule, _)| Arc::clone(rule)).collect();
        for rule in &due {
            self.due.remove(rule);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_status_is_written_at_most_once_a_second() {
        let rule: Arc<str> = "dongle".into();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut status_queue = StatusQueue::default();
        status_queue.mark_dirty(&rule, start);
        assert!(status_queue.pop_due(start).is_empty(), "what comes with it is waited for");
        assert_eq!(status_queue.pop_due(after(50)), [Arc::clone(&rule)]);
        status_queue.started(&rule, after(50));
        status_queue.mark_dirty(&rule, after(60));
        assert_eq!(status_queue.next_due(), None, "the first write is still under way");
        status_queue.ended(&rule, None);
        assert_eq!(status_queue.next_due(), Some(after(1050)));
        assert!(status_queue.pop_due(after(1049)).is_empty());
        assert_eq!(status_queue.pop_due(after(1050)), [Arc::clone(&rule)]);
        status_queue.started(&rule, after(1050));
        status_queue.ended(&rule, Some(after(9000)));
        assert_eq!(status_queue.next_due(), Some(after(9000)), "a failed write is tried again");
        status_queue.retain(|_| false);
        assert_eq!(status_queue.next_due(), None);
    }
}
