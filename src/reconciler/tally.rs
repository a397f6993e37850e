//! Counts the nodes of each rule by state, node by node: a change on one node costs the same for ten nodes as for a
//! hundred thousand.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::standing::{Carries, STATES, Standing, State, TABLE};
use crate::model::quantity::Quantity;
use crate::planner::Outcome;

/// About how many bytes the state of a rule on a node takes, with its place among the problems. Most nodes share theirs.
const STANDING_SIZE: usize = 128;

/// The maximum number of nodes in `problems`.
pub(super) const MAX_PROBLEMS: usize = 10;

/// The counts of every rule that selects a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    rules: HashMap<Arc<str>, Counts>,
    totals: [usize; STATES],
    /// Rules whose counts changed since the last call.
    changed: BTreeSet<Arc<str>>,
}

/// The nodes that one rule selects, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) by_state: [usize; STATES],
    /// The number of overridden nodes where only age or name decides, with another quantity.
    pub(super) tied: usize,
    /// The rules that decide instead, each with its number of nodes.
    pub(super) overridden_by: BTreeMap<Arc<str>, usize>,
    /// Each node with a problem.
    pub(super) problems: BTreeMap<Arc<str>, Problem>,
    /// The sum of the quantities on nodes that do not have the rule's one quantity.
    pub(super) carried: Quantity,
}

/// A rule on all nodes that it selects.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage<'a> {
    /// `None` if it selects none.
    pub(super) counts: Option<&'a Counts>,
    /// The first nodes with a problem, by name, at most [`MAX_PROBLEMS`].
    pub(super) problems: Vec<Detail<'a>>,
    /// The first contested nodes, likewise.
    pub(super) contested: Vec<Detail<'a>>,
}

/// A problem of a rule on one node, with its details.
#[derive(Clone, Debug)]
pub(super) struct Detail<'a> {
    pub(super) node: &'a str,
    pub(super) standing: &'a Standing,
    /// Why the quantity cannot be read from the node, if it cannot.
    pub(super) unknown: Arc<str>,
}

/// A problem of a rule on a node, whose details are with the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) state: State,
    /// The place of the rule among those that select the node.
    pub(super) place: u32,
}

/// The rules that select a node, each with its state there.
pub(super) type Standings = [(Arc<str>, Standing)];

impl Counts {
    /// Returns the number of nodes in a state.
    pub(super) fn of(&self, state: State) -> usize {
        self.by_state[state as usize]
    }

    pub(super) fn selected(&self) -> usize {
        self.by_state.iter().sum()
    }

    /// Returns about how many bytes the states of the rule on its nodes take.
    pub(super) fn size(&self) -> usize {
        self.selected() * STANDING_SIZE
    }

    /// Returns the total quantity on the nodes of a rule. `quantity` is `None` if it is read from each node.
    pub(super) fn total(&self, quantity: Option<Quantity>) -> Quantity {
        let declared = quantity.unwrap_or_default().saturating_mul(self.of(State::Advertised));
        declared.saturating_add(self.carried)
    }

    /// Returns counts with these numbers of nodes per state.
    #[cfg(test)]
    pub(super) fn for_test(states: &[(State, usize)]) -> Self {
        let mut counts = Self::default();
        for (state, count) in states {
            counts.by_state[*state as usize] = *count;
        }
        counts
    }

    pub(super) fn add(&mut self, node: &Arc<str>, place: usize, standing: &Standing) {
        let state = standing.state();
        self.by_state[state as usize] += 1;
        if let Standing::Planned(Outcome::Overridden { by, tied }) = standing {
            self.tied += usize::from(*tied);
            *self.overridden_by.entry(Arc::clone(by)).or_default() += 1;
        }
        if let Carries::Quantity(at) = standing.carries() {
            self.carried = self.carried.saturating_add(at);
        }
        if state.is_problem() {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            self.problems.insert(Arc::clone(node), Problem { state, place });
        }
    }

    fn subtract(&mut self, node: &Arc<str>, standing: &Standing) {
        let count = &mut self.by_state[standing.state() as usize];
        *count = count.saturating_sub(1);
        if let Standing::Planned(Outcome::Overridden { by, tied }) = standing {
            self.tied = self.tied.saturating_sub(usize::from(*tied));
            if let Some(count) = self.overridden_by.get_mut(by) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.overridden_by.remove(by);
                }
            }
        }
        if let Carries::Quantity(at) = standing.carries() {
            self.carried = self.carried.saturating_sub(at);
        }
        self.problems.remove(node);
    }
}

impl Tally {
    /// Moves a node from its old states to its new ones.
    pub(super) fn update(&mut self, node: &Arc<str>, old: &Standings, new: &Standings) {
        for (_, (rule, standing)) in differing(old, new) {
            if let Some(counts) = self.rules.get_mut(rule) {
                counts.subtract(node, standing);
                if counts.selected() == 0 {
                    self.rules.remove(rule);
                }
            }
            let total = &mut self.totals[standing.state() as usize];
            *total = total.saturating_sub(1);
            self.changed.insert(Arc::clone(rule));
        }
        for (place, (rule, standing)) in differing(new, old) {
            self.rules.entry(Arc::clone(rule)).or_default().add(node, place, standing);
            self.totals[standing.state() as usize] += 1;
            self.changed.insert(Arc::clone(rule));
        }
    }

    /// Returns the counts of a rule; `None` if it selects no node.
    pub(super) fn counts(&self, rule: &str) -> Option<&Counts> {
        self.rules.get(rule)
    }

    /// Returns about how many bytes the states of all rules on all nodes take.
    pub(super) fn size(&self) -> usize {
        self.totals.iter().sum::<usize>() * STANDING_SIZE
    }

    /// Returns the number of nodes in each state, by name, over all rules.
    pub(super) fn totals(&self) -> impl Iterator<Item = (&'static str, usize)> {
        TABLE.iter().map(|row| row.name).zip(self.totals)
    }

    /// Returns the rules whose counts changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed)
    }
}

/// Returns the states that others do not have in the same place, each with its place.
fn differing<'a>(
    states: &'a Standings,
    others: &'a Standings,
) -> impl Iterator<Item = (usize, &'a (Arc<str>, Standing))> {
    states.iter().enumerate().filter(|(place, one)| others.get(*place) != Some(*one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_counts_follow_changed_standings() {
        let mut tally = Tally::default();
        let node = |name: &str| Arc::<str>::from(name);
        let conflicted = Standing::Planned(Outcome::Conflicted { present: "8".to_owned(), manager: None });
        let rule: Arc<str> = "dongle".into();
        let pending = [(Arc::clone(&rule), Standing::Pending)];
        let advertised = [(Arc::clone(&rule), Standing::Planned(Outcome::Advertised))];
        let in_conflict = [(Arc::clone(&rule), conflicted)];

        tally.update(&node("a"), &[], &pending);
        tally.update(&node("b"), &[], &in_conflict);
        assert_eq!(tally.take_changed().into_iter().collect::<Vec<_>>(), [Arc::clone(&rule)]);
        tally.update(&node("a"), &pending, &advertised);
        let counts = tally.counts("dongle").unwrap();
        let states = [State::Advertised, State::Pending, State::Conflicted];
        assert_eq!(states.map(|state| counts.of(state)), [1, 0, 1]);
        assert_eq!(counts.problems.get("b"), Some(&Problem { state: State::Conflicted, place: 0 }));
        let totals: Vec<_> = tally.totals().filter(|(_, count)| *count > 0).collect();
        assert_eq!(totals, [("conflicted", 1), ("advertised", 1)]);

        let other: Arc<str> = "key".into();
        let both =
            [(Arc::clone(&rule), Standing::Planned(Outcome::Advertised)), (Arc::clone(&other), Standing::Pending)];
        let one_less = [
            (Arc::clone(&rule), Standing::Planned(Outcome::Advertised)),
            (Arc::clone(&other), Standing::Planned(Outcome::Advertised)),
        ];
        tally.update(&node("d"), &[], &both);
        tally.take_changed();
        tally.update(&node("d"), &both, &one_less);
        assert_eq!(tally.take_changed().into_iter().collect::<Vec<_>>(), [other], "the other rule stands as before");
        tally.update(&node("d"), &one_less, &[]);

        let overridden = [(Arc::clone(&rule), Standing::Planned(Outcome::Overridden { by: node("x"), tied: true }))];
        tally.update(&node("c"), &[], &overridden);
        let counts = tally.counts("dongle").unwrap();
        assert_eq!((counts.tied, counts.overridden_by.get("x")), (1, Some(&1)));
        tally.update(&node("c"), &overridden, &[]);
        let counts = tally.counts("dongle").unwrap();
        assert_eq!((counts.tied, counts.overridden_by.len()), (0, 0));

        tally.take_changed();
        tally.update(&node("a"), &advertised, &advertised);
        assert!(tally.take_changed().is_empty(), "nothing changed");
        tally.update(&node("a"), &advertised, &[]);
        tally.update(&node("b"), &in_conflict, &[]);
        assert_eq!(tally.counts("dongle"), None);
        assert!(tally.totals().all(|(_, count)| count == 0));
    }
}
