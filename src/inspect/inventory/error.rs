//! Why there is no inventory.

use thiserror::Error;

use crate::inspect::diff::cluster::ClusterError;

/// Why a cluster cannot be read. A missing permission to list something does not count.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// Neither nodes nor pods can be listed.
    #[error("you lack permission to list nodes and pods: ask for the verb list on both. The server says: {0}")]
    Nothing(String),
    /// Nodes cannot be selected by their labels.
    #[error("you lack permission to list nodes, which -l needs. The server says: {0}")]
    Selector(String),
    #[error("cannot get the pod {pod}: {why}")]
    Pod { pod: String, why: String },
    #[error("cannot get {workload}: {why}")]
    Workload { workload: String, why: String },
    #[error("cannot list {kind}: {why}")]
    List { kind: &'static str, why: String },
    #[error(transparent)]
    Rules(#[from] ClusterError),
}
