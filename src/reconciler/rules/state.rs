//! What is known of one rule.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::Resource as _;
use thiserror::Error;

use super::object::RuleObject;
use super::observed_status::ObservedStatus;
use crate::model::api::{self, Reason};
use crate::model::resource_version;
use crate::planner::rules::{InvalidRule, Rule};

/// What each rule takes besides its selection and its quantity, in bytes: its state, counts of nodes, the pace of its
/// status, its place in queues.
const BASE_SIZE: usize = 2 * 1024;

/// What a rule takes that is not in force.
const STALLED_SIZE: usize = 1024;

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RuleState {
    pub(crate) uid: Option<String>,
    pub(crate) generation: Option<i64>,
    pub(crate) version: Option<u64>,
    /// Also set for a rule that is not in force, if it can be read.
    pub(crate) priority: Option<i32>,
    pub(crate) created: Option<Timestamp>,
    /// The observed status of the object.
    pub(crate) status: Option<ObservedStatus>,
    pub(crate) rule: Result<Arc<Rule>, Stalled>,
    /// The finalizers that keep it although it is being deleted.
    pub(crate) waits_for: Option<Box<str>>,
}

/// Why a rule is not in force: its values stay and are repaired, and it gets no new ones.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Stalled {
    #[error(transparent)]
    Invalid(#[from] InvalidRule),
    /// With this many bytes, and so many for its states on nodes, it exceeds what rules may take together.
    #[error(
        "the memory for rules is full, and this rule is among the youngest: delete rules, select fewer nodes, or raise \
         --max-rules-memory and the memory limit of the pods"
    )]
    MemoryFull { size: usize, on_nodes: usize },
}

impl Stalled {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Invalid(_) => Reason::InvalidSpec,
            Self::MemoryFull { .. } => Reason::MemoryFull,
        }
    }

    /// Returns what ends it, after "until you".
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "correct or delete it",
            Self::MemoryFull { .. } => "make room or delete it",
        }
    }
}

impl RuleState {
    /// Returns what plans depend on: the rule, or the priority of one that is not in force, which keeps its values.
    pub(super) fn planned(&self) -> Result<&Arc<Rule>, Option<i32>> {
        self.rule.as_ref().map_err(|_| self.priority)
    }

    /// Returns the declared resource; `None` for a rule that is not in force.
    pub(crate) fn resource(&self) -> Option<&str> {
        self.rule.as_ref().ok().map(|rule| rule.resource.as_str())
    }

    /// Returns about how many bytes the rule takes, in a selection's index too.
    pub(super) fn size(&self) -> usize {
        match &self.rule {
            Ok(rule) => BASE_SIZE + rule.selection.size() + rule.quantity.size(),
            Err(_) => STALLED_SIZE,
        }
    }

    pub(crate) fn new(object: RuleObject) -> Self {
        let metadata = object.meta();
        let (uid, generation) = (metadata.uid.clone(), metadata.generation);
        let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
        let version = metadata.resource_version.as_deref().and_then(resource_version::number);
        let waits_for = api::waits_for(metadata).map(String::into_boxed_str);
        let (rule, priority) = match &object.spec {
            Ok(spec) => (Rule::of(metadata, spec).map(Arc::new), Some(spec.priority)),
            Err(why) => (Err(InvalidRule::Malformed(why.clone())), None),
        };
        let rule = rule.map_err(Stalled::from);
        Self { uid, generation, version, priority, created, status: object.status, rule, waits_for }
    }
}
