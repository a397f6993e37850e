//! What the controller would do, told and not done: the engine of the subcommand `plan`.
//!
//! ```text
//! rules of files ──┐
//! rules of cluster ┴▶ rules::Rules ─┐
//!                                   ├─▶ plan ─▶ forecast ─▶ Report ─▶ table, JSON, YAML, patches
//! nodes of files or of the cluster ─┘  (the controller's own)
//!   └ pods, where a value is to be lowered
//! ```
//!
//! A rule of a file counts as if it had been applied, in place of the cluster's rule of that name.
//! What only the controller knows is taken from the status it wrote: which nodes are contested, of the
//! ten that a rule's status has room for.

pub mod cluster;
pub mod files;
pub mod node_diff;
mod reasons;
mod render;
mod report;
mod result_kind;
pub mod rules;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

use crate::model::node::Node;
use crate::planner::input::{PlanningInput, PodUsage};
use crate::planner::{Plan, plan};
use node_diff::NodeDiff;
pub use render::Format;
pub use report::{Detail, Report, Summary};
use rules::Rules;

/// Plans node after node.
#[derive(Debug)]
pub struct Preview {
    rules: Rules,
    detail: Detail,
    nodes: BTreeMap<Arc<str>, NodeDiff>,
    /// The names of all nodes, also of those that nothing is kept of.
    seen: HashSet<Arc<str>>,
    /// The rules that select a node.
    selecting: HashSet<Arc<str>>,
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
    pub fn new(rules: Rules, detail: Detail) -> Self {
        Self {
            rules,
            detail,
            nodes: BTreeMap::new(),
            seen: HashSet::new(),
            selecting: HashSet::new(),
            summary: Summary::default(),
        }
    }

    /// Drops what has been planned.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.seen.clear();
        self.selecting.clear();
        self.summary = Summary::default();
    }

    /// How many nodes have been added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// What the controller would do on a node.
    #[must_use]
    pub fn plan(&self, node: &Node, pod_usage: PodUsage) -> Plan {
        let input = PlanningInput { contested: self.rules.contested(node), pod_usage };
        plan(node, self.rules.set(), &input)
    }

    /// Takes in a node's plan.
    ///
    /// # Errors
    /// Where it is not a node that a cluster can have.
    pub fn add(&mut self, node: &Node, plan: Plan) -> Result<(), NotPlanned> {
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
        self.summary.count(&node_diff);
        if !self.detail.patches {
            node_diff.patch = None;
        }
        if self.detail.all || node_diff.has_findings() {
            self.nodes.insert(Arc::clone(&node.name), node_diff);
        }
        Ok(())
    }

    /// What it all comes to.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let mut notes = self.rules.notes().to_vec();
        for rule in self.rules.all() {
            for name in rule.selection.names().filter(|name| !self.seen.contains(*name)) {
                self.summary.missing += 1;
                let node_diff = self.nodes.entry(Arc::clone(name));
                node_diff.or_insert_with(|| NodeDiff::nothing(name)).miss(rule);
            }
            if rule.selection.names().next().is_none() && !self.selecting.contains(&rule.name) {
                notes.push(format!("rule {} selects no node", rule.name));
            }
        }
        self.summary.nodes = self.seen.len();
        let Self { nodes, summary, detail, .. } = self;
        Report { nodes: nodes.into_values().collect(), notes, summary, detail }
    }
}

#[cfg(test)]
mod tests;
