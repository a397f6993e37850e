//! Standard output: text, colors and progress.

use std::io::{ErrorKind, Write as _};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use indicatif::ProgressStyle;

use super::error::Error;

/// The version of the output for programs. It is not an API of the API server, like kubeadm's `output.kubeadm.k8s.io`.
pub(crate) const API_VERSION: &str = "output.noderesource.dev/v1alpha1";

/// Prints text to standard output. A closed pipe (`| head`) is not an error.
pub(super) fn print(text: &str) -> Result<(), Error> {
    print_on(text).map(drop)
}

/// Prints text to standard output, and returns whether more can be printed: not to a closed pipe (`| head`).
pub(super) fn print_on(text: &str) -> Result<bool, Error> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::Output(error)),
    }
}

/// Sets the colors of all streams according to `--color`. With `auto`, a dumb terminal gets none, whatever else the
/// environment says: it would print the codes.
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

/// Returns whether to use colors on a stream: according to `--color`; with `auto`, not if `TERM` is `dumb` or
/// `NO_COLOR` is set, else if `CLICOLOR_FORCE` is set, else in a terminal.
pub(super) fn has_colour(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// Returns a progress style; the templates are known to be valid.
pub(super) fn progress_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
