//! Answers that are printed again and again.

use std::io::IsTerminal as _;

use crate::cli::error::Error;
use crate::cli::message::print_notes;
use crate::cli::output::print_on;

/// Moves to the top left, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// An answer, as text, and what it lacks.
pub(super) type Printed = (String, Vec<String>);

/// How an answer follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    /// It replaces it.
    Replace,
    /// It follows below, after a blank line.
    Append,
    /// It follows below, after what separates documents of its format.
    Stream(&'static str),
}

impl Screen {
    /// Returns how to show tables on standard output.
    pub(super) fn of_tables() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if std::io::stdout().is_terminal() && !is_dumb { Self::Replace } else { Self::Append }
    }

    /// Shows an answer after another, if there was one. Returns whether more can be shown.
    ///
    /// # Errors
    /// If it cannot be printed.
    pub(super) fn show(self, before: Option<&Printed>, (text, gaps): &Printed) -> Result<bool, Error> {
        let is_open = print_on(&format!("{}{text}", self.separator(before.is_some())))?;
        // A note stays on screen unless it is cleared.
        if self == Self::Replace || before.is_none_or(|(_, before)| before != gaps) {
            print_notes(gaps);
        }
        Ok(is_open)
    }

    fn separator(self, has_before: bool) -> &'static str {
        match self {
            Self::Replace => CLEAR,
            Self::Append if has_before => "\n",
            Self::Stream(separator) if has_before => separator,
            Self::Append | Self::Stream(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_separated_as_their_format_needs() {
        assert_eq!(Screen::Append.separator(false), "");
        assert_eq!(Screen::Append.separator(true), "\n");
        assert_eq!([false, true].map(|before| Screen::Replace.separator(before)), [CLEAR; 2]);
        assert_eq!([false, true].map(|before| Screen::Stream("---\n").separator(before)), ["", "---\n"]);
    }
}
