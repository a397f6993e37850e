//! The nodes as last seen, each with what is going on there.

mod conflict;
mod failure;
mod released;
mod resets;
mod start;
mod state;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use kube::runtime::watcher::Event;

use super::effect::RequestId;
use super::tally::{Standings, Tally};
use super::work_queue::Rank;
use crate::model::ledger::Ledger;
use crate::model::node::{ApiNode, Interner, Node};
pub(super) use failure::Cause;
pub(super) use start::Start;
pub(super) use state::{NodeState, Sent, Work, has_resource, most};

/// Every node.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    by_name: BTreeMap<Arc<str>, NodeState>,
    interner: Interner,
    listing: Option<Listing>,
    listed: bool,
    tally: Tally,
}

/// A list under way.
#[derive(Clone, Debug, Default)]
struct Listing {
    /// The nodes that it has brought so far.
    names: HashSet<Arc<str>>,
    /// The newest version of a node that was known when it began.
    newest: Option<u64>,
}

/// What an event of the watch comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The node that is to be planned, and how urgently.
    pub(super) changed: Option<(Arc<str>, Rank)>,
    /// Those that are gone, or that have been recreated under their names.
    pub(super) removed: Vec<Arc<str>>,
    /// The node on which a kubelet has started after a reboot, and what came of listed values there.
    pub(super) started: Option<(Arc<str>, Start)>,
}

impl Nodes {
    /// Takes in an event of the watch. A list takes effect node by node: repairs do not wait for its end, and
    /// no second copy of all nodes is held.
    pub(super) fn observe(&mut self, event: Event<ApiNode>) -> Seen {
        match event {
            Event::Init => {
                let newest = self.by_name.values().filter_map(|state| state.node.version()).max();
                self.listing = Some(Listing { names: HashSet::new(), newest });
                Seen::default()
            }
            Event::InitApply(node) => {
                let node = Node::new(node, &mut self.interner);
                if let Some(listing) = &mut self.listing {
                    listing.names.insert(Arc::clone(&node.name));
                    // A list with lower versions than were known before it is of a server that went back.
                    let known = self.by_name.get_mut(&node.name);
                    let known = known.filter(|known| known.node.version() <= listing.newest);
                    if let Some(known) = known.filter(|known| node.is_older_than(&known.node)) {
                        known.node.resource_version.clone_from(&node.resource_version);
                    }
                }
                self.upsert(node)
            }
            Event::InitDone => {
                self.listed = true;
                let listing = self.listing.take().unwrap_or_default();
                let gone = self.by_name.keys().filter(|name| !listing.names.contains(*name));
                let removed: Vec<_> = gone.cloned().collect();
                removed.iter().for_each(|name| self.remove(name));
                Seen { removed, ..Seen::default() }
            }
            Event::Apply(node) => {
                let node = Node::new(node, &mut self.interner);
                // A list under way may be from before the node.
                if let Some(listing) = &mut self.listing {
                    listing.names.insert(Arc::clone(&node.name));
                }
                self.upsert(node)
            }
            Event::Delete(node) => {
                let node = Node::new(node, &mut self.interner);
                let known = self.by_name.get(&node.name);
                // It may have been recreated since, which a response has shown before the watch.
                if known.is_none_or(|known| known.node.uid != node.uid) {
                    return Seen::default();
                }
                self.remove(&node.name);
                Seen { removed: vec![node.name], ..Seen::default() }
            }
        }
    }

    /// Adds a node that is not watched.
    pub(super) fn insert(&mut self, node: Node) {
        self.upsert(node);
    }

    /// Takes in a node as the response to a request has it, which was sent when the node was at the version
    /// `sent`. Returns whether it is the newest state of the node.
    pub(super) fn observe_response(&mut self, node: ApiNode, sent: Option<u64>) -> (Seen, bool) {
        let node = Node::new(node, &mut self.interner);
        let Some(known) = self.by_name.get_mut(&node.name) else {
            // It has been deleted, as the watch has reported; or it will report it recreated.
            return (Seen::default(), false);
        };
        if known.node.uid == node.uid && node.version() < sent {
            // What was known when the request was sent is newer than the response: the API server has gone
            // back in time, as after a restore of etcd.
            known.node.resource_version = node.resource_version.clone();
        }
        if known.node.uid == node.uid && node.is_older_than(&known.node) {
            return (Seen::default(), false);
        }
        (self.upsert(node), true)
    }

    fn upsert(&mut self, node: Node) -> Seen {
        let name = Arc::clone(&node.name);
        let mut seen = Seen::default();
        match self.by_name.get_mut(&name) {
            Some(known) if known.node.uid == node.uid => {
                // A response may have shown more than this event, which was under way.
                if node.is_older_than(&known.node) {
                    return seen;
                }
                let before = std::mem::replace(&mut known.node, node);
                known.released.observe(&before, &known.node);
                seen.started = known.observe_start(&before).map(|start| (Arc::clone(&name), start));
                if before.same_for_planning(&known.node) {
                    return seen;
                }
                seen.changed = Some((name, rank(&before, &known.node)));
            }
            Some(_) => {
                self.remove(&name);
                self.by_name.insert(Arc::clone(&name), NodeState::new(node));
                seen.removed.push(Arc::clone(&name));
                seen.changed = Some((name, Rank::Changed));
            }
            None => {
                self.by_name.insert(Arc::clone(&name), NodeState::new(node));
                seen.changed = Some((name, Rank::Changed));
            }
        }
        seen
    }

    fn remove(&mut self, name: &Arc<str>) {
        if let Some(state) = self.by_name.remove(name) {
            self.tally.update(name, &state.standings, &[]);
        }
    }

    /// Puts new standings in place of the old ones, and counts them. Returns the problems that are new.
    pub(super) fn record(&mut self, name: &Arc<str>, standings: Box<Standings>) -> Vec<usize> {
        let Some(state) = self.by_name.get_mut(name) else { return Vec::new() };
        self.tally.update(name, &state.standings, &standings);
        let before = std::mem::replace(&mut state.standings, standings);
        let standings = state.standings.iter().enumerate();
        let problems = standings.filter(|(_, (_, standing))| standing.state().info().is_problem);
        problems.filter(|(_, now)| !before.contains(now)).map(|(place, _)| place).collect()
    }

    /// Whether all nodes have been listed once.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The name after this one, or the first one.
    pub(super) fn name_after(&self, name: Option<&str>) -> Option<&Arc<str>> {
        let after = |name| (Bound::Excluded(name), Bound::Unbounded);
        let next = name.and_then(|name| self.by_name.range::<str, _>(after(name)).next());
        next.or_else(|| self.by_name.first_key_value()).map(|(name, _)| name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&NodeState> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut NodeState> {
        self.by_name.get_mut(name)
    }

    /// The node with this request in flight.
    pub(super) fn in_flight(&mut self, name: &str, id: RequestId) -> Option<&mut NodeState> {
        let state = self.by_name.get_mut(name)?;
        let sent = state.work().and_then(|work| work.sent.as_ref());
        sent.is_some_and(|sent| sent.id == id).then_some(state)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &NodeState)> {
        self.by_name.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut NodeState)> {
        self.by_name.iter_mut()
    }

    /// The names of nodes that `affected` holds for.
    pub(super) fn names_where(&self, affected: impl Fn(&Node) -> bool) -> Vec<Arc<str>> {
        let affected = self.by_name.iter().filter(|(_, state)| affected(&state.node));
        affected.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// The rules that ledgers name.
    pub(super) fn rules_in_ledgers(&self) -> BTreeSet<Arc<str>> {
        let mut rules = BTreeSet::new();
        for state in self.by_name.values().filter(|state| state.node.ledger.is_some()) {
            let ledger = Ledger::parse(state.node.ledger.as_deref()).unwrap_or_default();
            for (_, entry) in ledger.entries() {
                if !rules.contains(entry.rule.as_str()) {
                    rules.insert(entry.rule.as_str().into());
                }
            }
        }
        rules
    }

    /// How many nodes are held, counted once for each rule.
    pub(super) fn held(&self) -> usize {
        self.tally.total(super::standing::State::Held)
    }

    pub(super) fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    pub(super) fn counts(&self, rule: &str) -> Option<&super::tally::Counts> {
        self.tally.counts(rule)
    }
}

/// How urgent a change of a node is. Where the ledger is as it was and values are not, one may have been lost.
fn rank(before: &Node, after: &Node) -> Rank {
    let same_values = before.capacity == after.capacity && before.allocatable == after.allocatable;
    if after.ledger.is_some() && before.ledger == after.ledger && !same_values {
        Rank::Repair
    } else {
        Rank::Changed
    }
}

#[cfg(test)]
mod tests;
