//! Whose turn it is in a rollout: of thousands of nodes, the pods of few are listed at a time.

use std::sync::Arc;

use tokio::time::Instant;

use super::decide::{Decision, Next};
use super::{Now, PLAN_BATCH_SIZE, Rank, Reconciler, Stage};
use crate::controller::nodes::NodeState;

impl Reconciler {
    /// Returns whether nodes are to be planned now.
    pub(super) fn has_unplanned(&self) -> bool {
        self.schedule.queue.len(Stage::Plan) > 0 || !self.schedule.standings_due.is_empty() || self.has_due_lists()
    }

    /// Returns whether few nodes are ahead with their lists, or not yet as many as may be: lists are sent after that, so that
    /// as many nodes as possible share one.
    pub(super) fn has_due_lists(&self) -> bool {
        let is_filling = self.schedule.fills_lists_ahead && self.schedule.has_room_for_lists();
        (is_filling || self.schedule.has_few_ahead()) && self.schedule.queue.len(Stage::ListBacklog) > 0
    }

    /// Plans the next nodes of a rollout that need a list of pods, if they are due.
    pub(super) fn plan_list_backlog(&mut self, now: Now) {
        let are_due = self.has_due_lists();
        while are_due
            && self.reports.planned < PLAN_BATCH_SIZE
            && self.schedule.has_room_for_lists()
            && let Some((name, _)) = self.schedule.queue.pop(Stage::ListBacklog, Rank::Replan)
        {
            self.reconcile(&name, now);
        }
        self.schedule.fills_lists_ahead = are_due && self.schedule.has_room_for_lists();
    }

    /// Returns where a node waits for a list of its pods, if that comes next; or records when it is due.
    pub(super) fn due_list(&mut self, name: &Arc<str>, decision: &mut Decision, now: Instant) -> Option<(Stage, Rank)> {
        if !decision.awaits_usage || (decision.next != Next::AwaitUsage && !decision.changes.is_empty()) {
            self.schedule.unlisted.remove(name);
        }
        let state = self.nodes.get(name)?;
        let list_at = state.work().and_then(|work| work.pods.not_before.max(work.failures.pause(now)));
        let list_at = list_at.filter(|at| now < *at);
        match decision.next {
            Next::Send { rank: Rank::Replan, .. } if decision.awaits_usage && !decision.changes.is_empty() => {
                let due = list_before_turn(state, (decision.owes_list, list_at), now)?;
                if due <= now {
                    return Some((Stage::ListPods, Rank::Replan));
                }
                decision.until = Some(decision.until.map_or(due, |until| until.min(due)));
                None
            }
            Next::AwaitUsage => {
                let is_rollout = state.is_rollout;
                if is_rollout
                    && decision.changes.is_empty()
                    && let Some(stage) = self.stage_before_list(name, now)
                {
                    return Some((stage, Rank::Replan));
                }
                let Some(at) = list_at else {
                    return Some((Stage::ListPods, if is_rollout { Rank::Replan } else { Rank::Changed }));
                };
                decision.until = Some(decision.until.map_or(at, |until| until.min(at)));
                None
            }
            Next::Send { .. } | Next::Rest => None,
        }
    }

    /// Decides when the pods of a node are listed again that needs nothing now: while they hold a value.
    pub(super) fn poll_held(&mut self, name: &Arc<str>, decision: &mut Decision, is_held: bool, now: Instant) {
        let (held, seed) = (self.nodes.held(), self.schedule.seed());
        let is_quiet = decision.changes.is_empty() && !decision.awaits_usage;
        let Some(work) = self.nodes.get_mut(name).and_then(NodeState::working).filter(|_| is_quiet) else { return };
        if decision.next == Next::Rest {
            work.pods.forget_usage();
        }
        if is_held && decision.knows_usage {
            let at = work.pods.next(held, (now, seed));
            decision.until = Some(decision.until.map_or(at, |until| until.min(at)));
        } else {
            work.pods.restart();
        }
    }

    /// Returns where a node of a rollout waits whose pods must be listed before its patch.
    ///
    /// `None` if it has other work, whose pauses would be lost there; or if lists of single nodes are not cheap, so that as
    /// many nodes as possible share one list of all pods.
    pub(super) fn stage_before_list(&mut self, name: &Arc<str>, now: Instant) -> Option<Stage> {
        if !self.nodes.lists_pods_from_cache() {
            return None;
        }
        let has_room = self.schedule.has_room_for_lists();
        let state = self.nodes.get_mut(name)?;
        if let Some(work) = state.working() {
            if work.pods.not_before.is_some_and(|at| now < at) {
                return None;
            }
            // It is too old for the plan.
            work.pods.forget_usage();
        }
        state.compact(now);
        state.work().is_none().then_some(if has_room { Stage::ListAhead } else { Stage::ListBacklog })
    }

    /// Plans again the nodes whose pods are to be listed: for some of them, that may be no longer needed.
    pub(super) fn replan_lists(&mut self) {
        while let Some((key, rank)) = self.schedule.queue.pop(Stage::ListAhead, Rank::Replan) {
            self.schedule.queue.add(&key, Stage::Plan, rank);
        }
    }
}

/// Returns when the pods are listed of a node whose patch waits for its turn, and that needs a list not before `list_at`. For its
/// rollout, that is not before its turn. But neither the list after a lowering (I5) waits for that, nor those while pods
/// hold a value (I9).
pub(super) fn list_before_turn(
    state: &NodeState,
    (is_lowered, list_at): (bool, Option<Instant>),
    now: Instant,
) -> Option<Instant> {
    let poll_at = state.work().and_then(|work| work.pods.next_poll());
    let due = if is_lowered { Some(now) } else { poll_at };
    due.map(|at| list_at.map_or(at, |list_at| at.max(list_at)))
}
