//! The work of a standby: it restores values that a kubelet has reset to 0 if the leader does not (I6). A pod that uses
//! the value survives for about a second after a reset, while a crashed leader is replaced after 15 seconds.

use super::{Now, PLAN_BATCH_SIZE, Reconciler, Stage, Step};

impl Reconciler {
    /// Sends what a standby may send.
    pub(super) fn stand_by(&mut self, now: Now, step: &mut Step) {
        self.wake_due(now);
        for _ in 0..PLAN_BATCH_SIZE {
            let Some(name) = self.schedule.queue.pop(Stage::Plan) else { break };
            self.reconcile(&name, now);
        }
        // The patch is correct whenever it is applied, so no Lease bounds it.
        let deadline = now.instant + self.options.request_timeout;
        self.send_patches(deadline, now, step);
        let is_unplanned = self.schedule.queue.len(Stage::Plan) > 0;
        let wakes = [step.wake, self.schedule.queue.next_due(), is_unplanned.then_some(now.instant)];
        step.wake = wakes.into_iter().flatten().min();
    }
}
