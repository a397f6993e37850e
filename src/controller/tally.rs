//! How many nodes each rule has in which state, kept up to date node by node: a change on one node
//! costs the same whether there are ten or a hundred thousand.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::controller::outcome::Outcome;

/// The most nodes that `problems` names.
pub(super) const MAX_PROBLEMS: usize = 10;

/// The counts of every rule that selects a node.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rules: HashMap<Arc<str>, Counts>,
    /// Rules whose counts changed since they were last asked for.
    changed: BTreeSet<Arc<str>>,
}

/// The nodes that one rule selects, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) advertised: usize,
    pub(super) pending: usize,
    /// Carrying more than is declared, since pods use it.
    pub(super) held: usize,
    /// The same, since pods cannot be listed.
    pub(super) pods_unavailable: usize,
    pub(super) overridden: usize,
    pub(super) conflicted: usize,
    pub(super) contested: usize,
    pub(super) failed: usize,
    pub(super) invalid_ledger: usize,
    /// How many of the overridden only age or name decides about, with another quantity.
    pub(super) tied: usize,
    /// The rules that decide instead, each with the number of nodes.
    pub(super) overridden_by: BTreeMap<Arc<str>, usize>,
    /// The outcome on each node where it is a conflict or a failure.
    pub(super) problems: BTreeMap<Arc<str>, Outcome>,
}

impl Counts {
    /// How many nodes are in which state, by its name.
    pub(super) fn by_state(&self) -> [(&'static str, usize); 9] {
        [
            ("advertised", self.advertised),
            ("pending", self.pending),
            ("held", self.held),
            ("pods_unavailable", self.pods_unavailable),
            ("overridden", self.overridden),
            ("conflicted", self.conflicted),
            ("contested", self.contested),
            ("failed", self.failed),
            ("invalid_ledger", self.invalid_ledger),
        ]
    }

    pub(super) fn selected(&self) -> usize {
        self.by_state().iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, node: &Arc<str>, outcome: &Outcome) {
        *self.slot(outcome) += 1;
        if let Outcome::Overridden { by, tied } = outcome {
            self.tied += usize::from(*tied);
            *self.overridden_by.entry(Arc::clone(by)).or_default() += 1;
        }
        if outcome.is_problem() {
            self.problems.insert(Arc::clone(node), outcome.clone());
        }
    }

    /// Takes back what was added.
    fn subtract(&mut self, node: &Arc<str>, outcome: &Outcome) {
        let slot = self.slot(outcome);
        *slot = slot.saturating_sub(1);
        if let Outcome::Overridden { by, tied } = outcome {
            self.tied = self.tied.saturating_sub(usize::from(*tied));
            if let Some(count) = self.overridden_by.get_mut(by) {
                *count = count.saturating_sub(1);
            }
            self.overridden_by.retain(|_, count| *count > 0);
        }
        self.problems.remove(node);
    }

    fn slot(&mut self, outcome: &Outcome) -> &mut usize {
        match outcome {
            Outcome::Advertised => &mut self.advertised,
            Outcome::Pending => &mut self.pending,
            Outcome::Held { pods_error: None, .. } => &mut self.held,
            Outcome::Held { pods_error: Some(_), .. } => &mut self.pods_unavailable,
            Outcome::Overridden { .. } => &mut self.overridden,
            Outcome::Conflicted { .. } => &mut self.conflicted,
            Outcome::Contested { .. } => &mut self.contested,
            Outcome::Failed { .. } => &mut self.failed,
            Outcome::InvalidLedger { .. } => &mut self.invalid_ledger,
        }
    }
}

/// The rules that select a node, and what becomes of each there.
pub(super) type Outcomes = [(Arc<str>, Outcome)];

impl Tally {
    /// Counts a node in its new state in place of its old one.
    pub(super) fn update(&mut self, node: &Arc<str>, old: &Outcomes, new: &Outcomes) {
        if old == new {
            return;
        }
        for (rule, outcome) in old {
            if let Some(counts) = self.rules.get_mut(rule) {
                counts.subtract(node, outcome);
                if counts.selected() == 0 {
                    self.rules.remove(rule);
                }
            }
            self.changed.insert(Arc::clone(rule));
        }
        for (rule, outcome) in new {
            self.rules.entry(Arc::clone(rule)).or_default().add(node, outcome);
            self.changed.insert(Arc::clone(rule));
        }
    }

    /// The counts of one rule; `None` where it selects no node.
    pub(super) fn counts(&self, rule: &str) -> Option<&Counts> {
        self.rules.get(rule)
    }

    /// How many nodes are in which state, over all rules.
    pub(super) fn totals(&self) -> [(&'static str, usize); 9] {
        let mut totals = Counts::default().by_state();
        for counts in self.rules.values() {
            for (total, (_, count)) in totals.iter_mut().zip(counts.by_state()) {
                total.1 += count;
            }
        }
        totals
    }

    /// The rules whose counts changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_counts_follow_changed_outcomes() {
        let mut tally = Tally::default();
        let node = |name: &str| Arc::<str>::from(name);
        let conflicted = Outcome::Conflicted { present: "8".to_owned(), manager: None };
        let rule: Arc<str> = "dongle".into();
        let pending = [(Arc::clone(&rule), Outcome::Pending)];
        let advertised = [(Arc::clone(&rule), Outcome::Advertised)];
        let in_conflict = [(Arc::clone(&rule), conflicted.clone())];

        tally.update(&node("a"), &[], &pending);
        tally.update(&node("b"), &[], &in_conflict);
        assert_eq!(tally.take_changed().into_iter().collect::<Vec<_>>(), [Arc::clone(&rule)]);
        tally.update(&node("a"), &pending, &advertised);
        let counts = tally.counts("dongle").unwrap();
        assert_eq!((counts.advertised, counts.pending, counts.conflicted), (1, 0, 1));
        assert_eq!(counts.problems.get("b"), Some(&conflicted));

        let overridden = [(Arc::clone(&rule), Outcome::Overridden { by: node("x"), tied: true })];
        tally.update(&node("c"), &[], &overridden);
        let counts = tally.counts("dongle").unwrap();
        assert_eq!((counts.tied, counts.overridden_by.get("x")), (1, Some(&1)));
        tally.update(&node("c"), &overridden, &[]);
        let counts = tally.counts("dongle").unwrap();
        assert_eq!((counts.tied, counts.overridden_by.len()), (0, 0));

        let states = tally.totals().map(|(state, _)| state);
        assert_eq!(
            states,
            crate::controller::metrics::NODE_STATES,
            "a series that is there from the start"
        );
        tally.take_changed();
        tally.update(&node("a"), &advertised, &advertised);
        assert!(tally.take_changed().is_empty(), "nothing changed");
        tally.update(&node("a"), &advertised, &[]);
        tally.update(&node("b"), &in_conflict, &[]);
        assert_eq!(tally.counts("dongle"), None);
    }
}
