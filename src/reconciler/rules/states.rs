//! Rules by name, in bounded memory: whoever may write rules must not be able to end the process.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::census::Census;
use super::observed_status::ObservedStatus;
use super::state::{RuleState, Stalled};

/// Rules by name. If they take more than they may, the youngest are stalled; if even that is too much, the youngest are
/// forgotten.
#[derive(Clone, Debug)]
pub(crate) struct RuleStates {
    by_name: BTreeMap<Arc<str>, RuleState>,
    census: Census,
    /// The rules in force, oldest first, and those that are not.
    in_force: BTreeSet<Age>,
    stalled: BTreeSet<Age>,
    /// The rules that stalled because they did not fit, oldest first.
    unfit: BTreeSet<Age>,
    /// How many bytes those in force take, and how many they may; those that are not may take a quarter of that besides, so
    /// that they displace none.
    size: usize,
    max_size: usize,
    stalled_size: usize,
    /// Whether a rule was forgotten.
    is_partial: bool,
}

/// The part of the memory that must be free before rules are listed again.
const ROOM_TO_SPARE: usize = 16;

/// Rules that are not in force may take this part of what those in force may.
const STALLED_SHARE: usize = 4;

/// Rules that are being deleted may take this part of what others may. More of them have no status that reports it.
const DELETED_SHARE: usize = 4;

/// What an insertion has changed.
#[derive(Debug)]
pub(super) struct Inserted {
    /// The rule of this name before.
    pub(super) before: Option<RuleState>,
    /// The rules that made room and are stalled.
    pub(super) stalled: Vec<Arc<str>>,
    /// The rules that made room and are forgotten.
    pub(super) forgotten: Vec<Arc<str>>,
}

/// The age of a rule. One without a time is the youngest.
type Age = (bool, Option<Timestamp>, Arc<str>);

fn age(name: &Arc<str>, state: &RuleState) -> Age {
    (state.created.is_none(), state.created, Arc::clone(name))
}

impl RuleStates {
    pub(crate) fn new(max_size: usize) -> Self {
        let (in_force, stalled, unfit) = Default::default();
        Self {
            by_name: BTreeMap::new(),
            census: Census::default(),
            in_force,
            stalled,
            unfit,
            size: 0,
            max_size,
            stalled_size: 0,
            is_partial: false,
        }
    }

    /// Returns none of the rules that are being deleted, beside others that take this many bytes at most.
    pub(super) fn of_deleted(max_size: usize) -> Self {
        Self::new(max_size / DELETED_SHARE)
    }

    /// Adds or replaces a rule. The youngest rules make room for it.
    pub(super) fn insert(&mut self, name: Arc<str>, state: RuleState) -> Inserted {
        let before = self.remove(&name);
        self.add(name, state);
        let (mut stalled, mut forgotten) = (Vec::new(), Vec::new());
        while self.size > self.max_size
            && let Some((.., youngest)) = self.in_force.last().cloned()
        {
            self.stall(&youngest, 0);
            stalled.push(youngest);
        }
        while self.stalled_size > self.max_size / STALLED_SHARE
            && let Some((.., youngest)) = self.stalled.last().cloned()
        {
            self.remove(&youngest);
            self.is_partial = true;
            forgotten.push(youngest);
        }
        stalled.retain(|name| self.by_name.contains_key(name));
        Inserted { before, stalled, forgotten }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<RuleState> {
        let (name, state) = self.by_name.remove_entry(name)?;
        *self.size_of(&state) -= state.size();
        self.census.remove(&state);
        let age = age(&name, &state);
        for ages in [&mut self.in_force, &mut self.stalled, &mut self.unfit] {
            ages.remove(&age);
        }
        Some(state)
    }

    fn add(&mut self, name: Arc<str>, state: RuleState) {
        *self.size_of(&state) += state.size();
        self.census.add(&state);
        let age = age(&name, &state);
        match &state.rule {
            Ok(_) => self.in_force.insert(age),
            Err(Stalled::Invalid(_)) => self.stalled.insert(age),
            Err(Stalled::MemoryFull { .. }) => {
                self.unfit.insert(age.clone());
                self.stalled.insert(age)
            }
        };
        self.by_name.insert(name, state);
    }

    fn size_of(&mut self, state: &RuleState) -> &mut usize {
        if state.rule.is_ok() { &mut self.size } else { &mut self.stalled_size }
    }

    fn stall(&mut self, name: &Arc<str>, on_nodes: usize) {
        if let Some(mut state) = self.remove(name) {
            state.rule = Err(Stalled::MemoryFull { size: state.size(), on_nodes });
            self.add(Arc::clone(name), state);
        }
    }

    /// Stalls the youngest rules, until the states of those in force on nodes fit: so many bytes for each rule. Returns
    /// them.
    pub(super) fn stall_by_states(&mut self, of_rule: impl Fn(&str) -> usize) -> Vec<Arc<str>> {
        let (mut room, mut stalled) = (self.max_size, Vec::new());
        for (.., name) in self.in_force.clone() {
            let on_nodes = of_rule(&name);
            match room.checked_sub(on_nodes) {
                Some(left) => room = left,
                None => {
                    room = 0;
                    self.stall(&name, on_nodes);
                    stalled.push(name);
                }
            }
        }
        stalled
    }

    /// Replaces the status that was observed of a rule.
    pub(super) fn set_status(&mut self, name: &str, status: ObservedStatus) {
        if let Some(state) = self.by_name.get_mut(name) {
            state.status = Some(status);
        }
    }

    /// Uses a rule of `others` where this one is equal, so that both together take the memory of one.
    pub(super) fn share(&self, name: &str, state: &mut RuleState) {
        let known = self.by_name.get(name).and_then(|known| known.rule.as_ref().ok());
        if let (Ok(rule), Some(known)) = (&mut state.rule, known)
            && rule == known
        {
            *rule = Arc::clone(known);
        }
    }

    /// Returns whether a rule that does not fit would fit by now, with some room to spare, while the states of rules on
    /// nodes take this many bytes together.
    pub(super) fn has_room_again(&self, on_nodes: usize) -> bool {
        let oldest = self.unfit.first().and_then(|(.., name)| self.by_name.get(name));
        let needs = oldest.and_then(|state| match state.rule {
            Err(Stalled::MemoryFull { size, on_nodes }) => Some((size, on_nodes)),
            _ => None,
        });
        let Some((more, more_on_nodes)) = needs.or(self.is_partial.then_some((0, 0))) else { return false };
        let has_room = |taken: usize, more: usize| taken + more + self.max_size / ROOM_TO_SPARE <= self.max_size;
        has_room(self.size, more) && has_room(on_nodes, more_on_nodes)
    }

    pub(super) fn census(&self) -> &Census {
        &self.census
    }

    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Returns the number of rules that are stalled because they do not fit.
    pub(crate) fn unfit(&self) -> usize {
        self.unfit.len()
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn max_size(&self) -> usize {
        self.max_size
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<&RuleState> {
        self.by_name.get(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn iter(&self) -> btree_map::Iter<'_, Arc<str>, RuleState> {
        self.by_name.iter()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &RuleState> {
        self.by_name.values()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use k8s_openapi::jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::reconciler::rules::RuleObject;

    /// A rule that was created this many seconds after the first, with this many names.
    fn rule(name: &str, second: i64, names: usize) -> (Arc<str>, RuleState) {
        let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        let names: Vec<_> = (0..names).map(|number| format!("node-{number}")).collect();
        let object: RuleObject = serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": created},
            "spec": {"resourceName": "example.com/dongle", "quantity": 4, "nodeNames": names},
        }))
        .unwrap();
        (name.into(), RuleState::new(object))
    }

    /// Each rule, with `!` where it is stalled.
    fn known(states: &RuleStates) -> String {
        states.iter().fold(String::new(), |mut text, (name, state)| {
            let _ = write!(text, "{name}{}", if state.rule.is_ok() { "" } else { "!" });
            text
        })
    }

    fn filled(max_size: usize, rules: impl IntoIterator<Item = (Arc<str>, RuleState)>) -> RuleStates {
        let mut states = RuleStates::new(max_size);
        rules.into_iter().for_each(|(name, state)| drop(states.insert(name, state)));
        states
    }

    #[test]
    fn youngest_rules_are_stalled_in_whatever_order_they_come() {
        let size = rule("a", 1, 100).1.size();
        let rules = || [rule("a", 3, 100), rule("b", 1, 100), rule("c", 4, 100), rule("d", 2, 100)];
        for turn in 0..4 {
            let mut rules = Vec::from(rules());
            rules.rotate_left(turn);
            let states = filled(size * 5 / 2, rules);
            assert_eq!(known(&states), "a!bc!d", "rotated by {turn}");
            assert!(states.size() <= states.max_size() && states.unfit() == 2 && !states.is_partial());
        }
    }

    #[test]
    fn insertion_names_the_rules_that_made_room() {
        let size = rule("a", 1, 100).1.size();
        let mut states = filled(size * 5 / 2, [rule("b", 2, 100), rule("c", 3, 100)]);
        let (name, state) = rule("a", 1, 100);
        let inserted = states.insert(name, state);
        assert_eq!((inserted.stalled, inserted.forgotten), (vec!["c".into()], vec![]));
        let (name, state) = rule("d", 4, 100);
        assert_eq!(states.insert(name, state).stalled, ["d".into()]);
    }

    #[test]
    fn stalled_rules_are_forgotten_where_even_they_do_not_fit() {
        // Room for seven in force, and four others.
        let states = filled(16 * 1024, (0..100).map(|second| rule(&format!("{second:02}"), second, 1)));
        assert_eq!((states.len(), states.unfit(), states.is_partial()), (11, 4, true), "{}", known(&states));
        assert!(states.contains("00") && states.contains("10"), "the oldest");
    }

    #[test]
    fn rules_are_listed_again_once_the_oldest_that_did_not_fit_has_room() {
        let size = rule("a", 1, 100).1.size();
        let mut states = filled(size * 7 / 2, (0..5).map(|second| rule(&second.to_string(), second, 100)));
        assert_eq!((known(&states).as_str(), states.has_room_again(0)), ("0123!4!", false));
        states.remove("4");
        assert!(!states.has_room_again(0), "{}", states.size());
        states.remove("0");
        assert!(states.has_room_again(0));
        states.remove("3");
        assert!(!states.has_room_again(0), "nothing waits");
    }

    #[test]
    fn equal_rules_take_memory_once() {
        let states = filled(usize::MAX, [rule("a", 1, 100)]);
        let (name, mut state) = rule("a", 1, 100);
        states.share(&name, &mut state);
        assert!(Arc::ptr_eq(state.rule.as_ref().unwrap(), states.get("a").unwrap().rule.as_ref().unwrap()));
        let (name, mut state) = rule("a", 1, 99);
        states.share(&name, &mut state);
        assert_eq!(state, rule("a", 1, 99).1);
    }
}
