//! The input of a plan besides the node and the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::node::FieldManager;
use crate::model::pod::NodeRequests;

/// What the controller knows about a node that is not in the Node object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanningInput {
    /// The resources that are contested.
    pub contested: Contested,
    /// What pods on the node request.
    pub pods: PodUsage,
    /// What a value that appears on the node requires first.
    pub new_values: NewValues,
    /// Resources that the ledger recorded, with values that have not changed since: managedFields may name the kubelet
    /// for a value that admission kept from its reset.
    pub released: BTreeSet<Arc<str>>,
    /// Resources whose derived quantity has moved a moment ago, and does not move again for now.
    pub moved: BTreeSet<Arc<str>>,
}

impl PlanningInput {
    /// Returns whether nothing but the rules and the node's ledger, values and field managers decides: there is nothing
    /// particular about the node, and its age does not matter.
    pub(super) fn is_plain(&self) -> bool {
        let Self { contested, pods, new_values, released, moved } = self;
        contested.is_empty()
            && *pods == PodUsage::NotFetched
            && *new_values == NewValues::Check
            && released.is_empty()
            && moved.is_empty()
    }
}

/// The contested resources on a node, by name.
pub type Contested = BTreeMap<Arc<str>, Contest>;

/// A resource on a node whose value or ledger entry is lost repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Whether the next attempt is due.
    pub may_repair: bool,
    /// The field manager that changes the value, if managedFields name one.
    pub manager: Option<FieldManager>,
    /// What is lost.
    pub lost: Lost,
}

/// What a contested resource loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lost {
    /// A field manager changes the value back.
    #[default]
    Value,
    /// The annotation loses the entry; managedFields name no manager for that.
    LedgerEntry,
    /// The response to the controller's own write shows another value: admission changes it on its way to storage.
    OwnWrite,
}

/// What the pods on a node request of its extended resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodUsage {
    /// The pods have not been listed. A plan reports whether it needs the list.
    #[default]
    NotFetched,
    /// The pods cannot be listed, for this reason.
    Unavailable(Arc<str>),
    /// The requests.
    Known(NodeRequests),
    /// The requests may have changed since, for this reason: nothing is lowered, and nothing appears, but what started pods
    /// request still raises.
    LastKnown {
        /// The requests.
        requests: NodeRequests,
        /// Why they may have changed.
        why: Arc<str>,
    },
}

/// What a value that appears on a node requires first under `WhenFree`: running pods may request more than the value
/// since before it was withdrawn (I5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewValues {
    /// Nothing: the value is written whatever pods request, as the command line assumes.
    #[default]
    Write,
    /// That pods are known, unless the node is known to be younger than the rule.
    CheckOlderNodes,
    /// That pods are known, because something was withdrawn from the node.
    Check,
}
