//! What a rule's status says, and writing it.

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::device_classes::Mapping;
use super::rules::RuleState;
use super::tally::{Counts, MAX_PROBLEMS};
use crate::cluster::error::describe;
use crate::controller::outcome::Outcome;
use crate::model::api::{
    FIELD_MANAGER, NodeCounts, NodeExtendedResource, NodeExtendedResourceStatus, NodeProblem,
    Reason,
};
use crate::model::node::UNKNOWN_MANAGER;
use crate::model::quantity::Quantity;
use crate::planner::selector::Selection;

/// The status that a rule should have now. Conditions that say the same as in the observed status
/// keep their timestamps.
pub(super) fn status(
    state: &RuleState,
    counts: Option<&Counts>,
    mapping: &Mapping,
    now: Timestamp,
) -> NodeExtendedResourceStatus {
    let none = Counts::default();
    let counts = counts.unwrap_or(&none);
    let nodes = node_counts(state, counts);
    let said = match &state.rule {
        Err(invalid) => conditions::for_invalid(&invalid.to_string()),
        Ok(_) => conditions::for_valid(&nodes, counts, mapping),
    };
    let before = state.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let conditions = said.into_iter().map(|said| said.into_api(state.generation, before, now));
    NodeExtendedResourceStatus {
        observed_generation: state.generation,
        conditions: conditions.collect(),
        nodes: Some(nodes),
        total: state.rule.as_ref().ok().map(|rule| total(rule.quantity, counts).to_string()),
        problems: problems(counts),
    }
}

/// What the nodes of a rule carry together.
fn total(quantity: Quantity, counts: &Counts) -> Quantity {
    let held = counts.problems.values().filter_map(|outcome| match outcome {
        Outcome::Held { at, .. } => Some(*at),
        _ => None,
    });
    held.fold(quantity.saturating_mul(counts.advertised), Quantity::saturating_add)
}

fn node_counts(state: &RuleState, counts: &Counts) -> NodeCounts {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let named = match state.rule.as_ref().map(|rule| &rule.selection) {
        Ok(Selection::Names(names)) => names.len(),
        _ => counts.selected(),
    };
    NodeCounts {
        summary: format!("{}/{}", counts.advertised, counts.selected()),
        selected: count(counts.selected()),
        advertised: count(counts.advertised),
        held: count(counts.held + counts.pods_unavailable),
        conflicted: count(counts.conflicted + counts.contested),
        overridden: count(counts.overridden),
        failed: count(counts.failed + counts.invalid_ledger),
        missing: count(named.saturating_sub(counts.selected())),
    }
}

fn problems(counts: &Counts) -> Vec<NodeProblem> {
    let problem = |(node, outcome): (&Arc<str>, &Outcome)| {
        let (reason, message) = match outcome {
            Outcome::Held { at, pods_error: None } => {
                (Reason::Held, format!("at {at}, which pods on the node request"))
            }
            Outcome::Held { at, pods_error: Some(why) } => {
                (Reason::PodsUnavailable, format!("stays at {at}: {why}"))
            }
            Outcome::Conflicted { present, manager } => {
                let manager = manager.as_deref().unwrap_or(UNKNOWN_MANAGER);
                let message = format!("already {present}, last written by {manager}");
                (Reason::Conflict, message)
            }
            Outcome::Contested { manager, .. } => {
                let manager = manager.as_deref().unwrap_or(UNKNOWN_MANAGER);
                (Reason::Contested, format!("{manager} keeps changing it back"))
            }
            Outcome::Failed { message } => (Reason::PatchFailed, message.clone()),
            Outcome::InvalidLedger { message } => (Reason::InvalidLedger, message.to_string()),
            Outcome::Advertised | Outcome::Pending | Outcome::Overridden { .. } => return None,
        };
        Some(NodeProblem { node: node.to_string(), reason: reason.to_string(), message })
    };
    counts.problems.iter().filter_map(problem).take(MAX_PROBLEMS).collect()
}

/// Whether a condition has this reason.
pub(super) fn reports(status: Option<&NodeExtendedResourceStatus>, reason: Reason) -> bool {
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.reason == reason.as_str())
}

/// A status in the word that the metrics have for it.
pub(super) fn metric_state(status: Option<&NodeExtendedResourceStatus>) -> &'static str {
    let holds = |kind| {
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.type_ == kind && condition.status == "True")
    };
    match (holds("Stalled"), holds("Ready")) {
        (true, _) => "stalled",
        (false, true) => "ready",
        (false, false) => "not_ready",
    }
}

/// What came of writing a status.
#[derive(Debug)]
pub(super) struct StatusWritten {
    pub(super) rule: Arc<str>,
    /// Of the rule that it was for.
    pub(super) uid: Option<String>,
    pub(super) result: Result<NodeExtendedResourceStatus, WriteError>,
}

/// Writes a rule's status.
pub(super) async fn write(
    client: Client,
    timeout: Duration,
    rule: Arc<str>,
    uid: Option<String>,
    status: NodeExtendedResourceStatus,
) -> StatusWritten {
    let rules = Api::<NodeExtendedResource>::all(client);
    let NodeExtendedResourceStatus { observed_generation, conditions, nodes, total, problems } =
        &status;
    // Every field is there, also the empty ones: a merge patch leaves alone what it does not name.
    let patch = json!({
        // A rule made again under the same name is another rule.
        "metadata": { "uid": uid },
        "status": {
            "observedGeneration": observed_generation,
            "conditions": conditions,
            "nodes": nodes,
            "total": total,
            "problems": problems,
        },
    });
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(patch);
    let request = rules.patch_status(&rule, &params, &patch);
    let result = match tokio::time::timeout(timeout, request).await {
        Ok(Ok(_)) => Ok(status),
        Ok(Err(kube::Error::Api(answer))) if matches!(answer.code, 404 | 409) => {
            Err(WriteError::NotFound)
        }
        Ok(Err(kube::Error::Api(answer))) if answer.code == 422 => {
            Err(WriteError::Refused(answer.message.clone()))
        }
        Ok(Err(error)) => Err(WriteError::Failed(describe(&error))),
        Err(_) => Err(WriteError::Failed(format!("no answer within {timeout:?}"))),
    };
    StatusWritten { rule, uid, result }
}

/// Why a status was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The rule is not there any more, or is another one; the watch will tell.
    NotFound,
    /// The API server takes nothing for it: the rule has not the CRD's shape (a quantity that is
    /// neither number nor string, say), and no status can be told of it.
    Refused(String),
    /// It is to be tried again.
    Failed(String),
}

#[cfg(test)]
mod tests;
