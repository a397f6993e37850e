//! Why values stay.

use thiserror::Error;

use crate::inspect::diff::label_filter::LabelFilter;
use crate::model::count::plural;

/// Why values of a resource could not be removed, or are left.
#[derive(Debug, Error)]
pub enum UnrecordedError {
    /// What decides whether a value may be removed cannot be read.
    #[error("nothing is removed, because {0}")]
    Unread(String),
    /// A node that is named does not exist.
    #[error("cannot read node {0}: there is no such node")]
    NoNode(String),
    /// The selector, which may be misspelled, selects nothing.
    #[error("no node has the labels {0}")]
    NoNodes(LabelFilter),
    /// Some nodes still have a value that may be removed.
    #[error("values are left: {}; run prune again", parts(*.failed, *.stopped, *.held))]
    Left {
        /// How many nodes could not be patched.
        failed: usize,
        /// How many nodes a signal left.
        stopped: usize,
        /// How many nodes have pods that request it, or a recent value.
        held: usize,
    },
}

fn parts(failed: usize, stopped: usize, held: usize) -> String {
    let parts = [(failed, "that failed"), (stopped, "that a signal left"), (held, "whose value stays for now")];
    let parts = parts.into_iter().filter(|(nodes, _)| *nodes > 0);
    let parts: Vec<_> = parts.map(|(nodes, what)| format!("{} {what}", plural(nodes, "node", "nodes"))).collect();
    parts.join(", ")
}
