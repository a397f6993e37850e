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
    of_cluster(&program(), args)
}

/// Returns a command of kubectl, which takes the same flags. Without them, it would act on the current context.
pub(crate) fn kubectl(args: &str) -> String {
    of_cluster("kubectl", args)
}

/// Returns the command that shows a rule's status.
pub(crate) fn describe_rule(rule: impl Display) -> String {
    kubectl(&format!("describe ner {rule}"))
}

/// Returns the command that installs the CustomResourceDefinition.
pub(crate) fn install_crd() -> String {
    of_cluster(&program(), "crd | kubectl apply --server-side -f -")
}

fn of_cluster(program: &str, args: &str) -> String {
    format!("`{program} {args}{}`", CLUSTER_FLAGS.get().map_or("", String::as_str))
}

/// Quotes a word for a POSIX shell where it has anything but plain characters.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the command that shows which zeros it would remove, and that removes nothing else. The flags limit it to nodes.
pub(crate) fn remove_zeros(node_flags: &str) -> String {
    command(&format!("prune --zeros{node_flags} --dry-run"))
}

/// Returns the command that shows what the repair of one node's annotation would remove.
pub(crate) fn repair_ledger(node: impl Display) -> String {
    command(&format!("prune --repair-ledger --node {node} --force --dry-run"))
}

/// Returns the command that shows which values of a rule it would withdraw. The flags limit it to nodes. The annotation of
/// a node, where the rule's name may come from, can be edited by others.
pub(crate) fn withdraw_rule(rule: &str, node_flags: &str) -> String {
    let separator = if rule.starts_with(['-', '=']) { '=' } else { ' ' };
    command(&format!("prune --rule{separator}{}{node_flags} --dry-run", quoted(rule)))
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
            (withdraw_rule("-r", ""), "prune --rule=-r --dry-run"),
            (withdraw_rule("r --zeros #", " --node a"), "prune --rule 'r --zeros #' --node a --dry-run"),
            (withdraw_rule("r';id;'", ""), r"prune --rule 'r'\'';id;'\''' --dry-run"),
            (kubectl("describe ner a"), "describe ner a"),
            (repair_ledger("a"), "prune --repair-ledger --node a --force --dry-run"),
        ] {
            assert!(command.ends_with(&format!(" {expected}`")), "{command}");
        }
    }
}
