//! Handles the responses to patches.

use std::sync::Arc;

use tracing::{debug, error, warn};

use super::{Now, Reconciler};
use crate::cluster::node_client::Reply;
use crate::controller::limiter::{Kind, Slot};
use crate::controller::nodes::Cause;
use crate::controller::schedule::patches::{Answered, PatchOutcome, UNDONE};
use crate::controller::work_queue::Sent;
use crate::model::node::ApiNode;
use crate::planner::input::Lost;
use crate::planner::{Action, Change};

impl Reconciler {
    /// Handles the response to a patch. Its changes are reported in any case; the rest applies only if the node is
    /// still the patched one.
    pub(super) fn node_patched(&mut self, slot: Slot, node: &Arc<str>, reply: Reply, now: Now) {
        self.diagnostics.metrics.patched(reply.result());
        let is_rollout = slot.kind() == Kind::Rollout;
        let answered = self.schedule.patch_answered(&mut self.nodes, slot, node, reply, now.instant);
        let Some(Answered { sent, rank, outcome }) = answered else { return };
        match outcome {
            PatchOutcome::Applied { node: answer, had_waited_for, stays, undone } => {
                let sent_at = sent.at;
                self.end_pending(node, is_rollout, now);
                self.node_changed(node, sent, *answer, now);
                self.rollout_succeeded(node, &stays, sent_at, now);
                if is_rollout {
                    self.rollout_failed(node, &undone, sent_at, UNDONE, now);
                }
                self.schedule.probe(&mut self.nodes, had_waited_for, now.instant);
            }
            PatchOutcome::Failed { cause, message, new, node: answer } => {
                self.log_failure(node, cause, &message);
                let is_evidence = match cause {
                    // If several changes are rejected together, each of them is sent alone next.
                    Cause::Rejected => sent.changes.len() == 1,
                    // A missing right, like an overload, says nothing about the rule.
                    Cause::Forbidden
                    | Cause::Stale
                    | Cause::Overload
                    | Cause::Deferred
                    | Cause::NotFound
                    | Cause::Undone => false,
                };
                if is_evidence && is_rollout {
                    self.rollout_failed(node, &sent.changes, sent.at, &message, now);
                }
                self.report_not_withdrawn(node, &new, &message, now);
                if let Some(answer) = answer {
                    let (seen, _) = self.nodes.observe_response(*answer, sent.version);
                    self.leave_rollout(&seen, false);
                    self.follow_node(seen, now);
                }
            }
        }
        self.enqueue(node, rank, now);
    }

    /// Handles a successful patch.
    fn node_changed(&mut self, node: &Arc<str>, sent: Sent, answer: ApiNode, now: Now) {
        let Sent { number: _, at: _, changes, version } = sent;
        for change in &changes {
            match &change.action {
                Action::Withdraw { rule } if !is_stored(change, &answer) => {
                    self.report_put_back(node, rule, change, now)
                }
                _ => self.report_changes(node, std::slice::from_ref(change), now),
            }
        }
        let leads = self.leads(now.instant);
        let Some(state) = self.nodes.get_mut(node) else { return };
        for change in changes.iter().filter(|change| change.is_repair() && !leads) {
            state.work_mut().resets.repaired(&change.resource, now.instant);
        }
        self.count_conflicts(node, &changes, |change| is_stored(change, &answer), now);
        let (seen, _) = self.nodes.observe_response(answer, version);
        self.leave_rollout(&seen, true);
        self.follow_node(seen, now);
    }

    /// Reports how long the node has had work, unless the limits of a rollout have decided that.
    fn end_pending(&mut self, node: &Arc<str>, is_rollout: bool, now: Now) {
        let leads = self.leads(now.instant);
        let since = self.nodes.get_mut(node).and_then(|state| state.pending_since.take());
        if let Some(since) = since.filter(|_| leads && !is_rollout) {
            let time = now.instant.duration_since(since).as_secs_f64();
            self.diagnostics.metrics.event_to_patch.observe(time);
        }
    }

    fn log_failure(&mut self, node: &Arc<str>, cause: Cause, message: &str) {
        match cause {
            Cause::Stale => debug!(%node, "the node changed in the meantime, planning again"),
            Cause::NotFound => debug!(%node, "the node does not exist"),
            Cause::Forbidden => {
                if self.reports.forbidden.is_none() {
                    error!("{message}; grant the verb patch on nodes/status");
                    self.reports.forbidden = Some(message.to_owned());
                }
            }
            Cause::Rejected => warn!(%node, "the API server rejects the patch: {message}"),
            Cause::Overload | Cause::Deferred | Cause::Undone => {
                warn!(%node, "cannot patch the node, retrying: {message}");
            }
        }
    }

    /// Counts values that were restored after they were undone, and reports new contests. Returns whether there were any.
    pub(super) fn count_conflicts(
        &mut self,
        node: &Arc<str>,
        changes: &[Change],
        is_stored: impl Fn(&Change) -> bool,
        now: Now,
    ) -> bool {
        let mut has_counted = false;
        for change in changes {
            let Some(state) = self.nodes.get_mut(node) else { break };
            let work = state.work_mut();
            let was_undone = work.undone.remove(&change.resource) && !change.was_listed();
            let (observed, manager) = match &change.action {
                Action::Repair { observed, manager, .. } => {
                    self.diagnostics.metrics.repairs.inc();
                    (observed.as_str(), manager.as_ref())
                }
                Action::TakeOver { observed, manager, .. } if was_undone => (observed.as_str(), manager.as_ref()),
                Action::Advertise { .. } | Action::Adopt { .. } if was_undone => ("", None),
                _ => continue,
            };
            let lost = if is_stored(change) { change.lost() } else { Lost::OwnWrite };
            has_counted = true;
            let contests = &mut work.conflicts;
            if contests.add(&change.resource, observed, manager, lost, now.instant) {
                self.report_contest(node, change, lost, now);
            }
        }
        has_counted
    }
}

/// Returns whether the response to a patch shows what the patch wrote. Nobody writes in between: if not, admission has
/// changed the request.
fn is_stored(change: &Change, answer: &ApiNode) -> bool {
    change.is_stored(answer.values(&change.resource))
}
