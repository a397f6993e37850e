//! Nodes by name. Each plan looks a node up several times, which in a tree of 100,000 names costs more than the plan.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::HashMap;

use super::state::NodeState;

/// States of nodes, found by a hash and listed in the order of their names.
#[derive(Clone, Default)]
pub(super) struct NodeMap {
    // Boxed, because a table of hashes is up to half empty, and copied when it grows.
    states: HashMap<Arc<str>, Box<NodeState>>,
    /// The names of the states.
    names: BTreeSet<Arc<str>>,
}

impl NodeMap {
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&NodeState> {
        self.states.get(name).map(|state| &**state)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut NodeState> {
        self.states.get_mut(name).map(|state| &mut **state)
    }

    pub(super) fn insert(&mut self, name: Arc<str>, state: NodeState) {
        self.names.insert(Arc::clone(&name));
        self.states.insert(name, Box::new(state));
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<NodeState> {
        self.names.remove(name);
        self.states.remove(name).map(|state| *state)
    }

    /// Returns the names in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    /// Returns the next name after this one, or the first.
    pub(super) fn name_after(&self, name: Option<&str>) -> Option<&Arc<str>> {
        let after = |name| (Bound::Excluded(name), Bound::Unbounded);
        let next = name.and_then(|name| self.names.range::<str, _>(after(name)).next());
        next.or_else(|| self.names.first())
    }

    /// Returns the nodes in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &NodeState)> {
        self.names.iter().filter_map(|name| Some((name, self.get(name)?)))
    }

    /// Returns the nodes in no particular order.
    pub(super) fn unordered_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut NodeState)> {
        self.states.iter_mut().map(|(name, state)| (name, &mut **state))
    }
}

/// The order of the table is random, that of the names is not.
impl fmt::Debug for NodeMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
