//! The lines of a table, with nodes of equal lines grouped.

use std::collections::HashMap;

use super::amounts::Amounts;
use super::node_diff::NodeDiff;
use super::order::NodeName;
use super::sign::Sign;

/// The maximum number of nodes with the same line that are listed; more are grouped in one line.
pub(crate) const MAX_LISTED_NODES: usize = 10;

/// A resource on a node, without the node's name. The fields are in the order of the columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Row {
    pub(crate) resource: String,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) sign: Sign,
    pub(crate) reason: String,
}

/// Nodes with the same row.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    pub(crate) count: usize,
    pub(crate) first: NodeName,
    pub(crate) last: NodeName,
    /// All names, unless they are too many to list.
    names: Vec<NodeName>,
}

/// All rows of a table, each once for all nodes that have it.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: HashMap<Row, Nodes>,
    /// Whether to list each node, however many there are.
    list_all: bool,
}

/// A line of the table.
pub(crate) struct Line<'t> {
    pub(crate) nodes: LineNodes<'t>,
    pub(crate) row: &'t Row,
}

/// The nodes of a line.
pub(crate) enum LineNodes<'t> {
    One(&'t NodeName),
    Many(&'t Nodes),
}

impl Rows {
    pub(super) fn new(list_all: bool) -> Self {
        Self { rows: HashMap::new(), list_all }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    /// Adds a row of a node.
    pub(super) fn add(&mut self, node: &NodeName, row: Row) {
        let nodes = self.rows.entry(row).or_insert_with(|| Nodes {
            count: 0,
            first: node.clone(),
            last: node.clone(),
            names: Vec::new(),
        });
        nodes.count += 1;
        if *node < nodes.first {
            nodes.first = node.clone();
        } else if *node > nodes.last {
            nodes.last = node.clone();
        }
        if self.list_all || nodes.count <= MAX_LISTED_NODES {
            nodes.names.push(node.clone());
        } else {
            nodes.names = Vec::new();
        }
    }

    /// Returns the table, by the (first) node's name, then by resource.
    pub(crate) fn lines(&self) -> Vec<Line<'_>> {
        let lines = self.rows.iter().flat_map(|(row, nodes)| {
            let many = nodes.names.is_empty().then_some(LineNodes::Many(nodes));
            let one = nodes.names.iter().map(LineNodes::One);
            many.into_iter().chain(one).map(move |nodes| Line { nodes, row })
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort_by(|this, other| (this.nodes.first(), this.row).cmp(&(other.nodes.first(), other.row)));
        lines
    }
}

impl LineNodes<'_> {
    fn first(&self) -> &NodeName {
        match self {
            Self::One(name) => name,
            Self::Many(nodes) => &nodes.first,
        }
    }
}

/// Returns the rows of a node: changes and findings; with `unchanged`, also unchanged resources; with `overridden`,
/// also rules that do not decide.
pub(super) fn rows(node_diff: &NodeDiff, unchanged: bool, overridden: bool) -> Vec<Row> {
    let row = |sign, resource: &str, before: &Amounts, after: &Amounts, reason: String| Row {
        sign,
        resource: resource.to_owned(),
        before: before.to_string(),
        after: after.to_string(),
        reason,
    };
    let NodeDiff { changes, outcomes, invalid_ledger, .. } = node_diff;
    if let Some(reason) = invalid_ledger {
        let nothing = Amounts::default();
        return vec![row(Sign::Problem, "-", &nothing, &nothing, reason.clone())];
    }
    let changes = changes
        .iter()
        .map(|change| row(change.sign, &change.resource, &change.before, &change.after, change.reason.clone()));
    let others = outcomes.iter().filter(|outcome| !node_diff.changes(&outcome.resource));
    let others = others.filter(|outcome| match outcome.outcome.is_overridden() {
        true => overridden,
        false => unchanged || outcome.outcome.is_problem(),
    });
    let others = others.map(|outcome| {
        let sign = if outcome.outcome.is_problem() { Sign::Problem } else { Sign::Unchanged };
        let reason = match &outcome.reason {
            Some(reason) => reason.clone(),
            None => format!("rule {}", outcome.rule),
        };
        row(sign, &outcome.resource, &outcome.before, &outcome.after, reason)
    });
    changes.chain(others).collect()
}
