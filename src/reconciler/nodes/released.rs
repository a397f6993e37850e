//! Values that the ledger listed and that are unchanged: values that a rule with `Retain` left, or whose annotation
//! another client removed.
//!
//! If admission has kept such a value from a kubelet's reset, managedFields name the kubelet, as they do for a value of
//! a device plugin. Only a process that observed the ledger entry can distinguish the two.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::ledger::Ledger;
use crate::model::node::Node;
use crate::planner::observed::Observed;

/// The resources of one node, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released(BTreeSet<Arc<str>>);

impl Released {
    /// Handles a change of the node.
    pub(super) fn observe(&mut self, before: &Node, now: &Node) {
        self.0.retain(|resource| before.values(resource) == now.values(resource));
        if before.ledger == now.ledger {
            return;
        }
        // A ledger that cannot be read lists nothing.
        let [listed, ledger] = [before, now].map(|node| Ledger::parse(node.ledger.as_deref()).unwrap_or_default());
        let entries = listed.entries();
        let released = entries.filter(|(resource, _)| Observed::on(now, &listed, resource).is_as_recorded());
        self.0.extend(released.map(|(resource, _)| Arc::from(resource)));
        self.0.retain(|resource| ledger.get(resource).is_none());
    }

    /// Returns their names.
    pub(crate) fn names(&self) -> &BTreeSet<Arc<str>> {
        &self.0
    }
}
