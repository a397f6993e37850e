//! Errors that end the program, and how errors are told to people.

use std::error::Error as StdError;
use std::fmt::Write as _;

use kube::runtime::watcher;
use thiserror::Error;

use crate::cli::InvalidSettings;
use crate::preview::cluster::ClusterError;
use crate::preview::files::FileError;
use crate::prune::{ExclusiveError, SurveyError};

/// What ends a subcommand.
#[derive(Debug, Error)]
pub enum Error {
    /// What `run` was told makes no sense.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// Neither a kubeconfig nor a pod's service account could be used.
    #[error("no way to reach a cluster: {}; set KUBECONFIG, or run in a pod", chain(&**.0))]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The HTTP client could not be set up, for instance for a bad certificate.
    #[error("cannot set up the connection to the API server: {}", chain(&**.0))]
    Client(#[source] Box<kube::Error>),
    /// The address for readiness is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address, as given.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The CRD could not be printed.
    #[error("cannot write the CRD as YAML: {0}")]
    Yaml(String),
    /// A controller is at work, or that cannot be told.
    #[error(transparent)]
    Exclusive(#[from] ExclusiveError),
    /// Nodes cannot be read.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// Some nodes are as they were.
    #[error(
        "not everything is taken back: {failed} nodes failed, and {unreadable} were left alone"
    )]
    NotPruned {
        /// How many patches failed.
        failed: usize,
        /// How many nodes have a ledger that cannot be read.
        unreadable: usize,
    },
    /// A file with nodes or pods cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Rules or nodes of the cluster cannot be listed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
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

/// An error with its causes, each said once: "client error (Connect): Connection refused".
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {next}");
        }
        cause = error.source();
    }
    text
}

/// What went wrong with a request, in the API server's own words where it answered.
#[must_use]
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(error) => {
            format!("the API server cannot be reached: {}", chain(&**error))
        }
        other => chain(other),
    }
}

/// Whether the server no longer has what happened since; which is nothing unusual.
#[must_use]
pub fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

/// What a watch has run into, and what to do about it.
#[must_use]
pub fn describe_watch(error: &watcher::Error, missing: &str) -> String {
    let cause = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(status) => {
            return format!(
                "the watch was ended by the server, and is started again: {}",
                status.message
            );
        }
        watcher::Error::NoResourceVersion => return error.to_string(),
    };
    let hint = match cause {
        kube::Error::Api(status) if status.code == 404 => missing,
        kube::Error::Api(status) if status.code == 403 => "; grant the verbs list and watch",
        _ => "",
    };
    format!("cannot be watched, trying again: {}{hint}", describe(cause))
}
