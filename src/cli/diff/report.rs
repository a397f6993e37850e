//! What the plans of all nodes add up to.

use serde::Serialize;

use super::node_diff::NodeDiff;
use super::prospect::Prospect;
use super::rows::Rows;
use super::rules::Note;
use super::sign::Sign;
use super::totals::Total;
use crate::planner::Outcome;

/// What is kept of each node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Also of resources that stay as they are.
    pub all: bool,
    /// In which form.
    pub keep: Keep,
}

/// The form in which nodes are kept, which is all that takes memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Lines for people. Many nodes with the same line are one.
    #[default]
    Groups,
    /// Lines for people, with each node's name.
    Rows,
    /// What programs read.
    Nodes,
    /// What programs read, with the patches, which take more memory than all the rest.
    Patches,
}

/// How many resources, each counted once for every node that it is on, and nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All nodes that were planned.
    pub nodes: usize,
    /// To be put where there is nothing, or 0.
    pub add: usize,
    /// To be written over, or listed otherwise.
    pub change: usize,
    /// To be taken away.
    pub remove: usize,
    /// Left as another field manager wrote them.
    pub conflicted: usize,
    /// Not repaired for now, since another field manager keeps changing them back.
    pub contested: usize,
    /// Above what is declared, since pods request that much.
    pub held: usize,
    /// Above what is declared, and what pods request is not known: they may be lowered.
    pub maybe_held: usize,
    /// As declared.
    pub unchanged: usize,
    /// Nodes that do not change, since the annotation on them cannot be read.
    pub unreadable: usize,
    /// Names in rules that are no nodes.
    pub missing: usize,
}

/// What all nodes come to.
#[derive(Debug)]
pub struct Report {
    /// Those with a finding, by name, where nodes are kept.
    pub nodes: Vec<NodeDiff>,
    /// The lines of the table, where these are kept.
    pub(super) rows: Rows,
    /// The resources whose values change, by name.
    pub totals: Vec<Total>,
    /// What is not about one node.
    pub notes: Vec<Note>,
    /// The counts.
    pub summary: Summary,
}

impl Summary {
    /// How many changes there are for certain.
    pub(super) fn changes(&self) -> usize {
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
                Prospect::Decided(_) | Prospect::Missing => {}
            }
        }
        self.unreadable += usize::from(node_diff.invalid_ledger.is_some());
    }
}

impl Report {
    /// Whether the controller would patch a node, or might: that depends on pods that are not known.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.summary.changes() + self.summary.maybe_held > 0
    }
}
