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
use crate::model::node::{ApiNode, Node, Strings};
use crate::planner::Change;
use failure::Failure;
pub(super) use state::{NodeState, SentPatch, Ticket};

/// Every node, and the queues of those with something to do.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    by_name: BTreeMap<Arc<str>, NodeState>,
    strings: Strings,
    /// What a list under way has brought so far.
    listing: Vec<Node>,
    listed: bool,
    queued: VecDeque<Arc<str>>,
    ready: VecDeque<Arc<str>>,
    pausing: BTreeSet<(Instant, Arc<str>)>,
    /// When nodes are to be planned again because of a contest. Where the node is gone, or the
    /// contest, nothing comes of it.
    alarms: BTreeSet<(Instant, Arc<str>)>,
    /// Nodes whose last patch failed for want of a right.
    forbidden: BTreeSet<Arc<str>>,
    tickets: u64,
}

impl Nodes {
    /// Takes in an event of the watch.
    pub(super) fn apply(&mut self, event: Event<ApiNode>, tally: &mut Tally) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(node) => self.listing.push(Node::new(node, &mut self.strings)),
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
                let node = Node::new(node, &mut self.strings);
                let known = self.by_name.get(&node.name);
                // The answer to a patch may have told more than this event, which was under way.
                if known.is_none_or(|known| !node.is_older_than(&known.node)) {
                    self.see(node, tally);
                }
            }
            Event::Delete(node) => {
                let node = Node::new(node, &mut self.strings);
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
            let same = known.node.plans_like(&node);
            known.node = node;
            if same {
                return;
            }
        } else {
            self.by_name.insert(Arc::clone(&name), NodeState::new(node));
        }
        self.queue(&name);
    }

    fn remove(&mut self, name: &Arc<str>, tally: &mut Tally) {
        self.end_pause(name);
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
    pub(super) fn queue_where(&mut self, affected: impl Fn(&Node) -> bool) {
        for (name, state) in &mut self.by_name {
            if !state.queued && affected(&state.node) {
                state.queued = true;
                state.since.get_or_insert_with(Instant::now);
                self.queued.push_back(Arc::clone(name));
            }
        }
    }

    /// Has a node planned again.
    pub(super) fn queue(&mut self, name: &Arc<str>) {
        if let Some(state) = self.by_name.get_mut(name)
            && !state.queued
        {
            state.queued = true;
            state.since.get_or_insert_with(Instant::now);
            self.queued.push_back(Arc::clone(name));
        }
    }

    /// The next node to plan: where there is room for a patch, one that has waited for it, else one
    /// that was queued.
    pub(super) fn next(&mut self, room: bool) -> Option<Arc<str>> {
        while room && let Some(name) = self.ready.pop_front() {
            // It may have been deleted since, or made again.
            if let Some(state) = self.by_name.get_mut(&name)
                && std::mem::take(&mut state.ready)
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
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The node is as planned.
    pub(super) fn settle(&mut self, name: &Arc<str>) {
        self.end_pause(name);
        self.forbidden.remove(name);
        if let Some(state) = self.by_name.get_mut(name) {
            state.failure = None;
            state.since = None;
        }
    }

    /// Since when the node had to be looked at, which is over now.
    pub(super) fn take_since(&mut self, name: &str) -> Option<Instant> {
        self.by_name.get_mut(name).and_then(|state| state.since.take())
    }

    /// A resource on the node has been repaired. True where this begins a contest.
    pub(super) fn repaired(
        &mut self,
        name: &Arc<str>,
        (resource, found): (&str, &str),
        writer: Option<&Arc<str>>,
        now: Instant,
    ) -> bool {
        let Some(state) = self.by_name.get_mut(name) else {
            return false;
        };
        let begins = state.repairs.add(resource, found, writer, now);
        self.alarms.extend(state.repairs.next_change(now).map(|at| (at, Arc::clone(name))));
        begins
    }

    /// The node's patch is to be sent when there is room; an urgent one before others.
    pub(super) fn make_ready(&mut self, name: &Arc<str>, urgent: bool) {
        if let Some(state) = self.by_name.get_mut(name)
            && !std::mem::replace(&mut state.ready, true)
        {
            if urgent {
                self.ready.push_front(Arc::clone(name));
            } else {
                self.ready.push_back(Arc::clone(name));
            }
        }
    }

    /// The node's patch is being sent.
    pub(super) fn sent(&mut self, name: &str) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        if let Some(state) = self.by_name.get_mut(name) {
            state.under_way = Some(ticket);
        }
        ticket
    }

    /// A patch has been answered: the node is planned again. False if it was for a node that is no
    /// longer there.
    pub(super) fn answered(&mut self, name: &Arc<str>, ticket: Ticket) -> bool {
        let state = self.by_name.get_mut(name);
        let Some(state) = state.filter(|state| state.under_way == Some(ticket)) else {
            return false;
        };
        state.under_way = None;
        self.queue(name);
        true
    }

    /// The answer told how the node is.
    pub(super) fn learn(&mut self, answer: ApiNode, tally: &mut Tally) {
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
        let (pause, is_failure) = failure.stale(message);
        if let Some(pause) = pause {
            self.pause(name, now + pause);
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
        let pause = failure.fail(message, retry_after);
        self.forbidden.remove(name);
        self.pause(name, now + pause);
    }

    /// Where the node's patches do not go through: why, and which of the changes that the last one was
    /// for have not failed before.
    pub(super) fn failing(
        &mut self,
        name: &str,
        changes: &[Change],
    ) -> Option<(String, Vec<Change>)> {
        self.by_name.get_mut(name)?.failure.as_mut()?.note(changes)
    }

    /// The patch failed for want of a right.
    pub(super) fn forbid(&mut self, name: &Arc<str>) {
        if self.by_name.contains_key(name) {
            self.forbidden.insert(Arc::clone(name));
        }
    }

    /// Whether the last patch of any node failed for want of a right.
    pub(super) fn any_forbidden(&self) -> bool {
        !self.forbidden.is_empty()
    }

    /// The right is there: the nodes that had to wait for it need not any longer.
    pub(super) fn permit(&mut self) {
        for name in std::mem::take(&mut self.forbidden) {
            self.end_pause(&name);
            self.queue(&name);
        }
    }

    fn pause(&mut self, name: &Arc<str>, until: Instant) {
        self.end_pause(name);
        if let Some(state) = self.by_name.get_mut(name) {
            state.pause = Some(until);
            self.pausing.insert((until, Arc::clone(name)));
        }
    }

    fn end_pause(&mut self, name: &Arc<str>) {
        let pause = self.by_name.get_mut(name).and_then(|state| state.pause.take());
        if let Some(until) = pause {
            self.pausing.remove(&(until, Arc::clone(name)));
        }
    }

    /// When the first pause or contest ends.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let pause = self.pausing.first().map(|(until, _)| *until);
        let alarm = self.alarms.first().map(|(at, _)| *at);
        pause.into_iter().chain(alarm).min()
    }

    /// Queues the nodes whose time it is.
    pub(super) fn wake(&mut self, now: Instant) {
        while self.pausing.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, name)) = self.pausing.pop_first() else { break };
            if let Some(state) = self.by_name.get_mut(&name) {
                state.pause = None;
            }
            self.queue(&name);
        }
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, name)) = self.alarms.pop_first() else { break };
            // After the end of a pause comes the end of the contest.
            let state = self.by_name.get(&name);
            let next = state.and_then(|state| state.repairs.next_change(now));
            self.alarms.extend(next.map(|at| (at, Arc::clone(&name))));
            self.queue(&name);
        }
    }
}

#[cfg(test)]
mod tests;
