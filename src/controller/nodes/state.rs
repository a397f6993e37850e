//! Where one node stands.

use std::sync::Arc;

use tokio::time::Instant;

use super::failure::Failure;
use crate::controller::contest::Repairs;
use crate::controller::outcome::Outcome;
use crate::controller::tally::Tally;
use crate::model::node::Node;
use crate::planner::Change;
use crate::planner::input::Contested;

/// Tells one patch from another: an answer counts only for the node that it was for, and not for
/// one made again under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) struct RequestId(pub(super) u64);

/// What a patch under way was for.
pub(in crate::controller) struct SentPatch {
    pub(in crate::controller) node: Arc<str>,
    pub(in crate::controller) uid: Box<str>,
    pub(in crate::controller) request_id: RequestId,
    pub(in crate::controller) changes: Vec<Change>,
}

/// One node.
#[derive(Debug)]
pub(in crate::controller) struct NodeState {
    pub(in crate::controller) node: Node,
    pub(super) outcomes: Box<[(Arc<str>, Outcome)]>,
    pub(super) queued: bool,
    /// Since when it has to be looked at, or patched.
    pub(super) pending_since: Option<Instant>,
    pub(super) awaiting_slot: bool,
    pub(super) in_flight: Option<RequestId>,
    pub(super) retry_at: Option<Instant>,
    pub(super) failure: Option<Box<Failure>>,
    /// Whether a patch without an answer may still be applied.
    pub(super) unanswered: bool,
    pub(super) repairs: Repairs,
    /// Whether it has been told that the ledger cannot be read.
    ledger_error_reported: bool,
}

impl NodeState {
    pub(super) fn new(node: Node) -> Self {
        Self {
            node,
            outcomes: Box::default(),
            queued: false,
            pending_since: None,
            awaiting_slot: false,
            in_flight: None,
            retry_at: None,
            failure: None,
            unanswered: false,
            repairs: Repairs::default(),
            ledger_error_reported: false,
        }
    }

    /// The resources on the node that another writer keeps changing back.
    pub(in crate::controller) fn contested(&mut self, now: Instant) -> Contested {
        self.repairs.contested(now)
    }

    /// Notes whether the ledger can be read. True where that has just ended, so that it is told once.
    pub(in crate::controller) fn ledger_became_invalid(&mut self, unreadable: bool) -> bool {
        !std::mem::replace(&mut self.ledger_error_reported, unreadable) && unreadable
    }

    /// Whether a patch would have to wait, for another one or for a pause.
    pub(in crate::controller) fn is_busy(&self) -> bool {
        self.in_flight.is_some() || self.retry_at.is_some()
    }

    /// Puts new outcomes in place of the old, and counts them. While the last patch has failed, a
    /// pending one counts as failed: trying again is no success yet. Gives what a rule has come to that
    /// it had not before.
    pub(in crate::controller) fn record(
        &mut self,
        mut outcomes: Vec<(Arc<str>, Outcome)>,
        tally: &mut Tally,
    ) -> Vec<(Arc<str>, Outcome)> {
        if let Some(message) = self.failure.as_ref().and_then(|failure| failure.message()) {
            for (_, outcome) in &mut outcomes {
                if matches!(outcome, Outcome::Pending | Outcome::Failed { .. }) {
                    *outcome = Outcome::Failed { message: message.to_owned() };
                }
            }
        }
        tally.update(&self.node.name, &self.outcomes, &outcomes);
        let before = std::mem::replace(&mut self.outcomes, outcomes.into());
        let is_new = |now: &&(Arc<str>, Outcome)| !before.contains(now);
        self.outcomes
            .iter()
            .filter(|(_, outcome)| outcome.is_problem())
            .filter(is_new)
            .cloned()
            .collect()
    }
}
