//! The checks: each is a function of the snapshot.

mod controller;
mod crd;
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
pub(super) struct Check {
    /// Its name, which scripts filter by: it does not change.
    pub(super) name: &'static str,
    pub(super) run: fn(&Snapshot) -> Outcome,
}

/// All checks, in the order of the output.
pub(super) const ALL: &[Check] = &[
    Check { name: "crd", run: crd::check },
    Check { name: "rule-status", run: rules::status },
    Check { name: "missing-value", run: values::missing },
    Check { name: "device-class", run: rules::device_classes },
    Check { name: "undeclared-request", run: requests::undeclared },
    Check { name: "oversized-request", run: requests::oversized },
    Check { name: "rejected-pod", run: requests::rejected },
    Check { name: "quota-key", run: quotas::keys },
    Check { name: "scheduler-ignores", run: schedulers::ignored },
    Check { name: "another-writer", run: writers::check },
    Check { name: "ledger", run: ledgers::entries },
    Check { name: "leftover-zero", run: ledgers::zeros },
    Check { name: "kubelet-reset", run: writers::resets },
    Check { name: "leader", run: controller::leader },
    Check { name: "replicas", run: controller::replicas },
    Check { name: "pods-permission", run: controller::pods_permission },
    Check { name: "protection", run: policies::protection },
    Check { name: "confinement", run: policies::confinement },
    Check { name: "node-overlay", run: overlays::check },
    Check { name: "kubernetes-version", run: versions::kubernetes },
    Check { name: "kubelet-version", run: versions::kubelets },
    Check { name: "program-version", run: versions::program },
];
