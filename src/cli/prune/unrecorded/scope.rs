//! What to remove.

use crate::inspect::diff::label_filter::LabelFilter;
use crate::model::resource_name::ResourceName;

/// What to remove from which nodes.
pub(crate) struct Scope {
    pub(crate) resource: ResourceName,
    /// Names; empty for all nodes.
    pub(crate) nodes: Vec<String>,
    /// The labels of the nodes.
    pub(crate) labels: LabelFilter,
    pub(crate) dry_run: bool,
    /// Whether to ask on the terminal.
    pub(crate) asks: bool,
}
