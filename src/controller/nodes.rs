//! The nodes as last seen, each with where it stands between being seen and being as declared.
//!
//! ```text
//!   an event, a rule, an answer, the end of a pause
//!        │
//!        ▼
//!     queued ──plan──▶ outcomes, always
//!                       ├─ no patch: settled
//!                       ├─ a patch under way, or a pause: whichever ends has it queued again
//!                       ├─ no room: ready, until there is
//!                       └─ else: the patch is sent ──▶ answered, or failed and a pause
//! ```

mod failure;
mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::tally::Tally;
use crate::model::node::{ApiNode, Interner, Node};
use crate::planner::Change;
use failure::Failure;
pub(super) use state::{NodeState, RequestId, SentPatch};

/// Every node, and the queues of those with something to do.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    by_name: BTreeMap<Arc<str>, NodeState>,
    interner: Interner,
    /// What a list under way has brought so far.
    listing: Vec<Node>,
    listed: bool,
    queued: VecDeque<Arc<str>>,
    awaiting_slot: VecDeque<Arc<str>>,
    retries: BTreeSet<(Instant, Arc<str>)>,
    /// When nodes are to be planned again because of a contest. Where the node is gone, or the
    /// contest, nothing comes of it.
    requeue_at: BTreeSet<(Instant, Arc<str>)>,
    /// Nodes whose last patch failed for want of a right.
    forbidden: BTreeSet<Arc<str>>,
    request_ids: u64,
}

impl Nodes {
    /// Takes in an event of the watch.
    pub(super) fn apply(&mut self, event: Event<ApiNode>, tally: &mut Tally) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(node) => self.listing.push(Node::new(node, &mut self.interner)),
            Event::InitDone => {
                let listing = std::mem::take(&mut self.listing);
                let names: BTreeSet<_> =
                    listing.iter().map(|node| Arc::clone(&node.name)).collect();
                let gone = self.by_name.keys().filter(|name| !names.contains(*name));
                for name in gone.cloned().collect::<Vec<_>>() {
                    self.remove(&name, tally);
                }
                for node in listing {
                    self.see(node, tally);
                }
                self.listed = true;
            }
            Event::Apply(node) => {
                let node = Node::new(node, &mut self.interner);
                let known = self.by_name.get(&node.name);
                // The answer to a patch may have told more than this event, which was under way.
                if known.is_none_or(|known| !node.is_older_than(&known.node)) {
                    self.see(node, tally);
                }
            }
            Event::Delete(node) => {
                let node = Node::new(node, &mut self.interner);
                self.remove(&node.name, tally);
            }
        }
    }

    fn see(&mut self, node: Node, tally: &mut Tally) {
        let name = Arc::clone(&node.name);
        if self.by_name.get(&name).is_some_and(|known| known.node.uid != node.uid) {
            self.remove(&name, tally);
        }
        if let Some(known) = self.by_name.get_mut(&name) {
            let same = known.node.same_for_planning(&node);
            known.node = node;
            if same {
                return;
            }
        } else {
            self.by_name.insert(Arc::clone(&name), NodeState::new(node));
        }
        self.enqueue(&name);
    }

    fn remove(&mut self, name: &Arc<str>, tally: &mut Tally) {
        self.cancel_retry(name);
        self.forbidden.remove(name);
        if let Some(state) = self.by_name.remove(name) {
            tally.update(name, &state.outcomes, &[]);
        }
    }

    /// Whether all nodes have been listed once.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut NodeState> {
        self.by_name.get_mut(name)
    }

    /// Has every node planned again that `affected` holds for.
    pub(super) fn enqueue_where(&mut self, affected: impl Fn(&Node) -> bool) {
        for (name, state) in &mut self.by_name {
            if !state.queued && affected(&state.node) {
                state.queued = true;
                state.pending_since.get_or_insert_with(Instant::now);
                self.queued.push_back(Arc::clone(name));
            }
        }
    }

    /// Has a node planned again.
    pub(super) fn enqueue(&mut self, name: &Arc<str>) {
        if let Some(state) = self.by_name.get_mut(name)
            && !state.queued
        {
            state.queued = true;
            state.pending_since.get_or_insert_with(Instant::now);
            self.queued.push_back(Arc::clone(name));
        }
    }

    /// The next node to plan: where there is room for a patch, one that has waited for it, else one
    /// that was queued.
    pub(super) fn next(&mut self, free_slot: bool) -> Option<Arc<str>> {
        while free_slot && let Some(name) = self.awaiting_slot.pop_front() {
            // It may have been deleted since, or made again.
            if let Some(state) = self.by_name.get_mut(&name)
                && std::mem::take(&mut state.awaiting_slot)
            {
                return Some(name);
            }
        }
        while let Some(name) = self.queued.pop_front() {
            if let Some(state) = self.by_name.get_mut(&name)
                && std::mem::take(&mut state.queued)
            {
                return Some(name);
            }
        }
        None
    }

    /// Whether a node has yet to be planned, so that the tally is incomplete.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Whether a patch waits for room.
    pub(super) fn has_awaiting_slot(&self) -> bool {
        !self.awaiting_slot.is_empty()
    }

    /// The node is as planned.
    pub(super) fn forget_failure(&mut self, name: &Arc<str>) {
        self.cancel_retry(name);
        self.forbidden.remove(name);
        if let Some(state) = self.by_name.get_mut(name) {
            state.failure = None;
            state.pending_since = None;
            // Applied now, it fails at its tests.
            state.unanswered = false;
        }
    }

    /// Since when the node had to be looked at, which is over now.
    pub(super) fn take_pending_since(&mut self, name: &str) -> Option<Instant> {
        self.by_name.get_mut(name).and_then(|state| state.pending_since.take())
    }

    /// A resource on the node has been repaired. True where this begins a contest.
    pub(super) fn repaired(
        &mut self,
        name: &Arc<str>,
        (resource, observed): (&str, &str),
        manager: Option<&Arc<str>>,
        now: Instant,
    ) -> bool {
        let Some(state) = self.by_name.get_mut(name) else {
            return false;
        };
        let begins = state.repairs.add(resource, observed, manager, now);
        self.requeue_at.extend(state.repairs.next_change(now).map(|at| (at, Arc::clone(name))));
        begins
    }

    /// The node's patch is to be sent when there is room; an urgent one before others.
    pub(super) fn await_slot(&mut self, name: &Arc<str>, urgent: bool) {
        if let Some(state) = self.by_name.get_mut(name)
            && !std::mem::replace(&mut state.awaiting_slot, true)
        {
            if urgent {
                self.awaiting_slot.push_front(Arc::clone(name));
            } else {
                self.awaiting_slot.push_back(Arc::clone(name));
            }
        }
    }

    /// The node's patch is being sent.
    pub(super) fn sent(&mut self, name: &str) -> RequestId {
        self.request_ids += 1;
        let request_id = RequestId(self.request_ids);
        if let Some(state) = self.by_name.get_mut(name) {
            state.in_flight = Some(request_id);
        }
        request_id
    }

    /// A patch has been answered: the node is planned again. False if it was for a node that is no
    /// longer there.
    pub(super) fn answered(&mut self, name: &Arc<str>, request_id: RequestId) -> bool {
        let state = self.by_name.get_mut(name);
        let Some(state) = state.filter(|state| state.in_flight == Some(request_id)) else {
            return false;
        };
        state.in_flight = None;
        self.enqueue(name);
        true
    }

    /// The answer told how the node is.
    pub(super) fn observe_response(&mut self, answer: ApiNode, tally: &mut Tally) {
        self.apply(Event::Apply(answer), tally);
    }

    /// The patch was based on an old picture. The first time it is planned again at once, then
    /// after pauses; when that goes on, true: it is a failure, in the server's words.
    pub(super) fn stale(
        &mut self,
        name: &Arc<str>,
        message: &str,
        now: Instant,
        seed: u64,
    ) -> bool {
        let Some(state) = self.by_name.get_mut(name) else {
            return false;
        };
        let failure = state.failure.get_or_insert_with(|| Failure::new(seed));
        let (retry_at, is_failure) = failure.stale(message);
        if let Some(retry_at) = retry_at {
            self.retry_at(name, now + retry_at);
        }
        is_failure
    }

    /// The patch did not go through: it is tried again after a pause. Without a message that is nothing
    /// to speak of, such as a node that has just been deleted.
    pub(super) fn fail(
        &mut self,
        name: &Arc<str>,
        message: Option<String>,
        retry_after: Option<Duration>,
        now: Instant,
        seed: u64,
    ) {
        let Some(state) = self.by_name.get_mut(name) else {
            return;
        };
        let failure = state.failure.get_or_insert_with(|| Failure::new(seed));
        let retry_at = failure.fail(message, retry_after);
        self.forbidden.remove(name);
        self.retry_at(name, now + retry_at);
    }

    /// The patch may have been applied, and may still be.
    pub(super) fn mark_unanswered(&mut self, name: &str) {
        if let Some(state) = self.by_name.get_mut(name) {
            state.unanswered = true;
        }
    }

    /// Whether a patch of any node may still be applied.
    pub(super) fn any_unanswered(&self) -> bool {
        self.by_name.values().any(|state| state.unanswered)
    }

    /// Where the node's patches do not go through: why, and which of the changes that the last one was
    /// for have not failed before.
    pub(super) fn failing(
        &mut self,
        name: &str,
        changes: &[Change],
    ) -> Option<(String, Vec<Change>)> {
        self.by_name.get_mut(name)?.failure.as_mut()?.take_new(changes)
    }

    /// The patch failed for want of a right.
    pub(super) fn mark_forbidden(&mut self, name: &Arc<str>) {
        if self.by_name.contains_key(name) {
            self.forbidden.insert(Arc::clone(name));
        }
    }

    /// Whether the last patch of any node failed for want of a right.
    pub(super) fn any_forbidden(&self) -> bool {
        !self.forbidden.is_empty()
    }

    /// The right is there: the nodes that had to wait for it need not any longer.
    pub(super) fn clear_forbidden(&mut self) {
        for name in std::mem::take(&mut self.forbidden) {
            self.cancel_retry(&name);
            self.enqueue(&name);
        }
    }

    fn retry_at(&mut self, name: &Arc<str>, until: Instant) {
        self.cancel_retry(name);
        if let Some(state) = self.by_name.get_mut(name) {
            state.retry_at = Some(until);
            self.retries.insert((until, Arc::clone(name)));
        }
    }

    fn cancel_retry(&mut self, name: &Arc<str>) {
        let retry_at = self.by_name.get_mut(name).and_then(|state| state.retry_at.take());
        if let Some(until) = retry_at {
            self.retries.remove(&(until, Arc::clone(name)));
        }
    }

    /// When the first pause or contest ends.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let retry_at = self.retries.first().map(|(until, _)| *until);
        let wake_at = self.requeue_at.first().map(|(at, _)| *at);
        retry_at.into_iter().chain(wake_at).min()
    }

    /// Queues the nodes whose time it is.
    pub(super) fn wake(&mut self, now: Instant) {
        while self.retries.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, name)) = self.retries.pop_first() else { break };
            if let Some(state) = self.by_name.get_mut(&name) {
                state.retry_at = None;
            }
            self.enqueue(&name);
        }
        while self.requeue_at.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, name)) = self.requeue_at.pop_first() else { break };
            // After the end of a pause comes the end of the contest.
            let state = self.by_name.get(&name);
            let next = state.and_then(|state| state.repairs.next_change(now));
            self.requeue_at.extend(next.map(|at| (at, Arc::clone(&name))));
            self.enqueue(&name);
        }
    }
}

#[cfg(test)]
mod tests;
