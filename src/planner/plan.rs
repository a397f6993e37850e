//! The result of planning a node.

use std::sync::Arc;

use super::change::Change;
use super::input::Lost;
use super::rules::Rule;
use crate::model::ledger::InvalidLedger;
use crate::model::node::FieldManager;
use crate::model::quantity::Quantity;

/// The plan of one node, and the outcomes of the rules that select it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// The outcome of each rule that selects the node, by precedence.
    pub outcomes: Vec<(Arc<str>, Outcome)>,
    /// The recorded values that no rule declares and that leave when they are unused, as `deletionPolicy: WhenUnused`
    /// demands.
    pub leaving: Vec<Leaving>,
    /// The changes.
    pub plan: Plan,
}

/// A value that no rule declares and that leaves when no pod uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The resource.
    pub resource: Arc<str>,
    /// The rule that declared it.
    pub rule: Arc<str>,
    /// The quantity that stays; `None` if that is nothing, or not decided.
    pub at: Option<Quantity>,
    /// The error from listing pods, if any; otherwise pods request this quantity.
    pub pods_error: Option<Arc<str>>,
}

/// The changes of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The ledger cannot be read: the node does not change.
    Blocked(InvalidLedger),
    /// No change: the node is as the rules declare, or must not change now.
    InSync,
    /// A patch.
    Patch {
        /// The changes; never empty.
        changes: Vec<Change>,
        /// Whether more changes may follow once pod requests are known.
        needs_pods: bool,
    },
    /// No change until pod requests are known: the node is then planned again.
    NeedsPods,
}

impl NodePlan {
    pub(super) fn new(outcomes: Vec<(Arc<str>, Outcome)>, changes: Vec<Change>, needs_pods: bool) -> Self {
        let plan = match (changes.is_empty(), needs_pods) {
            (true, true) => Plan::NeedsPods,
            (true, false) => Plan::InSync,
            (false, _) => Plan::Patch { changes, needs_pods },
        };
        Self { outcomes, leaving: Vec::new(), plan }
    }

    /// Returns the plan of a node whose ledger cannot be read, so that the controller does not know its own values.
    pub(super) fn blocked(selecting: &[&Arc<Rule>], error: InvalidLedger) -> Self {
        let message: Arc<str> = format!("{error}; nothing on the node changes until you repair or remove it").into();
        let outcome =
            |rule: &&Arc<Rule>| (Arc::clone(&rule.name), Outcome::InvalidLedger { message: Arc::clone(&message) });
        Self { outcomes: selecting.iter().map(outcome).collect(), leaving: Vec::new(), plan: Plan::Blocked(error) }
    }

    /// Returns the changes of the patch, if there is one.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        match &self.plan {
            Plan::Patch { changes, .. } => changes,
            Plan::Blocked(_) | Plan::InSync | Plan::NeedsPods => &[],
        }
    }

    /// Returns whether the node must be planned again with the requests of its pods.
    #[must_use]
    pub fn needs_pods(&self) -> bool {
        match self.plan {
            Plan::Patch { needs_pods, .. } => needs_pods,
            Plan::NeedsPods => true,
            Plan::Blocked(_) | Plan::InSync => false,
        }
    }
}

/// The outcome of a rule on a node that it selects, after the changes of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The node has the quantity, or will have it.
    Advertised,
    /// The node has more than the rule declares, or will have it: pods request it, or may.
    Held {
        /// The value in allocatable.
        at: Quantity,
        /// The error from listing pods, if any; otherwise pods request this quantity.
        pods_error: Option<Arc<str>>,
    },
    /// The value is decided once pod requests are known.
    AwaitingPods {
        /// The error from listing pods, if any. The value is not written until listing succeeds.
        pods_error: Option<Arc<str>>,
    },
    /// The value of another field manager stays.
    Conflicted {
        /// The value, as the node has it.
        present: String,
        /// The field manager that wrote it last, if managedFields name one.
        manager: Option<FieldManager>,
    },
    /// The value or its ledger entry is lost repeatedly, so the controller backs off.
    Contested {
        /// The field manager that changes the value, if managedFields name one.
        manager: Option<FieldManager>,
        /// What is lost.
        lost: Lost,
    },
    /// The rule is paused, and the node is not as it declares.
    Paused {
        /// The quantity that stays, if the ledger records one for the rule.
        at: Option<Quantity>,
    },
    /// The quantity cannot be read from the node: what is advertised stays, and nothing is added.
    QuantityUnknown {
        /// The quantity that stays, if the ledger records one.
        at: Option<Quantity>,
        /// Why, without a period.
        why: Arc<str>,
    },
    /// The quantity that is read from the node has moved twice within a short time: the value follows soon.
    Moving {
        /// The quantity until then.
        at: Quantity,
    },
    /// Another rule decides on the same resource: a rule of higher precedence, or an invalid or paused
    /// rule that keeps its values.
    Overridden {
        /// The name of that rule.
        by: Arc<str>,
        /// Whether only its age or name decides, and it declares another quantity.
        tied: bool,
    },
    /// The ledger has no room for another entry. Other resources are planned as usual.
    LedgerFull,
    /// The ledger cannot be read, so the controller does not know its own values.
    InvalidLedger {
        /// Why, and what to do.
        message: Arc<str>,
    },
}

impl Outcome {
    /// Returns whether the status reports the node by name.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        match self {
            Self::Held { .. }
            | Self::AwaitingPods { pods_error: Some(_) }
            | Self::Conflicted { .. }
            | Self::Contested { .. }
            | Self::Paused { .. }
            | Self::QuantityUnknown { .. }
            | Self::LedgerFull
            | Self::InvalidLedger { .. } => true,
            Self::Advertised
            | Self::AwaitingPods { pods_error: None }
            | Self::Moving { .. }
            | Self::Overridden { .. } => false,
        }
    }
}
