//! Plans what to withdraw from a node.

use crate::model::label::excerpt;
use crate::model::ledger::InvalidLedger;
use crate::model::node::{ApiNode, Interner, Node};
use crate::planner::input::PodUsage;
use crate::planner::withdraw::{Withdrawal, withdraw, withdraw_unreadable};
use crate::planner::{Change, Leaving, NodePlan, Plan};

/// What to withdraw. By default, nothing.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// What to withdraw.
    pub withdrawal: Withdrawal,
    /// Whether to remove ledgers that cannot be read, together with the controller's values according to managedFields.
    pub repair_ledgers: bool,
}

impl Scope {
    /// Everything that ledgers record.
    #[cfg(test)]
    pub(crate) fn everything() -> Self {
        let withdrawal = Withdrawal { recorded: crate::planner::withdraw::Recorded::All, ..Withdrawal::default() };
        Self { withdrawal, ..Self::default() }
    }

    /// Plans a node. `own` are the controller's values there according to managedFields. Also returns whether its
    /// ledger cannot be read and is removed.
    pub(super) fn plan(&self, node: &Node, own: &[String], pods: &PodUsage) -> (NodePlan, bool) {
        let plan = withdraw(node, &self.withdrawal, pods);
        if !self.repair_ledgers || !matches!(plan.plan, Plan::Blocked(_)) {
            return (plan, false);
        }
        let own: Vec<_> = own.iter().map(String::as_str).collect();
        (withdraw_unreadable(node, &own, &self.withdrawal), true)
    }
}

/// A node with its plan.
#[derive(Debug)]
pub struct NodePrune {
    pub(super) node: Node,
    /// The controller's values according to managedFields.
    pub(super) own: Vec<String>,
    /// What pods on the node request, as far as the plan needs it.
    pub(super) pods: PodUsage,
    plan: NodePlan,
    /// Whether its ledger cannot be read, and is removed.
    repairs_ledger: bool,
}

impl NodePrune {
    /// Plans a node in its current state.
    #[must_use]
    pub fn new(node: ApiNode, scope: &Scope, interner: &mut Interner) -> Self {
        let own = node.own_resources();
        let node = Node::new(node, interner);
        let pods = PodUsage::NotFetched;
        let (plan, repairs_ledger) = scope.plan(&node, &own, &pods);
        Self { node, own, pods, plan, repairs_ledger }
    }

    /// Returns whether the node must be planned again with the requests of its pods.
    #[must_use]
    pub fn needs_pods(&self) -> bool {
        self.plan.needs_pods()
    }

    /// Plans the node again with the requests of its pods.
    #[must_use]
    pub fn with_pods(self, pods: PodUsage, scope: &Scope) -> Self {
        let (plan, repairs_ledger) = scope.plan(&self.node, &self.own, &pods);
        Self { pods, plan, repairs_ledger, ..self }
    }

    /// Returns the values that stay because pods request them, or may.
    #[must_use]
    pub fn in_use(&self) -> &[Leaving] {
        &self.plan.leaving
    }

    /// Returns the node.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the planned changes.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        self.plan.changes()
    }

    /// Returns why the node does not change, if its ledger cannot be read.
    #[must_use]
    pub fn blocked(&self) -> Option<&InvalidLedger> {
        match &self.plan.plan {
            Plan::Blocked(unreadable) => Some(unreadable),
            Plan::InSync | Plan::NeedsPods | Plan::Patch { .. } => None,
        }
    }

    /// Returns the beginning of a ledger that cannot be read and is removed.
    #[must_use]
    pub fn unreadable_ledger(&self) -> Option<String> {
        self.node.ledger.as_deref().filter(|_| self.repairs_ledger).map(excerpt)
    }
}
