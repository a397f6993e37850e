//! The nodes as last seen, each with where it stands between being seen and being as declared.
//!
//! ```text
//!          ┌───────────── an event, a rule ────────────┐
//!          ▼                                           │
//!       Queued ──plan──▶ nothing to do ──▶ Settled ────┤
//!          │                                           │
//!          ├─plan─▶ a patch, and no room ──▶ Ready     │
//!          │                                  │        │
//!          └─plan─▶ a patch ──▶ InFlight ◀────┘        │
//!                                  │                   │
//!                                  ├── answered ───────┘
//!                                  └── failed ──▶ Waiting ──time──▶ Queued
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::tally::Tally;
use crate::node::{ApiNode, Node, Strings};
use crate::plan::Outcome;

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
    waiting: BTreeSet<(Instant, Arc<str>)>,
}

/// One node.
#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) node: Node,
    pub(super) outcomes: Box<[(Arc<str>, Outcome)]>,
    work: Work,
    failure: Option<Box<Failure>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Settled,
    Queued,
    Ready,
    InFlight {
        /// Something changed meanwhile, so that it is to be planned again.
        again: bool,
    },
    Waiting(Instant),
}

/// A node whose last patch did not go through.
#[derive(Debug)]
struct Failure {
    message: Option<String>,
    backoff: Backoff,
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
                    self.see(node);
                }
                self.listed = true;
            }
            Event::Apply(node) => {
                let node = Node::new(node, &mut self.strings);
                let known = self.by_name.get(&node.name);
                // The answer to a patch may have told more than this event, which was under way.
                if known.is_none_or(|known| !node.is_older_than(&known.node)) {
                    self.see(node);
                }
            }
            Event::Delete(node) => {
                let node = Node::new(node, &mut self.strings);
                self.remove(&node.name, tally);
            }
        }
    }

    fn see(&mut self, node: Node) {
        if let Some(known) = self.by_name.get_mut(&node.name) {
            let same = known.node.plans_like(&node);
            if known.node.uid != node.uid {
                known.failure = None;
            }
            known.node = node;
            let name = Arc::clone(&known.node.name);
            if !same {
                self.queue(&name);
            }
        } else {
            let name = Arc::clone(&node.name);
            let state =
                NodeState { node, outcomes: Box::default(), work: Work::Settled, failure: None };
            self.by_name.insert(Arc::clone(&name), state);
            self.queue(&name);
        }
    }

    fn remove(&mut self, name: &Arc<str>, tally: &mut Tally) {
        if let Some(state) = self.by_name.remove(name) {
            tally.update(name, &state.outcomes, &[]);
            if let Work::Waiting(until) = state.work {
                self.waiting.remove(&(until, Arc::clone(name)));
            }
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
        let names = self.by_name.values().filter(|state| affected(&state.node));
        for name in names.map(|state| Arc::clone(&state.node.name)).collect::<Vec<_>>() {
            self.queue(&name);
        }
    }

    /// Has a node planned again: at once, or when what is under way for it has ended.
    fn queue(&mut self, name: &Arc<str>) {
        if let Some(state) = self.by_name.get_mut(name) {
            match &mut state.work {
                Work::Settled => {
                    state.work = Work::Queued;
                    self.queued.push_back(Arc::clone(name));
                }
                Work::InFlight { again } => *again = true,
                Work::Queued | Work::Ready | Work::Waiting(_) => {}
            }
        }
    }

    /// The next node to plan: one that has waited for room if there is any, else one just queued.
    pub(super) fn next(&mut self, room: bool) -> Option<Arc<str>> {
        if room && let Some(name) = Self::pop(&mut self.ready, &self.by_name, Work::Ready) {
            return Some(name);
        }
        Self::pop(&mut self.queued, &self.by_name, Work::Queued)
    }

    /// Skips nodes that were deleted, or settled, since they were put in the queue.
    fn pop(
        queue: &mut VecDeque<Arc<str>>,
        nodes: &BTreeMap<Arc<str>, NodeState>,
        work: Work,
    ) -> Option<Arc<str>> {
        while let Some(name) = queue.pop_front() {
            if nodes.get(&name).is_some_and(|state| state.work == work) {
                return Some(name);
            }
        }
        None
    }

    /// Whether a node has yet to be planned, so that the tally is incomplete.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// The node is as planned.
    pub(super) fn settle(&mut self, name: &str) {
        if let Some(state) = self.by_name.get_mut(name) {
            state.work = Work::Settled;
            state.failure = None;
        }
    }

    /// The node's patch is to be sent when there is room.
    pub(super) fn make_ready(&mut self, name: &Arc<str>) {
        if let Some(state) = self.by_name.get_mut(name) {
            state.work = Work::Ready;
            self.ready.push_back(Arc::clone(name));
        }
    }

    /// The node's patch has been sent.
    pub(super) fn sent(&mut self, name: &str) {
        if let Some(state) = self.by_name.get_mut(name) {
            state.work = Work::InFlight { again: false };
        }
    }

    /// A patch went through; the answer is the node as it is now.
    pub(super) fn patched(&mut self, name: &Arc<str>, answer: ApiNode) {
        if let Some(state) = self.by_name.get_mut(name) {
            state.failure = None;
        }
        self.answered(name, Some(answer));
    }

    /// A patch was based on an old picture; the answer is the new one. The first time it is planned
    /// again at once, then with growing pauses.
    pub(super) fn stale(&mut self, name: &Arc<str>, answer: ApiNode, now: Instant, seed: u64) {
        let first = self.by_name.get(name).is_some_and(|state| state.failure.is_none());
        self.fail(name, None, None, now, seed);
        if first {
            self.wake_one(name);
        }
        self.answered(name, Some(answer));
    }

    /// The node is gone, as the watch will tell.
    pub(super) fn gone(&mut self, name: &Arc<str>) {
        self.answered(name, None);
    }

    fn answered(&mut self, name: &Arc<str>, answer: Option<ApiNode>) {
        let answer = answer.map(|node| Node::new(node, &mut self.strings));
        let Some(state) = self.by_name.get_mut(name) else {
            return;
        };
        let replan = answer.is_some() || state.work == (Work::InFlight { again: true });
        if let Some(answer) = answer
            && !answer.is_older_than(&state.node)
        {
            state.node = answer;
        }
        if matches!(state.work, Work::InFlight { .. }) {
            state.work = Work::Settled;
        }
        if replan {
            self.queue(name);
        }
    }

    /// A patch did not go through: it is tried again after a pause.
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
        let failure = state.failure.get_or_insert_with(|| {
            Box::new(Failure { message: None, backoff: Backoff::new(seed) })
        });
        failure.message = message;
        let until = now + failure.backoff.next(retry_after);
        state.work = Work::Waiting(until);
        self.waiting.insert((until, Arc::clone(name)));
    }

    /// When the first pause ends.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.waiting.first().map(|(until, _)| *until)
    }

    /// Queues the nodes whose pause is over.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((until, name)) = self.waiting.first().cloned()
            && until <= now
        {
            self.wake_one(&name);
        }
    }

    /// Ends every pause: what had kept patches from going through is over.
    pub(super) fn wake_all(&mut self) {
        while let Some((_, name)) = self.waiting.first().cloned() {
            self.wake_one(&name);
        }
    }

    fn wake_one(&mut self, name: &Arc<str>) {
        let state = self.by_name.get_mut(name);
        if let Some(state) = state
            && let Work::Waiting(until) = state.work
        {
            self.waiting.remove(&(until, Arc::clone(name)));
            state.work = Work::Settled;
            self.queue(name);
        }
    }
}

impl NodeState {
    /// Puts new outcomes in place of the old, and counts them. While the last patch has failed, a
    /// pending one counts as failed: trying again is no success yet.
    pub(super) fn record(&mut self, mut outcomes: Vec<(Arc<str>, Outcome)>, tally: &mut Tally) {
        let failure = self.failure.as_ref();
        if let Some(message) = failure.and_then(|failure| failure.message.as_ref()) {
            for (_, outcome) in &mut outcomes {
                if *outcome == Outcome::Pending {
                    *outcome = Outcome::Failed { message: message.clone() };
                }
            }
        }
        tally.update(&self.node.name, &self.outcomes, &outcomes);
        self.outcomes = outcomes.into();
    }
}
