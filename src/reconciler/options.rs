//! The options of the controller.

use std::time::Duration;

use super::protection::ExpectedPolicy;

/// The options of the controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of concurrent patches; repairs have two more slots of their own. About ten saturate the API
    /// server.
    pub concurrency: usize,
    /// The limits of patches that follow from edits of rules.
    pub rollouts: RolloutLimits,
    /// The timeout of a request.
    pub request_timeout: Duration,
    /// How long values stay when a list lacks most of the rules named in node annotations.
    pub mass_withdrawal_delay: Duration,
    /// Whether the leader tests that the policy confines this account.
    pub confinement_test: bool,
    /// Where the policy that keeps values across reboots is expected.
    pub protection: ExpectedPolicy,
    /// Whether to keep a condition on each node that a rule selects. Otherwise it is removed.
    pub node_condition: bool,
    /// How many bytes rules take at most: the youngest of those that do not fit are stalled.
    pub max_rules_memory: usize,
    /// The seed for the randomness of pauses and of the names of Events.
    pub seed: u64,
}

/// The limits of rollouts: of the patches that follow from an edit of rules.
#[derive(Clone, Copy, Debug)]
pub struct RolloutLimits {
    /// The maximum rate; `None` for no limit. Repairs, and patches of new and changed nodes, do not count.
    pub patches_per_second: Option<u32>,
    /// The number of nodes whose patches fail that stops a rollout, if they are also most of those tried.
    pub max_failed_nodes: usize,
}

/// The number of failed nodes that stops a rollout: few enough to be harmless, and more than one broken rack.
const MAX_FAILED_NODES: usize = 10;

impl RolloutLimits {
    /// No limits.
    pub const NONE: Self = Self { patches_per_second: None, max_failed_nodes: usize::MAX };

    /// The limits at a maximum rate.
    #[must_use]
    pub fn at(patches_per_second: Option<u32>) -> Self {
        Self { patches_per_second, max_failed_nodes: MAX_FAILED_NODES }
    }
}
