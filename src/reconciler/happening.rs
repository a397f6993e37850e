//! What has happened, as facts: the parts that decide return them, and the shell turns each into a line of the log
//! (`log.rs`), into metrics (`metrics.rs`) and into what the endpoints show (`readiness.rs`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::confinement;
use super::effect::Watched;
use super::nodes::{Cause, NodeSubject};
use super::protection::{self, Start};
use super::rollouts::Stopped;
use super::rules::Stalled;
use super::rules_by_state::RULE_STATES;
use super::standing::Standing;
use crate::election::participant::{Leadership, Note};
use crate::model::ledger::InvalidLedger;
use crate::model::quantity::Quantity;
use crate::planner::input::Lost;
use crate::planner::{Change, Leaving};

#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// A kubelet has started after a reboot. Each replica observes that; the leader counts it.
    Started {
        node: Arc<str>,
        start: Start,
        protection: protection::State,
        is_counted: bool,
    },
    /// A ledger turns out to be unreadable.
    Unreadable {
        node: NodeSubject,
        error: InvalidLedger,
    },
    /// A rule has a new state on a node that needs an administrator.
    Problem {
        node: NodeSubject,
        rule: Arc<str>,
        resource: Box<str>,
        standing: Standing,
    },
    /// A patch was answered, with this result.
    Answered {
        result: &'static str,
    },
    /// The leader has patched a node so long after it had work.
    Patched {
        after: Duration,
    },
    Changed {
        node: NodeSubject,
        change: Change,
    },
    /// A value is there again in the response to the patch that removed it.
    PutBack {
        node: NodeSubject,
        rule: Arc<str>,
        change: Change,
    },
    /// A value was restored.
    Repaired,
    /// A value is undone again and again.
    Contested {
        node: NodeSubject,
        change: Change,
        lost: Lost,
    },
    /// A patch was accepted, and the node is unchanged.
    Undone {
        node: Arc<str>,
    },
    /// The patch of a node could not be built.
    NotBuilt {
        node: Arc<str>,
        message: Arc<str>,
    },
    /// A patch failed.
    Failed {
        node: Arc<str>,
        cause: Cause,
        message: Arc<str>,
    },
    /// A patch failed for a missing permission, and none did before.
    Forbidden {
        message: Arc<str>,
    },
    /// A value may stay because a patch failed.
    NotWithdrawn {
        node: NodeSubject,
        change: Change,
        message: Arc<str>,
    },
    /// A value that no rule declares stays for now, because pods use it.
    Leaving {
        node: NodeSubject,
        leaving: Leaving,
    },
    /// A rollout has stopped, because the patch of this node failed.
    RolloutStopped {
        node: Option<NodeSubject>,
        rule: Arc<str>,
        stopped: Stopped,
        message: Arc<str>,
    },
    /// The status of a rule says that it is stalled.
    Stalled {
        rule: Arc<str>,
        why: Stalled,
    },
    /// Another rule declares another quantity of the resource with the same priority.
    Tied {
        rule: Arc<str>,
        other: Arc<str>,
        resource: Box<str>,
    },
    /// A write of a status was answered, with this result.
    StatusAnswered {
        result: &'static str,
    },
    StatusRejected {
        rule: Arc<str>,
        error: String,
    },
    StatusFailed {
        rule: Arc<str>,
        error: String,
    },
    /// How many bytes rules take, about, and how many they may.
    Memory {
        size: usize,
        limit: usize,
    },
    /// Rules begin to take nearly all memory that they may; so many do not fit.
    MemoryScarce {
        rules: usize,
        unfit: usize,
        size: usize,
        limit: usize,
    },
    /// So many of the rules that ledgers name are missing: their values stay for this long.
    Missing {
        rules: usize,
        of: usize,
        delay: Duration,
    },
    StillMissing {
        rules: usize,
    },
    /// All objects of a kind are listed.
    Listed {
        watched: Watched,
        number: usize,
    },
    /// A watch begins anew with a list, because its version is too old.
    Expired {
        watched: Watched,
    },
    /// A watch fails for another reason than before.
    WatchFailed {
        message: String,
    },
    /// The watch of this resource has ended, and restarts.
    Restarted {
        resource: &'static str,
    },
    /// The watch of this resource has been broken since then, or works.
    Broken {
        resource: &'static str,
        since: Option<Timestamp>,
    },
    /// Why the process is not ready as long as this watch does not work; `None` if that is no reason.
    NotReady {
        watched: Watched,
        why: Option<String>,
    },
    /// The watch of pods has broken for this reason; `None` if it works again.
    Pods {
        broken: Option<Arc<str>>,
    },
    /// So many pods cannot be decoded.
    UnreadablePods {
        number: usize,
    },
    UnreadablePod {
        error: Arc<str>,
    },
    /// DeviceClasses cannot be read, for this reason.
    UnreadableClasses {
        why: String,
    },
    Election(Note),
    Leadership(Leadership),
    /// Whether this process leads from now on.
    Leads(bool),
    /// Another replica may lead, because this watch has been broken for so long.
    Yields {
        watched: Watched,
        patience: Duration,
    },
    /// Why nodes cannot be patched, if a permission is missing.
    Patches {
        forbidden: Option<Arc<str>>,
    },
    Protection(protection::State),
    Confinement(confinement::State),
    ConfinementTested {
        result: &'static str,
    },
    EventNotWritten {
        error: String,
    },
    /// The sum that a rule advertises, and the pods' requests for it; `None` if it is gone.
    Amounts {
        rule: Arc<str>,
        amounts: Option<RuleAmounts>,
    },
    /// What a leader knows; `None` if this process does not lead.
    Gauges(Option<LeaderGauges>),
    /// The API server went back to an earlier state.
    WentBack,
    /// The process is asked to stop.
    Stopping {
        in_flight: usize,
    },
    /// The process has stopped while patches may still be applied.
    Unanswered {
        in_flight: usize,
    },
}

/// The gauges that only a leader exports: alerts take the maximum over all replicas.
#[derive(Clone, Debug)]
pub(crate) struct LeaderGauges {
    /// Nodes that rules select, by state.
    pub(crate) nodes: Vec<(&'static str, usize)>,
    /// Rules, by state.
    pub(crate) rules: [(&'static str, usize); RULE_STATES.len()],
    pub(crate) rules_without_nodes: usize,
    pub(crate) rules_missing: usize,
    pub(crate) values_leaving: usize,
}

/// The sum that a rule advertises, and the pods' requests for it, if they are known.
#[derive(Clone, Debug)]
pub(crate) struct RuleAmounts {
    pub(crate) resource: Box<str>,
    pub(crate) advertised: Quantity,
    pub(crate) requested: Option<Quantity>,
}
