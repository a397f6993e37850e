//! The options of the controller, and where it reports its own state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::metrics::Metrics;
use super::readiness::Readiness;

/// The options of the controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of concurrent patches; repairs have two more slots of their own. About ten saturate the API
    /// server.
    pub concurrency: usize,
    /// The timeout of a request.
    pub request_timeout: Duration,
    /// How long values stay when a list lacks most of the rules named in node annotations.
    pub mass_withdrawal_delay: Duration,
    /// Whether the leader tests that the policy confines this account.
    pub confinement_test: bool,
    /// The seed for the randomness of pauses and of the names of Events.
    pub seed: u64,
}

/// Where the controller reports its own state.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// Why the controller is not ready.
    pub readiness: watch::Sender<Readiness>,
    /// The time of the last iteration of the loop: at most ten seconds ago, unless the loop is stuck.
    pub heartbeat: watch::Sender<Instant>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}
