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
pub(in crate::cli) struct Records {
    pub(in crate::cli) nodes: Vec<NodeRecord>,
    /// The rules that the timeline is about; `None` if rules cannot be listed.
    pub(in crate::cli) rules: Option<Vec<RuleObject>>,
    /// The Events about nodes.
    pub(in crate::cli) on_nodes: Vec<Event>,
    /// The Events about rules, of any rule.
    pub(in crate::cli) on_rules: Vec<Event>,
    /// The Leases of controllers.
    pub(in crate::cli) leases: Vec<Lease>,
}

/// A node.
#[derive(Debug)]
pub(in crate::cli) struct NodeRecord {
    /// As planning knows it.
    pub(in crate::cli) node: Node,
    /// With everything that is of use.
    pub(in crate::cli) object: K8sNode,
}

/// A rule.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct RuleObject {
    pub(in crate::cli) name: Arc<str>,
    pub(in crate::cli) metadata: ObjectMeta,
    /// The spec, with defaults; empty if the rule is invalid.
    pub(in crate::cli) spec: Map<String, Value>,
    pub(in crate::cli) conditions: Vec<Condition>,
    /// `None` if it is invalid.
    pub(in crate::cli) rule: Option<Rule>,
}

impl RuleObject {
    pub(in crate::cli) fn resource(&self) -> Option<&str> {
        self.rule.as_ref().map(|rule| rule.resource.as_str())
    }
}
