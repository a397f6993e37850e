//! How the controller works, and where it reports its own state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::metrics::Metrics;
use super::readiness::Readiness;

/// How the controller works.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many nodes may be patched at once; repairs have two slots of their own beside these. The API server
    /// is busy at about ten.
    pub concurrency: usize,
    /// How long a request may take before it counts as failed.
    pub request_timeout: Duration,
    /// How long what rules advertised stays where a list lacks most of the rules that nodes' annotations name.
    pub mass_withdrawal_delay: Duration,
    /// Whether the leader tests that the policy confines this account.
    pub confinement_test: bool,
    /// Where the randomness of pauses and of Events' names comes from.
    pub seed: u64,
}

/// Where the controller reports its own state.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// What keeps it from its work.
    pub readiness: watch::Sender<Readiness>,
    /// When it last went round its loop: at least every ten seconds, unless it is stuck.
    pub heartbeat: watch::Sender<Instant>,
    /// What it has done.
    pub metrics: Arc<Metrics>,
}
