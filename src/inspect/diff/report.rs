//! The sum of the plans of all nodes.

use serde::Serialize;

use super::held::Held;
use super::node_diff::NodeDiff;
use super::prospect::Prospect;
use super::rows::Rows;
use super::rules::Note;
use super::sign::Sign;
use super::totals::Total;
use crate::planner::Outcome;

/// What to keep of each node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Whether to keep unchanged resources.
    pub all: bool,
    /// The form.
    pub keep: Keep,
}

/// The form in which nodes are kept, which determines the use of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Lines of a table. Many nodes with the same line are grouped.
    #[default]
    Groups,
    /// Lines of a table, one per node.
    Rows,
    /// The data of the output for programs.
    Nodes,
    /// The same with the patches, which take more memory than everything else.
    Patches,
}

/// Counts of resources, each once per node, and of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All planned nodes.
    pub nodes: usize,
    /// Added where there is nothing, or 0.
    pub add: usize,
    /// Changed in value or ledger entry.
    pub change: usize,
    /// Removed.
    pub remove: usize,
    /// Left as another field manager wrote them.
    pub conflicted: usize,
    /// Not repaired for now, because another field manager keeps changing them back.
    pub contested: usize,
    /// Above the declared quantity, because pods request it.
    pub held: usize,
    /// Above the declared quantity, with unknown pod requests: they may be lowered.
    pub maybe_held: usize,
    /// Not as declared, because the rule is paused.
    pub paused: usize,
    /// Not as declared, because the quantity that the rule takes from the node is unknown.
    pub quantity_unknown: usize,
    /// As declared.
    pub unchanged: usize,
    /// Nodes that do not change because their annotation cannot be read.
    pub unreadable: usize,
    /// Names in rules without a node.
    pub missing: usize,
}

/// The report on all nodes.
#[derive(Debug)]
pub struct Report {
    /// The nodes with findings, by name, if nodes are kept.
    pub nodes: Vec<NodeDiff>,
    /// The lines of the table, if lines are kept.
    pub(crate) rows: Rows,
    /// The resources whose values change, by name.
    pub totals: Vec<Total>,
    /// The resources that pods keep above what a rule declares, by name.
    pub held: Vec<Held>,
    /// Notes that are not about one node.
    pub notes: Vec<Note>,
    /// The counts.
    pub summary: Summary,
    /// How many values, names of nodes and rules do not become as declared: conflicts, held values, missing nodes, invalid
    /// rules and ledgers, and the like.
    pub shortfalls: usize,
}

impl Summary {
    /// Returns the number of certain changes.
    pub(crate) fn changes(&self) -> usize {
        self.add + self.change + self.remove
    }

    pub(super) fn count(&mut self, node_diff: &NodeDiff) {
        for change in &node_diff.changes {
            match change.sign {
                Sign::Add => self.add += 1,
                Sign::Change => self.change += 1,
                Sign::Remove => self.remove += 1,
                Sign::Problem | Sign::Unchanged => {}
            }
        }
        for outcome in &node_diff.outcomes {
            let is_changed = node_diff.changes(&outcome.resource);
            match &outcome.outcome {
                Prospect::Decided(Outcome::Advertised) if !is_changed => self.unchanged += 1,
                prospect if prospect.is_held() && !is_changed => self.held += 1,
                Prospect::Decided(Outcome::Conflicted { .. }) => self.conflicted += 1,
                Prospect::Decided(Outcome::Contested { .. }) => self.contested += 1,
                Prospect::MaybeHeld => self.maybe_held += 1,
                Prospect::Decided(Outcome::Paused { .. }) if !is_changed => self.paused += 1,
                Prospect::Decided(Outcome::QuantityUnknown { .. }) if !is_changed => self.quantity_unknown += 1,
                Prospect::Decided(_) | Prospect::Missing => {}
            }
        }
        self.unreadable += usize::from(node_diff.invalid_ledger.is_some());
    }
}

impl Report {
    /// Returns whether the controller would patch a node, or might, depending on unknown pods.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.summary.changes() + self.summary.maybe_held > 0
    }
}
