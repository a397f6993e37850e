//! The life of a patch: planned, sent, answered. All patches of nodes follow it, whatever their purpose.

use std::sync::Arc;

use kube::Resource as _;
use tokio::time::Instant;
use tracing::warn;

use super::Schedule;
use crate::cluster::node_client::Reply;
use crate::controller::effect::Effect;
use crate::controller::limiter::{Kind, Slot};
use crate::controller::nodes::{Cause, NodeState, Nodes};
use crate::controller::work_queue::{Rank, Sent, Stage};
use crate::model::node::ApiNode;
use crate::planner::{self, Action, Change};

/// Why a patch that succeeded counts as a failure.
pub(in crate::controller) const UNDONE: &str = "the API server accepted the patch, but the node is unchanged: something between the controller and the \
                      API server's storage undoes it";

/// The response to the patch in flight for a node.
#[derive(Debug)]
pub(in crate::controller) struct Answered {
    pub(in crate::controller) sent: Sent,
    /// The rank of the next plan.
    pub(in crate::controller) rank: Rank,
    pub(in crate::controller) outcome: PatchOutcome,
}

/// The outcome of a patch.
#[derive(Debug)]
pub(in crate::controller) enum PatchOutcome {
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

impl Schedule {
    /// Removes and returns the first node whose patch waits, if there is a slot for it: repairs come first.
    pub(in crate::controller) fn pop_patch(&mut self, now: Instant) -> Option<Arc<str>> {
        let rank = self.queue.first_rank(Stage::Patch)?;
        let is_free = self.limiter.is_free(Kind::of_patch(rank), now);
        is_free.then(|| self.queue.pop(Stage::Patch)).flatten()
    }

    /// Returns the patch of a node with these changes, and takes a slot for it. Returns `None` if there is none by now.
    pub(in crate::controller) fn start_patch(
        &mut self,
        state: &mut NodeState,
        changes: Vec<Change>,
        rank: Rank,
        now: Instant,
    ) -> Option<Effect> {
        let (name, kind) = (Arc::clone(&state.node.name), Kind::of_patch(rank));
        if !self.limiter.is_free(kind, now) {
            self.queue.add(&name, Stage::Plan, rank);
            return None;
        }
        let patch = match planner::patch(&state.node, &changes) {
            Ok(patch) => patch,
            Err(error) => {
                // Cannot happen: the plan was made for the current state of the node.
                let message: Arc<str> = format!("cannot build the patch: {error}").into();
                warn!(node = %name, "{message}");
                let time = (now, self.seed());
                state.work_mut().failures.fail(Cause::Undone, &message, &changes, None, time);
                self.queue.add(&name, Stage::Plan, Rank::Changed);
                return None;
            }
        };
        let slot = self.limiter.take(kind, now)?;
        // Both apply from now on: the patch may be applied even if its response is lost.
        state.has_withdrawn |= changes.iter().any(is_withdrawal);
        let version = state.node.version();
        self.queue.start(&name, Sent { number: slot.number(), at: now, changes, version });
        Some(Effect::PatchNode { slot, node: name, patch })
    }

    /// Handles the response to a patch. Returns `None` if the node was deleted or recreated in the meantime.
    pub(in crate::controller) fn patch_answered(
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
                    warn!(node = %name, "{UNDONE}");
                    let time = (now, self.seed());
                    work.failures.fail(Cause::Undone, &UNDONE.into(), &undone, None, time);
                }
                let outcome = PatchOutcome::Applied { node, had_waited_for, stays, undone };
                return Some(Answered { sent, rank, outcome });
            }
            Reply::Stale { node, message } => (Cause::Stale, message, None, Some(node)),
            Reply::NotFound => (Cause::NotFound, "the node does not exist".to_owned(), None, None),
            Reply::Forbidden(message) => {
                let message = format!("no right to patch nodes/status: {message}");
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
        let (message, time) = (Arc::<str>::from(message), (now, self.seed()));
        let new = work.failures.fail(cause, &message, &sent.changes, retry_after, time);
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
    pub(in crate::controller) fn probe(&mut self, nodes: &mut Nodes, had_waited_for: Option<Cause>, now: Instant) {
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
