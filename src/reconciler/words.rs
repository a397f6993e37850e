//! What the log, Events, conditions and problems say of a state and of contested values: one arm for each.

use crate::model::node::FieldManager;
use crate::model::quantity::Quantity;
use crate::planner::Outcome;
use crate::planner::input::Lost;

/// The name in messages of what changes the controller's own writes on their way to storage: managedFields do not name it.
pub(crate) const ADMISSION: &str = "an admission policy or webhook";

/// What undoes a value repeatedly. Each text begins with who does so.
pub(super) struct Contest<'a> {
    by: &'a str,
    of_node: &'static str,
    of_rule: &'static str,
    of_change: [&'static str; 2],
    /// What to do about it.
    pub(super) advice: &'static str,
}

impl<'a> Contest<'a> {
    /// A kubelet undoes values for a device plugin, whose number is the right one.
    pub(super) fn new(lost: Lost, manager: Option<&'a FieldManager>) -> Self {
        match lost {
            Lost::LedgerEntry => Self {
                by: "something",
                of_node: "keeps removing its entry from the annotation",
                of_rule: "keeps removing the annotation's entry",
                of_change: ["keeps removing the entry of rule", " from the annotation"],
                // Without its entry, a value would stay on a node that the rule no longer selects.
                advice: "configure that client to keep the annotation",
            },
            Lost::OwnWrite => Self {
                by: ADMISSION,
                of_node: "keeps changing what the controller writes",
                of_rule: "keeps changing what the controller writes",
                of_change: ["keeps changing what the controller writes for rule", ""],
                advice: "exempt the controller from that policy or webhook, or exclude the node from the rule",
            },
            Lost::Value => Self {
                by: FieldManager::display(manager),
                of_node: "keeps changing it back",
                of_rule: "keeps changing the value back",
                of_change: ["keeps changing the value that rule", " declares"],
                advice: match manager {
                    Some(manager) if manager.is_kubelet() => {
                        "a device plugin provides it: exclude the node from the rule, or rename the resource"
                    }
                    _ => "stop that client, or exclude the node from the rule",
                },
            },
        }
    }

    /// Returns what happens to the resource of a problem.
    pub(super) fn of_node(&self) -> String {
        format!("{} {}", self.by, self.of_node)
    }

    /// Returns what happens to the rule's resource on a node.
    pub(super) fn of_rule(&self, node: &str) -> String {
        format!("{} {} on {node}", self.by, self.of_rule)
    }

    /// Returns what happens to a change of the resource for a rule.
    pub(super) fn of_change(&self, rule: &str) -> String {
        let [before, after] = self.of_change;
        format!("{} {before} {rule}{after}", self.by)
    }
}

/// Returns what to do about a value of another field manager.
pub(super) fn conflict_advice(manager: Option<&FieldManager>) -> &'static str {
    match manager {
        Some(manager) if manager.is_kubelet() => "a device plugin probably provides it: exclude the node from the rule",
        _ => "to take it over, set conflictPolicy: Overwrite",
    }
}

/// Returns the message of `problems` where the quantity cannot be read from the node.
pub(super) fn unknown_quantity(at: Option<Quantity>, why: &str) -> String {
    at.map_or_else(|| format!("not advertised: {why}"), |at| stays(at, why))
}

fn stays(at: Quantity, why: &str) -> String {
    format!("stays at {at}: {why}")
}

/// Returns the message of `problems` for an outcome that is a problem; else an empty one.
pub(super) fn problem(outcome: &Outcome) -> String {
    match outcome {
        Outcome::InvalidLedger { message } => message.to_string(),
        Outcome::LedgerFull => {
            "the node has no room for this resource, since its annotation has at most 64 KiB, and the node 496 extended \
             resources; delete rules, or select this node in fewer rules"
                .to_owned()
        }
        Outcome::Contested { lost, manager } => {
            let contest = Contest::new(*lost, manager.as_ref());
            format!("{}; {}", contest.of_node(), contest.advice)
        }
        Outcome::Conflicted { present, manager: by } => {
            let advice = conflict_advice(by.as_ref());
            format!("already {present}, last written by {}; {advice}", FieldManager::display(by.as_ref()))
        }
        Outcome::Held { at, pods_error: Some(why) } => stays(*at, why),
        Outcome::AwaitingPods { pods_error: Some(why) } => format!("not written yet: {why}"),
        Outcome::Held { at, pods_error: None } => format!("at {at}, which pods on the node request"),
        Outcome::Paused { at: Some(at) } => format!("stays at {at} while the rule is paused"),
        Outcome::Paused { at: None } => "not advertised while the rule is paused".to_owned(),
        Outcome::QuantityUnknown { at, why } => unknown_quantity(*at, why),
        Outcome::AwaitingPods { pods_error: None }
        | Outcome::Moving { .. }
        | Outcome::Overridden { .. }
        | Outcome::Advertised => String::new(),
    }
}
