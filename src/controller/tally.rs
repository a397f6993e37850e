//! How many nodes each rule has in which state, kept up to date node by node: a change on one node
//! costs the same whether there are ten or a hundred thousand.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::plan::Outcome;

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
    pub(super) overridden: usize,
    pub(super) conflicted: usize,
    pub(super) failed: usize,
    pub(super) unreadable: usize,
    /// The outcome on each node where it is a conflict or a failure.
    pub(super) problems: BTreeMap<Arc<str>, Outcome>,
}

impl Counts {
    pub(super) fn selected(&self) -> usize {
        let Self { advertised, pending, overridden, conflicted, failed, unreadable, problems: _ } =
            self;
        advertised + pending + overridden + conflicted + failed + unreadable
    }

    fn slot(&mut self, outcome: &Outcome) -> &mut usize {
        match outcome {
            Outcome::Advertised => &mut self.advertised,
            Outcome::Pending => &mut self.pending,
            Outcome::Overridden { .. } => &mut self.overridden,
            Outcome::Conflicted { .. } => &mut self.conflicted,
            Outcome::Failed { .. } => &mut self.failed,
            Outcome::LedgerUnreadable { .. } => &mut self.unreadable,
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
                let slot = counts.slot(outcome);
                *slot = slot.saturating_sub(1);
                counts.problems.remove(node);
                if counts.selected() == 0 {
                    self.rules.remove(rule);
                }
            }
            self.changed.insert(Arc::clone(rule));
        }
        for (rule, outcome) in new {
            let counts = self.rules.entry(Arc::clone(rule)).or_default();
            *counts.slot(outcome) += 1;
            if outcome.is_problem() {
                counts.problems.insert(Arc::clone(node), outcome.clone());
            }
            self.changed.insert(Arc::clone(rule));
        }
    }

    /// The counts of one rule; `None` where it selects no node.
    pub(super) fn counts(&self, rule: &str) -> Option<&Counts> {
        self.rules.get(rule)
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
    fn counts_by_difference() {
        let mut tally = Tally::default();
        let node = |name: &str| Arc::<str>::from(name);
        let conflicted = Outcome::Conflicted { present: "8".to_owned(), writer: None };
        let rule: Arc<str> = "dongle".into();
        let pending = [(Arc::clone(&rule), Outcome::Pending)];
        let advertised = [(Arc::clone(&rule), Outcome::Advertised)];
        let in_conflict = [(Arc::clone(&rule), conflicted.clone())];

        tally.update(&node("a"), &[], &pending);
        tally.update(&node("b"), &[], &in_conflict);
        assert_eq!(tally.take_changed().into_iter().collect::<Vec<_>>(), [rule]);
        tally.update(&node("a"), &pending, &advertised);
        let counts = tally.counts("dongle").unwrap();
        assert_eq!((counts.advertised, counts.pending, counts.conflicted), (1, 0, 1));
        assert_eq!(counts.problems.get("b"), Some(&conflicted));

        tally.take_changed();
        tally.update(&node("a"), &advertised, &advertised);
        assert!(tally.take_changed().is_empty(), "nothing changed");
        tally.update(&node("a"), &advertised, &[]);
        tally.update(&node("b"), &in_conflict, &[]);
        assert_eq!(tally.counts("dongle"), None);
    }
}
