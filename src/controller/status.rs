//! What a rule's status says, and writing it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::rules::RuleState;
use super::tally::Counts;
use crate::api::{
    FIELD_MANAGER, NodeCounts, NodeExtendedResource, NodeExtendedResourceStatus, NodeProblem,
};
use crate::error::describe;
use crate::plan::Outcome;
use crate::plan::select::Selection;

/// The most nodes that `problems` names.
const MAX_PROBLEMS: usize = 10;

/// The status that a rule should have now. Conditions that say the same as in the observed status
/// keep their timestamps.
pub(super) fn status(
    state: &RuleState,
    counts: Option<&Counts>,
    now: Timestamp,
) -> NodeExtendedResourceStatus {
    let none = Counts::default();
    let counts = counts.unwrap_or(&none);
    let nodes = node_counts(state, counts);
    let conditions = match &state.rule {
        Err(invalid) => invalid_conditions(&invalid.to_string()).to_vec(),
        Ok(_) => {
            [&conditions(&nodes, counts)[..], &[overlapping(counts), contested(counts)]].concat()
        }
    };
    let before = state.status.as_ref().map(|status| status.conditions.as_slice());
    let conditions = conditions
        .into_iter()
        .map(|condition| condition.into_api(state.generation, before.unwrap_or_default(), now));
    NodeExtendedResourceStatus {
        observed_generation: state.generation,
        conditions: conditions.collect(),
        nodes: Some(nodes),
        problems: problems(counts),
    }
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
        held: count(counts.held + counts.pods_unreadable),
        conflicted: count(counts.conflicted + counts.contested),
        overridden: count(counts.overridden),
        failed: count(counts.failed + counts.unreadable),
        missing: count(named.saturating_sub(counts.selected())),
    }
}

fn problems(counts: &Counts) -> Vec<NodeProblem> {
    let problem = |(node, outcome): (&Arc<str>, &Outcome)| {
        let (reason, message) = match outcome {
            Outcome::Held { at, unreadable: None } => {
                ("Held", format!("at {at}, which pods on the node request"))
            }
            Outcome::Held { at, unreadable: Some(why) } => {
                ("PodsUnreadable", format!("stays at {at}: {why}"))
            }
            Outcome::Conflicted { present, writer } => {
                let writer = writer.as_deref().unwrap_or("an unknown writer");
                let message = format!("already {present}, last written by {writer}");
                ("Conflict", message)
            }
            Outcome::Contested { writer } => {
                let writer = writer.as_deref().unwrap_or("an unknown writer");
                ("Contested", format!("{writer} keeps changing it back"))
            }
            Outcome::Failed { message } => ("PatchFailed", message.clone()),
            Outcome::LedgerUnreadable { message } => ("LedgerUnreadable", message.clone()),
            Outcome::Advertised | Outcome::Pending | Outcome::Overridden { .. } => return None,
        };
        Some(NodeProblem { node: node.to_string(), reason: reason.to_owned(), message })
    };
    counts.problems.iter().filter_map(problem).take(MAX_PROBLEMS).collect()
}

/// A condition before it has a time and a generation.
#[derive(Clone)]
struct Said {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Said {
    fn ready(holds: bool, reason: &'static str, message: String) -> Self {
        let kind = "Ready";
        Self { kind, holds, reason, message }
    }

    fn reconciling(holds: bool, reason: &'static str, message: String) -> Self {
        let kind = "Reconciling";
        Self { kind, holds, reason, message }
    }

    fn stalled(holds: bool, reason: &'static str, message: String) -> Self {
        let kind = "Stalled";
        Self { kind, holds, reason, message }
    }

    fn into_api(self, generation: Option<i64>, before: &[Condition], now: Timestamp) -> Condition {
        let status = if self.holds { "True" } else { "False" };
        let since = before
            .iter()
            .find(|condition| condition.type_ == self.kind && condition.status == status)
            .map_or(Time(now), |condition| condition.last_transition_time.clone());
        Condition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            observed_generation: generation,
            last_transition_time: since,
        }
    }
}

fn invalid_conditions(why: &str) -> [Said; 3] {
    [
        Said::ready(false, "InvalidSpec", why.to_owned()),
        Said::reconciling(false, "InvalidSpec", String::new()),
        Said::stalled(
            true,
            "InvalidSpec",
            format!(
                "{why}. What it advertised before stays as it is until the rule is mended or deleted"
            ),
        ),
    ]
}

fn conditions(nodes: &NodeCounts, counts: &Counts) -> [Said; 3] {
    let NodeCounts { summary, selected, missing, .. } = nodes;
    let mut message = match selected {
        0 => "no node is selected".to_owned(),
        _ => format!("advertised on {summary} nodes"),
    };
    for (number, what) in [
        (counts.pending, "being patched"),
        (counts.failed, "failed and retried"),
        (counts.unreadable, "with an unreadable ledger"),
        (counts.held, "held at what pods request"),
        (counts.pods_unreadable, "not lowered since pods cannot be listed"),
        (counts.conflicted, "left to another writer"),
        (counts.contested, "contested by another writer"),
        (counts.overridden, "overridden by another rule"),
    ] {
        if number > 0 {
            message.push_str(&format!(", {number} {what}"));
        }
    }
    match missing {
        0 => {}
        1 => message.push_str("; 1 named node does not exist"),
        _ => message.push_str(&format!("; {missing} named nodes do not exist")),
    }
    let (ready, reason) = if counts.pending > 0 {
        (false, "Progressing")
    } else if counts.failed > 0 {
        (false, "PatchFailed")
    } else if counts.unreadable > 0 {
        (false, "LedgerUnreadable")
    } else if counts.contested > 0 {
        (false, "Contested")
    } else if counts.conflicted > 0 {
        (false, "Conflict")
    } else if counts.pods_unreadable > 0 {
        (false, "PodsUnreadable")
    } else if counts.held > 0 {
        (false, "Held")
    } else if *selected == 0 {
        (true, "NoNodeSelected")
    } else if counts.advertised == 0 {
        (true, "Overridden")
    } else {
        (true, "Advertised")
    };
    let working = counts.pending + counts.failed + counts.held > 0;
    [
        Said::ready(ready, reason, message),
        Said::reconciling(working, reason, String::new()),
        Said::stalled(false, reason, String::new()),
    ]
}

/// The reason of `Overlapping` where only age or name decides between different quantities.
const EQUAL_PRIORITY: &str = "EqualPriority";

/// Whether another rule decides on some of the nodes, and which.
fn overlapping(counts: &Counts) -> Said {
    let kind = "Overlapping";
    if counts.overridden == 0 {
        return Said { kind, holds: false, reason: "NoOverlap", message: String::new() };
    }
    let by = counts.overridden_by.iter().take(MAX_PROBLEMS);
    let by: Vec<_> = by.map(|(rule, nodes)| format!("rule {rule} on {nodes}")).collect();
    let mut message = format!("another rule decides: {}", by.join(", "));
    let reason = if counts.tied > 0 {
        message
            .push_str("; with the same priority and another quantity: give one a higher priority");
        EQUAL_PRIORITY
    } else {
        "Overridden"
    };
    Said { kind, holds: true, reason, message }
}

/// Whether another writer keeps changing values back.
fn contested(counts: &Counts) -> Said {
    let kind = "Contested";
    if counts.contested == 0 {
        return Said { kind, holds: false, reason: "NoContest", message: String::new() };
    }
    let nodes = counts.problems.iter().filter_map(|(node, outcome)| match outcome {
        Outcome::Contested { writer } => {
            Some(format!("{} on {node}", writer.as_deref().unwrap_or("an unknown writer")))
        }
        _ => None,
    });
    let nodes: Vec<_> = nodes.take(MAX_PROBLEMS).collect();
    let message = format!("keeps changing values back: {}", nodes.join(", "));
    Said { kind, holds: true, reason: "Contested", message }
}

/// Whether a status tells of a tie between rules.
pub(super) fn tells_of_tie(status: Option<&NodeExtendedResourceStatus>) -> bool {
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.reason == EQUAL_PRIORITY)
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
    let NodeExtendedResourceStatus { observed_generation, conditions, nodes, problems } = &status;
    // Every field is there, also the empty ones: a merge patch leaves alone what it does not name.
    let patch = json!({
        // A rule made again under the same name is another rule.
        "metadata": { "uid": uid },
        "status": {
            "observedGeneration": observed_generation,
            "conditions": conditions,
            "nodes": nodes,
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
            Err(WriteError::Gone)
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
    Gone,
    /// The API server takes nothing for it: the rule has not the CRD's shape (a quantity that is
    /// neither number nor string, say), and no status can be told of it.
    Refused(String),
    /// It is to be tried again.
    Failed(String),
}

#[cfg(test)]
mod tests;
