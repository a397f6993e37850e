//! What is known of one rule.

use std::sync::Arc;

use kube::Resource as _;
use kube::core::DeserializeGuard;

use crate::model::api::{self, NodeExtendedResource, NodeExtendedResourceStatus};
use crate::model::resource_version;
use crate::planner::rules::{InvalidRule, Rule};

/// An object of the watch: an object that cannot be decoded is still known by name.
pub(in crate::controller) type RuleObject = DeserializeGuard<NodeExtendedResource>;

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::controller) struct RuleState {
    pub(in crate::controller) uid: Option<String>,
    pub(in crate::controller) generation: Option<i64>,
    pub(in crate::controller) version: Option<u64>,
    /// Also set for an invalid rule, if it can be read.
    pub(in crate::controller) priority: Option<i32>,
    /// The observed status of the object.
    pub(in crate::controller) status: Option<NodeExtendedResourceStatus>,
    pub(in crate::controller) rule: Result<Arc<Rule>, InvalidRule>,
    /// The finalizers that keep it although it is being deleted.
    pub(in crate::controller) waits_for: Option<Box<str>>,
}

impl RuleState {
    /// Returns what plans depend on: the rule, or the priority of an invalid one, which keeps its values.
    pub(super) fn planned(&self) -> Result<&Arc<Rule>, Option<i32>> {
        self.rule.as_ref().map_err(|_| self.priority)
    }

    pub(super) fn is_malformed(&self) -> bool {
        matches!(self.rule, Err(InvalidRule::Malformed(_)))
    }

    /// Returns the declared resource; `None` for an invalid rule.
    pub(in crate::controller) fn resource(&self) -> Option<&str> {
        self.rule.as_ref().ok().map(|rule| rule.resource.as_str())
    }

    pub(super) fn new(object: RuleObject) -> Self {
        let metadata = object.meta();
        let (uid, generation) = (metadata.uid.clone(), metadata.generation);
        let version = metadata.resource_version.as_deref().and_then(resource_version::number);
        let waits_for = api::waits_for(metadata).map(String::into_boxed_str);
        let (rule, status, priority) = match object.0 {
            Ok(object) => (Rule::new(&object).map(Arc::new), object.status, Some(object.spec.priority)),
            Err(invalid) => (Err(InvalidRule::Malformed(invalid.error)), None, None),
        };
        Self { uid, generation, version, priority, status, rule, waits_for }
    }
}
