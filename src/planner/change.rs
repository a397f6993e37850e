//! The changes of a plan, resource by resource.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::input::Lost;
use super::observed::same;
use crate::model::api::{FIELD_MANAGER, Reason};
use crate::model::ledger::{ANNOTATION, Entry, Ledger};
use crate::model::node::{ApiNode, CONDITION_TYPE, FieldManager};

/// One change of a plan: of one resource, or of the whole ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What is changed.
    pub subject: Subject,
    /// The action on it.
    pub action: Action,
    pub(super) edit: Edit,
    /// How the new value compares with the present one under `WhenFree`, if there is one.
    pub(super) step: Option<Ordering>,
    pub(super) was_recorded: bool,
    /// Whether a quantity that is read from the node moves, or the condition alone changes.
    pub(super) moves: bool,
}

/// What a change is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The resource of this name.
    Resource(String),
    /// The ledger that cannot be read.
    Ledger,
    /// The node's condition.
    Condition,
}

impl Subject {
    /// Returns its name in logs and output.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Resource(name) => name,
            Self::Ledger => ANNOTATION,
            Self::Condition => CONDITION,
        }
    }
}

/// The operations of [`patch`](super::patch()) for one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// On a resource.
    Resource(ResourceEdit),
    /// Sets the node's condition, at this time.
    SetCondition(Condition, Timestamp),
    /// Removes the node's condition.
    RemoveCondition,
}

impl Edit {
    /// Returns the edit of a resource.
    pub(super) fn of(ledger: LedgerEdit, value: ValueEdit, guarded: bool) -> Self {
        Self::Resource(ResourceEdit { ledger, value, guarded })
    }
}

/// The operations for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceEdit {
    pub(super) ledger: LedgerEdit,
    pub(super) value: ValueEdit,
    /// Whether the patch requires that both maps still hold the observed values, so that it neither overwrites nor
    /// removes what another field manager writes at the same time.
    pub(super) guarded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LedgerEdit {
    /// Does not change the entry.
    Keep,
    /// Records the resource, and replaces its entry.
    Record(Entry),
    /// Removes the entry of the resource.
    Forget,
    /// Removes the annotation, which cannot be read.
    Discard,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueEdit {
    Keep,
    /// Sets both maps to a quantity.
    Write(String),
    /// Removes the resource from both maps.
    Remove,
}

/// The name of the condition in logs and output.
const CONDITION: &str = "condition/noderesource.dev/Advertised";

/// A value of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether all resources are advertised.
    pub is_true: bool,
    /// Why.
    pub reason: Reason,
    /// Why, in a sentence.
    pub message: String,
}

impl Condition {
    /// Returns the status, as Kubernetes writes it.
    pub(super) fn status(&self) -> &'static str {
        if self.is_true { "True" } else { "False" }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.status(), self.reason, self.message)
    }
}

/// The action on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes a new quantity, or replaces a quantity of the controller.
    Advertise {
        /// The new quantity.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
    },
    /// Writes more than the rule declares, because pods request it: when a value is lowered, when it appears, or when
    /// pods were bound while it was lowered.
    Hold {
        /// The quantity that pods request.
        quantity: String,
        /// The rule that declares less.
        rule: Arc<str>,
        /// The declared quantity; `None` if the rule declares none anymore, and its `deletionPolicy` is `WhenUnused`.
        declared: Option<String>,
    },
    /// Restores a quantity that was changed or removed.
    Repair {
        /// The declared quantity.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
        /// The observed value.
        observed: String,
        /// The field manager that wrote the observed value, if managedFields name one; they do not for a removed value.
        manager: Option<FieldManager>,
    },
    /// Replaces the value of another field manager, as `conflictPolicy: Overwrite` demands.
    TakeOver {
        /// The declared quantity.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
        /// The observed value.
        observed: String,
        /// The field manager that wrote the observed value, if managedFields name one.
        manager: Option<FieldManager>,
    },
    /// Lists a value that the controller wrote and that is as declared but not in the ledger: a rule with `Retain` left
    /// it, or the annotation was removed. No value is written.
    Adopt {
        /// The declared and observed quantity.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
    },
    /// Drops the ownership of a value that no rule declares anymore, and keeps the value.
    Release {
        /// The rule that declared it.
        rule: Arc<str>,
        /// Why the value is not removed.
        cause: ReleaseCause,
    },
    /// Removes a value that no rule declares anymore.
    Withdraw {
        /// The rule that declared it.
        rule: Arc<str>,
    },
    /// Removes the 0 of a resource that the ledger does not record.
    RemoveZero,
    /// Removes a ledger that cannot be read.
    RemoveLedger,
    /// Sets the node's condition.
    SetCondition(Condition),
    /// Removes the node's condition.
    RemoveCondition,
}

/// Why a value is released instead of withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseCause {
    /// The rule had `deletionPolicy: Retain`.
    Retained {
        /// The recorded quantity, if it is restored: a kubelet had reset the value to 0, and a remaining 0 makes kubelets
        /// reject pods.
        restored: Option<String>,
    },
    /// Another field manager has overwritten the value.
    Overwritten {
        /// The observed value.
        observed: String,
        /// The field manager that wrote it, if managedFields name one.
        manager: Option<FieldManager>,
    },
}

impl Change {
    /// Returns the name of what it changes: usually of a resource.
    #[must_use]
    pub fn name(&self) -> &str {
        self.subject.name()
    }

    /// Returns whether it changes a resource.
    #[must_use]
    pub fn is_of(&self, resource: &str) -> bool {
        matches!(&self.subject, Subject::Resource(name) if name == resource)
    }

    /// Returns the rule of the change, if it has one.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match &self.action {
            Action::Advertise { rule, .. }
            | Action::Hold { rule, .. }
            | Action::Repair { rule, .. }
            | Action::Adopt { rule, .. }
            | Action::TakeOver { rule, .. }
            | Action::Release { rule, .. }
            | Action::Withdraw { rule } => Some(rule),
            Action::RemoveZero | Action::RemoveLedger | Action::SetCondition(_) | Action::RemoveCondition => None,
        }
    }

    /// Returns whether the change restores a value that was changed or removed.
    #[must_use]
    pub fn is_repair(&self) -> bool {
        matches!(self.action, Action::Repair { .. })
    }

    /// Returns the quantity that the ledger records after the change; `None` if it does not record the resource.
    #[must_use]
    pub fn recorded_quantity(&self) -> Option<&str> {
        self.quantity().filter(|_| !matches!(self.action, Action::Release { .. }))
    }

    /// Returns the quantity after the change, if it is known; `None` if the resource is removed, or released unchanged.
    #[must_use]
    pub fn quantity(&self) -> Option<&str> {
        match &self.action {
            Action::Advertise { quantity, .. }
            | Action::Hold { quantity, .. }
            | Action::Repair { quantity, .. }
            | Action::Adopt { quantity, .. }
            | Action::TakeOver { quantity, .. } => Some(quantity),
            Action::Release { cause: ReleaseCause::Retained { restored }, .. } => restored.as_deref(),
            Action::Release { cause: ReleaseCause::Overwritten { .. }, .. }
            | Action::Withdraw { .. }
            | Action::RemoveZero
            | Action::RemoveLedger
            | Action::SetCondition(_)
            | Action::RemoveCondition => None,
        }
    }

    /// Returns the field manager whose value is overwritten or kept, if managedFields name one.
    #[must_use]
    pub fn manager(&self) -> Option<&FieldManager> {
        match &self.action {
            Action::Repair { manager, .. }
            | Action::TakeOver { manager, .. }
            | Action::Release { cause: ReleaseCause::Overwritten { manager, .. }, .. } => manager.as_ref(),
            _ => None,
        }
    }

    /// Returns the name of the action, for logs.
    #[must_use]
    pub fn action_name(&self) -> &'static str {
        match &self.action {
            Action::Advertise { .. } => "advertise",
            Action::Hold { .. } => "hold",
            Action::Repair { .. } => "repair",
            Action::TakeOver { .. } => "takeOver",
            Action::Adopt { .. } => "adopt",
            Action::Release { .. } => "release",
            Action::Withdraw { .. } => "withdraw",
            Action::RemoveZero => "removeZero",
            Action::RemoveLedger => "removeLedger",
            Action::SetCondition(_) => "setCondition",
            Action::RemoveCondition => "removeCondition",
        }
    }

    /// Returns whether the change lowers a value, or its recorded quantity, under `WhenFree`.
    #[must_use]
    pub fn lowers(&self) -> bool {
        self.step == Some(Ordering::Less)
    }

    /// Returns whether the change raises a value to what started pods request (I5).
    #[must_use]
    pub fn raises_for_pods(&self) -> bool {
        matches!(self.action, Action::Hold { .. }) && self.step == Some(Ordering::Greater)
    }

    /// Returns whether the change removes a ledger that cannot be read. Such changes of one plan belong together: a
    /// patch with only some of them would leave values that no ledger records.
    #[must_use]
    pub fn discards_ledger(&self) -> bool {
        matches!(&self.edit, Edit::Resource(ResourceEdit { ledger: LedgerEdit::Discard, .. }))
    }

    /// Returns whether the resource was in the ledger before.
    #[must_use]
    pub fn was_recorded(&self) -> bool {
        self.was_recorded
    }

    /// Returns whether the change concerns the node's condition, and no resource.
    #[must_use]
    pub fn is_of_condition(&self) -> bool {
        self.subject == Subject::Condition
    }

    /// Returns whether what the change writes stays as it is for a while afterwards: a quantity that is read from the
    /// node, or a condition that changes alone.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.moves
    }

    /// Returns what was lost, if the resource was already the controller's: a change of a recorded resource follows a
    /// changed value, a change of another resource a lost ledger entry.
    #[must_use]
    pub fn lost(&self) -> Lost {
        if self.was_recorded { Lost::Value } else { Lost::LedgerEntry }
    }

    /// Returns whether a node has what the change wrote to its values.
    #[must_use]
    pub fn is_stored(&self, values: [Option<&str>; 2]) -> bool {
        match &self.edit {
            Edit::Resource(ResourceEdit { value: ValueEdit::Write(quantity), .. }) => quantity
                .parse()
                .is_ok_and(|quantity| values.into_iter().all(|value| value.is_some_and(|text| same(text, quantity)))),
            Edit::Resource(ResourceEdit { value: ValueEdit::Remove, .. }) => values == [None, None],
            _ => true,
        }
    }

    /// Returns whether a node is as the change makes it, so that no plan asks for the same again. What is not in the ledger
    /// anymore may have any value, and whether a condition stays says nothing about values.
    #[must_use]
    pub(crate) fn is_in(&self, node: &ApiNode) -> bool {
        let Edit::Resource(edit) = &self.edit else { return true };
        let annotation = node.annotations().get(ANNOTATION).map(String::as_str);
        let entry = || Ledger::parse(annotation).ok()?.get(self.name()).cloned();
        let is_stored = || self.is_stored(node.values(self.name()));
        match &edit.ledger {
            LedgerEdit::Keep => is_stored(),
            LedgerEdit::Record(recorded) => entry().as_ref() == Some(recorded) && is_stored(),
            LedgerEdit::Forget => entry().is_none(),
            LedgerEdit::Discard => annotation.is_none(),
        }
    }

    /// Returns a change without effect, for tests of reports.
    #[cfg(test)]
    pub(crate) fn for_test(resource: &str, action: Action) -> Self {
        let edit = Edit::of(LedgerEdit::Keep, ValueEdit::Keep, false);
        let subject = Subject::Resource(resource.to_owned());
        Self { subject, action, edit, step: None, was_recorded: true, moves: false }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, action) = (self.name(), &self.action);
        match action {
            Action::Advertise { quantity, rule } => {
                write!(f, "advertised {resource}={quantity} (rule {rule})")
            }
            Action::Hold { quantity, rule, declared } => {
                write!(f, "held {resource} at {quantity}, which pods request (rule {rule} ")?;
                match declared {
                    Some(declared) => write!(f, "declares {declared})"),
                    None => f.write_str("no longer declares it; it leaves as they end)"),
                }
            }
            Action::Repair { quantity, rule, observed, manager }
            | Action::TakeOver { quantity, rule, observed, manager } => {
                let done = if self.is_repair() { "repaired" } else { "took over" };
                write!(f, "{done} {resource}={quantity} (rule {rule}; was {observed}")?;
                match manager {
                    Some(_) => write!(f, ", written by {})", FieldManager::display_changed(manager.as_ref())),
                    None => f.write_str(")"),
                }
            }
            Action::Adopt { quantity, rule } => {
                write!(f, "adopted {resource}={quantity} (rule {rule}; written by {FIELD_MANAGER} before)")
            }
            Action::Release { rule, cause: ReleaseCause::Retained { restored: None } } => {
                write!(f, "released {resource} (rule {rule}; retained)")
            }
            Action::Release { rule, cause: ReleaseCause::Retained { restored: Some(quantity) } } => {
                write!(f, "released {resource}={quantity} (rule {rule}; retained; was 0)")
            }
            Action::Release { rule, cause: ReleaseCause::Overwritten { observed, manager } } => {
                let by = manager.as_ref().map_or("another field manager", |by| FieldManager::display_changed(Some(by)));
                write!(f, "released {resource} (rule {rule}): {by} has written {observed} since")
            }
            Action::Withdraw { rule } => write!(f, "withdrew {resource} (rule {rule})"),
            Action::RemoveZero => write!(f, "removed the 0 that was left of {resource}"),
            Action::RemoveLedger => f.write_str("removed the annotation"),
            Action::SetCondition(condition) => write!(f, "set the condition {CONDITION_TYPE} to {condition}"),
            Action::RemoveCondition => write!(f, "removed the condition {CONDITION_TYPE}"),
        }
    }
}
