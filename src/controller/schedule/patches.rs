//! The way of a patch: planned, sent, answered. All patches of nodes take it, whatever they are for.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource as _;
use tokio::time::Instant;
use tracing::warn;

use super::Schedule;
use crate::cluster::node_client::Reply;
use crate::controller::effect::{Effect, Request, RequestId, Step};
use crate::controller::limiter::Kind;
use crate::controller::nodes::{Cause, Nodes, Sent, most};
use crate::controller::work_queue::{Key, Rank, Stage};
use crate::model::node::ApiNode;
use crate::planner::{self, Action, Change};

/// Of the nodes that wait for an API server or for a right, one is tried again so often while patches of others go
/// through.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The response to the patch that was in flight for a node.
#[derive(Debug)]
pub(in crate::controller) struct Answered {
    pub(in crate::controller) sent: Sent,
    /// How urgent the plan that follows is.
    pub(in crate::controller) rank: Rank,
    pub(in crate::controller) outcome: PatchOutcome,
}

/// What came of a patch.
#[derive(Debug)]
pub(in crate::controller) enum PatchOutcome {
    /// It has gone through.
    Applied {
        /// The node by then.
        node: Box<ApiNode>,
        /// What the node had waited for until then.
        had_waited_for: Option<Cause>,
    },
    /// It has not, or that is not known.
    Failed {
        cause: Cause,
        message: Arc<str>,
        /// The changes that have not failed like this before, where that is to be reported.
        new: Vec<Change>,
        /// The node as it is, where it was read.
        node: Option<Box<ApiNode>>,
    },
}

impl Schedule {
    /// Sends the patches that there are slots for, repairs first. Each has to be answered by `deadline`.
    pub(in crate::controller) fn send_patches(
        &mut self,
        nodes: &mut Nodes,
        deadline: Instant,
        now: Instant,
        step: &mut Step,
    ) {
        while let Some(rank) = self.queue.first_rank(Stage::Patch) {
            let kind = if rank == Rank::Repair { Kind::Repair } else { Kind::Patch };
            if !self.limiter.is_free(kind, now) {
                return;
            }
            if let Some((Key::Node(name), _)) = self.queue.pop(Stage::Patch, rank) {
                let effect = self.start_patch(nodes, &name, kind, now);
                step.requests.extend(effect.map(|effect| Request { effect, deadline }));
            }
        }
    }

    fn start_patch(
        &mut self,
        nodes: &mut Nodes,
        name: &Arc<str>,
        kind: Kind,
        now: Instant,
    ) -> Option<Effect> {
        let (id, key) = (self.request_id(kind), Key::Node(Arc::clone(name)));
        let state = nodes.get_mut(name)?;
        let changes = std::mem::take(&mut state.work_mut().planned);
        let patch = match planner::patch(&state.node, &changes) {
            Ok(patch) => patch,
            Err(error) => {
                // The plan was made for the node as it is, so that this does not happen.
                let message: Arc<str> = format!("cannot build the patch: {error}").into();
                warn!(node = %name, "{message}");
                let time = (now, self.seed());
                state.work_mut().failures.fail(Cause::Undone, &message, &changes, None, time);
                self.queue.add(&key, Stage::Plan, Rank::Changed);
                return None;
            }
        };
        self.limiter.start(kind, now);
        self.queue.start(&key);
        // Both hold from now on: the patch may be applied though its response is lost.
        state.has_withdrawn |= changes.iter().any(is_withdrawal);
        for change in changes.iter().filter(|change| change.lowers()) {
            // I5: up to this, the value is raised again where a pod is bound meanwhile.
            let from = most(&state.node, &change.resource);
            let lowered_from = from.map(|from| (change.resource.as_str().into(), from));
            state.work_mut().lowered_from.extend(lowered_from);
        }
        let version = state.node.version();
        state.work_mut().pods.forget_usage();
        state.work_mut().sent = Some(Sent { id, changes, version });
        Some(Effect::PatchNode { id, node: Arc::clone(name), patch })
    }

    /// Takes in the response to a patch. `None` where the node has been deleted meanwhile, or recreated under its
    /// name.
    pub(in crate::controller) fn patch_answered(
        &mut self,
        nodes: &mut Nodes,
        id: RequestId,
        name: &Arc<str>,
        reply: Reply,
        now: Instant,
    ) -> Option<Answered> {
        self.limiter.end(id.kind);
        let work = nodes.in_flight(name, id)?.work_mut();
        let sent = work.sent.take()?;
        let dirty = self.queue.end(&Key::Node(Arc::clone(name)));
        let rank = dirty.unwrap_or(Rank::Changed).min(Rank::Changed);
        let (cause, message, retry_after, node) = match reply {
            Reply::Patched(node) | Reply::Stale { node, .. }
                if node.meta().name.as_deref() != Some(&**name) =>
            {
                // Some proxy mixes responses up: it may have been applied.
                self.limiter.overloaded(None, now);
                work.lose(&sent.changes, now);
                let message = "the response to the patch is another node".to_owned();
                (Cause::Overload, message, None, None)
            }
            Reply::Patched(node) => {
                self.limiter.succeeded();
                self.kept_back.remove(name);
                let had_waited_for = work.failures.cause();
                work.succeed(&sent.changes);
                let outcome = PatchOutcome::Applied { node, had_waited_for };
                return Some(Answered { sent, rank, outcome });
            }
            Reply::Stale { node, message } => (Cause::Stale, message, None, Some(node)),
            Reply::NotFound => (Cause::NotFound, "the node does not exist".to_owned(), None, None),
            Reply::Forbidden(message) => {
                let message = format!("no right to patch nodes/status: {message}");
                (Cause::Forbidden, message, None, None)
            }
            Reply::Rejected(message) => (Cause::Rejected, message, None, None),
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
                self.kept_back.insert(Arc::clone(name), cause);
            }
            _ => {
                self.kept_back.remove(name);
            }
        }
        let outcome = PatchOutcome::Failed { cause, message, new, node };
        Some(Answered { sent, rank, outcome })
    }

    /// A patch has gone through, so that nodes which wait for the API server, or for a right, need not wait any
    /// longer. Where the node had waited itself, all of them are planned; else one, from time to time: a right
    /// may be there for some nodes alone.
    pub(in crate::controller) fn probe(
        &mut self,
        nodes: &mut Nodes,
        had_waited_for: Option<Cause>,
        now: Instant,
    ) {
        let waited = |cause: &Cause| Some(*cause) == had_waited_for;
        let kept_back = &self.kept_back;
        let mut names: Vec<_> = kept_back
            .iter()
            .filter(|(_, cause)| waited(cause))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        let is_due = self.probed_at.is_none_or(|at| now.duration_since(at) >= PROBE_INTERVAL);
        if names.is_empty() && is_due {
            // In turn: some may never get a right.
            let after = self.probed.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = kept_back.range::<Arc<str>, _>((after, Bound::Unbounded)).next();
            let next = next.or_else(|| kept_back.iter().next());
            names.extend(next.map(|(name, _)| Arc::clone(name)));
            self.probed = names.first().cloned();
        }
        if names.is_empty() {
            return;
        }
        self.probed_at = Some(now);
        for name in names {
            if let Some(state) = nodes.get_mut(&name) {
                state.work_mut().failures.end_pause(now);
            }
            // One that is not waiting is on its way already.
            let key = Key::Node(name);
            if self.queue.is_waiting(&key) {
                self.queue.add(&key, Stage::Plan, Rank::Replan);
            }
        }
    }
}

fn is_withdrawal(change: &Change) -> bool {
    matches!(change.action, Action::Withdraw { .. })
}
