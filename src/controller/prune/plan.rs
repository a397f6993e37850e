//! What is withdrawn from a node.

use crate::model::label::excerpt;
use crate::model::ledger::InvalidLedger;
use crate::model::node::{ApiNode, Interner, Node};
use crate::planner::withdraw::{Withdrawal, withdraw, withdraw_unreadable};
use crate::planner::{Change, NodePlan, Plan};

/// Which nodes, and what of them.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Their names; where there is none, all nodes.
    pub nodes: Vec<String>,
    /// What is to be withdrawn.
    pub withdrawal: Withdrawal,
    /// Whether ledgers that cannot be read are removed, with what the controller has written by
    /// managedFields.
    pub repair_ledgers: bool,
}

impl Scope {
    /// Plans a node. `own` is what the controller has written there by managedFields. Returns also whether its ledger
    /// cannot be read, and is removed.
    pub(super) fn plan(&self, node: &Node, own: &[String]) -> (NodePlan, bool) {
        let plan = withdraw(node, &self.withdrawal);
        if !self.repair_ledgers || !matches!(plan.plan, Plan::Blocked(_)) {
            return (plan, false);
        }
        let own: Vec<_> = own.iter().map(String::as_str).collect();
        (withdraw_unreadable(node, &own, &self.withdrawal), true)
    }
}

/// A node, and what is to be done there.
#[derive(Debug)]
pub struct NodePrune {
    pub(super) node: Node,
    /// What the controller has written by managedFields.
    pub(super) own: Vec<String>,
    plan: NodePlan,
    /// Whether its ledger cannot be read, and is removed.
    repairs_ledger: bool,
}

impl NodePrune {
    /// Plans a node as it is now.
    #[must_use]
    pub fn new(node: ApiNode, scope: &Scope, interner: &mut Interner) -> Self {
        let own = node.own_resources();
        let node = Node::new(node, interner);
        let (plan, repairs_ledger) = scope.plan(&node, &own);
        Self { node, own, plan, repairs_ledger }
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// What is to be done.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        self.plan.changes()
    }

    /// Why nothing on the node changes, where its ledger cannot be read.
    #[must_use]
    pub fn blocked(&self) -> Option<&InvalidLedger> {
        match &self.plan.plan {
            Plan::Blocked(unreadable) => Some(unreadable),
            Plan::InSync | Plan::NeedsPods | Plan::Patch { .. } => None,
        }
    }

    /// The beginning of a ledger that cannot be read, and is removed.
    #[must_use]
    pub fn unreadable_ledger(&self) -> Option<String> {
        self.node.ledger.as_deref().filter(|_| self.repairs_ledger).map(excerpt)
    }
}
