//! What is kept of a rule's status: it has up to a megabyte if something else wrote it.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::model::api::{MAX_REQUESTED, NodeExtendedResourceStatus, Reason};
use crate::reconciler::tally::MAX_PROBLEMS;

/// A status, reduced to what the next one depends on. Two are equal if the statuses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedStatus {
    /// Of the whole status but `requested`.
    hash: u64,
    requested: Option<Box<str>>,
    conditions: Vec<ObservedCondition>,
    /// The nodes whose value is contested.
    contested: Vec<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ObservedCondition {
    kind: &'static str,
    status: &'static str,
    reason: Option<Reason>,
    since: Time,
}

/// The types of conditions that the controller writes.
const KINDS: [&str; 6] = ["Ready", "Reconciling", "Stalled", "Overlapping", "Contested", "DeviceClassMapped"];
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The most characters of the names of contested nodes. They resume contests, and have to fit into what each rule counts
/// for, also one that is stalled.
const MAX_NAMES_LENGTH: usize = 512;

impl ObservedStatus {
    pub(crate) fn new(status: &NodeExtendedResourceStatus) -> Self {
        let conditions = status.conditions.iter().filter_map(|condition| {
            Some(ObservedCondition {
                kind: KINDS.into_iter().find(|kind| **kind == *condition.type_)?,
                status: STATUSES.into_iter().find(|status| **status == *condition.status)?,
                reason: Reason::ALL.into_iter().find(|reason| reason.as_str() == condition.reason),
                since: condition.last_transition_time.clone(),
            })
        });
        let problems = status.problems.iter().take(MAX_PROBLEMS);
        let contested = problems.filter(|problem| problem.reason == Reason::Contested.as_str());
        let mut room = MAX_NAMES_LENGTH;
        let contested = contested.take_while(|problem| {
            let left = room.checked_sub(problem.node.len());
            room = left.unwrap_or_default();
            left.is_some()
        });
        Self {
            hash: hash(status),
            requested: status.requested.as_ref().map(|text| text.chars().take(MAX_REQUESTED).collect()),
            conditions: conditions.take(KINDS.len()).collect(),
            contested: contested.map(|problem| problem.node.as_str().into()).collect(),
        }
    }

    /// Returns `requested`.
    pub(crate) fn requested(&self) -> Option<&str> {
        self.requested.as_deref()
    }

    /// Returns whether all but `requested` is the same.
    pub(crate) fn is_same_but_for_use(&self, other: &Self) -> bool {
        self.hash == other.hash
    }

    /// Returns since when a condition has this status.
    pub(crate) fn since(&self, kind: &str, status: &str) -> Option<&Time> {
        let mut conditions = self.conditions.iter();
        let condition = conditions.find(|condition| condition.kind == kind && condition.status == status)?;
        Some(&condition.since)
    }

    /// Returns whether a condition has this reason.
    pub(crate) fn reports(&self, reason: Reason) -> bool {
        self.conditions.iter().any(|condition| condition.reason == Some(reason))
    }

    /// Returns whether a condition is `True`.
    pub(crate) fn holds(&self, kind: &str) -> bool {
        self.since(kind, "True").is_some()
    }

    /// Returns the nodes whose value is contested.
    pub(crate) fn contested(&self) -> &[Arc<str>] {
        &self.contested
    }
}

/// Returns a hash of a status, but for `requested`.
fn hash(status: &NodeExtendedResourceStatus) -> u64 {
    struct Hashing(DefaultHasher);

    impl io::Write for Hashing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut hashing = Hashing(DefaultHasher::new());
    let NodeExtendedResourceStatus { observed_generation, conditions, nodes, total, requested: _, problems } = status;
    // Neither the status nor this writer can fail.
    let _ = serde_json::to_writer(&mut hashing, &(observed_generation, conditions, nodes, total, problems));
    hashing.0.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn observed(status: Value) -> ObservedStatus {
        ObservedStatus::new(&serde_json::from_value(status).unwrap())
    }

    fn status(reason: &str, message: &str) -> Value {
        json!({"observedGeneration": 1, "total": "4", "conditions": [{"type": "Ready", "status": "True",
            "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    }

    #[test]
    fn statuses_that_differ_in_any_text_are_not_equal() {
        let first = observed(status("Advertised", "all"));
        assert_eq!(first, observed(status("Advertised", "all")));
        for other in [status("Advertised", "none"), status("Progressing", "all"), json!({})] {
            let other = observed(other);
            assert!(first != other && !first.is_same_but_for_use(&other));
        }
        let mut used = status("Advertised", "all");
        used["requested"] = json!("3");
        let used = observed(used);
        assert!(first != used && first.is_same_but_for_use(&used));
        assert_eq!((first.requested(), used.requested()), (None, Some("3")));
    }

    /// The policy of the chart accepts such a status.
    #[test]
    fn names_in_a_status_take_little_of_what_a_rule_counts_for() {
        let problem = |number: usize| {
            let node = format!("{number}{}", "a".repeat(252));
            json!({"node": node, "reason": "Contested", "message": "back and forth"})
        };
        let problems: Vec<_> = (0..10).map(problem).collect();
        let mut status = status("Contested", "ten");
        status["problems"] = json!(problems);
        let names: usize = observed(status).contested().iter().map(|name| name.len()).sum();
        assert!(names > 0 && names <= MAX_NAMES_LENGTH, "{names}");
    }

    #[test]
    fn observed_status_answers_what_the_next_one_asks() {
        let observed = observed(status("NoNodesSelected", ""));
        assert!(observed.reports(Reason::NoNodesSelected) && !observed.reports(Reason::Advertised));
        assert!(observed.holds("Ready") && !observed.holds("Stalled"));
        assert!(observed.since("Ready", "True").is_some() && observed.since("Ready", "False").is_none());
    }

    #[test]
    fn every_condition_that_is_written_is_kept() {
        let source = include_str!("../status/conditions.rs");
        let quoted = source.split("kind = \"").skip(1).chain(source.split("new(\"").skip(1));
        let kinds: Vec<_> = quoted.filter_map(|rest| rest.split('"').next()).collect();
        assert!(KINDS.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
        assert!(kinds.iter().all(|kind| KINDS.contains(kind)), "{kinds:?}");
    }
}
