//! What planning a node results in.

use std::sync::Arc;

use super::change::Change;
use super::input::Lost;
use super::rules::Rule;
use crate::model::ledger::InvalidLedger;
use crate::model::quantity::Quantity;

/// What is to be done on one node, and what becomes there of the rules that select it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// Each rule that selects the node, by precedence.
    pub outcomes: Vec<(Arc<str>, Outcome)>,
    /// What is to be done.
    pub plan: Plan,
}

/// What is to be done on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The ledger cannot be read: nothing on the node is touched.
    Blocked(InvalidLedger),
    /// Nothing: the node is as the rules declare, or may not be changed now.
    InSync,
    /// A patch.
    Patch {
        /// What it does; never empty.
        changes: Vec<Change>,
        /// Whether more may follow once it is known what pods request.
        needs_pods: bool,
    },
    /// Nothing before it is known what pods request: the node is planned again with that.
    NeedsPods,
}

impl NodePlan {
    pub(super) fn new(
        outcomes: Vec<(Arc<str>, Outcome)>,
        changes: Vec<Change>,
        needs_pods: bool,
    ) -> Self {
        let plan = match (changes.is_empty(), needs_pods) {
            (true, true) => Plan::NeedsPods,
            (true, false) => Plan::InSync,
            (false, _) => Plan::Patch { changes, needs_pods },
        };
        Self { outcomes, plan }
    }

    /// A node whose ledger cannot be read, so that it is not known which values are the controller's.
    pub(super) fn blocked(selecting: &[&Arc<Rule>], error: InvalidLedger) -> Self {
        let message: Arc<str> =
            format!("{error}; nothing on the node changes until you repair or remove it").into();
        let outcome = |rule: &&Arc<Rule>| {
            (Arc::clone(&rule.name), Outcome::InvalidLedger { message: Arc::clone(&message) })
        };
        Self { outcomes: selecting.iter().map(outcome).collect(), plan: Plan::Blocked(error) }
    }

    /// Returns what the patch does; nothing unless there is one.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        match &self.plan {
            Plan::Patch { changes, .. } => changes,
            Plan::Blocked(_) | Plan::InSync | Plan::NeedsPods => &[],
        }
    }

    /// Returns whether the node is to be planned again with what pods on it request.
    #[must_use]
    pub fn needs_pods(&self) -> bool {
        match self.plan {
            Plan::Patch { needs_pods, .. } => needs_pods,
            Plan::NeedsPods => true,
            Plan::Blocked(_) | Plan::InSync => false,
        }
    }
}

/// What becomes of a rule on a node that it selects, once the plan's changes are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node carries the quantity, or will.
    Advertised,
    /// The node carries more than the rule declares, or will: pods request it, or may.
    Held {
        /// What it has in allocatable.
        at: Quantity,
        /// Why pods cannot be listed, where they cannot; otherwise they request that much.
        pods_error: Option<Arc<str>>,
    },
    /// What the node is to carry is decided once it is known what pods on it request.
    AwaitingPods {
        /// Why pods cannot be listed, where they cannot: the value does not appear before they can.
        pods_error: Option<Arc<str>>,
    },
    /// Another field manager's value is there, and stays.
    Conflicted {
        /// The value, as the node has it.
        present: String,
        /// Who wrote it last, where managedFields name a manager.
        manager: Option<Arc<str>>,
    },
    /// The value, or its ledger entry, is lost again and again, so that the controller backs off.
    Contested {
        /// Who changes the value, where managedFields name a manager.
        manager: Option<Arc<str>>,
        /// What is lost.
        lost: Lost,
    },
    /// Another rule decides about the same resource: one of higher precedence, or one that is invalid and
    /// keeps what it has.
    Overridden {
        /// Its name.
        by: Arc<str>,
        /// Whether only its age or name decides, and it declares another quantity.
        tied: bool,
    },
    /// The ledger has no room for another entry. The rest of the node is planned as usual.
    LedgerFull,
    /// The ledger cannot be read, so that it is not known which values are the controller's.
    InvalidLedger {
        /// Why, and what to do.
        message: Arc<str>,
    },
}

impl Outcome {
    /// Returns whether somebody may want to know the node's name.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        match self {
            Self::Held { .. }
            | Self::AwaitingPods { pods_error: Some(_) }
            | Self::Conflicted { .. }
            | Self::Contested { .. }
            | Self::LedgerFull
            | Self::InvalidLedger { .. } => true,
            Self::Advertised
            | Self::AwaitingPods { pods_error: None }
            | Self::Overridden { .. } => false,
        }
    }
}
