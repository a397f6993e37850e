//! What to remove.

use crate::cli::prune::choice::NodeChoice;
use crate::model::resource_name::ResourceName;

/// What to remove from which nodes.
pub(crate) struct Scope {
    pub(crate) resource: ResourceName,
    pub(crate) choice: NodeChoice,
    pub(crate) dry_run: bool,
    /// Whether to ask on the terminal.
    pub(crate) asks: bool,
}
