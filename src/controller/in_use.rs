//! Looking at the pods on a node: before a value on it is lowered, and again while it is held above
//! what is declared. They are listed at that moment, and not watched: that would be all pods of the
//! cluster, for the sake of a few nodes now and then.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::pod::Requests;

/// How many nodes are looked at at once: a list of pods is the largest answer that there is.
const AT_ONCE: usize = 4;
/// How long a held node waits to be looked at again, at least.
const PAUSE: Duration = Duration::from_secs(5);
/// And by how much longer for every other node that is: ten looks a second over all of them.
const PAUSE_PER_NODE: Duration = Duration::from_millis(100);
/// How long a node waits whose pods could not be listed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// What pods on a node request, or why that is not known.
pub(super) type PodsReply = (Arc<str>, Result<Requests, String>);

/// The nodes with a value to lower, and when each is looked at.
#[derive(Debug, Default)]
pub(super) struct Looks {
    by_node: HashMap<Arc<str>, Look>,
    pausing: BTreeSet<(Instant, Arc<str>)>,
    waiting: VecDeque<Arc<str>>,
    under_way: usize,
}

#[derive(Debug)]
struct Look {
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

impl Looks {
    /// Whether the node is to be looked at now.
    pub(super) fn start(&mut self, node: &Arc<str>) -> bool {
        let look = self
            .by_node
            .entry(Arc::clone(node))
            .or_insert(Look { state: State::Due, unreadable: None });
        if !matches!(look.state, State::Due) {
            return false;
        }
        if self.under_way >= AT_ONCE {
            look.state = State::Waiting;
            self.waiting.push_back(Arc::clone(node));
            return false;
        }
        look.state = State::UnderWay;
        self.under_way += 1;
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
        self.under_way = self.under_way.saturating_sub(1);
        let least = if unreadable.is_some() { PAUSE_AFTER_FAILURE } else { PAUSE };
        let others = u32::try_from(self.by_node.len()).unwrap_or(u32::MAX);
        let until = now + least.max(PAUSE_PER_NODE.saturating_mul(others));
        if let Some(look) = self.by_node.get_mut(node) {
            *look = Look { state: State::Pausing(until), unreadable };
            self.pausing.insert((until, Arc::clone(node)));
        }
        while let Some(next) = self.waiting.pop_front() {
            // It may have been forgotten since.
            if let Some(look) = self.by_node.get_mut(&next)
                && matches!(look.state, State::Waiting)
            {
                look.state = State::Due;
                return Some(next);
            }
        }
        None
    }

    /// Nothing is to be lowered on the node any more; or it is to be looked at afresh.
    pub(super) fn forget(&mut self, node: &Arc<str>) {
        if let Some(Look { state: State::Pausing(until), .. }) = self.by_node.remove(node) {
            self.pausing.remove(&(until, Arc::clone(node)));
        }
    }

    pub(super) fn unreadable(&self, node: &str) -> Option<&String> {
        self.by_node.get(node).and_then(|look| look.unreadable.as_ref())
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
            if let Some(look) = self.by_node.get_mut(&node) {
                look.state = State::Due;
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
    async fn a_few_nodes_are_looked_at_at_once_and_the_others_in_turn() {
        let mut looks = Looks::default();
        let now = Instant::now();
        let started = (0..10).filter(|number| looks.start(&node(*number))).count();
        assert_eq!(started, AT_ONCE);
        assert!(!looks.start(&node(0)), "it is under way");
        assert_eq!(looks.ended(&node(0), None, now), Some(node(4)));
        assert!(looks.start(&node(4)));
        looks.forget(&node(5));
        assert_eq!(looks.ended(&node(1), None, now), Some(node(6)), "one that is still wanted");
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_node_is_looked_at_again_after_a_pause() {
        let mut looks = Looks::default();
        let start = Instant::now();
        assert!(looks.start(&node(0)));
        assert_eq!(looks.ended(&node(0), None, start), None);
        assert!(!looks.start(&node(0)), "it pauses");
        assert_eq!(looks.next_wake(), Some(start + PAUSE));
        assert!(looks.wake(start + PAUSE / 2).is_empty());
        assert_eq!(looks.wake(start + PAUSE), [node(0)]);
        assert!(looks.start(&node(0)));
        looks.ended(&node(0), Some("no right".to_owned()), start);
        assert_eq!(looks.unreadable("node-0").map(String::as_str), Some("no right"));
        assert_eq!(looks.next_wake(), Some(start + PAUSE_AFTER_FAILURE));
        looks.forget(&node(0));
        assert_eq!(looks.next_wake(), None);
        assert!(looks.start(&node(0)), "what begins afresh does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn many_held_nodes_share_ten_looks_a_second() {
        let mut looks = Looks::default();
        let start = Instant::now();
        for number in 0..1000 {
            looks.start(&node(number));
        }
        looks.ended(&node(0), None, start);
        assert_eq!(looks.next_wake(), Some(start + PAUSE_PER_NODE * 1000));
    }
}
