//! The errors that end a command.

use thiserror::Error;

use super::diff::cluster::ClusterError;
use super::diff::files::FileError;
use super::diff::filter::UnknownName;
use super::prune::lease_guard::LeaseGuardError;
use super::prune::nodes::PlanPruneError;
use super::settings::InvalidSettings;
use crate::cluster::client::ConnectError;
use crate::cluster::lease::LeaseName;
use crate::controller::WentBack;
use crate::controller::server::ListenError;

/// What ends a subcommand.
#[derive(Debug, Error)]
pub enum Error {
    /// What `run` was told makes no sense.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// There is no way to reach a cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address for health and metrics cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The API server is at an earlier state than before, as after a restore of etcd.
    #[error(transparent)]
    WentBack(#[from] WentBack),
    /// The CRD could not be printed.
    #[error("cannot write the CRD as YAML: {0}")]
    Yaml(String),
    /// A controller is at work, or that cannot be told.
    #[error(transparent)]
    LeaseGuard(#[from] LeaseGuardError),
    /// Nodes cannot be read.
    #[error(transparent)]
    PrunePlan(#[from] PlanPruneError),
    /// Some nodes are as they were.
    #[error(
        "not everything is withdrawn: nodes that failed: {failed}; nodes whose annotation cannot be read: \
         {unreadable}"
    )]
    NotPruned {
        /// How many patches failed.
        failed: usize,
        /// How many nodes have a ledger that cannot be read.
        unreadable: usize,
    },
    /// A Lease was lost meanwhile.
    #[error("{0}")]
    NotAlone(String),
    /// A Lease that was to be kept is free.
    #[error(
        "the lease {lease} is not kept, so that a controller may write again what is pruned: {why}; \
         run it again"
    )]
    LeaseNotKept {
        /// Which Lease.
        lease: LeaseName,
        /// In words.
        why: String,
    },
    /// A file with nodes or pods cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Rules or nodes of the cluster cannot be listed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A name that is given to select part of a plan is no name.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// A patch is more than what one rule changes.
    #[error("-o patch cannot be combined with --rule: a patch has all changes of its node")]
    PatchOfRule,
    /// What is wrong with them has been told.
    #[error("the rules have errors, so nothing is planned")]
    InvalidRules,
    /// Files without any rule, which will be the wrong ones.
    #[error("there is no NodeExtendedResource in the files of -f")]
    NoRules,
    /// The cluster has no rules, since it does not know the kind.
    #[error(
        "the CustomResourceDefinition is not installed; give rules by -f, or apply the file in crds/"
    )]
    NoCrd,
    /// It can be read once only.
    #[error("standard input (-) can be given once only, for -f, --nodes or --pods")]
    StdinTwice,
    /// A report could not be written in a format.
    #[error("cannot write the plan: {0}")]
    Render(String),
    /// Standard output is closed or full.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] std::io::Error),
    /// The CRD's own validation could not be compiled.
    #[error("cannot use the CRD's validation: {0}")]
    Validation(String),
    /// The runtime could not be started.
    #[error("cannot start: {0}")]
    Runtime(#[source] std::io::Error),
    /// A signal handler could not be installed.
    #[error("cannot wait for signals: {0}")]
    Signal(#[source] std::io::Error),
}

impl Error {
    /// Whether no API server could be reached.
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
