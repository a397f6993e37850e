//! Rollouts: the patches that follow from an edit of rules. One stops by itself when its patches begin to fail, because
//! an edit that some nodes do not take is unlikely to be taken by thousands of others.
//!
//! It resumes after a pause, when a patch for its rule succeeds, or when that rule is edited.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::planner::Change;

/// The first pause of a stopped rollout; each is twice the previous one.
const MIN_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// How much later than others the resources of nodes are tried that failed: where these alone cannot be patched, they must
/// not stop the rollout each time before others have been tried, even on the same node.
const HEAD_START: Duration = Duration::from_secs(5);

/// The maximum number of results that decide about a stop.
const MAX_WINDOW: usize = 1000;

/// The rollouts in which patches have failed, by rule.
#[derive(Clone, Debug)]
pub(super) struct Rollouts {
    /// The number of failed nodes that stop a rollout, if they are also most of the last ones.
    max_failed_nodes: usize,
    failing: BTreeMap<Arc<str>, Rollout>,
    /// When rules were last edited: what was sent before says nothing about them.
    edited_at: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct Rollout {
    /// The nodes whose last patch failed, each with the resources that it was to change.
    failed: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// The last results since the first failure, or since the end of the last stop: the node that failed, or `None` for a
    /// success. Older ones count no longer, so that a rollout stops after thousands of successes too.
    last: VecDeque<Option<Arc<str>>>,
    stop: Option<Stop>,
    /// The number of stops so far.
    stops: u32,
    /// The nodes that wait for the end of the stop.
    withheld: BTreeSet<Arc<str>>,
}

/// A stop that has just begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// The number of nodes whose last patch failed.
    pub(super) nodes: usize,
    pub(super) pause: Duration,
    /// Whether it is the first since the rule was edited, or since all nodes succeeded.
    pub(super) is_first: bool,
}

impl Stopped {
    pub(crate) fn nodes(self) -> usize {
        self.nodes
    }

    pub(crate) fn pause(self) -> Duration {
        self.pause
    }
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    since: Instant,
    until: Instant,
    /// Whether the nodes that waited for its end were planned again.
    is_over: bool,
}

impl Rollouts {
    pub(super) fn new(max_failed_nodes: usize) -> Self {
        Self { max_failed_nodes, failing: BTreeMap::new(), edited_at: None }
    }

    /// Returns until when a change of a node is withheld, if it is.
    pub(super) fn stopped_until(&self, change: &Change, node: &str, now: Instant) -> Option<Instant> {
        self.rule_stopped_until(change.rule()?, node, change.name(), now)
    }

    /// Returns until when the rollout of a rule is stopped for this resource of a node, if it is.
    pub(super) fn rule_stopped_until(&self, rule: &str, node: &str, resource: &str, now: Instant) -> Option<Instant> {
        let rollout = self.failing.get(rule)?;
        let until = rollout.stop?.until;
        let has_failed = rollout.failed.get(node).is_some_and(|resources| resources.contains(resource));
        let until = if has_failed { until + HEAD_START } else { until };
        Some(until).filter(|until| now < *until)
    }

    /// Records that a node waits for the end of the stop.
    pub(super) fn withhold(&mut self, rule: &str, node: &Arc<str>) {
        if let Some(rollout) = self.failing.get_mut(rule) {
            rollout.withheld.insert(Arc::clone(node));
        }
    }

    /// Records that these changes failed, in a patch that was sent at this time. Returns the stops that follow, each with
    /// its rule.
    pub(super) fn patch_failed(
        &mut self,
        node: &Arc<str>,
        changes: &[Change],
        sent_at: Instant,
        now: Instant,
    ) -> Vec<(Arc<str>, Stopped)> {
        let stopped = changes.iter().filter_map(|change| {
            let rule: Arc<str> = change.rule()?.into();
            let stopped = self.failed(&rule, node, change.name(), sent_at, now)?;
            Some((rule, stopped))
        });
        stopped.collect()
    }

    /// Records that these changes succeeded, in a patch that was sent at this time. Returns the nodes that need not wait
    /// anymore.
    pub(super) fn patch_succeeded(&mut self, node: &str, changes: &[Change], sent_at: Instant) -> Vec<Arc<str>> {
        // A repair of what was there before shows nothing.
        let changes = changes.iter().filter(|change| !change.is_repair());
        let by_rule = changes.filter_map(|change| Some((change.rule()?, change)));
        by_rule.flat_map(|(rule, change)| self.succeeded(rule, node, change.name(), sent_at)).collect()
    }

    /// Records the failure of a patch of this resource that was sent at this time. Returns a stop that follows.
    fn failed(
        &mut self,
        rule: &Arc<str>,
        node: &Arc<str>,
        resource: &str,
        sent_at: Instant,
        now: Instant,
    ) -> Option<Stopped> {
        if self.edited_at.is_some_and(|edited_at| sent_at < edited_at) {
            return None;
        }
        let rollout = self.failing.entry(Arc::clone(rule)).or_default();
        rollout.failed.entry(Arc::clone(node)).or_default().insert(resource.to_owned());
        if rollout.stop.is_some_and(|stop| now < stop.until) {
            return None;
        }
        // A node that fails again counts once.
        rollout.last.retain(|failed| failed.as_ref() != Some(node));
        rollout.record(Some(Arc::clone(node)), self.max_failed_nodes);
        let failed = rollout.last.iter().flatten().count();
        if failed < self.max_failed_nodes || failed * 2 <= rollout.last.len() {
            return None;
        }
        rollout.last.clear();
        let is_first = rollout.stops == 0;
        let pause = (MIN_PAUSE * 2_u32.saturating_pow(rollout.stops.min(16))).min(MAX_PAUSE);
        rollout.stops += 1;
        rollout.stop = Some(Stop { since: now, until: now + pause, is_over: false });
        Some(Stopped { nodes: rollout.failed.len(), pause, is_first })
    }

    /// Records that a patch of this resource succeeded that was sent at this time. Returns the nodes that need not wait
    /// anymore.
    fn succeeded(&mut self, rule: &str, node: &str, resource: &str, sent_at: Instant) -> BTreeSet<Arc<str>> {
        let Some(rollout) = self.failing.get_mut(rule) else { return BTreeSet::new() };
        rollout.forget(node, resource);
        if rollout.stop.is_some_and(|stop| sent_at < stop.since) {
            return BTreeSet::new();
        }
        rollout.record(None, self.max_failed_nodes);
        rollout.stop = None;
        let withheld = std::mem::take(&mut rollout.withheld);
        if rollout.failed.is_empty() {
            self.failing.remove(rule);
        }
        withheld
    }

    /// Returns the nodes that need not wait anymore because a stop has ended, once.
    pub(super) fn take_ended(&mut self, now: Instant) -> BTreeSet<Arc<str>> {
        let mut ended = BTreeSet::new();
        for rollout in self.failing.values_mut() {
            if let Some(stop) = rollout.stop.as_mut().filter(|stop| !stop.is_over && stop.until <= now) {
                stop.is_over = true;
                ended.append(&mut rollout.withheld);
            }
        }
        ended
    }

    /// Returns when the next stop ends for which nodes wait.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let waiting = self.failing.values().filter(|rollout| !rollout.withheld.is_empty());
        waiting.filter_map(|rollout| rollout.stop.filter(|stop| !stop.is_over)).map(|stop| stop.until).min()
    }

    /// Forgets a node that is gone, or needs nothing more.
    pub(super) fn forget_node(&mut self, node: &str) {
        self.failing.retain(|_, rollout| {
            rollout.forget_node(node);
            rollout.withheld.remove(node);
            !rollout.failed.is_empty() || rollout.stop.is_some()
        });
    }

    /// Forgets a rollout, because the rule was edited. Returns the nodes that need not wait anymore.
    pub(super) fn forget(&mut self, rule: &str, now: Instant) -> BTreeSet<Arc<str>> {
        self.edited_at = Some(now);
        self.failing.remove(rule).map(|rollout| rollout.withheld).unwrap_or_default()
    }

    /// Forgets all rollouts.
    pub(super) fn clear(&mut self) {
        self.failing.clear();
        self.edited_at = None;
    }
}

impl Rollout {
    fn record(&mut self, result: Option<Arc<str>>, max_failed_nodes: usize) {
        let window = max_failed_nodes.saturating_mul(2).min(MAX_WINDOW);
        while self.last.len() >= window.max(1) {
            self.last.pop_front();
        }
        self.last.push_back(result);
    }

    fn forget(&mut self, node: &str, resource: &str) {
        let Some(resources) = self.failed.get_mut(node) else { return };
        resources.remove(resource);
        if resources.is_empty() {
            self.forget_node(node);
        }
    }

    fn forget_node(&mut self, node: &str) {
        self.failed.remove(node);
        self.last.retain(|failed| failed.as_deref() != Some(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rule() -> Arc<str> {
        "rule".into()
    }

    fn fail(rollouts: &mut Rollouts, nodes: std::ops::Range<usize>, now: Instant) -> Option<(usize, Duration)> {
        let stops = nodes.map(|number| rollouts.failed(&rule(), &format!("node-{number}").into(), "dongle", now, now));
        let stops: Vec<_> = stops.collect();
        stops.into_iter().flatten().next().map(|Stopped { nodes, pause, .. }| (nodes, pause))
    }

    #[tokio::test(start_paused = true)]
    async fn rollout_stops_when_most_patches_fail() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(3);
        assert_eq!(fail(&mut rollouts, 0..2, now), None);
        assert_eq!(fail(&mut rollouts, 0..2, now), None, "two nodes, although each has failed twice");
        assert_eq!(fail(&mut rollouts, 2..3, now), Some((3, MIN_PAUSE)));
        assert_eq!(rollouts.rule_stopped_until("rule", "node-77", "dongle", now), Some(now + MIN_PAUSE));
        assert_eq!(rollouts.rule_stopped_until("other", "node-77", "dongle", now), None);
        assert_eq!(fail(&mut rollouts, 3..9, now), None, "those in flight");
        let mut now = now + MIN_PAUSE;
        assert_eq!(rollouts.rule_stopped_until("rule", "node-77", "dongle", now), None);
        for pause in [60, 120, 240, 300, 300] {
            let pause = SECOND * pause;
            assert_eq!(fail(&mut rollouts, 0..2, now), None);
            assert_eq!(fail(&mut rollouts, 2..3, now).map(|(_, pause)| pause), Some(pause));
            now += pause;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_is_tried_after_all_else() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(2);
        fail(&mut rollouts, 0..2, now);
        let until = now + MIN_PAUSE;
        assert_eq!(rollouts.rule_stopped_until("rule", "node-0", "key", until), None, "another resource there");
        assert_eq!(rollouts.rule_stopped_until("rule", "node-7", "dongle", until), None);
        assert_eq!(rollouts.rule_stopped_until("rule", "node-0", "dongle", until), Some(until + HEAD_START));
    }

    #[tokio::test(start_paused = true)]
    async fn rollout_with_few_failures_goes_on() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(3);
        for number in 0..100 {
            assert_eq!(fail(&mut rollouts, number..number + 1, now), None);
            rollouts.succeeded("rule", "other-1", "dongle", now);
            rollouts.succeeded("rule", "other-2", "dongle", now);
        }
    }

    /// What succeeded or failed long ago neither delays a stop nor causes one.
    #[tokio::test(start_paused = true)]
    async fn rollout_stops_by_its_last_results() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(3);
        fail(&mut rollouts, 0..1, now);
        for _ in 0..1000 {
            rollouts.succeeded("rule", "other", "dongle", now);
        }
        assert_eq!(fail(&mut rollouts, 1..4, now), None);
        assert_eq!(fail(&mut rollouts, 4..5, now), Some((5, MIN_PAUSE)));
    }

    #[tokio::test(start_paused = true)]
    async fn patch_sent_before_an_edit_is_no_evidence() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(1);
        rollouts.forget("rule", now + SECOND);
        assert_eq!(rollouts.failed(&rule(), &"node-0".into(), "dongle", now, now + SECOND), None);
        assert!(rollouts.failed(&rule(), &"node-0".into(), "dongle", now + SECOND, now + SECOND).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_node_counts_no_longer() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(2);
        fail(&mut rollouts, 0..1, now);
        rollouts.forget_node("node-0");
        assert_eq!(fail(&mut rollouts, 1..2, now), None);
        assert_eq!(fail(&mut rollouts, 2..3, now), Some((2, MIN_PAUSE)));
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_rollout_resumes_after_a_success() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(1);
        fail(&mut rollouts, 0..1, now);
        rollouts.withhold("rule", &"node-7".into());
        assert!(rollouts.succeeded("rule", "node-1", "dongle", now - SECOND).is_empty(), "sent before the stop");
        assert!(rollouts.rule_stopped_until("rule", "node-77", "dongle", now + SECOND).is_some());
        let resumed = rollouts.succeeded("rule", "node-1", "dongle", now + SECOND);
        assert_eq!(resumed.into_iter().collect::<Vec<_>>(), ["node-7".into()]);
        assert_eq!(rollouts.rule_stopped_until("rule", "node-77", "dongle", now + SECOND), None);
    }

    #[tokio::test(start_paused = true)]
    async fn edited_rule_is_rolled_out_again() {
        let now = Instant::now();
        let mut rollouts = Rollouts::new(1);
        fail(&mut rollouts, 0..1, now);
        rollouts.withhold("rule", &"node-7".into());
        assert_eq!(rollouts.forget("rule", now).len(), 1);
        assert_eq!(rollouts.rule_stopped_until("rule", "node-77", "dongle", now), None);
        assert_eq!(fail(&mut rollouts, 0..1, now), Some((1, MIN_PAUSE)), "the first pause again");
    }
}
