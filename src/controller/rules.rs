//! The cache of rules, and the compiled set of rules for planning.

mod crowding;
mod deleting;
mod hold;
mod list;
mod object;
mod observed_status;
mod state;
mod states;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher::Event;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;

use crate::model::node::{Fact, FactNames};
use crate::planner::rules::{Rule, RuleSet};
use crowding::Crowding;
use hold::Hold;
pub(super) use hold::NamedRules;
use list::Listing;
pub(super) use list::{Mark, RuleList, Validity};
pub(super) use object::RuleObject;
pub(super) use observed_status::ObservedStatus;
pub(super) use state::{RuleState, Stalled};
use states::Inserted;
pub(super) use states::RuleStates;

/// The maximum number of remembered deletions.
const MAX_DELETED: usize = 1000;

/// All rules.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    by_name: RuleStates,
    /// The rules that the watch shows to be deleted, and that still exist.
    deleting: RuleStates,
    /// The contents of a list in progress.
    listing: Option<Listing>,
    /// The number of lists that the watch has begun.
    lists_begun: u64,
    listed: bool,
    /// The version of the last list that a new leader requested, until the watch lists again. The watch may be behind it: a
    /// rule that the list lacks and that is not newer is gone.
    list_version: Option<u64>,
    /// Rules that are missing from a list together with many others: their values stay for a while.
    hold: Hold,
    /// The name and uid of each rule whose deletion was observed, oldest first: a list in progress, or a watch behind a
    /// list, may still contain them. Several may have had one name.
    deleted: VecDeque<(Arc<str>, Option<String>)>,
    /// The number of deletions that are remembered no longer, because there were too many.
    deletions_forgotten: u64,
    set: Arc<RuleSet>,
    /// Whether the set must be compiled again.
    is_dirty: bool,
    crowding: Crowding,
}

/// The nodes to plan after an event.
#[derive(Debug, PartialEq)]
pub(super) enum Enqueue {
    None,
    /// The nodes that one of these rules selects.
    Selected(Vec<Arc<Rule>>),
    All,
}

/// The result of an event of the watch.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) enqueue: Enqueue,
    /// The rules whose status may have to be written.
    pub(super) touched: Vec<Arc<str>>,
    /// The deleted rules.
    pub(super) removed: Vec<Arc<str>>,
    /// Whether a list has just been completed.
    pub(super) is_list: bool,
    /// Whether of two lists that were under way at once one lacked a rule of the other, so that only another list shows
    /// whether the rule exists.
    pub(super) is_in_doubt: bool,
}

impl Seen {
    fn nothing() -> Self {
        let (touched, removed) = (Vec::new(), Vec::new());
        let enqueue = Enqueue::None;
        Self { enqueue, touched, removed, is_list: false, is_in_doubt: false }
    }
}

impl Rules {
    /// Returns no rules, which take this many bytes at most.
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            by_name: RuleStates::new(max_size),
            deleting: RuleStates::of_deleted(max_size),
            listing: None,
            lists_begun: 0,
            listed: false,
            list_version: None,
            hold: Hold::default(),
            deleted: VecDeque::new(),
            deletions_forgotten: 0,
            set: Arc::default(),
            is_dirty: false,
            crowding: Crowding::default(),
        }
    }

    /// Handles an event of the watch. A rule counts as deleted once its deletion is requested.
    pub(super) fn observe(&mut self, event: Event<RuleObject>) -> Seen {
        match event {
            Event::Init => {
                // A list that begins now contains deleted rules only if they were restored.
                self.deleted.clear();
                self.list_version = None;
                self.lists_begun += 1;
                self.listing = Some(Listing::new(self.by_name.max_size(), self.newest()));
                Seen::nothing()
            }
            Event::InitApply(object) => {
                if let Some(Listing { rules, deleting, .. }) = &mut self.listing {
                    let (name, mut state) = (object.name_any(), RuleState::new(object));
                    self.by_name.share(&name, &mut state);
                    let listed = if state.waits_for.is_some() { deleting } else { rules };
                    listed.insert(name.into(), state);
                }
                Seen::nothing()
            }
            Event::InitDone => {
                let Some(mut listing) = self.listing.take() else { return Seen::nothing() };
                let deleting = listing.take_deleting();
                let names: BTreeSet<_> = listing.rules.names().cloned().collect();
                let mut listed = listing.rules.iter();
                let is_unclear = |(name, rule): (&Arc<str>, &RuleState)| {
                    self.is_newer(rule).is_none() && !self.by_name.contains(name) && !self.is_gone(name, rule)
                };
                let is_new = listing.is_raced && listed.any(is_unclear);
                let mut seen = self.replace(listing);
                self.replace_deleting(deleting, &mut seen);
                let is_in_doubt = is_new || self.by_name.names().any(|name| !names.contains(name));
                Seen { is_in_doubt, ..seen }
            }
            Event::Apply(object) if object.meta().deletion_timestamp.is_none() => {
                let name: Arc<str> = object.name_any().into();
                let mut new = RuleState::new(object);
                let known = self.by_name.get(&name);
                if known.is_some_and(|known| new.version < known.version) || self.is_gone(&name, &new) {
                    return Seen::nothing();
                }
                self.by_name.share(&name, &mut new);
                self.deleting.remove(&name);
                let was_held = self.hold.exists(&name);
                let inserted = self.by_name.insert(Arc::clone(&name), new);
                let Inserted { before, stalled: mut touched, forgotten: removed } = inserted;
                let enqueue = self.changed(before, &name);
                let is_crowded = !touched.is_empty() || !removed.is_empty();
                self.is_dirty |= is_crowded;
                // Held values may be on nodes that the rule no longer selects, and others may have made room for it.
                let enqueue = if was_held || is_crowded { Enqueue::All } else { enqueue };
                if self.by_name.contains(&name) && !touched.contains(&name) {
                    touched.push(name);
                }
                Seen { enqueue, touched, removed, ..Seen::nothing() }
            }
            Event::Apply(object) => self.observe_deletion(object),
            Event::Delete(object) => self.observe_end(object),
        }
    }

    /// Returns what is known now, when a list is requested.
    pub(super) fn mark(&self) -> Mark {
        let (newest, lists_begun) = (self.newest(), self.lists_begun);
        let (is_watch_listing, deletions_forgotten) = (self.listing.is_some(), self.deletions_forgotten);
        Mark { newest, lists_begun, is_watch_listing, deletions_forgotten }
    }

    /// Returns whether a list that was requested at `mark` shows what exists.
    pub(super) fn validity(&self, mark: &Mark) -> Validity {
        let is_listing = self.listing.is_some();
        let has_begun = self.lists_begun > mark.lists_begun;
        if has_begun && !is_listing {
            Validity::Superseded
        } else if has_begun
            || self.deletions_forgotten > mark.deletions_forgotten
            // Of two lists that were under way at once, none is known to be the later one.
            || (mark.is_watch_listing && !is_listing)
        {
            Validity::Doubtful
        } else {
            Validity::Usable
        }
    }

    /// Handles a complete list that a new leader requested at `mark`. The watch may be behind or ahead of the list.
    pub(super) fn observe_list(&mut self, list: RuleList, mark: &Mark) -> Seen {
        let (newest, RuleList { version, rules }) = (mark.newest, list);
        self.listing.iter_mut().for_each(|listing| listing.is_raced = true);
        // An earlier list does not show whether what this one has is gone.
        self.list_version = None;
        // What was observed while the list was under way may be older than the list, and gone.
        let newest = newest.max(version);
        let listing = Listing { rules, newest, ..Listing::new(self.by_name.max_size(), None) };
        let seen = self.replace(listing);
        self.list_version = version;
        seen
    }

    fn replace(&mut self, listing: Listing) -> Seen {
        let Listing { mut rules, newest, .. } = listing;
        let is_gone = |(name, listed): (&Arc<str>, &RuleState)| self.is_gone(name, listed).then(|| Arc::clone(name));
        let gone: Vec<_> = rules.iter().filter_map(is_gone).collect();
        gone.iter().for_each(|name| drop(rules.remove(name)));
        // What was observed while the list was in flight, and is newer.
        for (name, state) in self.by_name.iter() {
            // A list with lower versions than those known before it comes from a server that went back, for example
            // because etcd was restored.
            let is_newer = |listed: &RuleState| state.version > listed.version;
            if state.version > newest && rules.get(name).is_none_or(is_newer) {
                rules.insert(Arc::clone(name), state.clone());
            }
        }
        let before = std::mem::replace(&mut self.by_name, rules);
        for name in self.by_name.names() {
            self.hold.exists(name);
        }
        let first = !std::mem::replace(&mut self.listed, true);
        let same = before.len() == self.by_name.len()
            && before
                .iter()
                .zip(self.by_name.iter())
                .all(|((name, old), (other, new))| name == other && old.planned() == new.planned());
        let gone = before.iter().filter(|(name, _)| !self.by_name.contains(name));
        let gone: Vec<_> = gone.map(|(name, state)| (Arc::clone(name), state.uid.clone())).collect();
        // A watch that is behind the list may still show them. Those that are only forgotten it may show again.
        if !self.by_name.is_partial() {
            gone.iter().for_each(|(name, uid)| self.remember_deleted(name, uid.clone()));
        }
        let removed = gone.into_iter().map(|(name, _)| name).collect();
        let enqueue = if same && !first {
            Enqueue::None
        } else {
            self.is_dirty = true;
            Enqueue::All
        };
        let touched = self.by_name.names().cloned().collect();
        Seen { enqueue, touched, removed, is_list: true, is_in_doubt: false }
    }

    fn remember_deleted(&mut self, name: &Arc<str>, uid: Option<String>) {
        if self.deleted.len() >= MAX_DELETED {
            self.deleted.pop_front();
            self.deletions_forgotten += 1;
        }
        self.deleted.push_back((Arc::clone(name), uid));
    }

    fn changed(&mut self, old: Option<RuleState>, name: &str) -> Enqueue {
        let [old, new] = [old.as_ref(), self.by_name.get(name)].map(|state| state.map(RuleState::planned));
        if old == new {
            return Enqueue::None;
        }
        self.is_dirty = true;
        let valid: Result<Vec<_>, _> = old.into_iter().chain(new).map(|rule| rule.cloned()).collect();
        match valid {
            Ok(rules) if rules.iter().all(|rule| !rule.paused) => Enqueue::Selected(rules),
            // Only ledgers show what an invalid rule has advertised, and a paused one before it was edited.
            _ => Enqueue::All,
        }
    }

    fn compile(&mut self) {
        let valid = self.by_name.values().filter_map(|state| state.planned().ok().cloned());
        let invalid = self.by_name.iter();
        let invalid = invalid.filter_map(|(name, state)| Some((Arc::clone(name), state.planned().err()?)));
        let held = self.hold.names().map(|name| (Arc::clone(name), None));
        let set = RuleSet::new(valid, invalid.chain(held));
        self.set = Arc::new(if self.by_name.is_partial() { set.among_others() } else { set });
    }

    /// Decides after a complete list whether rules that ledgers name but that do not exist are held for `delay`.
    /// Returns whether nodes must be planned again.
    pub(super) fn hold_missing(&mut self, in_ledgers: &NamedRules, delay: Duration, now: Instant) -> bool {
        let by_name = &self.by_name;
        let changed = self.hold.evaluate(in_ledgers, |name| by_name.contains(name), delay, now);
        self.is_dirty |= changed;
        changed
    }

    /// Returns whether the list that ends the hold must be requested now, once.
    pub(super) fn take_due_list(&mut self, now: Instant) -> bool {
        self.hold.take_due_list(now)
    }

    /// Ends the hold after a complete list, if it waits for this list. Returns the number of rules that were held.
    pub(super) fn end_hold(&mut self) -> usize {
        let held = self.hold.listed().len();
        self.is_dirty |= held > 0;
        held
    }

    /// Ends the hold together with the term of leadership.
    pub(super) fn stand_by(&mut self) {
        self.hold.stand_by();
        self.is_dirty = true;
    }

    /// Returns the held rules.
    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Returns whether all rules have been listed once. Until then, no rule counts as gone.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    /// Returns the rules for planning. They are compiled once for all events since the last plan.
    pub(super) fn set(&mut self) -> Arc<RuleSet> {
        if std::mem::take(&mut self.is_dirty) {
            self.compile();
        }
        Arc::clone(&self.set)
    }

    /// Returns what the rules read from nodes, besides labels. It compiles nothing, since many events may follow.
    pub(super) fn facts(&self) -> FactNames {
        let valid = self.by_name.values().filter_map(|state| state.rule.as_ref().ok());
        let facts = valid.filter_map(|rule| rule.quantity.fact());
        FactNames::Named(facts.filter(|fact| !matches!(fact, Fact::Label(_))).cloned().collect())
    }

    /// Returns whether a rule no longer exists although this state of it is shown: its deletion is known, or the list of
    /// a new leader, which is later, lacks it.
    fn is_gone(&self, name: &str, state: &RuleState) -> bool {
        let is_deleted = || self.deleted.iter().any(|(deleted, uid)| *uid == state.uid && **deleted == *name);
        let is_missing = || {
            let is_unknown = !self.by_name.contains(name) && !self.by_name.is_partial();
            is_unknown && self.is_newer(state) == Some(false)
        };
        is_deleted() || is_missing()
    }

    /// Returns whether a state of a rule is newer than the list of a new leader, as far as that is known.
    fn is_newer(&self, state: &RuleState) -> Option<bool> {
        state.version.zip(self.list_version).map(|(version, list_version)| version > list_version)
    }

    /// Returns the newest known version of a rule.
    fn newest(&self) -> Option<u64> {
        self.by_name.values().filter_map(|state| state.version).max()
    }

    /// Returns whether the rules are to be listed again, because some that did not fit would fit by now.
    pub(super) fn take_relist(&mut self, now: Instant) -> bool {
        self.listing.is_none() && self.crowding.take_relist(&self.by_name, now)
    }

    /// Returns whether the rules have begun to take nearly all memory that they may.
    pub(super) fn becomes_scarce(&mut self) -> bool {
        self.crowding.becomes_scarce(&self.by_name)
    }

    /// Stalls the youngest rules if all together select more nodes than the memory has room for. Returns them.
    pub(super) fn bound_nodes(&mut self, nodes: usize, selected: impl Fn(&str) -> usize) -> Vec<Arc<str>> {
        let stalled = self.crowding.bound_nodes(&mut self.by_name, nodes, selected);
        // Nodes are still to be planned without rules that have just been stalled.
        self.is_dirty |= !stalled.is_empty();
        stalled
    }

    /// Returns all rules.
    pub(super) fn states(&self) -> &RuleStates {
        &self.by_name
    }

    pub(super) fn get(&self, name: &str) -> Option<&RuleState> {
        self.by_name.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &RuleState)> {
        self.by_name.iter()
    }
}

#[cfg(test)]
mod tests;
