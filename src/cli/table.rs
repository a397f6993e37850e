//! Tables and trees in kubectl's style: columns aligned by the longest cell.

use std::borrow::Cow;

use anstyle::Style;

use crate::model::label::printable;

/// The space between columns, as in kubectl.
pub(super) const GAP: &str = "   ";

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

/// Renders lines below headings.
pub(super) fn render(headings: &[&str], rows: &[Row], colour: bool) -> String {
    let branches = branches(rows);
    let mut widths: Vec<_> = headings.iter().map(|heading| heading.chars().count()).collect();
    for (row, branch) in rows.iter().zip(&branches) {
        for (at, (width, cell)) in widths.iter_mut().zip(&row.cells).enumerate() {
            let indent = if at == 0 { branch.chars().count() } else { 0 };
            *width = (*width).max(indent + printable(&cell.text).chars().count());
        }
    }
    let mut text = String::new();
    let headings: Vec<_> = headings.iter().map(|heading| Cell::from(*heading)).collect();
    write(&mut text, "", &headings, &widths, colour);
    for (row, branch) in rows.iter().zip(&branches) {
        write(&mut text, branch, &row.cells, &widths, colour);
    }
    text
}

fn write(text: &mut String, branch: &str, cells: &[Cell], widths: &[usize], colour: bool) {
    let last = cells.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
    *text += branch;
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate().take(last + 1) {
        let shown = printable(&cell.text);
        let style = cell.style;
        let styled: Cow<'_, str> = match colour && style != Style::new() {
            true => format!("{style}{shown}{style:#}").into(),
            false => shown.clone(),
        };
        *text += &styled;
        if at < last {
            let indent = if at == 0 { branch.chars().count() } else { 0 };
            let padding = width.saturating_sub(indent + shown.chars().count());
            *text += &" ".repeat(padding);
            *text += GAP;
        }
    }
    text.push('\n');
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
        assert_eq!(render(&["NAME", "VALUE"], &rows, false), expected);
    }

    #[test]
    fn table_aligns_columns_apart_from_colors_and_control_characters() {
        let red = AnsiColor::Red.on_default();
        let rows = [Row::new([Cell::styled("ab", red), "x".into()]), Row::new(["a\u{1b}[31m".into(), "y".into()])];
        let plain = render(&["A", "B"], &rows, false);
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        let coloured = render(&["A", "B"], &rows, true);
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
        assert_ne!(coloured, plain);
    }

    #[test]
    fn table_aligns_columns_by_characters() {
        let rows = ["ö", "öö", "o"].map(|name| Row::new([name.into(), "x".into()]));
        assert_eq!(render(&["A", "B"], &rows, false), "A    B\nö    x\nöö   x\no    x\n");
    }
}
