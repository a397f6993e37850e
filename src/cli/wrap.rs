//! Text in lines that fit a terminal.

use std::sync::OnceLock;

use console::Term;

/// The width of help, and of texts without a terminal.
pub(super) const WIDTH: usize = 80;
/// The least width of a terminal for which lines are wrapped.
const MIN: usize = 40;

/// The width of the terminal, as the program has found it when it began.
static TERMINAL: OnceLock<Option<usize>> = OnceLock::new();

/// Lets texts fit the terminal, if standard output is one.
pub(super) fn fit_terminal() {
    TERMINAL.get_or_init(|| Term::stdout().size_checked().map(|(_, columns)| usize::from(columns).max(MIN)));
}

/// Returns the width of the terminal, if texts are to fit one.
pub(super) fn width() -> Option<usize> {
    TERMINAL.get().copied().flatten()
}

/// Returns a text in lines that fit the terminal, or 80 columns, each after an indent. In a narrow terminal, they have a
/// width of their own, rather than a word each.
pub(super) fn wrapped(text: &str, indent: &str) -> Vec<String> {
    let width = width().unwrap_or(WIDTH).saturating_sub(indent.chars().count()).max(MIN / 2);
    lines(text, width).into_iter().map(|line| format!("{indent}{line}")).collect()
}

/// Returns a text in lines of at most this width. A word that is longer has a line of its own.
pub(super) fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::<String>::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_column_81() {
        let word = "x".repeat(38);
        assert_eq!(wrapped(&format!("{word} {word}"), "   "), [format!("   {word} {word}")]);
        assert_eq!(wrapped(&format!("{word} {word}y"), "   "), [format!("   {word}"), format!("   {word}y")]);
        let long = "ö".repeat(90);
        assert_eq!(wrapped(&format!("a {long} b"), " "), [" a".to_owned(), format!(" {long}"), " b".to_owned()]);
        assert!(wrapped(" ", " ").is_empty());
    }
}
