//! Commands that a message advises: as they are typed, for the cluster and the user that the message is about, and limited
//! to what the message names.

use std::fmt::Display;
use std::sync::OnceLock;

use super::program::program;

/// The most nodes that a command names.
const NAMED_NODES: usize = 3;

/// The flags that select the cluster and the user, each after a space.
static CLUSTER_FLAGS: OnceLock<String> = OnceLock::new();

/// Sets the flags with which this process selects the cluster.
pub(crate) fn set_cluster_flags(flags: String) {
    // A process connects to one cluster.
    let _ = CLUSTER_FLAGS.set(flags);
}

/// Returns a command of this program in backticks, which keep it in one line. It can be pasted into a shell.
pub(crate) fn command(args: &str) -> String {
    format!("`{} {args}{}`", program(), CLUSTER_FLAGS.get().map_or("", String::as_str))
}

/// Returns the command that shows which zeros it would remove, and that removes nothing else. The flags limit it to nodes.
pub(crate) fn remove_zeros(node_flags: &str) -> String {
    command(&format!("prune --zeros{node_flags} --dry-run"))
}

/// Returns the command that shows what the repair of one node's annotation would remove.
pub(crate) fn repair_ledger(node: impl Display) -> String {
    command(&format!("prune --repair-ledger --node {node} --force --dry-run"))
}

/// Returns the command that shows which values of a rule it would withdraw. The flags limit it to nodes.
pub(crate) fn withdraw_rule(rule: impl Display, node_flags: &str) -> String {
    command(&format!("prune --rule {rule}{node_flags} --dry-run"))
}

/// Returns the flags that limit a command to these nodes; none where there are many, which a message does not name either.
pub(crate) fn node_flags<N: Display>(nodes: &[N]) -> String {
    match nodes.len() {
        ..=NAMED_NODES => nodes.iter().map(|node| format!(" --node {node}")).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advised_prune_is_a_dry_run_on_the_nodes_that_are_named() {
        let (few, many) = (["a", "b", "c"], ["a", "b", "c", "d"]);
        for (command, expected) in [
            (remove_zeros(&node_flags(&few)), "prune --zeros --node a --node b --node c --dry-run"),
            (remove_zeros(&node_flags(&many)), "prune --zeros --dry-run"),
            (withdraw_rule("r", &node_flags(&few[..1])), "prune --rule r --node a --dry-run"),
            (repair_ledger("a"), "prune --repair-ledger --node a --force --dry-run"),
        ] {
            assert!(command.ends_with(&format!(" {expected}`")), "{command}");
        }
    }
}
