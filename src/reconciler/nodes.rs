//! The cache of nodes, each with the work on it.

mod conflict;
mod failure;
mod map;
mod moves;
mod released;
mod resets;
mod state;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::protection::Start;
use super::rules::NamedRules;
use super::standing::{Standing, State};
use super::tally::{Counts, Coverage, Detail, MAX_PROBLEMS, Problem, Standings, Tally};
use super::work_queue::Rank;
use crate::model::ledger::Ledger;
use crate::model::node::{ApiNode, FactNames, Interner, Node};
use crate::model::pool::Pool;
use crate::planner::Leaving;
use crate::planner::declared::{Declared, OnNode};
pub(super) use failure::Attempt;
pub(crate) use failure::Cause;
use map::NodeMap;
pub(super) use state::{NodeState, NodeSubject, has_resource};

/// How many times nodes are listed again within this time for what rules read from them. Rules that come and go must not
/// keep a list from its end: what a kubelet resets on the last nodes would not be seen.
const MAX_RELISTS: usize = 5;
const RELISTS_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// All nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    by_name: NodeMap,
    interner: Interner,
    listing: Option<Listing>,
    listed: bool,
    /// Whether rules read from nodes what was not kept when the nodes were read.
    is_relist_due: bool,
    /// When they were listed again for that, of late.
    relists: VecDeque<Instant>,
    /// The rules that ledgers name, unless a ledger has changed since they were last read.
    rules_in_ledgers: Option<Arc<NamedRules>>,
    tally: Tally,
    /// How many values leave, on all nodes, and how many that were at the last call of [`Self::take_leaving_changed`].
    leaving: usize,
    leaving_taken: usize,
    /// Most nodes share theirs.
    standings: Pool<Standings>,
}

/// A list in progress.
#[derive(Clone, Debug, Default)]
struct Listing {
    /// The nodes in the list so far.
    names: HashSet<Arc<str>>,
    /// The newest version of a node known when the list began.
    newest: Option<u64>,
}

/// The result of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The node to plan, with its rank.
    pub(super) changed: Option<(Arc<str>, Rank)>,
    /// Whether only its values have changed: the same rules select it, with the same quantities.
    pub(super) is_drift: bool,
    /// Whether something has changed that rules read, so that others may select it: no patch of this process does that.
    pub(super) is_of_rules: bool,
    /// The nodes that were deleted or recreated.
    pub(super) removed: Vec<Arc<str>>,
    /// The node whose kubelet started after a reboot, and whether recorded values were kept.
    pub(super) started: Option<(Arc<str>, Start)>,
}

impl Nodes {
    /// Returns no nodes; of those to come, conditions are kept if the controller writes one.
    pub(super) fn new(keeps_conditions: bool) -> Self {
        Self { interner: Interner::keeping_conditions(keeps_conditions), ..Self::default() }
    }

    /// Handles an event of the watch. A list takes effect node by node: repairs do not wait for its end, and no second
    /// copy of all nodes is held.
    pub(super) fn observe(&mut self, event: Event<ApiNode>) -> Seen {
        match event {
            Event::Init => {
                let newest = self.by_name.iter().filter_map(|(_, state)| state.node.version()).max();
                self.listing = Some(Listing { names: HashSet::new(), newest });
                Seen::default()
            }
            Event::InitApply(node) => {
                let node = self.decode(node);
                if let Some(listing) = &mut self.listing {
                    listing.names.insert(Arc::clone(&node.name));
                    // A list with lower versions than those known before it comes from a server that went back.
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
                let gone = self.by_name.names().filter(|name| !listing.names.contains(*name));
                let removed: Vec<_> = gone.cloned().collect();
                removed.iter().for_each(|name| self.remove(name));
                Seen { removed, ..Seen::default() }
            }
            Event::Apply(node) => {
                let node = self.decode(node);
                // A list in progress may be older than the node.
                if let Some(listing) = &mut self.listing {
                    listing.names.insert(Arc::clone(&node.name));
                }
                self.upsert(node)
            }
            Event::Delete(node) => {
                let node = self.decode(node);
                let known = self.by_name.get(&node.name);
                // A response may have shown before the watch that the node was recreated.
                if known.is_none_or(|known| known.node.uid != node.uid) {
                    return Seen::default();
                }
                self.remove(&node.name);
                Seen { removed: vec![node.name], ..Seen::default() }
            }
        }
    }

    /// Keeps what rules read from nodes. What no rule has read before is known after another list of the nodes.
    pub(super) fn keep(&mut self, facts: FactNames) {
        let kept = self.interner.kept();
        if facts.are_within(kept) {
            return;
        }
        let facts = facts.with_some_of(kept);
        self.interner.keep(facts);
        self.is_relist_due = self.listing.is_some() || !self.by_name.is_empty();
    }

    /// Returns whether the nodes are to be listed again, once.
    pub(super) fn take_relist(&mut self, now: Instant) -> bool {
        self.relists.retain(|at| now < *at + RELISTS_INTERVAL);
        // Only one in a while interrupts another list.
        let may_begin = self.relists.is_empty() || self.listing.is_none() && self.relists.len() < MAX_RELISTS;
        let begins = self.is_relist_due && may_begin;
        if begins {
            self.is_relist_due = false;
            self.relists.push_back(now);
        }
        begins
    }

    /// Returns when they may be listed again at the latest, if that is due.
    pub(super) fn next_relist(&self) -> Option<Instant> {
        self.relists.front().filter(|_| self.is_relist_due).map(|at| *at + RELISTS_INTERVAL)
    }

    /// Adds a node that is not watched.
    pub(super) fn insert(&mut self, node: Node) {
        self.upsert(node);
    }

    /// Handles a node from the response to a request that was sent when the node was at version `sent`. Returns whether
    /// it is the newest state of the node.
    pub(super) fn observe_response(&mut self, node: ApiNode, sent: Option<u64>) -> (Seen, bool) {
        let node = self.decode(node);
        let Some(known) = self.by_name.get_mut(&node.name) else {
            // The watch has reported the deletion, or will report the recreation.
            return (Seen::default(), false);
        };
        if known.node.uid == node.uid && node.version() < sent {
            // What was known when the request was sent is newer than the response: the API server went back, for
            // example because etcd was restored.
            known.node.resource_version = node.resource_version.clone();
        }
        if node.is_older_than(&known.node) {
            return (Seen::default(), false);
        }
        (self.upsert(node), true)
    }

    fn decode(&mut self, node: ApiNode) -> Node {
        Node::new(node, &mut self.interner)
    }

    fn upsert(&mut self, node: Node) -> Seen {
        let name = Arc::clone(&node.name);
        let mut seen = Seen::default();
        match self.by_name.get_mut(&name) {
            // A response may have been newer than this event, even of the same name's previous node.
            Some(known) if node.is_older_than(&known.node) => return seen,
            Some(known) if known.node.uid == node.uid => {
                let before = std::mem::replace(&mut known.node, node);
                if before.ledger != known.node.ledger {
                    self.rules_in_ledgers = None;
                }
                known.released.observe(&before, &known.node);
                seen.started = known.observe_start(&before).map(|start| (Arc::clone(&name), start));
                if before.same_for_planning(&known.node) {
                    return seen;
                }
                let rank = rank(&before, &known.node);
                seen.is_of_rules = !before.same_for_rules(&known.node);
                seen.is_drift = rank == Rank::Repair && !seen.is_of_rules;
                seen.changed = Some((name, rank));
            }
            Some(_) => {
                self.remove(&name);
                self.by_name.insert(Arc::clone(&name), NodeState::new(node));
                seen.removed.push(Arc::clone(&name));
                seen.changed = Some((name, Rank::Changed));
            }
            None => {
                self.rules_in_ledgers = None;
                self.by_name.insert(Arc::clone(&name), NodeState::new(node));
                seen.changed = Some((name, Rank::Changed));
            }
        }
        seen
    }

    fn remove(&mut self, name: &Arc<str>) {
        if let Some(state) = self.by_name.remove(name) {
            self.rules_in_ledgers = None;
            self.leaving -= state.leaving.len();
            self.tally.update(name, &state.standings, &[]);
            self.standings.release(state.standings);
        }
    }

    /// Replaces the states of rules on a node, and counts them. Returns the new problems.
    pub(super) fn record(&mut self, name: &Arc<str>, standings: &Standings) -> Vec<usize> {
        let Some(before) = self.replace_standings(name, standings) else { return Vec::new() };
        let standings = standings.iter().enumerate();
        let problems = standings.filter(|(_, (_, standing))| standing.state().is_problem());
        let is_new = |(place, now): &(usize, &_)| before.get(*place) != Some(*now) && !before.contains(now);
        let new = problems.filter(is_new).map(|(place, _)| place).collect();
        self.standings.release(before);
        new
    }

    /// Replaces and counts the states of rules on a node. Returns those before; `None` if they are the same.
    fn replace_standings(&mut self, name: &Arc<str>, standings: &Standings) -> Option<Arc<Standings>> {
        let state = self.by_name.get_mut(name).filter(|state| *state.standings != *standings)?;
        self.tally.update(name, &state.standings, standings);
        Some(std::mem::replace(&mut state.standings, self.standings.intern(standings)))
    }

    /// Replaces the values of a node that no rule declares and that leave when they are unused. Returns those that pods
    /// are found to keep where they are.
    pub(super) fn record_leaving(&mut self, name: &str, leaving: Vec<Leaving>) -> Vec<Leaving> {
        let Some(state) = self.by_name.get_mut(name).filter(|state| *state.leaving != *leaving) else {
            return Vec::new();
        };
        self.leaving = self.leaving + leaving.len() - state.leaving.len();
        let before = std::mem::replace(&mut state.leaving, leaving.into());
        let is_new = |leaving: &&Leaving| leaving.at.is_some() && !before.contains(leaving);
        state.leaving.iter().filter(is_new).cloned().collect()
    }

    /// Returns how many values leave when they are unused, on all nodes.
    pub(super) fn leaving(&self) -> usize {
        self.leaving
    }

    /// Returns whether another number of values leaves than at the last call.
    pub(super) fn take_leaving_changed(&mut self) -> bool {
        std::mem::replace(&mut self.leaving_taken, self.leaving) != self.leaving
    }

    /// Forgets the states of rules and of leaving values on all nodes, so that all that is reported of them is new.
    pub(super) fn forget_standings(&mut self) {
        let names: Vec<_> = self.by_name.iter().map(|(name, _)| Arc::clone(name)).collect();
        for name in names {
            self.record(&name, &[]);
            self.record_leaving(&name, Vec::new());
        }
    }

    /// Forgets the states of these rules on all nodes.
    pub(super) fn forget_states(&mut self, rules: &[Arc<str>]) {
        let rules: HashSet<_> = rules.iter().collect();
        let is_selected = |state: &NodeState| state.standings.iter().any(|(rule, _)| rules.contains(rule));
        let selected = self.by_name.iter().filter(|(_, state)| is_selected(state));
        let names: Vec<_> = selected.map(|(name, _)| Arc::clone(name)).collect();
        for name in names {
            let Some(state) = self.by_name.get(&name) else { continue };
            let kept: Vec<_> = state.standings.iter().filter(|(rule, _)| !rules.contains(rule)).cloned().collect();
            if let Some(before) = self.replace_standings(&name, &kept) {
                self.standings.release(before);
            }
        }
    }

    /// Returns whether all nodes have been listed once.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the next name after this one, or the first.
    pub(super) fn name_after(&self, name: Option<&str>) -> Option<&Arc<str>> {
        self.by_name.name_after(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&NodeState> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut NodeState> {
        self.by_name.get_mut(name)
    }

    /// Returns the nodes in the order of their names.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &NodeState)> {
        self.by_name.iter()
    }

    /// Returns the nodes in no particular order.
    pub(super) fn unordered_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut NodeState)> {
        self.by_name.unordered_mut()
    }

    /// Returns the names of the nodes for which `affected` holds.
    pub(super) fn names_where(&self, affected: impl Fn(&Node) -> bool) -> Vec<Arc<str>> {
        let affected = self.by_name.iter().filter(|(_, state)| affected(&state.node));
        affected.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Returns the rules that ledgers name. Each ledger that nodes share is read once, until one changes.
    pub(super) fn rules_in_ledgers(&mut self) -> Arc<NamedRules> {
        if let Some(rules) = &self.rules_in_ledgers {
            return Arc::clone(rules);
        }
        let mut rules = NamedRules::default();
        for (ledger, nodes) in distinct(self.by_name.iter().filter_map(|(_, state)| state.node.ledger.as_ref())) {
            let ledger = Ledger::parse(Some(ledger)).unwrap_or_default();
            // A rule whose value leaves is known to be gone, or not to declare it.
            let declared = ledger.entries().filter(|(_, entry)| !entry.is_leaving);
            rules.add(declared.map(|(_, entry)| entry.rule.as_str()), nodes);
        }
        let rules = Arc::new(rules);
        self.rules_in_ledgers = Some(Arc::clone(&rules));
        rules
    }

    /// Treats a value as contested that was so before this process led.
    pub(super) fn resume_contest(&mut self, node: &str, resource: &str, now: Instant) {
        if let Some(state) = self.by_name.get_mut(node) {
            state.work_mut().conflicts.resume(resource, now);
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the rules whose states on nodes have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        self.tally.take_changed()
    }

    /// Returns whether a patch whose response was lost after `since` may still be applied.
    pub(super) fn may_be_patched(&self, since: Instant) -> bool {
        self.by_name.iter().any(|(_, state)| state.may_be_patched(since))
    }

    pub(super) fn counts(&self, rule: &str) -> Option<&Counts> {
        self.tally.counts(rule)
    }

    /// Returns a rule on the nodes that it selects, with details of the first problems. `declared` is its quantity.
    pub(super) fn coverage(&self, rule: &str, declared: Option<&Declared>) -> Coverage<'_> {
        let counts = self.counts(rule);
        let first = |is_meant: fn(State) -> bool| {
            let problems = counts.into_iter().flat_map(|counts| &counts.problems);
            let meant = problems.filter(|(_, problem)| is_meant(problem.state)).take(MAX_PROBLEMS);
            meant.filter_map(|(node, problem)| self.detail(rule, declared, node, *problem)).collect()
        };
        let is_contested = counts.is_some_and(|counts| counts.of(State::Contested) > 0);
        let contested = if is_contested { first(|state| state == State::Contested) } else { Vec::new() };
        Coverage { counts, problems: first(|_| true), contested }
    }

    fn detail<'a>(
        &'a self,
        rule: &str,
        declared: Option<&Declared>,
        node: &'a str,
        problem: Problem,
    ) -> Option<Detail<'a>> {
        let state = self.by_name.get(node)?;
        let (name, standing) = state.standings.get(usize::try_from(problem.place).ok()?)?;
        let unknown = match (standing, declared) {
            (Standing::QuantityUnknown { .. }, Some(declared)) => declared.on(&state.node),
            _ => OnNode::Nothing,
        };
        // A quantity may have come, for which the node is still to be planned.
        let unknown = if let OnNode::Unknown(why) = unknown { why } else { Arc::default() };
        (**name == *rule).then_some(Detail { node, standing, unknown })
    }
}

/// Returns each of these texts with the number of its occurrences. They are interned, so that equal ones have one address.
fn distinct<'a>(texts: impl Iterator<Item = &'a Arc<str>>) -> impl Iterator<Item = (&'a str, usize)> {
    let mut counts = HashMap::<*const str, (&str, usize)>::new();
    for text in texts {
        counts.entry(Arc::as_ptr(text)).or_insert((text, 0)).1 += 1;
    }
    counts.into_values()
}

/// Returns the rank of a change. If the ledger is unchanged but values are not, a value may have been lost.
fn rank(before: &Node, after: &Node) -> Rank {
    let same_values = before.capacity == after.capacity && before.allocatable == after.allocatable;
    if after.ledger.is_some() && before.ledger == after.ledger && !same_values { Rank::Repair } else { Rank::Changed }
}

#[cfg(test)]
mod tests;
