//! The permissions that commands need in a cluster, as a part of their help. A test compares them with the requests that
//! the API server logs.

use clap::Command;

/// What a command may do in a cluster.
struct Permission {
    verb: &'static str,
    /// As RBAC names them; those of other API groups have names of their own.
    resources: &'static str,
    /// For what it is needed, if not always.
    purpose: Option<&'static str>,
}

const fn always(verb: &'static str, resources: &'static str) -> Permission {
    Permission { verb, resources, purpose: None }
}

const fn only_for(purpose: &'static str, verb: &'static str, resources: &'static str) -> Permission {
    Permission { verb, resources, purpose: Some(purpose) }
}

const QUESTION: Permission = always("list", "nodes, pods, nodeextendedresources, deviceclasses");

const COMMANDS: [(&str, &[Permission]); 10] = [
    ("top", &[QUESTION]),
    ("node", &[QUESTION]),
    (
        "resource",
        &[
            QUESTION,
            only_for("the policies of guard", "list", "mutatingadmissionpolicies, mutatingadmissionpolicybindings"),
            only_for("the policies of guard", "list", "validatingadmissionpolicies, validatingadmissionpolicybindings"),
            only_for("pods that a guard selects and that do not count", "list", "namespaces"),
        ],
    ),
    ("pod", &[QUESTION, always("get", "pods")]),
    (
        "why",
        &[
            QUESTION,
            always("get", "pods"),
            only_for("pods that cannot be created", "list", "events"),
            only_for("values that are not written yet", "list", "leases"),
            only_for("the workload that you name", "get", "deployments, daemonsets, statefulsets, replicasets, jobs"),
        ],
    ),
    ("history", &[always("list", "nodes, nodeextendedresources, events, leases"), always("get", "nodes")]),
    (
        "plan",
        &[always("list", "nodes, nodeextendedresources"), only_for("values that are to be lowered", "list", "pods")],
    ),
    ("adopt", &[always("list", "nodes, nodeextendedresources, deviceclasses, nodefeaturerules")]),
    (
        "autoscaler",
        &[only_for("--check-cluster", "list", "nodeoverlays, machinedeployments, machinepools, machinesets")],
    ),
    (
        "prune",
        &[
            always("list", "nodes, leases"),
            only_for("--resource", "list", "nodeextendedresources"),
            only_for("--resource, and for values with deletionPolicy WhenUnused", "list", "pods"),
            only_for("changes", "patch", "nodes/status"),
            only_for("changes", "watch", "leases"),
            only_for("changes", "update", "leases"),
        ],
    ),
];

/// Returns the command with the permissions of its subcommands in their help.
pub(super) fn described(command: Command) -> Command {
    COMMANDS.iter().fold(command, |command, (name, permissions)| {
        command.mut_subcommand(name, |subcommand| {
            let after = subcommand.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: String = permissions.iter().map(line).collect();
            subcommand.after_help(format!("Permissions:\n{lines}\n{after}"))
        })
    })
}

fn line(permission: &Permission) -> String {
    let Permission { verb, resources, purpose } = permission;
    let purpose = purpose.map(|purpose| format!(" (for {purpose})")).unwrap_or_default();
    format!("  {verb:<8}{resources}{purpose}\n")
}
