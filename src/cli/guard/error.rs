//! Errors that end the command.

use thiserror::Error;

use crate::cli::error::Error;
use crate::model::count::{NAMED, few};
use crate::model::label::excerpt;
use crate::model::quantity::MAX_QUANTITY;

/// Why no policy is printed.
#[derive(Debug, Error)]
pub(super) enum GuardError {
    /// The rules cannot be read, or the output cannot be written.
    #[error(transparent)]
    Command(#[from] Error),
    /// The rules declare several resources.
    #[error("the rules declare {}: name one with --resource", few(declared, NAMED, ", "))]
    Several {
        /// The resources.
        declared: Vec<String>,
    },
    /// No rule declares the resource.
    #[error(
        "no rule declares {}: pods that request it would stay Pending. The rules declare {}",
        excerpt(name),
        few(declared, NAMED, ", ")
    )]
    Undeclared {
        /// The resource.
        name: String,
        /// What they declare.
        declared: Vec<String>,
    },
    /// No pod can request this.
    #[error("--quantity {0}: a pod requests a whole number from 1 to {MAX_QUANTITY}")]
    Quantity(String),
    /// Not the name of an object.
    #[error("--name {}: use at most 253 lower-case letters, digits, - and .", excerpt(.0))]
    Name(String),
    /// The labels select too many pods, or too few.
    #[error("{0}")]
    Selector(String),
    /// The output cannot be expressed in a format, which would be a bug.
    #[error("cannot write the output: {0}")]
    Render(String),
}
