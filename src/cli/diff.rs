//! What the controller would do, shown and not done: the engine of the subcommand `plan`.
//!
//! ```text
//! rules of files ──┐
//! rules of cluster ┴▶ rules::Rules ─┐                            ┌▶ rows, the same ones put together ─▶ table
//!                                   ├─▶ plan ─▶ NodeDiff ─▶ filter ┼▶ totals, summary
//! nodes of files or of the cluster ─┘  (the controller's own)    └▶ nodes ─▶ JSON, YAML, patches
//!   └ pods, where a value is to be lowered
//! ```
//!
//! A table keeps no row per node: thousands of nodes with the same change are one row and a count.
//!
//! A rule of a file counts as if it had been applied, in place of the cluster's rule of that name.
//! What only the controller knows is taken from the status it wrote: which nodes are contested, of the
//! ten that a rule's status has room for.

mod amounts;
pub mod cluster;
pub mod files;
pub mod filter;
pub mod label_filter;
pub mod node_diff;
pub mod order;
mod prospect;
mod reasons;
mod render;
mod report;
mod rows;
pub mod rules;
mod sign;
pub mod totals;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

use crate::model::node::{ApiNode, Node};
use crate::planner::input::{PlanningInput, PodUsage};
use crate::planner::{NodePlan, plan};
use filter::{Filter, UnknownName};
use node_diff::NodeDiff;
use order::NodeName;
pub use render::{Format, TableLimits};
pub use report::{Detail, Keep, Report, Summary};
use rows::{Rows, rows};
use rules::{Note, NoteKind, Rules};
use totals::Totals;

/// Plans node after node.
#[derive(Debug)]
pub struct Preview {
    rules: Rules,
    filter: Filter,
    detail: Detail,
    nodes: BTreeMap<NodeName, NodeDiff>,
    rows: Rows,
    /// The names of all nodes that were planned, also of those that nothing is kept of.
    seen: HashSet<Arc<str>>,
    /// The rules that select a node.
    selecting: HashSet<Arc<str>>,
    totals: Totals,
    summary: Summary,
}

/// Why a node is not planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotPlanned {
    /// It would be two states of one node.
    #[error("the node {0} is given twice")]
    Twice(Arc<str>),
    /// It is none that a cluster has.
    #[error("a Node without metadata.name")]
    Nameless,
}

impl Preview {
    /// Nothing is planned yet.
    #[must_use]
    pub fn new(rules: Rules, filter: Filter, detail: Detail) -> Self {
        Self {
            rules,
            filter,
            detail,
            nodes: BTreeMap::new(),
            rows: Rows::new(detail.keep == Keep::Rows),
            seen: HashSet::new(),
            selecting: HashSet::new(),
            totals: Totals::default(),
            summary: Summary::default(),
        }
    }

    /// Drops what has been planned.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.rows.clear();
        self.seen.clear();
        self.selecting.clear();
        self.totals = Totals::default();
        self.summary = Summary::default();
    }

    /// How many nodes have been added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether a node is to be planned at all.
    pub fn admits(&mut self, node: &ApiNode) -> bool {
        self.filter.admits(node)
    }

    /// What the controller would do on a node.
    #[must_use]
    pub fn plan(&self, node: &Node, pods: PodUsage) -> NodePlan {
        let input = PlanningInput {
            contested: self.rules.contested(node),
            pods,
            ..PlanningInput::default()
        };
        plan(node, self.rules.set(), &input)
    }

    /// Takes in a node's plan.
    ///
    /// # Errors
    /// Where it is not a node that a cluster can have.
    pub fn add(&mut self, node: &Node, plan: NodePlan) -> Result<(), NotPlanned> {
        if node.name.is_empty() {
            return Err(NotPlanned::Nameless);
        }
        if !self.seen.insert(Arc::clone(&node.name)) {
            return Err(NotPlanned::Twice(Arc::clone(&node.name)));
        }
        for (rule, _) in &plan.outcomes {
            if !self.selecting.contains(rule) {
                self.selecting.insert(Arc::clone(rule));
            }
        }
        let mut node_diff = NodeDiff::new(node, plan, &self.rules);
        self.filter.apply(&mut node_diff);
        self.summary.count(&node_diff);
        node_diff.changes.iter().for_each(|change| self.totals.add(change));
        self.keep(node_diff);
        Ok(())
    }

    /// Keeps what the output has of a node.
    fn keep(&mut self, mut node_diff: NodeDiff) {
        let Detail { all, keep } = self.detail;
        let name = NodeName(Arc::clone(&node_diff.node));
        // Who asks for a rule wants to know which other one decides.
        let overridden = self.filter.leaves_out_rules();
        match keep {
            Keep::Groups | Keep::Rows => {
                for row in rows(&node_diff, all, overridden) {
                    self.rows.add(&name, row);
                }
                return;
            }
            Keep::Nodes => node_diff.patch = None,
            Keep::Patches => {}
        }
        if all || node_diff.has_findings(overridden) {
            self.nodes.insert(name, node_diff);
        }
    }

    /// What it all comes to.
    ///
    /// # Errors
    /// Where a name that the filter has is not found.
    pub fn finish(mut self) -> Result<Report, UnknownName> {
        self.filter.check(|name| self.rules.contains(name))?;
        let shown =
            |note: &&Note| note.rule.as_ref().is_none_or(|rule| self.filter.shows_rule(rule));
        let mut notes: Vec<_> = self.rules.notes().iter().filter(shown).cloned().collect();
        if self.filter.leaves_out_nodes() {
            // Of the nodes that are left out it is not known what rules select.
            if self.seen.is_empty() {
                let message = "-l selects no node".to_owned();
                notes.push(Note { rule: None, message, kind: NoteKind::EmptyFilter });
            }
        } else {
            self.add_missing(&mut notes);
        }
        self.summary.nodes = self.seen.len();
        let Self { nodes, rows, totals, summary, .. } = self;
        let nodes = nodes.into_values().collect();
        Ok(Report { nodes, rows, totals: totals.finish(), notes, summary })
    }

    /// Adds the names in rules that are no nodes, and notes rules that select none.
    fn add_missing(&mut self, notes: &mut Vec<Note>) {
        let mut missing = BTreeMap::<NodeName, NodeDiff>::new();
        for rule in self.rules.all().filter(|rule| self.filter.shows_rule(&rule.name)) {
            for name in rule.selection.names().filter(|name| !self.seen.contains(*name)) {
                self.summary.missing += 1;
                let node_diff = missing.entry(NodeName(Arc::clone(name)));
                node_diff.or_insert_with(|| NodeDiff::nothing(name)).miss(rule);
            }
            if rule.selection.names().next().is_none() && !self.selecting.contains(&rule.name) {
                let message = format!("rule {} selects no node", rule.name);
                let rule = Some(Arc::clone(&rule.name));
                notes.push(Note { rule, message, kind: NoteKind::NoNodeSelected });
            }
        }
        missing.into_values().for_each(|node_diff| self.keep(node_diff));
    }
}

#[cfg(test)]
mod tests;
