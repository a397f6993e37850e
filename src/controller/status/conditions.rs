//! The conditions of a rule, by the kstatus convention.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::controller::device_classes::Mapping;
use crate::controller::outcome::Outcome;
use crate::controller::tally::{Counts, MAX_PROBLEMS};
use crate::model::api::{NodeCounts, Reason};
use crate::model::node::UNKNOWN_MANAGER;

/// A condition before it has a time and a generation.
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

    /// It holds what it held before, since when it did.
    pub(super) fn into_api(
        self,
        generation: Option<i64>,
        before: &[Condition],
        now: Timestamp,
    ) -> Condition {
        let Self { kind, status, reason, message } = self;
        let status = status.as_str();
        let since = before
            .iter()
            .find(|condition| condition.type_ == kind && condition.status == status)
            .map_or(Time(now), |condition| condition.last_transition_time.clone());
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

/// What is said of a rule that cannot be followed.
pub(super) fn for_invalid(why: &str) -> Vec<ConditionUpdate> {
    let stalled = format!(
        "{why}. What it advertised before stays as it is until the rule is mended or deleted"
    );
    vec![
        ConditionUpdate::new("Ready", false, Reason::InvalidSpec, why.to_owned()),
        ConditionUpdate::new("Reconciling", false, Reason::InvalidSpec, String::new()),
        ConditionUpdate::new("Stalled", true, Reason::InvalidSpec, stalled),
    ]
}

/// What is said of a rule with these nodes.
pub(super) fn for_valid(
    nodes: &NodeCounts,
    counts: &Counts,
    mapping: &Mapping,
) -> Vec<ConditionUpdate> {
    let (ready, reason) = readiness(nodes, counts);
    let working = counts.pending + counts.failed + counts.held > 0;
    vec![
        ConditionUpdate::new("Ready", ready, reason, message(nodes, counts)),
        ConditionUpdate::new("Reconciling", working, reason, String::new()),
        ConditionUpdate::new("Stalled", false, reason, String::new()),
        overlapping(counts),
        contested(counts),
        device_class(mapping),
    ]
}

fn message(nodes: &NodeCounts, counts: &Counts) -> String {
    let NodeCounts { summary, selected, missing, .. } = nodes;
    let mut message = match selected {
        0 => "no node is selected".to_owned(),
        _ => format!("advertised on {summary} nodes"),
    };
    for (number, what) in [
        (counts.pending, "being patched"),
        (counts.failed, "failed and retried"),
        (counts.invalid_ledger, "with an unreadable ledger"),
        (counts.held, "held at what pods request"),
        (counts.pods_unavailable, "not lowered since pods cannot be listed"),
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
    message
}

fn readiness(nodes: &NodeCounts, counts: &Counts) -> (bool, Reason) {
    if counts.pending > 0 {
        (false, Reason::Progressing)
    } else if counts.failed > 0 {
        (false, Reason::PatchFailed)
    } else if counts.invalid_ledger > 0 {
        (false, Reason::InvalidLedger)
    } else if counts.contested > 0 {
        (false, Reason::Contested)
    } else if counts.conflicted > 0 {
        (false, Reason::Conflict)
    } else if counts.pods_unavailable > 0 {
        (false, Reason::PodsUnavailable)
    } else if counts.held > 0 {
        (false, Reason::Held)
    } else if nodes.selected == 0 {
        (true, Reason::NoNodesSelected)
    } else if counts.advertised == 0 {
        (true, Reason::Overridden)
    } else {
        (true, Reason::Advertised)
    }
}

/// Whether another rule decides on some of the nodes, and which.
fn overlapping(counts: &Counts) -> ConditionUpdate {
    let kind = "Overlapping";
    if counts.overridden == 0 {
        return ConditionUpdate::new(kind, false, Reason::NoOverlap, String::new());
    }
    let by = counts.overridden_by.iter().take(MAX_PROBLEMS);
    let by: Vec<_> = by.map(|(rule, nodes)| format!("rule {rule} on {nodes}")).collect();
    let mut message = format!("another rule decides: {}", by.join(", "));
    let reason = if counts.tied > 0 {
        message
            .push_str("; with the same priority and another quantity: give one a higher priority");
        Reason::EqualPriority
    } else {
        Reason::Overridden
    };
    ConditionUpdate::new(kind, true, reason, message)
}

/// Whether another writer keeps changing values back.
fn contested(counts: &Counts) -> ConditionUpdate {
    let kind = "Contested";
    if counts.contested == 0 {
        return ConditionUpdate::new(kind, false, Reason::NotContested, String::new());
    }
    let nodes = counts.problems.iter().filter_map(|(node, outcome)| match outcome {
        Outcome::Contested { manager, .. } => {
            Some(format!("{} on {node}", manager.as_deref().unwrap_or(UNKNOWN_MANAGER)))
        }
        _ => None,
    });
    let nodes: Vec<_> = nodes.take(MAX_PROBLEMS).collect();
    let message = format!("keeps changing values back: {}", nodes.join(", "));
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
