//! What a timeline is built from.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, Node as K8sNode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

/// A node, and what was read about it.
#[derive(Debug, Default)]
pub(in crate::cli) struct Records {
    /// The node, with everything that is of use.
    pub(in crate::cli) object: K8sNode,
    /// The rules that select the node, or that its ledger or an Event on it names; `None` if rules cannot be listed.
    pub(in crate::cli) rules: Option<Vec<RuleObject>>,
    /// The Events about the node.
    pub(in crate::cli) on_node: Vec<Event>,
    /// The Events about rules, of any rule.
    pub(in crate::cli) on_rules: Vec<Event>,
}

/// A rule.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct RuleObject {
    pub(in crate::cli) name: Arc<str>,
    pub(in crate::cli) metadata: ObjectMeta,
    pub(in crate::cli) conditions: Vec<Condition>,
}
