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
pub mod forecast;
mod render;
pub mod rules;
mod why;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use thiserror::Error;

use crate::model::node::Node;
use crate::planner::input::{Circumstances, InUse};
use crate::planner::{Plan, plan};
use forecast::{Action, Fate, Forecast};
pub use render::Format;
use rules::Rules;

/// What is kept of each node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Also of resources that stay as they are.
    pub all: bool,
    /// The patches, which take more memory than all the rest.
    pub patches: bool,
}

/// Plans node after node.
#[derive(Debug)]
pub struct Preview {
    rules: Rules,
    detail: Detail,
    nodes: BTreeMap<Arc<str>, Forecast>,
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

/// How many resources, each counted once for every node that it is on, and nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All nodes that were looked at.
    pub nodes: usize,
    /// To be put where there is nothing, or 0.
    pub add: usize,
    /// To be written over, or listed otherwise.
    pub change: usize,
    /// To be taken away.
    pub remove: usize,
    /// Left as another writer has them.
    pub conflicted: usize,
    /// Given up for now, since another writer keeps changing them back.
    pub contested: usize,
    /// Above what is declared, since pods request that much.
    pub held: usize,
    /// Above what is declared, and what pods request is not known: they may be lowered.
    pub maybe_held: usize,
    /// As declared.
    pub unchanged: usize,
    /// Nodes left alone, since the annotation on them cannot be read.
    pub unreadable: usize,
    /// Names in rules that are no nodes.
    pub missing: usize,
}

/// What all nodes come to.
#[derive(Debug)]
pub struct Report {
    /// Those with something to tell, by name.
    pub nodes: Vec<Forecast>,
    /// What is not about one node, in sentences.
    pub notes: Vec<String>,
    /// The counts.
    pub summary: Summary,
    detail: Detail,
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
    pub fn plan(&self, node: &Node, in_use: InUse) -> Plan {
        let circumstances = Circumstances { contested: self.rules.contested(node), in_use };
        plan(node, self.rules.set(), &circumstances)
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
        let mut forecast = Forecast::new(node, plan, &self.rules);
        self.summary.count(&forecast);
        if !self.detail.patches {
            forecast.patch = None;
        }
        if self.detail.all || forecast.is_telling() {
            self.nodes.insert(Arc::clone(&node.name), forecast);
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
                let forecast = self.nodes.entry(Arc::clone(name));
                forecast.or_insert_with(|| Forecast::nothing(name)).miss(rule);
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

impl Summary {
    fn count(&mut self, forecast: &Forecast) {
        for change in &forecast.changes {
            match change.action {
                Action::Add => self.add += 1,
                Action::Remove => self.remove += 1,
                Action::Update
                | Action::Annotate
                | Action::Hold
                | Action::Repair
                | Action::TakeOver
                | Action::Release => self.change += 1,
            }
        }
        for outcome in &forecast.outcomes {
            match outcome.outcome {
                Fate::Advertised if !forecast.changes(&outcome.resource) => self.unchanged += 1,
                Fate::Held if !forecast.changes(&outcome.resource) => self.held += 1,
                Fate::MaybeHeld => self.maybe_held += 1,
                Fate::Conflicted => self.conflicted += 1,
                Fate::Contested => self.contested += 1,
                Fate::Advertised
                | Fate::Held
                | Fate::Overridden
                | Fate::Unreadable
                | Fate::Missing => {}
            }
        }
        self.unreadable += usize::from(forecast.unreadable.is_some());
    }
}

impl Report {
    /// Whether the controller would patch a node, or might: that depends on pods that are not known.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        let Summary { add, change, remove, maybe_held, .. } = self.summary;
        add + change + remove + maybe_held > 0
    }
}

#[cfg(test)]
mod tests;
