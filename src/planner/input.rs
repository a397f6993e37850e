//! What a plan depends on besides the node and the rules, and does not find out by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::pod::Requests;

/// What is known of a node that is not on the Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanningInput {
    /// The resources that another writer keeps changing back.
    pub contested: Contested,
    /// What pods on the node use.
    pub pod_usage: PodUsage,
}

/// The resources on a node that another writer keeps changing back.
pub type Contested = BTreeMap<Arc<str>, Contest>;

/// A fight with another writer over one resource on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Whether it is time to try again.
    pub may_repair: bool,
    /// Who keeps changing it, where managedFields tell.
    pub manager: Option<Arc<str>>,
}

/// What the pods on a node use of its extended resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodUsage {
    /// Nobody has looked: it is asked for where a value is to be lowered, and only there.
    #[default]
    NotFetched,
    /// They could not be listed, for this reason.
    Unavailable(String),
    /// This much, a moment ago.
    Known(Requests),
}
