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

/// Returns a text in lines of at most this width. A word that is longer has a line of its own, and so has a command in
/// backticks, since half of it may be copied and run.
pub(super) fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::<String>::new();
    for word in words(text) {
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

/// Returns the words of a text. A command in backticks is one, with what stands directly before and after it.
fn words(text: &str) -> Vec<&str> {
    let blank = |text: &str, from: usize| text[from..].find(char::is_whitespace).map_or(text.len(), |at| from + at);
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let mut end = blank(rest, 0);
        // A backtick without another one may be anybody's.
        while rest[..end].matches('`').count() % 2 == 1
            && let Some(close) = rest[end..].find('`')
        {
            end = blank(rest, end + close);
        }
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
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

    #[test]
    fn command_in_backticks_stays_in_one_line() {
        assert_eq!(lines("to see it, run `kubectl get ner`.", 16), ["to see it, run", "`kubectl get ner`."]);
        assert_eq!(lines("run `a  b` or `c d` now", 8), ["run", "`a  b`", "or `c d`", "now"]);
        assert_eq!(lines("an open ` one two", 8), ["an open", "` one", "two"]);
        assert_eq!(lines("see (`a b`, `c d`); `e", 8), ["see", "(`a b`,", "`c d`);", "`e"]);
    }
}
