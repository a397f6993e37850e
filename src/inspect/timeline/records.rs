//! What a timeline is built from.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node as K8sNode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde_json::{Map, Value};

use crate::model::node::Node;
use crate::planner::rules::Rule;

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) nodes: Vec<NodeRecord>,
    /// The rules that the timeline is about; `None` if rules cannot be listed.
    pub(crate) rules: Option<Vec<RuleObject>>,
    /// The Events about nodes.
    pub(crate) on_nodes: Vec<Event>,
    /// The Events about rules, of any rule.
    pub(crate) on_rules: Vec<Event>,
    /// The Leases of controllers.
    pub(crate) leases: Vec<Lease>,
}

/// A node.
#[derive(Debug)]
pub(crate) struct NodeRecord {
    /// As planning knows it.
    pub(crate) node: Node,
    /// With everything that is of use.
    pub(crate) object: K8sNode,
}

/// A rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleObject {
    pub(crate) name: Arc<str>,
    pub(crate) metadata: ObjectMeta,
    /// The spec, with defaults; empty if the rule is invalid.
    pub(crate) spec: Map<String, Value>,
    pub(crate) conditions: Vec<Condition>,
    /// `None` if it is invalid.
    pub(crate) rule: Option<Rule>,
}

impl RuleObject {
    pub(crate) fn resource(&self) -> Option<&str> {
        self.rule.as_ref().map(|rule| rule.resource.as_str())
    }
}
