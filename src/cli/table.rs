//! Tables and trees in kubectl's style: columns aligned by the longest cell.

use std::borrow::Cow;

use anstyle::Style;

use super::wrap;
use crate::model::label::printable;

/// The space between columns, as in kubectl.
pub(super) const GAP: &str = "   ";
/// The least width of a text that is wrapped.
const MIN_TEXT: usize = 40;

/// A line of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// The depth in a tree; 0 for a root, and for all lines of a plain table.
    depth: usize,
    cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(super) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

impl Row {
    /// Returns a line of a plain table, or the root of a tree.
    pub(super) fn new(cells: impl IntoIterator<Item = Cell>) -> Self {
        Self::below(0, cells)
    }

    /// Returns a line of a tree at this depth.
    pub(super) fn below(depth: usize, cells: impl IntoIterator<Item = Cell>) -> Self {
        Self { depth, cells: cells.into_iter().collect() }
    }
}

/// Renders lines below headings, if there are any. In a terminal of this width, columns move together, and texts in the
/// last one are wrapped.
pub(super) fn render(headings: &[&str], rows: &[Row], colour: bool, width: Option<usize>) -> String {
    let branches = branches(rows);
    let mut widths: Vec<_> = headings.iter().map(|heading| heading.chars().count()).collect();
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or_default();
    widths.resize(widths.len().max(columns), 0);
    for (row, branch) in rows.iter().zip(&branches) {
        for (at, (width, cell)) in widths.iter_mut().zip(&row.cells).enumerate() {
            let indent = if at == 0 { branch.chars().count() } else { 0 };
            *width = (*width).max(indent + printable(&cell.text).chars().count());
        }
    }
    let layout = Layout::new(widths, width);
    let mut headings: Vec<_> = headings.iter().map(|heading| Cell::from(*heading)).collect();
    if layout.text == Text::Below {
        headings.pop();
    }
    let mut text = String::new();
    if !headings.is_empty() {
        layout.write_line(&mut text, "", &headings, colour);
    }
    for (row, branch) in rows.iter().zip(&branches) {
        layout.write(&mut text, branch, &row.cells, colour);
    }
    text
}

/// Where columns begin and end.
#[derive(Debug)]
struct Layout {
    widths: Vec<usize>,
    gap: usize,
    text: Text,
    /// The width of the terminal.
    width: usize,
}

/// How texts in the last column are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    /// As they are.
    Whole,
    /// Wrapped in their column, which begins here.
    Beside(usize),
    /// Below the other columns, which leave no room for them.
    Below,
}

impl Layout {
    fn new(widths: Vec<usize>, width: Option<usize>) -> Self {
        let width = width.unwrap_or(usize::MAX);
        let (last, before) = widths.split_last().map_or((0, &[][..]), |(last, before)| (*last, before));
        let start = |gap: usize| before.iter().map(|width| width + gap).sum::<usize>();
        let fitting = (1..=GAP.len()).rev().find(|gap| start(*gap) + last <= width);
        let (gap, text) = match fitting {
            Some(gap) => (gap, Text::Whole),
            None if last < MIN_TEXT => (1, Text::Whole),
            None if start(GAP.len()) + MIN_TEXT <= width => (GAP.len(), Text::Beside(start(GAP.len()))),
            None => (GAP.len(), Text::Below),
        };
        Self { widths, gap, text, width }
    }

    /// Writes a row, with the text of its last column in as many lines as it takes.
    fn write(&self, to: &mut String, branch: &str, cells: &[Cell], colour: bool) {
        let Some((text, before)) = cells.split_last().filter(|(text, before)| {
            self.text != Text::Whole && before.len() + 1 == self.widths.len() && !text.text.is_empty()
        }) else {
            return self.write_line(to, branch, cells, colour);
        };
        let name = before.first().map_or("", |cell| &cell.text);
        let after_name = branch.chars().count() + name.chars().count() + GAP.len();
        let is_alone = before.iter().skip(1).all(|cell| cell.text.is_empty()) && after_name + MIN_TEXT <= self.width;
        let indent = branch.replace("├─", "│ ").replace("└─", "  ");
        let column = match self.text {
            Text::Beside(start) => start,
            _ if is_alone => after_name,
            _ => indent.chars().count() + GAP.len(),
        };
        let lines = wrap::lines(&printable(&text.text), self.width.saturating_sub(column).max(MIN_TEXT));
        let mut lines = lines.into_iter().map(|line| Cell::styled(line, text.style));
        match self.text {
            Text::Beside(_) => {
                self.write_line(to, branch, &[before, &lines.by_ref().take(1).collect::<Vec<_>>()].concat(), colour)
            }
            _ if is_alone => {
                let first = lines.next().map(|line| line.text).unwrap_or_default();
                self.write_line(to, branch, &[format!("{name}{GAP}{first}").into()], colour);
            }
            _ => self.write_line(to, branch, before, colour),
        }
        for line in lines {
            self.write_line(to, &format!("{indent:column$}"), &[line], colour);
        }
    }

    fn write_line(&self, to: &mut String, branch: &str, cells: &[Cell], colour: bool) {
        let last = cells.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
        *to += branch;
        for (at, (cell, width)) in cells.iter().zip(&self.widths).enumerate().take(last + 1) {
            let shown = printable(&cell.text);
            let style = cell.style;
            let styled: Cow<'_, str> = match colour && style != Style::new() {
                true => format!("{style}{shown}{style:#}").into(),
                false => shown.clone(),
            };
            *to += &styled;
            if at < last {
                let indent = if at == 0 { branch.chars().count() } else { 0 };
                let padding = width.saturating_sub(indent + shown.chars().count());
                *to += &" ".repeat(padding + self.gap);
            }
        }
        to.push('\n');
    }
}

/// Returns the lines that connect each row to its parent.
fn branches(rows: &[Row]) -> Vec<String> {
    // From the last row up: whether a later row at each depth follows before one that is less deep.
    let mut follows = Vec::<bool>::new();
    let mut branches: Vec<_> = rows
        .iter()
        .rev()
        .map(|row| {
            follows.resize(follows.len().max(row.depth + 1), false);
            follows.truncate(row.depth + 1);
            let mut branch = String::new();
            for depth in 1..row.depth {
                branch += if follows.get(depth) == Some(&true) { "│  " } else { "   " };
            }
            if row.depth > 0 {
                branch += if follows.get(row.depth) == Some(&true) { "├─ " } else { "└─ " };
            }
            if let Some(here) = follows.get_mut(row.depth) {
                *here = true;
            }
            branch
        })
        .collect();
    branches.reverse();
    branches
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;

    use super::*;

    #[test]
    fn tree_connects_children_to_their_parents() {
        let row = |depth, name: &str, value: &str| Row::below(depth, [name.into(), value.into()]);
        let rows = [
            row(0, "root", "1"),
            row(1, "a", ""),
            row(2, "a-1", "long value"),
            row(2, "a-2", ""),
            row(1, "b", "2"),
            row(2, "b-1", ""),
            row(0, "root-2", ""),
        ];
        let expected = "NAME        VALUE\nroot        1\n├─ a\n│  ├─ a-1   long value\n│  └─ a-2\n└─ b        2\n   └─ b-1\nroot-2\n";
        assert_eq!(render(&["NAME", "VALUE"], &rows, false, None), expected);
    }

    #[test]
    fn table_aligns_columns_apart_from_colors_and_control_characters() {
        let red = AnsiColor::Red.on_default();
        let rows = [Row::new([Cell::styled("ab", red), "x".into()]), Row::new(["a\u{1b}[31m".into(), "y".into()])];
        let plain = render(&["A", "B"], &rows, false, None);
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        let coloured = render(&["A", "B"], &rows, true, None);
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
        assert_ne!(coloured, plain);
    }

    #[test]
    fn table_wraps_the_texts_of_its_last_column_within_the_terminal() {
        let text = "is 0, and nothing declares it: a device plugin that is gone probably left it there";
        let rows = [
            Row::new(["leftover".into()]),
            Row::below(1, ["Node node-1".into(), "warning".into(), text.into()]),
            Row::below(2, ["fix".into(), "".into(), "look at it".into()]),
        ];
        let shown = |width| render(&["OBJECT", "SEVERITY", "PROBLEM"], &rows, false, Some(width));
        let beside = "OBJECT           SEVERITY   PROBLEM\nleftover\n\
                      └─ Node node-1   warning    is 0, and nothing declares it: a device plugin that\n\
                      \u{20}                           is gone probably left it there\n   \
                      └─ fix                   look at it\n";
        assert_eq!(shown(80), beside);
        let below = "OBJECT           SEVERITY\nleftover\n└─ Node node-1   warning\n      \
                     is 0, and nothing declares it: a device\n      plugin that is gone probably left it\n      there\n   \
                     └─ fix\n         look at it\n";
        assert_eq!(shown(40), below);
        assert_eq!(shown(200), render(&["OBJECT", "SEVERITY", "PROBLEM"], &rows, false, None));
    }

    #[test]
    fn columns_move_together_before_a_table_is_wider_than_the_terminal() {
        let rows = [Row::new(["a", "b", "c"].map(Cell::from))];
        for (width, expected) in
            [(9, "A   B   C\na   b   c\n"), (8, "A  B  C\na  b  c\n"), (6, "A B C\na b c\n"), (1, "A B C\na b c\n")]
        {
            assert_eq!(render(&["A", "B", "C"], &rows, false, Some(width)), expected, "{width}");
        }
    }

    #[test]
    fn table_without_headings_is_as_wide_as_its_cells() {
        let rows = [Row::new(["a".into(), "x".into()]), Row::new(["aaa".into(), "y".into()])];
        assert_eq!(render(&[], &rows, false, None), "a     x\naaa   y\n");
    }

    #[test]
    fn table_aligns_columns_by_characters() {
        let rows = ["ö", "öö", "o"].map(|name| Row::new([name.into(), "x".into()]));
        assert_eq!(render(&["A", "B"], &rows, false, None), "A    B\nö    x\nöö   x\no    x\n");
    }
}
