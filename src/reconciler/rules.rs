//! The cache of rules, and the compiled set of rules for planning.

mod census;
mod crowding;
mod hold;
mod object;
mod observed_status;
mod state;
mod states;

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher::Event;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;

use crate::model::api::ShrinkPolicy;
use crate::model::node::FactNames;
use crate::planner::rules::{Rule, RuleSet};
use crowding::Crowding;
pub(super) use hold::NamedRules;
use hold::{Existence, Hold};
pub(crate) use object::RuleObject;
pub(crate) use observed_status::ObservedStatus;
pub(super) use state::RuleState;
pub(crate) use state::Stalled;
use states::Inserted;
pub(super) use states::RuleStates;

/// All rules.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    by_name: RuleStates,
    /// The rules that are being deleted, and that somebody's finalizer keeps. They declare nothing, as if they were gone: a
    /// finalizer keeps the object, not its values. What is left of them is a status that reports it.
    deleting: RuleStates,
    /// The contents of a list in progress.
    listing: Option<Listing>,
    listed: bool,
    evidence: Evidence,
    /// Rules that are missing from a list together with many others: their values stay for a while.
    hold: Hold,
    /// The rules for planning, compiled once for all events since the last plan.
    set: OnceCell<Arc<RuleSet>>,
    crowding: Crowding,
}

/// A list in progress.
#[derive(Clone, Debug)]
struct Listing {
    rules: RuleStates,
    /// The rules that are being deleted.
    deleting: RuleStates,
}

/// Whether a complete list that began in this term of leadership shows which rules exist (I4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// Another process leads.
    Unneeded,
    /// The watch must begin again: the list with which it begins is consistent, and no event of before follows.
    Due,
    /// The watch has begun again.
    Listing,
    Complete,
}

/// The nodes to plan after an event.
#[derive(Debug, PartialEq)]
pub(super) enum Enqueue {
    None,
    /// The nodes that one of these rules selects.
    Selected(Vec<Arc<Rule>>),
    /// These, and the nodes whose ledgers name a rule: only they show what a rule that is not in force has advertised, and a
    /// paused one before it was edited.
    SelectedOrRecorded(Vec<Arc<Rule>>, Arc<str>),
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
}

impl Seen {
    fn nothing() -> Self {
        let (touched, removed) = (Vec::new(), Vec::new());
        let enqueue = Enqueue::None;
        Self { enqueue, touched, removed, is_list: false }
    }
}

impl Rules {
    /// Returns no rules, which take this many bytes at most.
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            by_name: RuleStates::new(max_size),
            deleting: RuleStates::of_deleted(max_size),
            listing: None,
            listed: false,
            evidence: Evidence::Unneeded,
            hold: Hold::default(),
            set: OnceCell::new(),
            crowding: Crowding::default(),
        }
    }

    /// Handles an event of the watch. A rule counts as deleted once its deletion is requested.
    pub(super) fn observe(&mut self, event: Event<RuleObject>) -> Seen {
        match event {
            Event::Init => {
                let max_size = self.by_name.max_size();
                self.listing =
                    Some(Listing { rules: RuleStates::new(max_size), deleting: RuleStates::of_deleted(max_size) });
                Seen::nothing()
            }
            Event::InitApply(object) => {
                if let Some(Listing { rules, deleting }) = &mut self.listing {
                    let (name, mut state) = (object.name_any(), RuleState::new(object));
                    self.by_name.share(&name, &mut state);
                    let is_deleting = state.waits_for.is_some();
                    // There may be no memory to know it.
                    let is_back = !is_deleting && self.hold.is_back(&name);
                    let listed = if is_deleting { deleting } else { rules };
                    listed.insert(name.into(), state);
                    self.compile_again_if(is_back);
                }
                Seen::nothing()
            }
            Event::InitDone => {
                let Some(Listing { rules, deleting }) = self.listing.take() else { return Seen::nothing() };
                if self.evidence == Evidence::Listing {
                    self.evidence = Evidence::Complete;
                }
                let mut seen = self.replace(rules);
                self.replace_deleting(deleting, &mut seen);
                seen
            }
            Event::Apply(object) if object.meta().deletion_timestamp.is_none() => {
                let name: Arc<str> = object.name_any().into();
                let mut new = RuleState::new(object);
                self.by_name.share(&name, &mut new);
                self.deleting.remove(&name);
                let was_held = self.hold.exists(&name);
                let inserted = self.by_name.insert(Arc::clone(&name), new);
                let Inserted { before, stalled: mut touched, forgotten: removed } = inserted;
                let enqueue = self.changed(before, &name);
                // One that makes no room for itself changes nothing for others.
                let is_crowded = touched.iter().any(|stalled| *stalled != name) || !removed.is_empty();
                self.compile_again_if(is_crowded);
                // Held values may be on nodes that the rule no longer selects, and others may have made room for it.
                let enqueue = if was_held || is_crowded { Enqueue::All } else { enqueue };
                if self.by_name.contains(&name) && !touched.contains(&name) {
                    touched.push(name);
                }
                Seen { enqueue, touched, removed, ..Seen::nothing() }
            }
            Event::Apply(object) => self.observe_deletion(object),
            Event::Delete(object) => self.observe_end(&object),
        }
    }

    /// Needs a complete list that begins from now on: at the start of a term of leadership, and when a delay ends.
    pub(super) fn list_again(&mut self) {
        self.evidence = Evidence::Due;
    }

    /// Returns whether the watch must begin again, and so list the rules.
    pub(super) fn take_relist(&mut self, now: Instant) -> bool {
        let is_due = self.evidence == Evidence::Due;
        if is_due {
            self.evidence = Evidence::Listing;
        }
        let begins = is_due || self.listing.is_none() && self.crowding.take_relist(&self.by_name, now);
        if begins {
            // What is left of an earlier list does not arrive anymore.
            self.listing = None;
        }
        begins
    }

    /// Returns whether a complete list that began since [`Self::list_again`] shows which rules exist.
    pub(super) fn are_known(&self) -> bool {
        self.evidence == Evidence::Complete
    }

    fn replace(&mut self, rules: RuleStates) -> Seen {
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
        let removed = before.names().filter(|name| !self.by_name.contains(name)).cloned().collect();
        let enqueue = if same && !first {
            Enqueue::None
        } else {
            self.compile_again_if(true);
            Enqueue::All
        };
        let touched = self.by_name.names().cloned().collect();
        Seen { enqueue, touched, removed, is_list: true }
    }

    /// Handles a rule that is being deleted.
    fn observe_deletion(&mut self, object: RuleObject) -> Seen {
        let (name, rule) = (Arc::from(object.name_any()), RuleState::new(object));
        let mut seen = self.end(&name);
        self.deleting.insert(Arc::clone(&name), rule);
        if self.deleting.contains(&name) {
            seen.touched.push(name);
        }
        seen
    }

    /// Handles a rule that is gone.
    fn observe_end(&mut self, object: &RuleObject) -> Seen {
        let name = Arc::from(object.name_any());
        let mut seen = self.end(&name);
        if self.deleting.remove(&name).is_some() {
            seen.removed.push(name);
        }
        seen
    }

    /// Forgets what a rule declares.
    fn end(&mut self, name: &Arc<str>) -> Seen {
        let was_held = self.hold.deleted(name);
        self.compile_again_if(was_held);
        let Some(old) = self.by_name.remove(name) else {
            // A list has shown that before, but not why; or there was no memory to know it.
            let is_unknown = self.by_name.is_partial();
            self.compile_again_if(is_unknown);
            let enqueue = match was_held {
                true => Enqueue::All,
                false if is_unknown => Enqueue::SelectedOrRecorded(Vec::new(), Arc::clone(name)),
                false => Enqueue::None,
            };
            return Seen { enqueue, ..Seen::nothing() };
        };
        let enqueue = self.changed(Some(old), name);
        Seen { enqueue, removed: vec![Arc::clone(name)], ..Seen::nothing() }
    }

    /// Replaces the rules that are being deleted by those of a complete list of the watch.
    fn replace_deleting(&mut self, mut listed: RuleStates, seen: &mut Seen) {
        self.by_name.names().for_each(|name| drop(listed.remove(name)));
        // Their deletion is certain, unlike that of rules that a list lacks.
        let mut has_changed = false;
        for name in listed.names() {
            has_changed |= self.hold.deleted(name);
        }
        self.compile_again_if(has_changed);
        let before = std::mem::replace(&mut self.deleting, listed);
        let gone = before.names().filter(|name| !self.deleting.contains(name) && !self.by_name.contains(name));
        seen.removed.extend(gone.cloned());
        seen.touched.extend(self.deleting.names().cloned());
    }

    fn changed(&mut self, old: Option<RuleState>, name: &str) -> Enqueue {
        let new = self.by_name.get(name);
        let [old, new] = [old.as_ref(), new].map(|state| state.map(RuleState::planned));
        if old == new {
            return Enqueue::None;
        }
        self.set.take();
        let both = || old.into_iter().chain(new);
        let selected = both().filter_map(Result::ok).cloned().collect();
        if both().all(|rule| rule.is_ok_and(|rule| !rule.paused)) {
            Enqueue::Selected(selected)
        } else {
            Enqueue::SelectedOrRecorded(selected, name.into())
        }
    }

    fn compile_again_if(&mut self, has_changed: bool) {
        if has_changed {
            self.set.take();
        }
    }

    fn compile(&self) -> Arc<RuleSet> {
        let valid = self.by_name.values().filter_map(|state| state.planned().ok().cloned());
        let invalid = self.by_name.iter();
        let invalid = invalid.filter_map(|(name, state)| Some((Arc::clone(name), state.planned().err()?)));
        let held = self.hold.names().map(|name| (Arc::clone(name), None));
        let set = RuleSet::new(valid, invalid.chain(held));
        Arc::new(if self.by_name.is_partial() { set.among_others(self.hold.gone()) } else { set })
    }

    /// Decides after a complete list whether rules that ledgers name but that do not exist are held for `delay`.
    /// Returns whether nodes must be planned again.
    pub(super) fn hold_missing(&mut self, in_ledgers: &NamedRules, delay: Duration, now: Instant) -> bool {
        let by_name = &self.by_name;
        let existence = |name: &str| match by_name.contains(name) {
            true => Existence::Known,
            false if by_name.is_partial() => Existence::Possible,
            false => Existence::Missing,
        };
        let changed = self.hold.evaluate(in_ledgers, existence, delay, now);
        self.compile_again_if(changed);
        changed
    }

    /// Returns whether the list that ends the hold must be requested now, once.
    pub(super) fn take_due_list(&mut self, now: Instant) -> bool {
        self.hold.take_due_list(now)
    }

    /// Ends the hold after a complete list, if it waits for this list. Returns the number of rules that are held no
    /// longer.
    pub(super) fn end_hold(&mut self, delay: Duration, now: Instant) -> usize {
        let ended = self.hold.listed(delay, now).len();
        self.compile_again_if(ended > 0);
        ended
    }

    /// Ends the hold together with the term of leadership.
    pub(super) fn stand_by(&mut self) {
        self.evidence = Evidence::Unneeded;
        self.hold.stand_by();
        self.crowding.stand_by();
        self.compile_again_if(true);
    }

    /// Returns the held rules.
    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Returns whether all rules have been listed once. Until then, no rule counts as gone.
    #[cfg(test)]
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    /// Returns the rules for planning.
    pub(super) fn set(&self) -> &Arc<RuleSet> {
        self.set.get_or_init(|| self.compile())
    }

    /// Returns what the rules read from nodes, besides labels. It compiles nothing, since many events may follow.
    pub(super) fn facts(&self) -> FactNames {
        self.by_name.census().facts()
    }

    /// Returns whether values depend on pods: those that are kept, wherever they are, and those under `WhenFree` where
    /// `is_selecting` a node.
    pub(super) fn depend_on_pods(&self, is_selecting: impl Fn(&str) -> bool) -> bool {
        let census = self.by_name.census();
        let selects = |(name, state): (&Arc<str>, &RuleState)| {
            let is_when_free = |rule: &Arc<Rule>| rule.shrink_policy == ShrinkPolicy::WhenFree;
            state.rule.as_ref().is_ok_and(is_when_free) && is_selecting(name)
        };
        let is_needed = || census.has_when_free() && self.by_name.iter().any(selects);
        census.has_kept() || self.hold.len() > 0 || is_needed()
    }

    /// Returns whether the rules have begun to take nearly all memory that they may.
    pub(super) fn becomes_scarce(&mut self) -> bool {
        self.crowding.becomes_scarce(&self.by_name)
    }

    /// Returns how many bytes the rules take, or their states on nodes, whatever is more.
    pub(super) fn size(&self) -> usize {
        self.crowding.size(&self.by_name)
    }

    /// Stalls the youngest rules if the states of all on nodes, so many bytes for each rule, take more than they may.
    /// Returns them.
    pub(super) fn bound_states(&mut self, on_nodes: usize, of_rule: impl Fn(&str) -> usize) -> Vec<Arc<str>> {
        let stalled = self.crowding.bound_states(&mut self.by_name, on_nodes, of_rule);
        // Nodes are still to be planned without rules that have just been stalled.
        self.compile_again_if(!stalled.is_empty());
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

    /// Returns a rule that has a status: one that exists, or that is being deleted.
    pub(super) fn with_status(&self, name: &str) -> Option<&RuleState> {
        self.by_name.get(name).or_else(|| self.deleting.get(name))
    }

    /// Replaces the status that was observed of a rule.
    pub(super) fn set_status(&mut self, name: &str, status: ObservedStatus) {
        let rules = if self.by_name.contains(name) { &mut self.by_name } else { &mut self.deleting };
        rules.set_status(name, status);
    }

    /// Returns the names of all rules that have a status.
    pub(super) fn names_with_status(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.names().chain(self.deleting.names())
    }
}

#[cfg(test)]
mod tests;
