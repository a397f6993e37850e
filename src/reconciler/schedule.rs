//! What is sent when: where each node is, the slots for requests, and the life of a patch: planned, sent, answered. All
//! patches of nodes follow it, whatever their purpose.

mod kept_back;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource as _;
use tokio::time::Instant;

use super::effect::Effect;
use super::limiter::{Kind, Limiter, Slot};
use super::nodes::{Attempt, Cause, NodeState, Nodes};
use super::work_queue::{Rank, Sent, Stage, WorkQueue};
use crate::model::node::ApiNode;
use crate::planner::{self, Action, Change};
use crate::response::reply::Reply;
use kept_back::KeptBack;

/// Why a patch that succeeded counts as a failure.
pub(crate) const UNDONE: &str = "the API server accepted the patch, but the node is unchanged: something between the controller and the \
                      API server's storage undoes it";

/// The response to the patch in flight for a node.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) sent: Sent,
    /// The rank of the next plan.
    pub(super) rank: Rank,
    pub(super) outcome: PatchOutcome,
}

/// The outcome of a patch.
#[derive(Debug)]
pub(super) enum PatchOutcome {
    /// Applied.
    Applied {
        /// The patched node.
        node: Box<ApiNode>,
        /// What the node had been waiting for, if no other success has shown before that it is over.
        had_waited_for: Option<Cause>,
        /// The changes that the patched node shows, apart from its condition.
        stays: Vec<Change>,
        /// The changes that were undone, if that counts as a failure: nothing else stays.
        undone: Vec<Change>,
    },
    /// Failed, or unknown.
    Failed {
        cause: Cause,
        message: Arc<str>,
        /// The changes that had not failed like this before, for a report.
        new: Vec<Change>,
        /// The current node, if it was read.
        node: Option<Box<ApiNode>>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    queue: WorkQueue,
    limiter: Limiter,
    /// Nodes in flight whose rules have changed: they are planned for their states.
    standings_due: BTreeSet<Arc<str>>,
    kept_back: KeptBack,
    seed: u64,
}

impl Schedule {
    /// Without `rollout_rate`, in patches per second, rollouts are as fast as the slots allow.
    pub(super) fn new(max_patches: usize, rollout_rate: Option<u32>, seed: u64) -> Self {
        Self {
            queue: WorkQueue::default(),
            limiter: Limiter::new(max_patches, rollout_rate),
            standings_due: BTreeSet::new(),
            kept_back: KeptBack::default(),
            seed,
        }
    }

    /// Enqueues a node for planning. A node with a request in flight is planned after the response, and also soon for
    /// its states: a slow patch must not make the rule's status report an outdated node.
    pub(super) fn enqueue(&mut self, name: &Arc<str>, rank: Rank) {
        if !self.queue.add(name, Stage::Plan, rank) {
            self.standings_due.insert(Arc::clone(name));
        }
    }

    /// Enqueues the nodes that wait when they are due.
    pub(super) fn wake_due(&mut self, now: Instant) {
        while let Some(name) = self.queue.pop_due(now) {
            self.queue.add(&name, Stage::Plan, Rank::Changed);
        }
    }

    /// Enqueues all nodes. What is in flight is planned after the response only.
    pub(super) fn restart(&mut self, names: Vec<Arc<str>>) {
        self.kept_back.clear();
        self.standings_due.clear();
        for name in names {
            self.queue.add(&name, Stage::Plan, Rank::Replan);
        }
    }

    /// Forgets a node that is gone.
    pub(super) fn forget(&mut self, name: &Arc<str>) {
        self.queue.remove(name);
        self.kept_back.remove(name);
    }

    /// Records that a node is as it is to be.
    pub(super) fn in_sync(&mut self, name: &str) {
        self.kept_back.remove(name);
    }

    /// Returns the next node to plan.
    pub(super) fn next_unplanned(&mut self) -> Option<Arc<str>> {
        self.queue.pop(Stage::Plan)
    }

    /// Returns the next node to plan for its states alone.
    pub(super) fn next_in_flight(&mut self) -> Option<Arc<str>> {
        // If the response has arrived in the meantime, the node was planned with it.
        std::iter::from_fn(|| self.standings_due.pop_first()).find(|name| self.queue.is_in_flight(name))
    }

    /// Returns whether nodes are to be planned now.
    pub(super) fn has_ready(&self) -> bool {
        self.queue.len(Stage::Plan) > 0
    }

    /// Returns whether nodes are to be planned now, if only for their states.
    pub(super) fn has_unplanned(&self) -> bool {
        self.has_ready() || !self.standings_due.is_empty()
    }

    /// Makes a node wait for a slot for its patch, or for this time, when something else is due.
    pub(super) fn await_slot(&mut self, name: &Arc<str>, rank: Rank, until: Option<Instant>) {
        self.queue.add(name, Stage::Patch, rank);
        until.into_iter().for_each(|at| self.queue.wake_at(name, at));
    }

    /// Makes a node wait until it is known what pods request, or until this time.
    pub(super) fn await_usage(&mut self, name: &Arc<str>, until: Option<Instant>) {
        self.queue.await_usage(name, until);
    }

    /// Makes a node wait until this time, or else for an event.
    pub(super) fn rest(&mut self, name: &Arc<str>, until: Option<Instant>) {
        match until {
            Some(until) => self.queue.wait(name, until),
            None => self.queue.remove(name),
        }
    }

    pub(super) fn is_in_flight(&self, name: &Arc<str>) -> bool {
        self.queue.is_in_flight(name)
    }

    pub(super) fn is_waiting(&self, name: &Arc<str>) -> bool {
        self.queue.is_waiting(name)
    }

    /// Returns the patch of the node that is in flight.
    pub(super) fn sent(&self, name: &Arc<str>) -> Option<&Sent> {
        self.queue.sent(name)
    }

    /// Returns whether a node waits for a permission.
    pub(super) fn is_any_forbidden(&self) -> bool {
        self.kept_back.is_any_forbidden()
    }

    /// Returns when the first node is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    /// Returns when more requests other than repairs may be sent, as far as time decides.
    pub(super) fn next_slot(&self, now: Instant) -> Option<Instant> {
        self.limiter.next_wake(now)
    }

    /// Returns the number of writes in flight.
    pub(super) fn writes(&self) -> usize {
        self.limiter.writes()
    }

    /// Returns whether a slot is free.
    pub(super) fn is_free(&self, kind: Kind, now: Instant) -> bool {
        self.limiter.is_free(kind, now)
    }

    /// Takes a slot, if one is free.
    pub(super) fn take_slot(&mut self, kind: Kind, now: Instant) -> Option<Slot> {
        self.limiter.take(kind, now)
    }

    /// Frees the slot of a request that has ended.
    pub(super) fn give_back(&mut self, slot: Slot) {
        self.limiter.give_back(slot);
    }

    /// Keeps a pause for statuses that the API server requests.
    pub(super) fn pause_statuses(&mut self, pause: Duration, now: Instant) {
        self.limiter.side_overloaded(pause, now);
    }

    /// Returns an attempt that has just ended, with a seed so that each has its own pauses.
    pub(super) fn attempt(&mut self, retry_after: Option<Duration>, now: Instant) -> Attempt {
        self.seed = self.seed.wrapping_add(1);
        Attempt { ended: now, retry_after, seed: self.seed }
    }

    /// Removes and returns the first node whose patch waits, if there is a slot for it: repairs come first.
    pub(super) fn pop_patch(&mut self, now: Instant) -> Option<Arc<str>> {
        let rank = self.queue.first_rank(Stage::Patch)?;
        let is_free = self.limiter.is_free(Kind::of_patch(rank), now);
        is_free.then(|| self.queue.pop(Stage::Patch)).flatten()
    }

    /// Returns the patch of a node with these changes, and takes a slot for it. Returns `None` if there is none by now.
    ///
    /// # Errors
    /// With a message, if the patch cannot be built.
    pub(super) fn start_patch(
        &mut self,
        state: &mut NodeState,
        changes: Vec<Change>,
        rank: Rank,
        now: Instant,
    ) -> Result<Option<Effect>, Arc<str>> {
        let (name, kind) = (Arc::clone(&state.node.name), Kind::of_patch(rank));
        if !self.limiter.is_free(kind, now) {
            self.queue.add(&name, Stage::Plan, rank);
            return Ok(None);
        }
        let patch = match planner::patch(&state.node, &changes) {
            Ok(patch) => patch,
            Err(error) => {
                // Cannot happen: the plan was made for the current state of the node.
                let message: Arc<str> = format!("cannot build the patch: {error}").into();
                let attempt = self.attempt(None, now);
                state.work_mut().failures.fail(Cause::Undone, &message, &changes, attempt);
                self.queue.add(&name, Stage::Plan, Rank::Changed);
                return Err(message);
            }
        };
        let Some(slot) = self.limiter.take(kind, now) else { return Ok(None) };
        // Both apply from now on: the patch may be applied even if its response is lost.
        state.has_withdrawn |= changes.iter().any(is_withdrawal);
        let version = state.node.version();
        self.queue.start(&name, Sent { number: slot.number(), at: now, changes, version });
        Ok(Some(Effect::PatchNode { slot, node: name, patch }))
    }

    /// Handles the response to a patch. Returns `None` if the node was deleted or recreated in the meantime.
    pub(super) fn patch_answered(
        &mut self,
        nodes: &mut Nodes,
        slot: Slot,
        name: &Arc<str>,
        reply: Reply,
        now: Instant,
    ) -> Option<Answered> {
        let ended = self.queue.end(name, slot.number());
        self.limiter.give_back(slot);
        let (sent, dirty) = ended?;
        let work = nodes.get_mut(name)?.work_mut();
        let rank = dirty.unwrap_or(Rank::Changed).min(Rank::Changed);
        let (cause, message, retry_after, node) = match reply {
            Reply::Patched(node) | Reply::Stale { node, .. } if node.meta().name.as_deref() != Some(&**name) => {
                // A proxy may mix up responses: the patch may have been applied.
                self.limiter.overloaded(None, now);
                work.lose(&sent.changes, now);
                let message = "the response to the patch is another node".to_owned();
                (Cause::Overload, message, None, None)
            }
            Reply::Patched(node) => {
                self.limiter.patched(now.duration_since(sent.at), now);
                let had_waited_for = self.kept_back.remove(name);
                let of_values = sent.changes.iter().filter(|change| !change.is_of_condition()).cloned();
                let (stays, mut undone): (Vec<_>, Vec<_>) = of_values.partition(|change| change.is_in(&node));
                if !stays.is_empty() {
                    undone.clear();
                }
                work.succeed(&sent.changes, !undone.is_empty(), now);
                if !undone.is_empty() {
                    let attempt = self.attempt(None, now);
                    work.failures.fail(Cause::Undone, &UNDONE.into(), &undone, attempt);
                }
                let outcome = PatchOutcome::Applied { node, had_waited_for, stays, undone };
                return Some(Answered { sent, rank, outcome });
            }
            Reply::Stale { node, message } => (Cause::Stale, message, None, Some(node)),
            Reply::NotFound => (Cause::NotFound, "the node does not exist".to_owned(), None, None),
            Reply::Forbidden(message) => {
                let message = format!("no permission to patch nodes/status: {message}");
                (Cause::Forbidden, message, None, None)
            }
            Reply::Rejected(message) => (Cause::Rejected, message, None, None),
            // I9: this says nothing about other nodes.
            Reply::Deferred { message, retry_after } => (Cause::Deferred, message, retry_after, None),
            Reply::Failed { message, retry_after, maybe_applied } => {
                self.limiter.overloaded(retry_after, now);
                if maybe_applied {
                    work.lose(&sent.changes, now);
                }
                (Cause::Overload, message, retry_after, None)
            }
        };
        let message = Arc::<str>::from(message);
        let new = work.failures.fail(cause, &message, &sent.changes, self.attempt(retry_after, now));
        match work.failures.cause() {
            Some(cause @ (Cause::Overload | Cause::Forbidden)) => {
                self.kept_back.insert(name, cause);
            }
            _ => {
                self.kept_back.remove(name);
            }
        }
        let outcome = PatchOutcome::Failed { cause, message, new, node };
        Some(Answered { sent, rank, outcome })
    }

    /// After a successful patch, nodes that wait for the API server or a permission may not have to wait any longer.
    pub(super) fn probe(&mut self, nodes: &mut Nodes, had_waited_for: Option<Cause>, now: Instant) {
        for name in self.kept_back.released_by(had_waited_for, now) {
            if let Some(state) = nodes.get_mut(&name) {
                state.work_mut().failures.end_pause(now);
            }
            // A node that is not waiting is already being handled.
            if self.queue.is_waiting(&name) {
                self.queue.add(&name, Stage::Plan, Rank::Replan);
            }
        }
    }
}

fn is_withdrawal(change: &Change) -> bool {
    matches!(change.action, Action::Withdraw { .. })
}

#[cfg(test)]
impl Schedule {
    pub(super) fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    pub(super) fn set_limiter(&mut self, limiter: Limiter) {
        self.limiter = limiter;
    }
}
