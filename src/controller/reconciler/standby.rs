//! The work of a standby: it restores values that a kubelet has reset to 0 if the leader does not (I6). A pod that uses
//! the value survives for about a second after a reset, while a crashed leader is replaced after 15 seconds.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::nodes::Next;
use super::{Now, PLAN_BATCH_SIZE, Rank, Reconciler, Stage, Step};
use crate::planner;

/// How long a standby waits for the leader.
const LEADER_TIME: Duration = Duration::from_millis(100);

impl Reconciler {
    /// Sends what a standby may send.
    pub(super) fn stand_by(&mut self, now: Now, step: &mut Step) {
        self.wake_due(now);
        for _ in 0..PLAN_BATCH_SIZE {
            let next = self.schedule.queue.pop(Stage::Plan, Rank::Replan);
            let Some((name, _)) = next else { break };
            let next = self.decide_reset(&name, now.instant);
            if !self.schedule.queue.is_in_flight(&name) {
                self.put(&name, next);
            }
        }
        // The patch is correct whenever it is applied, so no Lease bounds it.
        let deadline = now.instant + self.options.request_timeout;
        self.send_patches(deadline, now, step);
        let is_unplanned = self.schedule.queue.len(Stage::Plan) > 0;
        let wakes = [step.wake, self.schedule.queue.next_due(), is_unplanned.then_some(now.instant)];
        step.wake = wakes.into_iter().flatten().min();
    }

    /// Plans a node from its ledger alone. Returns what it needs next.
    pub(super) fn decide_reset(&mut self, name: &Arc<str>, now: Instant) -> Next {
        let Some(state) = self.nodes.get_mut(name) else { return Next::Nothing };
        let plan = planner::plan_resets(&state.node);
        if plan.changes().is_empty() {
            state.mark_in_sync();
            // The process that restored the value reports it.
            if let Some(work) = state.working() {
                work.maybe_applied.clear();
            }
            state.compact(now);
            self.schedule.kept_back.remove(name);
            return Next::Nothing;
        }
        let due = *state.pending_since.get_or_insert(now) + LEADER_TIME;
        let (mut changes, mut waits) = (Vec::new(), Vec::new());
        for change in plan.changes() {
            let not_before = state.working().and_then(|work| work.resets.not_before(&change.resource, now));
            match not_before.or((now < due).then_some(due)) {
                None => changes.push(change.clone()),
                Some(at) => waits.push(at),
            }
        }
        if !changes.is_empty() {
            match state.sendable(changes, now) {
                Ok(changes) => return Next::Patch(changes, Stage::Patch, Rank::Repair, None),
                Err(at) => waits.push(at),
            }
        }
        waits.into_iter().min().map_or(Next::Nothing, Next::Wait)
    }
}
