//! Errors that end the command.

use thiserror::Error;

use crate::cli::error::Error;

/// Why the command cannot do what it was asked to.
#[derive(Debug, Error)]
pub(super) enum AutoscalerError {
    /// The rules cannot be read, or the output cannot be written.
    #[error(transparent)]
    Command(#[from] Error),
    /// Arguments that do not fit together.
    #[error("{0}")]
    Arguments(String),
    /// The output cannot be expressed in a format, which would be a bug.
    #[error("cannot write the output: {0}")]
    Render(String),
}
