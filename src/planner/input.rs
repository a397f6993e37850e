//! What a plan depends on besides the node and the rules, and cannot find out by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::pod::Requests;
use crate::model::quantity::Quantity;

/// What is known of a node that is not on the Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanningInput {
    /// The resources that are contested.
    pub contested: Contested,
    /// What pods on the node request.
    pub pods: PodUsage,
    /// What a value that appears on the node requires.
    pub new_values: NewValues,
    /// What was there before the last time it was lowered, by resource: a list of pods from after that
    /// raises the value up to this again (I5).
    pub lowered_from: BTreeMap<Arc<str>, Quantity>,
    /// Resources that the ledger was seen to list, with the value that they still have: managedFields may name the
    /// kubelet for what admission has kept from its reset.
    pub released: BTreeSet<Arc<str>>,
}

/// The contested resources on a node, by name.
pub type Contested = BTreeMap<Arc<str>, Contest>;

/// A resource on a node whose value, or ledger entry, is lost again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Whether the next try is due.
    pub may_repair: bool,
    /// The field manager that changes the value, where managedFields name one.
    pub manager: Option<Arc<str>>,
    /// What is lost, by [`Change::lost`](super::Change::lost) of the changes that it made necessary.
    pub lost: Lost,
}

/// What is lost of a contested resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lost {
    /// A field manager changes the value back.
    #[default]
    Value,
    /// The annotation loses the entry. managedFields name nobody for that.
    LedgerEntry,
}

/// What the pods on a node request of its extended resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodUsage {
    /// They have not been listed. A plan reports where it needs them, and only there.
    #[default]
    NotFetched,
    /// They cannot be listed, for this reason.
    Unavailable(Arc<str>),
    /// This much, a moment ago.
    Known(Requests),
}

/// What a value that appears on a node requires under `WhenFree`: pods that run there may request more
/// than it from before it was withdrawn (I5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewValues {
    /// Nothing: it is written without a list of pods, as the command line assumes.
    #[default]
    Write,
    /// A list of pods, unless the node is younger than the rule, where the creation of both is known.
    CheckOlderNodes,
    /// A list of pods: something has been withdrawn from the node.
    Check,
}
