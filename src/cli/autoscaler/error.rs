//! Errors that end the command.

use thiserror::Error;

use crate::cli::error::Error;
use crate::cluster::client::ConnectError;

/// Why the command cannot do what it was asked to.
#[derive(Debug, Error)]
pub(crate) enum AutoscalerError {
    /// The rules cannot be read, or the output cannot be written.
    #[error(transparent)]
    Command(#[from] Error),
    /// No cluster can be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What the autoscaler knows cannot be read.
    #[error("cannot compare: {0}")]
    Check(String),
    /// Arguments that do not fit together.
    #[error("{0}")]
    Arguments(String),
    /// The output cannot be expressed in a format, which would be a bug.
    #[error("cannot write the output: {0}")]
    Render(String),
}
