//! Standard output: text, colours and progress.

use std::io::{ErrorKind, IsTerminal, Write as _};

use indicatif::ProgressStyle;

use super::error::Error;

/// Prints what was asked for. A reader that has seen enough (`| head`) is no error.
pub(super) fn print(text: &str) -> Result<(), Error> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Whether to use colours on a stream.
pub(super) fn has_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A style of progress that is known to be valid; where it is not, the default does.
pub(super) fn progress_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
