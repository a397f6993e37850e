//! Looking at the pods on a node: before a value on it is lowered, and again while it is held above
//! what is declared. They are listed at that moment, and not watched: that would be all pods of the
//! cluster, for the sake of a few nodes now and then.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::pod::Requests;

/// How many nodes are looked at at once: a list of pods is the largest answer that there is.
const MAX_CONCURRENT_POD_LISTS: usize = 4;
/// How long a held node waits to be looked at again, at least.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// And by how much longer for every other node that is: ten looks a second over all of them.
const POLL_INTERVAL_PER_NODE: Duration = Duration::from_millis(100);
/// How long a node waits whose pods could not be listed.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// What pods on a node request, or why that is not known.
pub(super) type PodsReply = (Arc<str>, Result<Requests, String>);

/// The nodes with a value to lower, and when each is looked at.
#[derive(Debug, Default)]
pub(super) struct PodLists {
    by_node: HashMap<Arc<str>, PodListState>,
    pausing: BTreeSet<(Instant, Arc<str>)>,
    waiting: VecDeque<Arc<str>>,
    in_flight: usize,
}

#[derive(Debug)]
struct PodListState {
    state: State,
    /// Why the last one failed.
    unreadable: Option<String>,
}

#[derive(Debug)]
enum State {
    /// For room.
    Waiting,
    UnderWay,
    Pausing(Instant),
    /// To be looked at when the node is planned again.
    Due,
}

impl PodLists {
    /// Whether the node is to be looked at now.
    pub(super) fn start(&mut self, node: &Arc<str>) -> bool {
        let pod_list = self
            .by_node
            .entry(Arc::clone(node))
            .or_insert(PodListState { state: State::Due, unreadable: None });
        if !matches!(pod_list.state, State::Due) {
            return false;
        }
        if self.in_flight >= MAX_CONCURRENT_POD_LISTS {
            pod_list.state = State::Waiting;
            self.waiting.push_back(Arc::clone(node));
            return false;
        }
        pod_list.state = State::UnderWay;
        self.in_flight += 1;
        true
    }

    /// A look has ended. The node pauses; another may have waited for the room, and is to be planned
    /// again.
    pub(super) fn ended(
        &mut self,
        node: &Arc<str>,
        unreadable: Option<String>,
        now: Instant,
    ) -> Option<Arc<str>> {
        self.in_flight = self.in_flight.saturating_sub(1);
        let least = if unreadable.is_some() { RETRY_INTERVAL } else { POLL_INTERVAL };
        let others = u32::try_from(self.by_node.len()).unwrap_or(u32::MAX);
        let until = now + least.max(POLL_INTERVAL_PER_NODE.saturating_mul(others));
        if let Some(pod_list) = self.by_node.get_mut(node) {
            *pod_list = PodListState { state: State::Pausing(until), unreadable };
            self.pausing.insert((until, Arc::clone(node)));
        }
        while let Some(next) = self.waiting.pop_front() {
            // It may have been forgotten since.
            if let Some(pod_list) = self.by_node.get_mut(&next)
                && matches!(pod_list.state, State::Waiting)
            {
                pod_list.state = State::Due;
                return Some(next);
            }
        }
        None
    }

    /// Nothing is to be lowered on the node any more; or it is to be looked at afresh.
    pub(super) fn forget(&mut self, node: &Arc<str>) {
        if let Some(PodListState { state: State::Pausing(until), .. }) = self.by_node.remove(node) {
            self.pausing.remove(&(until, Arc::clone(node)));
        }
    }

    pub(super) fn unreadable(&self, node: &str) -> Option<&String> {
        self.by_node.get(node).and_then(|pod_list| pod_list.unreadable.as_ref())
    }

    /// When the first pause ends.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.pausing.first().map(|(until, _)| *until)
    }

    /// The nodes whose pause has ended: they are to be planned again.
    pub(super) fn wake(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut woken = Vec::new();
        while self.pausing.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, node)) = self.pausing.pop_first() else { break };
            if let Some(pod_list) = self.by_node.get_mut(&node) {
                pod_list.state = State::Due;
            }
            woken.push(node);
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize) -> Arc<str> {
        format!("node-{number}").into()
    }

    #[tokio::test(start_paused = true)]
    async fn pod_list_concurrency_is_limited() {
        let mut pod_lists = PodLists::default();
        let now = Instant::now();
        let started = (0..10).filter(|number| pod_lists.start(&node(*number))).count();
        assert_eq!(started, MAX_CONCURRENT_POD_LISTS);
        assert!(!pod_lists.start(&node(0)), "it is under way");
        assert_eq!(pod_lists.ended(&node(0), None, now), Some(node(4)));
        assert!(pod_lists.start(&node(4)));
        pod_lists.forget(&node(5));
        assert_eq!(pod_lists.ended(&node(1), None, now), Some(node(6)), "one that is still wanted");
    }

    #[tokio::test(start_paused = true)]
    async fn held_node_is_requeued_for_a_pod_list() {
        let mut pod_lists = PodLists::default();
        let start = Instant::now();
        assert!(pod_lists.start(&node(0)));
        assert_eq!(pod_lists.ended(&node(0), None, start), None);
        assert!(!pod_lists.start(&node(0)), "it pauses");
        assert_eq!(pod_lists.next_wake(), Some(start + POLL_INTERVAL));
        assert!(pod_lists.wake(start + POLL_INTERVAL / 2).is_empty());
        assert_eq!(pod_lists.wake(start + POLL_INTERVAL), [node(0)]);
        assert!(pod_lists.start(&node(0)));
        pod_lists.ended(&node(0), Some("no right".to_owned()), start);
        assert_eq!(pod_lists.unreadable("node-0").map(String::as_str), Some("no right"));
        assert_eq!(pod_lists.next_wake(), Some(start + RETRY_INTERVAL));
        pod_lists.forget(&node(0));
        assert_eq!(pod_lists.next_wake(), None);
        assert!(pod_lists.start(&node(0)), "what begins afresh does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn pod_lists_of_held_nodes_are_rate_limited() {
        let mut pod_lists = PodLists::default();
        let start = Instant::now();
        for number in 0..1000 {
            pod_lists.start(&node(number));
        }
        pod_lists.ended(&node(0), None, start);
        assert_eq!(pod_lists.next_wake(), Some(start + POLL_INTERVAL_PER_NODE * 1000));
    }
}
