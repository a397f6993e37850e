//! The checks: each is a function of the snapshot.

mod controller;
mod crd;
mod guards;
mod ledgers;
mod overlays;
mod policies;
mod quotas;
mod requests;
mod rules;
mod schedulers;
mod values;
mod versions;
mod writers;

use super::finding::Outcome;
use super::snapshot::Snapshot;
#[cfg(test)]
pub(super) use versions::{NEWEST, OLDEST};

/// A check.
pub(crate) struct Check {
    /// Its name, which scripts filter by: it does not change.
    pub(crate) name: &'static str,
    /// What it finds, for `--help`.
    pub(crate) finds: &'static str,
    pub(crate) run: fn(&Snapshot) -> Outcome,
}

/// All checks, in the order of the output.
pub(crate) const ALL: &[Check] = &[
    Check {
        name: "crd",
        finds: "the CustomResourceDefinition is missing, or of another version than this program",
        run: crd::check,
    },
    Check {
        name: "rule-status",
        finds: "rules that are invalid, not Ready, held, paused, overridden, without nodes, or seen by no controller",
        run: rules::status,
    },
    Check {
        name: "missing-value",
        finds: "declared values that nodes do not have: an error if no controller leads",
        run: values::missing,
    },
    Check {
        name: "device-class",
        finds: "a DeviceClass maps a declared resource, so that its pods may get no device",
        run: rules::device_classes,
    },
    Check {
        name: "undeclared-request",
        finds: "waiting pods that request what no node has, and no rule or DeviceClass declares",
        run: requests::undeclared,
    },
    Check {
        name: "oversized-request",
        finds: "waiting pods that request more than any node has and any rule declares",
        run: requests::oversized,
    },
    Check {
        name: "rejected-pod",
        finds: "pods that a kubelet rejected within the last hour with OutOf<resource>",
        run: requests::rejected,
    },
    Check {
        name: "quota-key",
        finds: "keys of a ResourceQuota without requests., which limit nothing, and misspelled resources",
        run: quotas::keys,
    },
    Check {
        name: "scheduler-ignores",
        finds: "a scheduler that ignores a declared resource, by a ConfigMap in kube-system",
        run: schedulers::ignored,
    },
    Check {
        name: "another-writer",
        finds: "another field manager has written a declared value: an error if the number differs",
        run: writers::check,
    },
    Check {
        name: "ledger",
        finds: "annotations that cannot be read, or name deleted rules or values that the node does not have",
        run: ledgers::entries,
    },
    Check {
        name: "leftover-zero",
        finds: "undeclared resources that are 0 on a node, so that its kubelet rejects pods",
        run: ledgers::zeros,
    },
    Check {
        name: "kubelet-reset",
        finds: "kubelets that have reset a value to 0 within the last hour",
        run: writers::resets,
    },
    Check {
        name: "leader",
        finds: "no controller holds an unexpired Lease, several do, or prune holds it",
        run: controller::leader,
    },
    Check {
        name: "replicas",
        finds: "a controller's Deployment that is scaled to 0, or has replicas that are not ready",
        run: controller::replicas,
    },
    Check {
        name: "pods-permission",
        finds: "a controller that may not list and watch pods, which a rule needs",
        run: controller::pods_permission,
    },
    Check {
        name: "protection",
        finds: "the policy that keeps values across reboots is missing, or has no binding",
        run: policies::protection,
    },
    Check {
        name: "confinement",
        finds: "the policies that confine the controller are missing, have no binding, only report, or do not fit",
        run: policies::confinement,
    },
    Check {
        name: "guard",
        finds: "policies of a guard that have no binding, do not fit together, select what another one does, or count what no \
                rule declares",
        run: guards::guards,
    },
    Check {
        name: "uncounted-pod",
        finds: "pods that a guard selects, and that request nothing of its resource",
        run: guards::uncounted,
    },
    Check {
        name: "overcommitted-node",
        finds: "nodes whose pods request more of a declared resource than the node has",
        run: guards::overcommitted,
    },
    Check {
        name: "node-overlay",
        finds: "NodeOverlays of Karpenter that no rule needs, that differ from their rule, or that are missing",
        run: overlays::check,
    },
    Check {
        name: "kubernetes-version",
        finds: "a version of Kubernetes that is not supported, or newer than those tested",
        run: versions::kubernetes,
    },
    Check {
        name: "kubelet-version",
        finds: "kubelets that are newer than the API server, or more than three minor versions older",
        run: versions::kubelets,
    },
    Check {
        name: "program-version",
        finds: "a controller of another version than this program",
        run: versions::program,
    },
];
