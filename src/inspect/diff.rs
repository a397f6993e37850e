//! Shows what the controller would do, without doing it: the engine of the subcommand `plan`.
//!
//! ```text
//! rules of files ──┐
//! rules of cluster ┴▶ rules::Rules ─┐                            ┌▶ rows, the same ones put together ─▶ table
//!                                   ├─▶ plan ─▶ NodeDiff ─▶ filter ┼▶ totals, summary
//! nodes of files or of the cluster ─┘  (the controller's own)    └▶ nodes ─▶ JSON, YAML, patches
//!   └ pods, where a value is to be lowered
//! ```
//!
//! A table keeps no row per node: thousands of nodes with the same change are one row with a count.
//!
//! A rule in a file counts as applied, and replaces the cluster's rule of the same name. What only the controller knows
//! comes from the status it wrote: contested nodes, up to the ten that fit in a rule's status.

pub(crate) mod amounts;
pub mod cluster;
pub mod files;
pub mod filter;
pub mod held;
pub mod label_filter;
pub mod node_diff;
pub mod order;
mod prospect;
pub(crate) mod reasons;
mod report;
pub(crate) mod rows;
pub mod rules;
pub(crate) mod sign;
pub mod totals;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

use crate::model::count::plural;
use crate::model::ledger::Ledger;
use crate::model::node::{ApiNode, Node};
use crate::model::quantity::Quantity;
use crate::planner::input::{PlanningInput, PodUsage};
use crate::planner::{NodePlan, plan};
use filter::{Filter, UnknownName};
use held::{AllHeld, NodePods};
use node_diff::NodeDiff;
use order::NodeName;
pub use report::{Detail, Keep, Report, Summary};
use rows::{Rows, rows};
use rules::{Note, NoteKind, Rules};
use totals::Totals;

/// Plans nodes one by one.
#[derive(Debug)]
pub struct Preview {
    rules: Rules,
    filter: Filter,
    detail: Detail,
    nodes: BTreeMap<NodeName, NodeDiff>,
    rows: Rows,
    /// The names of all planned nodes, including those without a result.
    seen: HashSet<Arc<str>>,
    /// The rules that select a node.
    selecting: HashSet<Arc<str>>,
    /// How many nodes have a value of which managedFields do not name the writer.
    unknown_writers: usize,
    totals: Totals,
    held: AllHeld,
    summary: Summary,
    /// How many values do not become as declared, with ledgers that cannot be read.
    shortfalls: usize,
}

/// Why a node cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotPlanned {
    /// The node is given twice, possibly in two states.
    #[error("the node {0} is given twice")]
    Twice(Arc<str>),
    /// The node has no name.
    #[error("a Node without metadata.name")]
    Nameless,
    /// The node has no uid, which its patch tests, so that the patch would always fail.
    #[error("the node {0} has no metadata.uid, which its patch tests: give it as the API server has it")]
    WithoutUid(Arc<str>),
}

impl Preview {
    /// Returns a preview without nodes.
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
            unknown_writers: 0,
            totals: Totals::default(),
            held: AllHeld::default(),
            summary: Summary::default(),
            shortfalls: 0,
        }
    }

    /// Drops the plans so far.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.rows.clear();
        self.seen.clear();
        self.selecting.clear();
        self.unknown_writers = 0;
        self.totals = Totals::default();
        self.held = AllHeld::default();
        self.summary = Summary::default();
        self.shortfalls = 0;
    }

    /// Returns the number of planned nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Returns whether to plan a node.
    pub fn admits(&mut self, node: &ApiNode) -> bool {
        self.filter.admits(node)
    }

    /// Returns what the controller would do on a node.
    #[must_use]
    pub fn plan(&self, node: &Node, pods: PodUsage) -> NodePlan {
        let input = PlanningInput { contested: self.rules.contested(node), pods, ..PlanningInput::default() };
        plan(node, self.rules.set(), &input)
    }

    /// Adds the plan of a node, with its pods if they are known.
    ///
    /// # Errors
    /// If the node is given twice or has no name, or has a patch and no uid.
    pub fn add(&mut self, node: &Node, plan: NodePlan, pods: Option<&NodePods>) -> Result<(), NotPlanned> {
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
        if self.detail.keep == Keep::Patches && node.uid.is_empty() && node_diff.patch.is_some() {
            return Err(NotPlanned::WithoutUid(Arc::clone(&node.name)));
        }
        self.summary.count(&node_diff);
        self.held.add(&node_diff, pods);
        let problems = node_diff.outcomes.iter().filter(|outcome| outcome.outcome.is_problem()).count();
        self.shortfalls += problems.max(usize::from(node_diff.invalid_ledger.is_some()));
        self.unknown_writers += usize::from(has_unknown_writer(node, &node_diff));
        node_diff.changes.iter().for_each(|change| self.totals.add(change));
        self.keep(node_diff);
        Ok(())
    }

    /// Keeps what the output needs of a node.
    fn keep(&mut self, mut node_diff: NodeDiff) {
        let Detail { all, keep } = self.detail;
        let name = NodeName(Arc::clone(&node_diff.node));
        // With --rule, the output also shows which other rule decides.
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

    /// Returns the report.
    ///
    /// # Errors
    /// If a name in the filter does not exist.
    pub fn finish(mut self) -> Result<Report, UnknownName> {
        self.filter.check(|name| self.rules.contains(name))?;
        let shown = |note: &&Note| note.rule.as_ref().is_none_or(|rule| self.filter.shows_rule(rule));
        let mut notes: Vec<_> = self.rules.notes().iter().filter(shown).cloned().collect();
        if self.filter.leaves_out_nodes() {
            // Without the excluded nodes, it is unknown what rules select.
            if self.seen.is_empty() {
                let message = "-l selects no node".to_owned();
                notes.push(Note { rule: None, message, kind: NoteKind::EmptyFilter });
            }
        } else {
            self.add_missing(&mut notes);
        }
        if self.unknown_writers > 0 {
            let message = format!(
                "{} managedFields for a value that a rule declares, so that its writer is unknown: \
                 kubectl prints them with --show-managed-fields",
                plural(self.unknown_writers, "node has no", "nodes have no")
            );
            notes.push(Note { rule: None, message, kind: NoteKind::UnknownWriters });
        }
        self.summary.nodes = self.seen.len();
        let Self { nodes, rows, totals, held, summary, shortfalls, .. } = self;
        let nodes = nodes.into_values().collect();
        let invalid = notes.iter().filter(|note| note.kind == NoteKind::InvalidRule).count();
        let shortfalls = shortfalls + summary.missing + invalid;
        Ok(Report { nodes, rows, totals: totals.finish(), held: held.finish(), notes, summary, shortfalls })
    }

    /// Adds the node names in rules that do not exist, and notes rules that select no node.
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

/// Returns whether the plan of a node depends on who wrote a value, which managedFields do not name.
fn has_unknown_writer(node: &Node, node_diff: &NodeDiff) -> bool {
    let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
    node_diff.outcomes.iter().any(|outcome| {
        let value = node.values(&outcome.resource)[0].and_then(|text| text.parse::<Quantity>().ok());
        value.is_some_and(|value| !value.is_zero())
            && ledger.get(&outcome.resource).is_none()
            && node.field_managers(&outcome.resource).is_none()
    })
}

#[cfg(test)]
pub(crate) mod tests;
