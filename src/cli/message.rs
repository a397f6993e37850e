//! Messages on standard error.

use std::fmt::Display;
use std::io::Write as _;

use crate::model::label::printable;

/// Prints notes on what is incomplete to standard error, each in one line: a name from a cluster or a file may have a line
/// break, after which it could pass for a message of its own.
pub(super) fn print_notes<T: AsRef<str>>(notes: &[T]) {
    for note in notes {
        print_message(format_args!("note: {}", printable(note.as_ref())));
    }
}

/// Prints a message to standard error, which may contain text from a cluster or a file: each line is printable. Where
/// standard error is closed, it is lost.
pub fn print_message(message: impl Display) {
    let message = message.to_string();
    let lines: String = message.lines().map(|line| printable(line).into_owned() + "\n").collect();
    // There is no other place to report a failure to.
    let _ = std::io::stderr().write_all(lines.as_bytes());
}
