//! Standard output: text, colours and progress.

use std::io::{ErrorKind, Write as _};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use indicatif::ProgressStyle;

use super::error::Error;

/// Prints what was asked for. A reader that has seen enough (`| head`) is no error.
pub(super) fn print(text: &str) -> Result<(), Error> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Has all streams use colours as `--color` demands. Whatever else the environment has, a dumb terminal
/// shows none by itself: it would print the codes.
pub(super) fn set_colour(choice: clap::ColorChoice) {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let choice = match choice {
        clap::ColorChoice::Auto if is_dumb => ColorChoice::Never,
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// Whether to use colours on a stream: as `--color` demands; with `auto`, not if `TERM` is `dumb` or
/// `NO_COLOR` is set to something, else if `CLICOLOR_FORCE` is, else on a terminal.
pub(super) fn has_colour(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// A style of progress that is known to be valid; where it is not, the default does.
pub(super) fn progress_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
