//! Lines about nodes, many nodes with the same line in one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::inspect::diff::rows::MAX_LISTED_NODES;
use crate::model::count::{NAMED, few};

/// What is said of a node.
pub(super) struct NodeLine {
    node: Arc<str>,
    text: String,
}

impl NodeLine {
    pub(super) fn new(node: &Arc<str>, text: String) -> Self {
        Self { node: Arc::clone(node), text }
    }
}

/// Returns a line per node. Of more nodes with the same text than `plan` lists, there is one line, where the first is.
pub(super) fn grouped(lines: Vec<NodeLine>) -> Vec<String> {
    let mut nodes = HashMap::<String, Vec<Arc<str>>>::new();
    for NodeLine { node, text } in &lines {
        nodes.entry(text.clone()).or_default().push(Arc::clone(node));
    }
    let shown = lines.into_iter().filter_map(|NodeLine { node, text }| {
        let same = nodes.get(&text)?;
        match same.len() {
            0..=MAX_LISTED_NODES => Some(format!("{node}: {text}")),
            _ => nodes.remove(&text).map(|same| format!("{}: {text}", few(&same, NAMED, ", "))),
        }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_with_the_same_line_are_one_line() {
        let lines = |count: usize| {
            let same = (1..=count).map(|at| NodeLine::new(&format!("n-{at}").into(), "a".to_owned()));
            let other = NodeLine::new(&"n-0".into(), "b".to_owned());
            grouped(same.chain([other]).collect())
        };
        assert_eq!(lines(11), ["n-1, n-2, n-3, n-4, n-5 and 6 more: a", "n-0: b"]);
        assert_eq!(lines(10).len(), 11);
        assert_eq!(lines(2), ["n-1: a", "n-2: a", "n-0: b"]);
    }
}
