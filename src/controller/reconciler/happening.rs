//! What has happened to nodes, as facts. `report.rs` has the log lines, the Events and the metrics of each.

use std::sync::Arc;
use std::time::Duration;

use crate::controller::events::NodeSubject;
use crate::controller::nodes::Cause;
use crate::controller::protection::Start;
use crate::controller::rollouts::Stopped;
use crate::controller::standing::Standing;
use crate::model::ledger::InvalidLedger;
use crate::planner::input::Lost;
use crate::planner::{Change, Leaving};

#[derive(Clone, Debug)]
pub(super) enum Happening {
    /// A kubelet has started.
    Started {
        node: Arc<str>,
        start: Start,
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
        standing: Standing,
    },
    /// A value that no rule declares stays for now, because pods use it.
    Leaving {
        node: NodeSubject,
        leaving: Leaving,
    },
    /// A patch was answered, with this result.
    Answered {
        result: &'static str,
    },
    /// A node was patched so long after it had work.
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
    /// A patch failed.
    Failed {
        node: Arc<str>,
        cause: Cause,
        message: Arc<str>,
    },
    /// A value may stay because a patch failed.
    NotWithdrawn {
        node: NodeSubject,
        change: Change,
        message: Arc<str>,
    },
    /// A rollout has stopped, because the patch of this node failed.
    RolloutStopped {
        node: Option<NodeSubject>,
        rule: Arc<str>,
        stopped: Stopped,
        message: Arc<str>,
    },
}
