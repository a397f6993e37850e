//! What to remove.

use crate::inspect::diff::label_filter::LabelFilter;
use crate::model::resource_name::ResourceName;

/// What to remove from which nodes.
pub(in crate::cli::prune) struct Scope {
    pub(in crate::cli::prune) resource: ResourceName,
    /// Names; empty for all nodes.
    pub(in crate::cli::prune) nodes: Vec<String>,
    /// The labels of the nodes.
    pub(in crate::cli::prune) labels: LabelFilter,
    pub(in crate::cli::prune) dry_run: bool,
    /// Whether to ask on the terminal.
    pub(in crate::cli::prune) asks: bool,
}
