//! For people: aligned columns, and what it all comes to.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};

use crate::cli::diff::node_diff::{Amounts, NodeDiff};
use crate::cli::diff::report::Report;
use crate::cli::diff::result_kind::{Action, ResultKind};

const HEADINGS: [&str; 4] = ["NODE", "RESOURCE", "BEFORE", "AFTER"];
const GAP: &str = "   ";

/// A resource on a node.
struct Line<'t> {
    sign: Sign,
    /// Node, resource, before, after.
    columns: [String; 4],
    reason: Cow<'t, str>,
}

/// What stands before a line, as Terraform has it.
#[derive(Clone, Copy)]
enum Sign {
    Add,
    Change,
    Remove,
    Problem,
    Unchanged,
}

pub(super) fn render(report: &Report, colour: bool) -> String {
    let lines: Vec<_> =
        report.nodes.iter().flat_map(|node| lines(node, report.detail.all)).collect();
    let mut text = String::new();
    if !lines.is_empty() {
        let mut widths = HEADINGS.map(str::len);
        for line in &lines {
            for (width, column) in widths.iter_mut().zip(&line.columns) {
                *width = (*width).max(column.chars().count());
            }
        }
        write(&mut text, " ", &HEADINGS.map(str::to_owned), &widths, "REASON");
        for Line { sign, columns, reason } in &lines {
            write(&mut text, &sign.shown(colour), columns, &widths, reason);
        }
        text.push('\n');
    }
    for note in &report.notes {
        text += &format!("Note: {note}.\n");
    }
    text + &report.summary.line() + "\n"
}

fn write(text: &mut String, sign: &str, columns: &[String; 4], widths: &[usize; 4], reason: &str) {
    *text += sign;
    *text += " ";
    for (column, width) in columns.iter().zip(widths) {
        *text += &format!("{column:width$}{GAP}");
    }
    *text += reason;
    text.truncate(text.trim_end().len());
    text.push('\n');
}

/// What changes, what somebody may want to know of, and what stays where that is asked for; by resource.
fn lines(node_diff: &NodeDiff, all: bool) -> Vec<Line<'_>> {
    let NodeDiff { node, changes, outcomes, invalid_ledger, .. } = node_diff;
    let line = |sign, resource: &str, before: &Amounts, after: &Amounts, reason| Line::<'_> {
        sign,
        columns: [node.to_string(), resource.to_owned(), shown(before), shown(after)],
        reason,
    };
    if let Some(reason) = invalid_ledger {
        let nothing = Amounts::default();
        return vec![line(Sign::Problem, "-", &nothing, &nothing, reason.into())];
    }
    let changes = changes.iter().map(|change| {
        let sign = match change.action {
            Action::Add => Sign::Add,
            Action::Remove => Sign::Remove,
            _ => Sign::Change,
        };
        line(sign, &change.resource, &change.before, &change.after, change.reason.as_str().into())
    });
    let others = outcomes.iter().filter(|outcome| !node_diff.changes(&outcome.resource));
    let others = others.filter(|outcome| outcome.outcome != ResultKind::Overridden);
    let others = others.filter(|outcome| all || outcome.outcome.is_problem()).map(|outcome| {
        let sign = if outcome.outcome.is_problem() { Sign::Problem } else { Sign::Unchanged };
        let reason = match &outcome.reason {
            Some(reason) => Cow::from(reason),
            None => format!("rule {}", outcome.rule).into(),
        };
        line(sign, &outcome.resource, &outcome.before, &outcome.before, reason)
    });
    let mut lines: Vec<_> = changes.chain(others).collect();
    lines.sort_by(|this, other| this.columns[1].cmp(&other.columns[1]));
    lines
}

/// One value where both maps agree, else `capacity/allocatable`.
fn shown(present: &Amounts) -> String {
    let text = |map: &Option<String>| map.clone().unwrap_or_else(|| "-".to_owned());
    let (capacity, allocatable) = (text(&present.capacity), text(&present.allocatable));
    if present.agrees() { capacity } else { format!("{capacity}/{allocatable}") }
}

impl Sign {
    fn shown(self, colour: bool) -> String {
        let (sign, style) = match self {
            Self::Add => ("+", AnsiColor::Green.on_default()),
            Self::Change => ("~", AnsiColor::Yellow.on_default()),
            Self::Remove => ("-", AnsiColor::Red.on_default()),
            Self::Problem => ("!", AnsiColor::Magenta.on_default()),
            Self::Unchanged => (" ", Style::new()),
        };
        if colour { format!("{style}{sign}{style:#}") } else { sign.to_owned() }
    }
}
