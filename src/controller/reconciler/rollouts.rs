//! Rollouts that stop because their patches fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::{Now, Rank, Reconciler};
use crate::controller::events::{EventTemplate, NodeSubject};
use crate::controller::nodes::Seen;
use crate::controller::rollouts::Stopped;
use crate::planner::Change;

impl Reconciler {
    /// Takes a node out of its rollout that has changed by itself: others may depend on what it needs now. What a patch of
    /// this process may have changed is no such change.
    pub(super) fn leave_rollout(&mut self, seen: &Seen, may_be_patched: bool) {
        if let Some((name, _)) = &seen.changed
            && (seen.is_of_rules || !may_be_patched)
            && let Some(state) = self.nodes.get_mut(name)
        {
            state.changed_by_itself(seen.is_drift);
        }
    }

    /// Records that changes of a rollout failed, in a patch that was sent at this time.
    pub(super) fn rollout_failed(
        &mut self,
        node: &Arc<str>,
        changes: &[Change],
        sent_at: Instant,
        message: &str,
        now: Now,
    ) {
        if !self.leads(now.instant) {
            return;
        }
        for change in changes {
            let Some(rule) = change.rule() else { continue };
            let (rule, place): (Arc<str>, _) = (rule.into(), (node, &*change.resource));
            if let Some(stopped) = self.schedule.rollouts.failed(&rule, place, sent_at, now.instant) {
                self.report_stop(&rule, node, stopped, message, now);
            }
        }
    }

    /// Reports a stop: on the rule, or on this node if the rule is deleted, so that its withdrawal is what stopped. Of
    /// several in a row, the log has each, and an Event the first.
    fn report_stop(&mut self, rule: &Arc<str>, node: &Arc<str>, stopped: Stopped, message: &str, now: Now) {
        let Stopped { nodes, pause, is_first } = stopped;
        warn!(%rule, nodes, "stopped the rollout of the rule for {pause:?}, because patches fail: {message}");
        if !is_first {
            return;
        }
        let template = EventTemplate::rollout_stopped(rule, nodes, message);
        let subject = self.rule_subject(rule);
        if subject.uid.is_some() {
            self.reports.events.on_rule(&subject, &template, now);
        } else if let Some(state) = self.nodes.get(node) {
            let node = NodeSubject { name: node, uid: &state.node.uid };
            self.reports.events.on_node(node, &template, now);
        }
    }

    /// Records that changes succeeded, and resumes their rollouts.
    pub(super) fn rollout_succeeded(&mut self, node: &Arc<str>, changes: &[Change], sent_at: Instant, now: Now) {
        // A repair of what was there before shows nothing.
        for change in changes.iter().filter(|change| !change.is_repair()) {
            let Some(rule) = change.rule() else { continue };
            let resumed = self.schedule.rollouts.succeeded(rule, (node, &change.resource), sent_at);
            self.resume(resumed, now);
        }
    }

    /// Begins the rollout of an edited rule anew.
    pub(super) fn restart_rollout(&mut self, rule: &str, now: Now) {
        let resumed = self.schedule.rollouts.forget(rule, now.instant);
        self.resume(resumed, now);
    }

    /// Resumes the rollouts whose stop has ended.
    pub(super) fn resume_ended(&mut self, now: Now) {
        let ended = self.schedule.rollouts.take_ended(now.instant);
        self.resume(ended, now);
    }

    fn resume(&mut self, nodes: BTreeSet<Arc<str>>, now: Now) {
        for node in nodes {
            // The others are being handled, in their order.
            if self.schedule.queue.is_waiting(&node) {
                self.enqueue(&node, Rank::Replan, now);
            }
        }
    }
}
