//! The conditions of a rule, by the kstatus convention.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::model::api::{MAX_MESSAGE, NodeCounts, Reason};
use crate::planner::Outcome;
use crate::planner::rules::Rule;
use crate::reconciler::device_classes::Mapping;
use crate::reconciler::rules::{ObservedStatus, Stalled};
use crate::reconciler::standing::{Standing, State, TABLE};
use crate::reconciler::tally::{Counts, Detail, MAX_PROBLEMS};
use crate::reconciler::words::Contest;

/// A condition without its time and generation.
#[derive(Clone, Debug)]
pub(super) struct ConditionUpdate {
    kind: &'static str,
    status: Status,
    reason: Reason,
    message: String,
}

#[derive(Clone, Copy, Debug)]
enum Status {
    True,
    False,
    Unknown,
}

impl Status {
    fn of(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl ConditionUpdate {
    fn new(kind: &'static str, holds: bool, reason: Reason, message: String) -> Self {
        Self { kind, status: Status::of(holds), reason, message }
    }

    /// Returns the condition. It keeps its transition time if its status is unchanged.
    pub(super) fn into_api(
        self,
        generation: Option<i64>,
        before: Option<&ObservedStatus>,
        now: Timestamp,
    ) -> Condition {
        let Self { kind, status, reason, message } = self;
        let message = shortened(message);
        let status = status.as_str();
        let since = before.and_then(|before| before.since(kind, status)).cloned().unwrap_or(Time(now));
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_string(),
            message,
            observed_generation: generation,
            last_transition_time: since,
        }
    }
}

/// Returns the conditions of a rule that is not in force.
pub(super) fn for_stalled(why: &Stalled) -> Vec<ConditionUpdate> {
    let reason = why.reason();
    let stalled = format!("{why}. The values that the rule advertised stay until you {}", why.remedy());
    vec![
        ConditionUpdate::new("Ready", false, reason, why.to_string()),
        ConditionUpdate::new("Reconciling", false, reason, String::new()),
        ConditionUpdate::new("Stalled", true, reason, stalled),
    ]
}

/// Returns the conditions of a rule that is being deleted.
pub(super) fn for_deleting(waits_for: &str) -> Vec<ConditionUpdate> {
    let ready = format!(
        "the rule is being deleted and declares nothing anymore; it waits for {waits_for}, which keeps the rule, not its \
         values"
    );
    vec![
        ConditionUpdate::new("Ready", false, Reason::Deleting, ready),
        ConditionUpdate::new("Reconciling", false, Reason::Deleting, String::new()),
        ConditionUpdate::new("Stalled", false, Reason::Deleting, String::new()),
    ]
}

/// Returns the conditions of a rule with these nodes, the first of which are contested.
pub(super) fn for_valid(
    rule: &Rule,
    nodes: &NodeCounts,
    counts: &Counts,
    first_contested: &[Detail<'_>],
    mapping: &Mapping,
) -> Vec<ConditionUpdate> {
    let (ready, reason) = readiness(rule, nodes, counts);
    let working = TABLE.iter().any(|row| row.state.is_working() && counts.of(row.state) > 0);
    vec![
        ConditionUpdate::new("Ready", ready, reason, message(rule, nodes, counts)),
        ConditionUpdate::new("Reconciling", working, reason, String::new()),
        ConditionUpdate::new("Stalled", false, reason, String::new()),
        overlapping(counts),
        contested(first_contested),
        device_class(mapping),
    ]
}

fn message(rule: &Rule, nodes: &NodeCounts, counts: &Counts) -> String {
    let NodeCounts { summary, selected, missing, .. } = nodes;
    let mut message = match selected {
        0 => "no node is selected".to_owned(),
        _ => format!("advertised on {summary} nodes"),
    };
    for row in TABLE.iter().filter(|row| row.state != State::Advertised) {
        match counts.of(row.state) {
            0 => {}
            number => message.push_str(&format!(", {number} {}", row.phrase)),
        }
    }
    match missing {
        0 => {}
        1 => message.push_str("; 1 named node does not exist"),
        _ => message.push_str(&format!("; {missing} named nodes do not exist")),
    }
    if rule.paused {
        message.push_str("; the rule is paused: its values are repaired, and nothing else changes");
    }
    message
}

/// Whether the rule is in force, and why: the first state by rank that any node is in and that is not as
/// declared.
fn readiness(rule: &Rule, nodes: &NodeCounts, counts: &Counts) -> (bool, Reason) {
    let is_converged = |state| matches!(state, State::Overridden | State::Advertised);
    let unconverged = TABLE.iter().filter(|row| !is_converged(row.state));
    let mut first = unconverged.filter(|row| counts.of(row.state) > 0);
    match first.next() {
        Some(row) => (false, row.reason),
        None if rule.paused => (true, Reason::Paused),
        None if nodes.selected == 0 => (true, Reason::NoNodesSelected),
        None if counts.of(State::Advertised) == 0 => (true, Reason::Overridden),
        None => (true, Reason::Advertised),
    }
}

/// Whether another rule decides on some of the nodes, and which.
fn overlapping(counts: &Counts) -> ConditionUpdate {
    let kind = "Overlapping";
    if counts.of(State::Overridden) == 0 {
        return ConditionUpdate::new(kind, false, Reason::NoOverlap, String::new());
    }
    let by = counts.overridden_by.iter().take(MAX_PROBLEMS);
    let unit = |nodes: usize| if nodes == 1 { "node" } else { "nodes" };
    let by = by.map(|(rule, nodes)| format!("rule {rule} on {nodes} {}", unit(*nodes)));
    let by: Vec<_> = by.collect();
    let mut message = format!("another rule decides: {}", by.join(", "));
    let reason = if counts.tied > 0 {
        message.push_str("; their priorities are equal and their quantities differ: give one a higher priority");
        Reason::EqualPriority
    } else {
        Reason::Overridden
    };
    ConditionUpdate::new(kind, true, reason, message)
}

/// Whether another field manager keeps changing values back.
fn contested(first: &[Detail<'_>]) -> ConditionUpdate {
    let kind = "Contested";
    let (mut nodes, mut advice) = (Vec::new(), Vec::new());
    for Detail { node, standing, .. } in first {
        if let Standing::Planned(Outcome::Contested { lost, manager }) = standing {
            let contest = Contest::new(*lost, manager.as_ref());
            nodes.push(contest.of_rule(node));
            if !advice.contains(&contest.advice) {
                advice.push(contest.advice);
            }
        }
    }
    if nodes.is_empty() {
        return ConditionUpdate::new(kind, false, Reason::NotContested, String::new());
    }
    let message = format!("{}; {}", nodes.join(", "), advice.join("; "));
    ConditionUpdate::new(kind, true, Reason::Contested, message)
}

/// Whether DRA has the resource's name too. The scheduler asks DRA only where a node does not
/// advertise the resource (KEP-5004), so that pods would get no device.
fn device_class(mapping: &Mapping) -> ConditionUpdate {
    let kind = "DeviceClassMapped";
    match mapping {
        Mapping::None => ConditionUpdate::new(kind, false, Reason::NoDeviceClass, String::new()),
        Mapping::By(class) => {
            let message = format!(
                "DeviceClass {class} maps this resource: pods that request it get no device from it on \
                 nodes where this rule advertises it. Delete the rule, or rename the resource"
            );
            ConditionUpdate::new(kind, true, Reason::DeviceClassFound, message)
        }
        Mapping::Unknown(why) => ConditionUpdate {
            kind,
            status: Status::Unknown,
            reason: Reason::DeviceClassesUnavailable,
            message: why.clone(),
        },
    }
}

/// Cuts a text to what a message of a status may have: an error of the API server may be of any length.
pub(super) fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE) {
        text.truncate(end);
    }
    text
}
