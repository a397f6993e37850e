//! The Events and their messages.

use kube::runtime::events::EventType;

use crate::model::api::FIELD_MANAGER;
use crate::model::ledger::InvalidLedger;
use crate::model::node::FieldManager;
use crate::planner::input::Lost;
use crate::planner::{Action, Change, Leaving, Outcome, ReleaseCause};
use crate::reconciler::rules::Stalled;
use crate::reconciler::standing::Standing;
use crate::reconciler::words::{ADMISSION, Contest, conflict_advice};

/// An Event without its subject.
#[derive(Clone, Debug)]
pub(crate) struct EventTemplate {
    pub(super) kind: EventType,
    /// The machine-readable reason.
    pub(super) reason: &'static str,
    /// What the controller was doing.
    pub(super) action: &'static str,
    pub(super) text: String,
}

fn warning(reason: &'static str, action: &'static str, text: String) -> EventTemplate {
    EventTemplate { kind: EventType::Warning, reason, action, text }
}

fn normal(reason: &'static str, action: &'static str, text: String) -> EventTemplate {
    EventTemplate { kind: EventType::Normal, reason, action, text }
}

impl EventTemplate {
    /// Returns the Event of a change on a node that an administrator may ask about. Advertised values are in the
    /// status of the rule.
    pub(crate) fn for_change(node: &str, change: &Change) -> Option<Self> {
        let (resource, action) = (change.name(), &change.action);
        let template = match action {
            Action::Repair { quantity, rule, observed, manager } => {
                let manager = FieldManager::display_changed(manager.as_ref());
                let text = format!(
                    "Repaired {resource} on {node}: {observed} (by {manager}) -> {quantity}, as rule {rule} \
                     declares"
                );
                warning("Repaired", "Patch", text)
            }
            Action::TakeOver { quantity, rule, observed, manager } => {
                let manager = FieldManager::display_changed(manager.as_ref());
                let text = format!(
                    "Took over {resource} on {node}: {observed} (by {manager}) -> {quantity}, as rule {rule} \
                     declares"
                );
                warning("TakenOver", "Patch", text)
            }
            Action::Hold { quantity, rule, declared: Some(declared) } => {
                let text = format!(
                    "Held {resource} on {node} at {quantity}, which pods request; rule {rule} declares \
                     {declared}. The value goes down as pods end"
                );
                normal("Held", "Patch", text)
            }
            Action::Adopt { quantity, rule } => {
                let text = format!(
                    "Adopted {resource} on {node}: already {quantity}, as rule {rule} declares, and \
                     written by {FIELD_MANAGER}; the annotation records it again"
                );
                normal("Adopted", "Patch", text)
            }
            Action::Withdraw { rule } => {
                let text = format!("Withdrew {resource} from {node}: rule {rule} no longer declares it there");
                normal("Withdrawn", "Patch", text)
            }
            Action::Release { rule, cause: ReleaseCause::Retained { .. } } => {
                let text = format!(
                    "Released {resource} on {node}: rule {rule}, which retains it, no longer declares it there"
                );
                normal("Released", "Patch", text)
            }
            Action::Release { rule, cause: ReleaseCause::Overwritten { observed, manager } } => {
                let manager = FieldManager::display_changed(manager.as_ref());
                let text = format!(
                    "Released {resource} on {node}, where the value stays at {observed} (by {manager}): \
                     rule {rule} no longer declares it there"
                );
                warning("Released", "Patch", text)
            }
            // Reported once the node shows it: see [`Self::for_leaving`].
            Action::Hold { declared: None, .. }
            | Action::Advertise { .. }
            | Action::RemoveZero
            | Action::RemoveLedger
            | Action::SetCondition(_)
            | Action::RemoveCondition => return None,
        };
        Some(template)
    }

    /// Returns the Event of a value that no rule declares and that stays while pods use it.
    pub(crate) fn for_leaving(node: &str, leaving: &Leaving) -> Option<Self> {
        let Leaving { resource, rule, at, pods_error } = leaving;
        let at = at.as_ref()?;
        let why = match pods_error {
            Some(error) => format!("until it is known what pods request: {error}"),
            None => "which pods request, and goes down as they end".to_owned(),
        };
        let text = format!(
            "Kept {resource} on {node} at {at}, {why}: rule {rule} no longer declares it there, and its deletionPolicy \
             was WhenUnused"
        );
        Some(normal("Leaving", "Plan", text))
    }

    /// Returns the Event of a rule's state on a node that needs an administrator, if there is one.
    pub(crate) fn for_standing(node: &str, rule: &str, resource: &str, standing: &Standing) -> Option<Self> {
        match standing {
            Standing::Planned(Outcome::Conflicted { present, manager }) => {
                let (by, advice) = (FieldManager::display(manager.as_ref()), conflict_advice(manager.as_ref()));
                let text = format!(
                    "Skipped {resource} on {node}: already {present} (by {by}), and rule {rule} declares it; {advice}"
                );
                Some(warning("Conflict", "Plan", text))
            }
            Standing::Failed(message) => {
                let text = format!("Not in force: {resource} on {node} for rule {rule}, retrying: {message}");
                Some(warning("PatchFailed", "Patch", text))
            }
            Standing::Planned(Outcome::LedgerFull) => {
                let text = format!(
                    "Skipped {resource} on {node} for rule {rule}: the annotation has no room for it. \
                     Delete rules, or select this node in fewer rules"
                );
                Some(warning("LedgerFull", "Plan", text))
            }
            _ => None,
        }
    }

    /// Returns the Event of a withdrawal or release that failed.
    pub(crate) fn not_withdrawn(node: &str, change: &Change, message: &str) -> Option<Self> {
        let (resource, action) = (change.name(), &change.action);
        let (verb, rule) = match action {
            Action::Withdraw { rule } => ("withdraw", rule),
            Action::Release { rule, .. } => ("release", rule),
            Action::Hold { rule, declared: None, .. } => ("lower", rule),
            _ => return None,
        };
        let text = format!(
            "Failed to {verb} {resource} on {node}, which rule {rule} no longer declares there, \
             retrying: {message}"
        );
        Some(warning("PatchFailed", "Patch", text))
    }

    /// Returns the Event of a value that is there again after it was removed.
    pub(crate) fn put_back(node: &str, rule: &str, resource: &str) -> Self {
        let text = format!(
            "Failed to withdraw {resource} on {node}, which rule {rule} no longer declares there: {ADMISSION} puts a \
             value back. The annotation no longer records it: change that policy or webhook, then remove the value"
        );
        warning("PatchFailed", "Patch", text)
    }

    /// Returns the Event of a rule that is not in force. If the rule does not even match the CRD's schema, the API server
    /// rejects its status, and this Event is the only report.
    pub(crate) fn for_stalled(why: &Stalled) -> Self {
        let text = format!("Rejected the rule: {why}. Its advertised values stay until you {}", why.remedy());
        match why {
            Stalled::Invalid(_) => warning("InvalidSpec", "Validate", text),
            Stalled::MemoryFull { .. } => warning("MemoryFull", "Validate", text),
        }
    }

    /// Returns the Event of a rollout that has stopped.
    pub(crate) fn rollout_stopped(rule: &str, nodes: usize, message: &str) -> Self {
        let text = format!(
            "Stopped the rollout of rule {rule}: patches of {nodes} nodes failed, the last with: {message}. Other nodes \
             wait. It resumes within five minutes, when a patch succeeds, or when you edit the rule"
        );
        warning("RolloutStopped", "Patch", text)
    }

    /// Returns the Event on one of two rules that declare different quantities on a node with the same priority.
    pub(crate) fn equal_priority(other: &str) -> Self {
        let text = format!(
            "Resolved a tie by age or name: rule {other} declares another quantity of the same resource on the \
             same node, with the same priority. Give one rule a higher priority"
        );
        warning("EqualPriority", "Resolve", text)
    }

    /// Returns the Event of a repair or an adoption that is undone repeatedly and pauses now.
    pub(crate) fn contested(node: &str, change: &Change, lost: Lost) -> Self {
        let text = format!(
            "Backed off from {}; {}. The controller retries after pauses",
            contest(node, change, lost),
            Contest::new(lost, change.manager()).advice
        );
        warning("Contested", "Patch", text)
    }

    /// Returns the Event of a node that does not change because its ledger cannot be read.
    pub(crate) fn invalid_ledger(node: &str, why: &InvalidLedger) -> Self {
        let text = format!(
            "Stopped changing the node: {why}. Repair the annotation, or remove it with `prune --repair-ledger \
             --node {node} --force`"
        );
        warning("InvalidLedger", "Plan", text)
    }
}

/// Describes what undoes a change.
pub(crate) fn contest(node: &str, change: &Change, lost: Lost) -> String {
    let contest = Contest::new(lost, change.manager());
    format!("{} on {node}: {}", change.name(), contest.of_change(change.rule().unwrap_or_default()))
}
