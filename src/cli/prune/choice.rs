//! The nodes that the flags choose.

use std::sync::Arc;

use crate::inspect::diff::label_filter::LabelFilter;
use crate::inspect::hint;

/// The nodes to prune: by default all.
#[derive(Clone, Debug, Default)]
pub struct NodeChoice {
    /// Names; empty for all nodes.
    pub names: Vec<String>,
    /// The labels of the nodes.
    pub labels: LabelFilter,
}

impl NodeChoice {
    /// Returns the flags that limit an advised command to some of these nodes, or, with labels, to these nodes.
    pub(super) fn flags(&self, nodes: &[Arc<str>]) -> String {
        match (self.names.is_empty(), self.labels.is_empty()) {
            (_, false) => format!(" -l '{}'", self.labels),
            // However many there are: without them, the command would look at others too.
            (false, true) => nodes.iter().map(|node| format!(" --node {node}")).collect(),
            (true, true) => hint::node_flags(nodes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advised_command_is_limited_to_chosen_nodes() {
        let nodes: Vec<Arc<str>> = ["a", "b", "c", "d"].map(Arc::from).into();
        let all = NodeChoice::default();
        assert_eq!(all.flags(&nodes[..2]), " --node a --node b");
        assert_eq!(all.flags(&nodes), "");
        let names = NodeChoice { names: ["a", "b", "c", "d", "e"].map(str::to_owned).into(), ..NodeChoice::default() };
        assert_eq!(names.flags(&nodes), " --node a --node b --node c --node d");
        let labels = NodeChoice { labels: "pool in (a,b)".parse().unwrap(), ..NodeChoice::default() };
        assert_eq!(labels.flags(&nodes[..1]), " -l 'pool in (a,b)'");
    }
}
