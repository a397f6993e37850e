//! What becomes of a rule on a node, with what came of the request.

use std::sync::Arc;

use crate::model::quantity::Quantity;
use crate::planner::input::Lost;
use crate::planner::{self, Change};

/// What becomes of a rule on a node that it selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node carries the quantity.
    Advertised,
    /// It will, once the patch is through.
    Pending,
    /// The node carries more than the rule declares.
    Held { at: Quantity, pods_error: Option<Arc<str>> },
    /// Another field manager's value is there, and stays.
    Conflicted { present: String, manager: Option<Arc<str>> },
    /// It is lost again and again.
    Contested { manager: Option<Arc<str>>, lost: Lost },
    /// A rule of higher precedence declares the same resource.
    Overridden { by: Arc<str>, tied: bool },
    /// The last patch did not go through; it is tried again.
    Failed { message: String },
    /// The ledger cannot be read, or is full.
    InvalidLedger { message: Arc<str> },
}

impl Outcome {
    pub(super) fn new(rule: &str, outcome: planner::Outcome, changes: &[Change]) -> Self {
        let is_changed =
            |change: &Change| change.rule() == Some(rule) && change.action_name() != "withdraw";
        let is_pending = changes.iter().any(is_changed);
        match outcome {
            planner::Outcome::Advertised | planner::Outcome::Held { .. } if is_pending => {
                Self::Pending
            }
            planner::Outcome::Advertised => Self::Advertised,
            planner::Outcome::Held { at, pods_error } => Self::Held { at, pods_error },
            planner::Outcome::AwaitingPods { .. } => Self::Pending,
            planner::Outcome::Conflicted { present, manager } => {
                Self::Conflicted { present, manager }
            }
            planner::Outcome::Contested { manager, lost } => Self::Contested { manager, lost },
            planner::Outcome::Overridden { by, tied } => Self::Overridden { by, tied },
            planner::Outcome::LedgerFull => Self::InvalidLedger {
                message: "the annotation has no room for another entry".into(),
            },
            planner::Outcome::InvalidLedger { message } => Self::InvalidLedger { message },
        }
    }

    pub(super) fn is_problem(&self) -> bool {
        !matches!(self, Self::Advertised | Self::Pending | Self::Overridden { .. })
    }
}
