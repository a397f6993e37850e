//! The table of the nodes of an answer, of which those with the same reason share a row. Pure.

use std::collections::HashMap;

use anstyle::{AnsiColor, Style};

use super::diagnosis::WhyNode;
use crate::cli::table::{Cell, GAP, Row};
use crate::cli::wrap::wrapped;
use crate::inspect::inventory::why::{Shortage, on_any_node};
use crate::model::count::{digits, few};

/// The most lines of a table without `-o wide`, so that the rest of the answer fits on a screen.
const LINES: usize = 12;
/// How many names a row has whose reason is shortened.
const NAMED: usize = 3;
/// The most columns in front of the lines of a reason.
const INDENT: usize = 40;

/// What nodes of one row have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Common {
    /// Everything: they are one node.
    Name,
    Reason,
    /// The reason without what may differ on each node.
    BriefReason,
}

/// Nodes with one answer.
struct Group<'w> {
    names: Vec<&'w str>,
    answer: Cell,
    reason: String,
    /// Nodes that take the pod come first, then those that it may use.
    rank: (bool, bool),
}

/// Returns the rows; those of a wide table are one for each node.
pub(super) fn rows(nodes: &[WhyNode], is_wide: bool) -> Vec<Row> {
    if is_wide {
        return grouped(nodes, Common::Name).into_iter().map(|group| group.row(1)).collect();
    }
    let by_reason = in_lines(&grouped(nodes, Common::Reason), 1);
    if by_reason.iter().map(|(_, rows)| rows.len()).sum::<usize>() <= LINES {
        return by_reason.into_iter().flat_map(|(_, rows)| rows).collect();
    }
    let (mut shown, mut left) = (Vec::new(), 0);
    for (nodes, rows) in in_lines(&grouped(nodes, Common::BriefReason), NAMED) {
        // The first is shown in any case.
        if left > 0 || (!shown.is_empty() && shown.len() + rows.len() > LINES) {
            left += nodes;
        } else {
            shown.extend(rows);
        }
    }
    let more = format!("… and {} more (-o wide)", digits(left));
    shown.extend((left > 0).then(|| Row::new([more.into(), "".into(), "".into()])));
    shown
}

/// Groups nodes, in the order of their names.
fn grouped(nodes: &[WhyNode], common: Common) -> Vec<Group<'_>> {
    let mut groups = Vec::<Group<'_>>::new();
    let mut places = HashMap::new();
    for node in nodes {
        let reason = if common == Common::BriefReason { node.brief_reason() } else { node.reason() };
        let name = (common == Common::Name).then_some(&node.node);
        let place = *places.entry((node.allowed, node.enough, reason.clone(), name)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.names.push(&node.node),
            None => groups.push(Group {
                names: vec![&node.node],
                answer: node.answer(),
                reason,
                rank: (!node.allowed, !node.takes()),
            }),
        }
    }
    groups.sort_by_key(|group| group.rank);
    groups
}

/// Returns the rows of each group, whose reasons end before the edge of a screen, and its number of nodes.
fn in_lines(groups: &[Group<'_>], most: usize) -> Vec<(usize, Vec<Row>)> {
    let names = groups.iter().map(|group| group.shown(most).chars().count()).max().unwrap_or_default();
    // As wide as the longest answer.
    let indent = " ".repeat((names + "excluded".len() + 2 * GAP.len()).min(INDENT));
    let of_group = |group: &Group<'_>| {
        let mut lines = wrapped(&group.reason, &indent).into_iter().map(|line| line.trim_start().to_owned());
        let first = [group.shown(most).into(), group.answer.clone(), lines.next().unwrap_or_default().into()];
        let more = lines.map(|line| Row::new(["".into(), "".into(), line.into()]));
        (group.names.len(), std::iter::once(Row::new(first)).chain(more).collect())
    };
    groups.iter().map(of_group).collect()
}

impl Group<'_> {
    /// Returns the names of the first nodes.
    fn shown(&self, most: usize) -> String {
        // "And 1 more" would be longer than the name.
        let named = if self.names.len() == most + 1 { most + 1 } else { most };
        let text = few(&self.names, named, ", ");
        if most > 1 && text.chars().count() > INDENT { self.shown(1) } else { text }
    }

    fn row(self, most: usize) -> Row {
        Row::new([self.shown(most).into(), self.answer, self.reason.into()])
    }
}

impl WhyNode {
    fn answer(&self) -> Cell {
        let (answer, style) = match self.enough {
            _ if !self.allowed => ("excluded", Style::new()),
            Some(true) if !self.lacks.is_empty() => ("enough", AnsiColor::Yellow.on_default()),
            Some(true) => ("enough", AnsiColor::Green.on_default()),
            Some(false) => ("short", AnsiColor::Red.on_default()),
            None => ("unknown", AnsiColor::Yellow.on_default()),
        };
        Cell::styled(answer, style)
    }

    /// Returns what the node has too little of, if the pod may use it; else what keeps the pod off it.
    fn reason(&self) -> String {
        let reasons = match (self.allowed, self.enough) {
            (false, _) => &[][..],
            (true, Some(true)) => &self.lacks,
            (true, _) => &self.reasons,
        };
        if reasons.is_empty() { self.obstacles.join(", ") } else { reasons.join("; ") }
    }

    /// Returns the same without what may differ on each node.
    fn brief_reason(&self) -> String {
        match self.enough {
            Some(false) if self.allowed => self.shortages.iter().map(Shortage::brief).collect::<Vec<_>>().join("; "),
            Some(true) if self.allowed && !self.lacks.is_empty() => {
                let names: Vec<_> = self.lacks.iter().filter_map(|lack| lack.split(':').next()).collect();
                format!("too little: {}", names.join(", "))
            }
            _ => on_any_node(&self.reason()),
        }
    }
}
