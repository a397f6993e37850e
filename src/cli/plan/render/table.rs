//! The table: aligned columns, and a total.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};

use crate::inspect::diff::amounts::Amounts;
use crate::inspect::diff::held::Held;
use crate::inspect::diff::rows::{LineNodes, MAX_LISTED_NODES};
use crate::inspect::diff::rules::Note;
use crate::inspect::diff::sign::Sign;
use crate::inspect::diff::totals::Total;
use crate::inspect::diff::{Report, Summary};
use crate::model::count::{digits, plural, with_commas};
use crate::model::label::printable;

const HEADINGS: [&str; 4] = ["NODE", "RESOURCE", "BEFORE", "AFTER"];
const GAP: &str = "   ";

/// The limits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// The maximum number of lines of resources.
    pub lines: usize,
    /// The maximum number of notes of each kind.
    pub notes: usize,
}

pub(super) fn render(report: &Report, colour: bool, limits: TableLimits) -> String {
    let TableLimits { lines: max_lines, notes: max_notes } = limits;
    let lines = report.rows.lines();
    let shown = lines.iter().take(max_lines).map(|line| {
        let row = line.row;
        let values = [&row.resource, &row.before, &row.after].map(String::as_str);
        let [resource, before, after] = values.map(Cow::from);
        (row, [label(&line.nodes).into(), resource, before, after])
    });
    let shown: Vec<_> = shown.collect();
    let mut text = String::new();
    if !shown.is_empty() {
        let mut widths = HEADINGS.map(str::len);
        for (_, columns) in &shown {
            for (width, column) in widths.iter_mut().zip(columns) {
                *width = (*width).max(column.chars().count());
            }
        }
        write(&mut text, " ", &HEADINGS.map(Cow::from), &widths, "REASON");
        for (row, columns) in &shown {
            write(&mut text, &row.sign.shown(colour), columns, &widths, &row.reason);
        }
        if lines.len() > shown.len() {
            let more = plural(lines.len() - shown.len(), "more line", "more lines");
            text += &format!("  … and {more}: -o wide shows all; --node, -l and --rule select\n");
        }
        text.push('\n');
    }
    for total in report.totals.iter().filter(|total| total.nodes > MAX_LISTED_NODES) {
        let Total { resource, nodes, before, after } = total;
        let [before, after] = [before, after].map(grouped);
        text += &format!("{resource}: {before} -> {after} on {} nodes\n", digits(*nodes));
    }
    for line in report.held.iter().flat_map(Held::lines) {
        text += &format!("{}\n", printable(&line));
    }
    text += &notes(&report.notes, max_notes);
    text + &report.summary.line() + "\n"
}

/// Renders up to `most` notes of each kind, and the number of further ones.
fn notes(notes: &[Note], most: usize) -> String {
    let mut text = String::new();
    // Notes of one kind are adjacent.
    for alike in notes.chunk_by(|one, other| one.kind == other.kind) {
        for note in alike.iter().take(most) {
            text += &format!("Note: {}.\n", printable(&note.message));
        }
        if alike.len() > most {
            let more = digits(alike.len() - most);
            text += &format!("Note: … and {more} more like these: -o json lists all.\n");
        }
    }
    text
}

fn write(text: &mut String, sign: &str, columns: &[Cow<'_, str>; 4], widths: &[usize; 4], reason: &str) {
    *text += sign;
    *text += " ";
    for (column, width) in columns.iter().zip(widths) {
        *text += &format!("{:width$}{GAP}", printable(column));
    }
    *text += &printable(reason);
    text.truncate(text.trim_end().len());
    text.push('\n');
}

fn label(nodes: &LineNodes<'_>) -> String {
    match nodes {
        LineNodes::One(name) => name.to_string(),
        LineNodes::Many(nodes) => {
            format!("{} nodes ({} … {})", digits(nodes.count), nodes.first, nodes.last)
        }
    }
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

impl Summary {
    /// Returns all counts in one line, like Terraform. Its beginning agrees with the exit code.
    #[must_use]
    pub fn line(&self) -> String {
        let [add, change, remove] = [self.add, self.change, self.remove].map(digits);
        let head = match (self.changes(), self.maybe_held) {
            (0, 0) => "No changes".to_owned(),
            (0, most) => format!("Up to {} to change", digits(most)),
            _ => format!("Plan: {add} to add, {change} to change, {remove} to remove"),
        };
        let problems = [
            (self.conflicted, "conflict", "conflicts"),
            (self.contested, "contested", "contested"),
            (self.held, "held", "held"),
            (self.maybe_held, "may be held", "may be held"),
            (self.paused, "paused", "paused"),
            (self.quantity_unknown, "quantity unknown", "quantities unknown"),
            (self.unreadable, "node unreadable", "nodes unreadable"),
            (self.missing, "node missing", "nodes missing"),
        ];
        let problems = problems.into_iter().filter(|(count, ..)| *count > 0);
        let problems: Vec<_> = problems.map(|(count, one, many)| plural(count, one, many)).collect();
        let problems = if problems.is_empty() { String::new() } else { format!("; {}", problems.join(", ")) };
        format!("{head}{problems}; {} unchanged.", digits(self.unchanged))
    }
}

/// Returns a sum with thousands separators.
fn grouped(sum: &Amounts) -> String {
    let maps = [&sum.capacity, &sum.allocatable].map(|text| text.as_deref().map(with_commas));
    let [capacity, allocatable] = maps.map(Option::unwrap_or_default);
    if sum.agrees() { capacity } else { format!("{capacity}/{allocatable}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::plan::render::Format;
    use crate::inspect::diff::filter::Filter;
    use crate::inspect::diff::rules::Rules;
    use crate::inspect::diff::tests::{node, read, rule};
    use crate::inspect::diff::{Detail, Preview};
    use crate::planner::input::PodUsage;

    const LIMITS: TableLimits = TableLimits { lines: 250, notes: 10 };

    /// The exit code is 0 if and only if the plan has no changes.
    #[test]
    fn headline_counts_what_may_change() {
        for (summary, line) in [
            (Summary::default(), "No changes; 0 unchanged."),
            (
                Summary { paused: 1, quantity_unknown: 2, ..Summary::default() },
                "No changes; 1 paused, 2 quantities unknown; 0 unchanged.",
            ),
            (
                Summary { conflicted: 1, held: 2, unchanged: 1250, ..Summary::default() },
                "No changes; 1 conflict, 2 held; 1,250 unchanged.",
            ),
            (
                Summary { conflicted: 1, maybe_held: 1, ..Summary::default() },
                "Up to 1 to change; 1 conflict, 1 may be held; 0 unchanged.",
            ),
            (
                Summary { change: 5000, maybe_held: 1, ..Summary::default() },
                "Plan: 0 to add, 5,000 to change, 0 to remove; 1 may be held; 0 unchanged.",
            ),
        ] {
            assert_eq!(summary.line(), line);
        }
    }

    #[test]
    fn diff_colours_are_for_terminals_only() {
        let rules = Rules::from_files(vec![rule("dongle", json!({}))]);
        let mut preview = Preview::new(rules, Filter::default(), Detail::default());
        let node = read(&node([None, None], None));
        let plan = preview.plan(&node, PodUsage::NotFetched);
        preview.add(&node, plan, None).unwrap();
        let report = preview.finish().unwrap();
        let table = |colour| report.render(Format::Table { colour, limits: LIMITS }).unwrap();
        assert!(table(true).contains("\n\u{1b}[32m+\u{1b}[0m node-1   "), "{:?}", table(true));
        assert!(!table(false).contains('\u{1b}'), "{:?}", table(false));
    }

    /// Thousands of nodes with the same change are one row, and no node is kept.
    #[test]
    fn table_keeps_one_row_for_many_nodes() {
        let rules = Rules::from_files(vec![rule("dongle", json!({}))]);
        let mut preview = Preview::new(rules, Filter::default(), Detail::default());
        for number in 1..=3000 {
            let mut object = node([None, None], None);
            object["metadata"]["name"] = format!("node-{number}").into();
            let node = read(&object);
            let plan = preview.plan(&node, PodUsage::NotFetched);
            preview.add(&node, plan, None).unwrap();
        }
        let report = preview.finish().unwrap();
        assert_eq!((report.nodes.len(), report.rows.lines().len()), (0, 1));
        let table = report.render(Format::Table { colour: false, limits: LIMITS }).unwrap();
        let expected = "  NODE                               RESOURCE             BEFORE   AFTER   REASON
+ 3,000 nodes (node-1 \u{2026} node-3000)   example.com/dongle   -        4       rule dongle

example.com/dongle: 0 -> 12,000 on 3,000 nodes
Plan: 3,000 to add, 0 to change, 0 to remove; 0 unchanged.
";
        assert_eq!(table, expected);
    }
}
