//! The status of a rule.

mod conditions;

use json_patch::Patch;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::device_classes::Mapping;
use super::rules::{ObservedStatus, RuleState};
use super::standing::State;
use super::tally::{Counts, Coverage, Detail};
use crate::model::api::{NodeCounts, NodeExtendedResourceStatus, NodeProblem};
use crate::model::quantity::Quantity;
use crate::planner::selector::Selection;

/// What is known of what pods request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Used {
    Known(Quantity),
    /// Nothing yet: pods are being listed. What was reported before stays.
    Listing,
    /// Nothing: pods are not watched, or the watch is broken.
    Unknown,
}

/// Returns the status that a rule must have now. Conditions equal to those in the observed status keep their
/// timestamps.
pub(super) fn status(
    state: &RuleState,
    coverage: &Coverage<'_>,
    used: Used,
    mapping: &Mapping,
    now: Timestamp,
) -> NodeExtendedResourceStatus {
    if let Some(waits_for) = &state.waits_for {
        return deleting(state, waits_for, now);
    }
    let none = Counts::default();
    let counts = coverage.counts.unwrap_or(&none);
    let nodes = node_counts(state, counts);
    let said = match &state.rule {
        Err(stalled) => conditions::for_stalled(stalled),
        Ok(rule) => conditions::for_valid(rule, &nodes, counts, &coverage.contested, mapping),
    };
    let before = state.status.as_ref();
    let conditions = said.into_iter().map(|said| said.into_api(state.generation, before, now));
    let total = state.rule.as_ref().ok().map(|rule| counts.total(rule.quantity.fixed()));
    let requested = |total: Quantity| match used {
        Used::Known(amount) => Some(amount.in_notation_of(total).to_string()),
        Used::Listing => before.and_then(ObservedStatus::requested).map(str::to_owned),
        Used::Unknown => None,
    };
    NodeExtendedResourceStatus {
        observed_generation: state.generation,
        conditions: conditions.collect(),
        nodes: Some(nodes),
        total: total.map(|total| total.to_string()),
        requested: total.and_then(requested),
        problems: coverage.problems.iter().map(problem).collect(),
    }
}

/// Returns the last status of a rule.
fn deleting(state: &RuleState, waits_for: &str, now: Timestamp) -> NodeExtendedResourceStatus {
    let before = state.status.as_ref();
    let said = conditions::for_deleting(waits_for);
    NodeExtendedResourceStatus {
        observed_generation: state.generation,
        conditions: said.into_iter().map(|said| said.into_api(state.generation, before, now)).collect(),
        nodes: Some(NodeCounts { summary: "0/0".to_owned(), ..NodeCounts::default() }),
        total: Some("0".to_owned()),
        requested: None,
        problems: Vec::new(),
    }
}

fn node_counts(state: &RuleState, counts: &Counts) -> NodeCounts {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let named = match state.rule.as_ref().map(|rule| &rule.selection) {
        Ok(Selection::Names(names)) => names.len(),
        _ => counts.selected(),
    };
    let states = |states: &[State]| count(states.iter().map(|state| counts.of(*state)).sum());
    NodeCounts {
        summary: format!("{}/{}", counts.of(State::Advertised), counts.selected()),
        selected: count(counts.selected()),
        advertised: states(&[State::Advertised]),
        held: states(&[State::Held, State::PodsUnavailable]),
        conflicted: states(&[State::Conflicted, State::Contested]),
        overridden: states(&[State::Overridden]),
        failed: states(&[State::Failed, State::Stopped, State::InvalidLedger, State::LedgerFull]),
        missing: count(named.saturating_sub(counts.selected())),
    }
}

fn problem(at: &Detail<'_>) -> NodeProblem {
    NodeProblem {
        node: at.node.to_owned(),
        reason: at.standing.state().info().reason.to_string(),
        message: conditions::shortened(at.standing.message(&at.unknown)),
    }
}

/// Returns the patch that replaces the whole status of the rule with this uid: a rule recreated under the same name is
/// another rule. A merge patch of the status cannot test the uid, because the API server ignores it there.
pub(crate) fn status_patch(uid: Option<&str>, status: &NodeExtendedResourceStatus) -> serde_json::Result<Patch> {
    let test = uid.map(|uid| json!({"op": "test", "path": "/metadata/uid", "value": uid}));
    let add = json!({"op": "add", "path": "/status", "value": serde_json::to_value(status)?});
    serde_json::from_value(test.into_iter().chain([add]).collect())
}

#[cfg(test)]
mod tests;
