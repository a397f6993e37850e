//! The work queue: every node with work to do is in exactly one place: ready at a stage, in flight, or waiting for a
//! time. What is ready may have a time too, at which something else is due.
//!
//! ```text
//!                 add                         start                end
//!   (nothing) ─────────▶ ready at a stage ───────────▶ in flight ───────▶ ready again, or nothing
//!        ▲                   │                │ add: dirty
//!        │                   │ wake_at        ▼
//!        └── pop, pop_due ───┴──────────── waiting
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use tokio::time::Instant;

use crate::planner::Change;

/// The priority: the lowest rank is handled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A value was lost, which may cost pods their lives within a second.
    Repair,
    /// The node has changed, or a request about it has ended.
    Changed,
    /// Rules have changed.
    Replan,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The node must be planned.
    Plan,
    /// The node waits for a slot for its patch, and is then planned again.
    Patch,
}

/// A patch in flight: what it was sent for.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The number of its slot: a node may be deleted and recreated under the same name while a request is in flight.
    pub(super) number: u64,
    /// When it was sent.
    pub(super) at: Instant,
    /// The changes of the patch.
    pub(super) changes: Vec<Change>,
    /// The resource version of the node when it was sent.
    pub(super) version: Option<u64>,
}

#[derive(Clone, Debug)]
enum Place {
    Ready {
        stage: Stage,
        rank: Rank,
        sequence: u64,
        wake: Option<Instant>,
    },
    InFlight {
        sent: Box<Sent>,
        dirty: Option<Rank>,
    },
    Waiting {
        until: Instant,
    },
    /// Until it is known what pods request, or until this time.
    AwaitsUsage {
        until: Option<Instant>,
    },
}

/// The number of nodes whose memory is not worth releasing.
const MIN_RELEASED: usize = 4096;

/// Names by the order in which they are popped.
type Ready = BTreeMap<(Rank, u64), Arc<str>>;

#[derive(Clone, Debug, Default)]
pub(super) struct WorkQueue {
    places: HashMap<Arc<str>, Place>,
    ready: [Ready; 2],
    /// The nodes with a time, waiting or ready.
    due: BTreeSet<(Instant, Arc<str>)>,
    sequence: u64,
}

impl WorkQueue {
    /// Enqueues a node, or moves it to this stage, where it has no time. The node keeps its rank if that is higher. Returns
    /// false if the node is in flight, in which case it becomes dirty.
    pub(super) fn add(&mut self, name: &Arc<str>, stage: Stage, rank: Rank) -> bool {
        match self.places.get_mut(name) {
            Some(Place::InFlight { dirty, .. }) => {
                *dirty = Some(dirty.map_or(rank, |before| before.min(rank)));
                false
            }
            Some(&mut Place::Ready { stage: before, rank: old, .. }) => {
                if before != stage || rank < old {
                    self.remove(name);
                    self.insert(name, stage, rank.min(old));
                }
                true
            }
            Some(Place::Waiting { .. } | Place::AwaitsUsage { .. }) | None => {
                self.remove(name);
                self.insert(name, stage, rank);
                true
            }
        }
    }

    fn insert(&mut self, name: &Arc<str>, stage: Stage, rank: Rank) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.ready[stage as usize].insert((rank, sequence), Arc::clone(name));
        self.places.insert(Arc::clone(name), Place::Ready { stage, rank, sequence, wake: None });
    }

    /// Gives a ready node a time, if it has none: then it is due, unless it is popped or moved before.
    pub(super) fn wake_at(&mut self, name: &Arc<str>, at: Instant) {
        if let Some(Place::Ready { wake: wake @ None, .. }) = self.places.get_mut(name) {
            *wake = Some(at);
            self.due.insert((at, Arc::clone(name)));
        }
    }

    /// Makes a node that is not in flight wait until this time.
    pub(super) fn wait(&mut self, name: &Arc<str>, until: Instant) {
        if !self.is_in_flight(name) {
            self.remove(name);
            self.due.insert((until, Arc::clone(name)));
            self.places.insert(Arc::clone(name), Place::Waiting { until });
        }
    }

    /// Makes a node that is not in flight wait until it is known what pods request, or until this time.
    pub(super) fn await_usage(&mut self, name: &Arc<str>, until: Option<Instant>) {
        if !self.is_in_flight(name) {
            self.remove(name);
            self.due.extend(until.map(|at| (at, Arc::clone(name))));
            self.places.insert(Arc::clone(name), Place::AwaitsUsage { until });
        }
    }

    /// Removes and returns the first node at a stage.
    pub(super) fn pop(&mut self, stage: Stage) -> Option<Arc<str>> {
        let (_, name) = self.ready[stage as usize].first_key_value()?;
        let name = Arc::clone(name);
        self.remove(&name);
        self.release_memory();
        Some(name)
    }

    /// Returns the memory that all nodes took while they were waiting for their turn.
    fn release_memory(&mut self) {
        let capacity = self.places.capacity();
        if capacity > MIN_RELEASED && self.places.len() < capacity / 8 {
            self.places.shrink_to(capacity / 4);
        }
    }

    /// Records that a patch of the node was sent.
    pub(super) fn start(&mut self, name: &Arc<str>, sent: Sent) {
        self.remove(name);
        self.places.insert(Arc::clone(name), Place::InFlight { sent: Box::new(sent), dirty: None });
    }

    /// Records that the patch with this number has ended. Returns it, and the highest rank with which the node was added in
    /// the meantime; `None` if the node was forgotten since.
    pub(super) fn end(&mut self, name: &Arc<str>, number: u64) -> Option<(Sent, Option<Rank>)> {
        self.sent(name).filter(|sent| sent.number == number)?;
        match self.places.remove(name) {
            Some(Place::InFlight { sent, dirty }) => Some((*sent, dirty)),
            _ => None,
        }
    }

    /// Returns the patch of the node that is in flight.
    pub(super) fn sent(&self, name: &Arc<str>) -> Option<&Sent> {
        match self.places.get(name) {
            Some(Place::InFlight { sent, .. }) => Some(sent),
            _ => None,
        }
    }

    /// Forgets a node.
    pub(super) fn remove(&mut self, name: &Arc<str>) {
        let at = match self.places.remove(name) {
            Some(Place::Ready { stage, rank, sequence, wake }) => {
                self.ready[stage as usize].remove(&(rank, sequence));
                wake
            }
            Some(Place::Waiting { until }) => Some(until),
            Some(Place::AwaitsUsage { until }) => until,
            Some(Place::InFlight { .. }) | None => None,
        };
        if let Some(at) = at {
            self.due.remove(&(at, Arc::clone(name)));
        }
    }

    /// Removes and returns a node whose time has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Arc<str>> {
        self.due.first().filter(|(at, _)| *at <= now)?;
        let (_, name) = self.due.pop_first()?;
        self.remove(&name);
        Some(name)
    }

    /// Returns when the first node is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn is_in_flight(&self, name: &Arc<str>) -> bool {
        self.sent(name).is_some()
    }

    /// Returns whether the node is waiting.
    pub(super) fn is_waiting(&self, name: &Arc<str>) -> bool {
        matches!(self.places.get(name), Some(Place::Waiting { .. } | Place::AwaitsUsage { .. }))
    }

    /// Returns whether the node waits until it is known what pods request.
    #[cfg(test)]
    pub(super) fn awaits_usage(&self, name: &Arc<str>) -> bool {
        matches!(self.places.get(name), Some(Place::AwaitsUsage { .. }))
    }

    /// Returns the number of ready nodes at a stage.
    pub(super) fn len(&self, stage: Stage) -> usize {
        self.ready[stage as usize].len()
    }

    /// Returns the rank of the first node at a stage.
    pub(super) fn first_rank(&self, stage: Stage) -> Option<Rank> {
        self.ready[stage as usize].keys().next().map(|(rank, _)| *rank)
    }

    /// Returns whether the node is ready, in flight or waiting.
    #[cfg(test)]
    pub(super) fn has(&self, name: &Arc<str>) -> bool {
        self.places.contains_key(name)
    }
}

#[cfg(test)]
mod tests;
