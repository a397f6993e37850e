//! Rollouts that stop because their patches fail.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::{Key, Now, Rank, Reconciler};
use crate::controller::events::EventTemplate;
use crate::controller::nodes::NodeState;
use crate::controller::rollouts::Rollouts;
use crate::planner::Change;

/// The changes of a node that wait because rollouts are stopped.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    pub(super) resources: BTreeSet<String>,
    /// When the first of them may be sent.
    pub(super) until: Option<Instant>,
}

/// Removes the changes that must wait because the rollouts of their rules are stopped.
pub(super) fn withhold(
    rollouts: &mut Rollouts,
    (name, state): (&Arc<str>, &NodeState),
    changes: &mut Vec<Change>,
    now: Instant,
) -> Withheld {
    let mut withheld = Withheld::default();
    if !state.is_rollout {
        return withheld;
    }
    changes.retain(|change| {
        let rule = change.rule().unwrap_or_default();
        let stopped = rollouts.stopped_until(rule, name, now).filter(|_| !state.is_urgent(change));
        let Some(until) = stopped else { return true };
        rollouts.withhold(rule, name);
        withheld.resources.insert(change.resource.clone());
        withheld.until = Some(withheld.until.map_or(until, |other| other.min(until)));
        false
    });
    withheld
}

impl Reconciler {
    /// Records that changes of a rollout failed.
    pub(super) fn rollout_failed(&mut self, node: &Arc<str>, changes: &[Change], message: &str, now: Now) {
        let rules: BTreeSet<_> = changes.iter().filter_map(Change::rule).collect();
        for rule in rules {
            let rule: Arc<str> = rule.into();
            if let Some((nodes, pause)) = self.schedule.rollouts.failed(&rule, node, now.instant) {
                self.report_stop(&rule, nodes, pause, message, now);
            }
        }
    }

    fn report_stop(&mut self, rule: &Arc<str>, nodes: usize, pause: Duration, message: &str, now: Now) {
        warn!(%rule, nodes, "stopped the rollout of the rule for {pause:?}, because patches fail: {message}");
        let subject = self.rule_subject(rule);
        let template = EventTemplate::rollout_stopped(nodes, pause, message);
        self.reports.events.on_rule(&subject, &template, now);
    }

    /// Records that changes succeeded, and resumes their rollouts.
    pub(super) fn rollout_succeeded(&mut self, node: &Arc<str>, changes: &[Change], sent_at: Instant, now: Now) {
        // A repair of what was there before shows nothing.
        for rule in changes.iter().filter(|change| !change.is_repair()).filter_map(Change::rule) {
            let resumed = self.schedule.rollouts.succeeded(rule, node, sent_at);
            self.resume(resumed, now);
        }
    }

    /// Begins the rollout of an edited rule anew.
    pub(super) fn restart_rollout(&mut self, rule: &str, now: Now) {
        let resumed = self.schedule.rollouts.forget(rule);
        self.resume(resumed, now);
    }

    fn resume(&mut self, nodes: BTreeSet<Arc<str>>, now: Now) {
        for node in nodes {
            // The others are being handled, in their order.
            if self.schedule.queue.is_waiting(&Key::Node(Arc::clone(&node))) {
                self.enqueue(&node, Rank::Replan, now);
            }
        }
    }
}
