//! Errors that end a command.

use std::path::PathBuf;

use thiserror::Error;

use super::health::HealthError;
use super::prune::lease_guard::LeaseGuardError;
use super::prune::nodes::PlanPruneError;
use super::prune::unrecorded::error::UnrecordedError;
use super::settings::InvalidSettings;
use crate::cluster::client::ConnectError;
use crate::cluster::lease::LeaseName;
use crate::controller::WentBack;
use crate::controller::server::ListenError;
use crate::inspect::diff::cluster::ClusterError;
use crate::inspect::diff::files::FileError;
use crate::inspect::diff::filter::UnknownName;
use crate::inspect::hint;
use crate::model::count::plural;

/// An error that ends a subcommand.
#[derive(Debug, Error)]
pub enum Error {
    /// The settings of `run` are invalid.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// No cluster can be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address for health and metrics cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The API server went back to an earlier state, for example because etcd was restored.
    #[error(transparent)]
    WentBack(#[from] WentBack),
    /// The CRD could not be printed.
    #[error("cannot write the CRD as YAML: {0}")]
    Yaml(String),
    /// The manual pages cannot be written.
    #[error("cannot write the manual pages to {}: {source}", folder.display())]
    ManualPages {
        /// The folder.
        folder: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// The replicas are not as expected.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// A controller is active, or whether one is active cannot be determined.
    #[error(transparent)]
    LeaseGuard(#[from] LeaseGuardError),
    /// Controllers that use another Lease lead.
    #[error(
        "another controller leads, with the Lease {other}, and the two would undo each other's changes: this one would use \
         the Lease {own}, in the namespace of the kubeconfig. To stand by for it, use --leader-elect-resource-namespace {} \
         --leader-elect-resource-name {}; to lead beside it, name the namespace {}", other.namespace, other.name, own.namespace
    )]
    AnotherController {
        /// The Lease that this controller would use.
        own: LeaseName,
        /// The Lease of the other.
        other: LeaseName,
    },
    /// Nodes cannot be read.
    #[error(transparent)]
    PrunePlan(#[from] PlanPruneError),
    /// Values that no ledger records cannot be removed, or are left.
    #[error(transparent)]
    Unrecorded(#[from] UnrecordedError),
    /// Nobody is there to ask.
    #[error(
        "prune --all and --resource ask for confirmation, and there is no terminal to ask on: add --yes, or --dry-run"
    )]
    CannotAsk,
    /// The terminal cannot be read.
    #[error("cannot ask for confirmation: {0}")]
    Ask(#[source] std::io::Error),
    /// The question was not answered with yes.
    #[error("nothing has changed, because it was not confirmed")]
    NotConfirmed,
    /// Some nodes did not change.
    #[error(
        "cannot withdraw everything: nodes that failed: {failed}; nodes whose annotation cannot be read: \
         {unreadable}"
    )]
    NotPruned {
        /// How many nodes could not be patched.
        failed: usize,
        /// How many nodes have a ledger that cannot be read.
        unreadable: usize,
    },
    /// Values stay that leave when they are unused.
    #[error(
        "{} not withdrawn, because pods request them, or may: wait for the pods, or withdraw them with --in-use",
        plural(*values, "value was", "values were")
    )]
    InUse {
        /// How many.
        values: usize,
    },
    /// A signal stopped `prune`.
    #[error("stopped by a signal: {} left; run prune again to withdraw the rest", plural(*left, "node is", "nodes are"))]
    Stopped {
        /// How many nodes were left.
        left: usize,
    },
    /// A signal stopped `prune` before its first patch.
    #[error("nothing has changed: stopped by a signal")]
    StoppedBefore,
    /// A Lease was lost while `prune` ran.
    #[error("{0}")]
    NotAlone(String),
    /// A Lease could not be kept after the end.
    #[error(
        "cannot keep the lease {lease}: {why}; a controller may write the values again: run prune \
         again"
    )]
    LeaseNotKept {
        /// Which Lease.
        lease: LeaseName,
        /// Why.
        why: String,
    },
    /// A file with nodes or pods cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Rules or nodes of the cluster cannot be listed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A name that selects part of a plan does not exist.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// A patch contains the changes of all rules.
    #[error("-o patch cannot be combined with --rule: a patch contains all changes of its node")]
    PatchOfRule,
    /// The rules have errors, which have been reported.
    #[error("the rules have errors; correct them first")]
    InvalidRules,
    /// Files that may hold rules cannot be read, which has been reported.
    #[error("files that may hold rules cannot be read: correct them, or skip them with --exclude")]
    UnreadableFiles,
    /// No file can be read, which has been reported.
    #[error("nothing in -f can be read: correct the files, or name others")]
    NothingReadable,
    /// The files have no rule, so they are probably the wrong files.
    #[error("no NodeExtendedResource found in the files given with -f")]
    NoRules,
    /// The cluster does not serve the kind.
    #[error("the CustomResourceDefinition is not installed: {}, or give rules with -f", hint::install_crd())]
    NoCrd,
    /// Standard input can be read only once.
    #[error("standard input (-) can be given only once, for -f, --nodes or --pods")]
    StdinTwice,
    /// A report could not be written in a format.
    #[error("cannot write the plan: {0}")]
    Render(String),
    /// Standard output is closed or full.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] std::io::Error),
    /// The CRD's own validation could not be compiled.
    #[error("cannot compile the CRD's validation: {0}")]
    Validation(String),
    /// A signal handler could not be installed.
    #[error("cannot install a signal handler: {0}")]
    Signal(#[source] std::io::Error),
}

impl Error {
    /// Returns whether no API server could be reached.
    pub(super) fn is_no_connection(&self) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Cluster(ClusterError::Rules(error) | ClusterError::Nodes(error)) => {
                matches!(**error, kube::Error::Service(_))
            }
            _ => false,
        }
    }
}
