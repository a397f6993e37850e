//! What a plan changes, resource by resource.

use std::fmt;
use std::sync::Arc;

use super::input::Lost;
use crate::model::api::FIELD_MANAGER;
use crate::model::ledger::Entry;

/// One change of a plan: to one resource, or to the ledger as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The resource's name; for [`Action::RemoveLedger`] the annotation's key.
    pub resource: String,
    /// What is done to it.
    pub action: Action,
    pub(super) edit: Edit,
    pub(super) lowers: bool,
    pub(super) was_listed: bool,
}

/// What [`patch`](super::patch()) does for one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) ledger: LedgerEdit,
    pub(super) value: ValueEdit,
    /// Whether the patch requires that both maps still hold what was read: so as not to overwrite or
    /// remove what another field manager writes in this moment.
    pub(super) guarded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LedgerEdit {
    /// It stays as it is.
    Keep,
    /// Lists the resource, in place of what was listed for it.
    List(Entry),
    /// Does not list the resource.
    Unlist,
    /// Removes the annotation, which cannot be read.
    Discard,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueEdit {
    Keep,
    /// Has both maps at a quantity.
    Write(String),
    /// Has it in neither map.
    Remove,
}

/// What is done to one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes a quantity that was not there, or replaces one of its own.
    Advertise {
        /// The new quantity.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
    },
    /// Writes more than is declared, since pods request it: where a value is lowered, where it appears,
    /// and where pods were bound while it was lowered.
    Hold {
        /// What pods request.
        quantity: String,
        /// The rule that declares less.
        rule: Arc<str>,
        /// How much it declares.
        declared: String,
    },
    /// Writes back a quantity that was changed or removed.
    Repair {
        /// The quantity, as declared.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
        /// What was found instead.
        observed: String,
        /// Who had written that, where managedFields name a manager: for a value that was removed they
        /// do not.
        manager: Option<Arc<str>>,
    },
    /// Writes a quantity in place of another field manager's, as `conflictPolicy: Overwrite` demands.
    TakeOver {
        /// The quantity, as declared.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
        /// What was found.
        observed: String,
        /// Who had written that, where managedFields name a manager.
        manager: Option<Arc<str>>,
    },
    /// Lists a value that the controller wrote and that is as declared, but is not in the ledger: what a
    /// rule with `Retain` left, or one whose annotation was removed. No value is written.
    Adopt {
        /// The quantity, as declared and as it is there.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
    },
    /// Gives up the ownership of a value that no rule declares any more, and leaves the value.
    Release {
        /// The rule that had declared it.
        rule: Arc<str>,
        /// Why the value is not removed.
        cause: ReleaseCause,
    },
    /// Removes the resource, which no rule declares any more.
    Withdraw {
        /// The rule that had declared it.
        rule: Arc<str>,
    },
    /// Removes the 0 of a resource that the ledger does not list.
    RemoveZero,
    /// Removes a ledger that cannot be read.
    RemoveLedger,
}

/// Why a value is released and not withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseCause {
    /// The rule had `deletionPolicy: Retain`.
    Retained {
        /// The listed quantity, where it is written back: a kubelet had reset it to 0, and a 0 that is
        /// left makes kubelets reject pods.
        restored: Option<String>,
    },
    /// Another field manager has written it since.
    Overwritten {
        /// What was found.
        observed: String,
        /// Who had written that, where managedFields name a manager.
        manager: Option<Arc<str>>,
    },
}

impl Change {
    /// Returns the rule that it is for; `None` where there is none.
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
            Action::RemoveZero | Action::RemoveLedger => None,
        }
    }

    /// Returns whether it writes back what was changed or removed.
    #[must_use]
    pub fn is_repair(&self) -> bool {
        matches!(self.action, Action::Repair { .. })
    }

    /// Returns the quantity that the resource then has, where it is known; `None` where it is removed, or
    /// released as it is.
    #[must_use]
    pub fn quantity(&self) -> Option<&str> {
        match &self.action {
            Action::Advertise { quantity, .. }
            | Action::Hold { quantity, .. }
            | Action::Repair { quantity, .. }
            | Action::Adopt { quantity, .. }
            | Action::TakeOver { quantity, .. } => Some(quantity),
            Action::Release { cause: ReleaseCause::Retained { restored }, .. } => {
                restored.as_deref()
            }
            Action::Release { cause: ReleaseCause::Overwritten { .. }, .. }
            | Action::Withdraw { .. }
            | Action::RemoveZero
            | Action::RemoveLedger => None,
        }
    }

    /// Returns the field manager whose value is written over or left, where managedFields name one.
    #[must_use]
    pub fn manager(&self) -> Option<&str> {
        match &self.action {
            Action::Repair { manager, .. }
            | Action::TakeOver { manager, .. }
            | Action::Release { cause: ReleaseCause::Overwritten { manager, .. }, .. } => {
                manager.as_deref()
            }
            _ => None,
        }
    }

    /// Returns the action in one word, for logs.
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
        }
    }

    /// Returns whether it lowers a value under `WhenFree`: pods are listed once more after it, since one
    /// may have been bound meanwhile (I5).
    #[must_use]
    pub fn lowers(&self) -> bool {
        self.lowers
    }

    /// Returns whether it removes a ledger that cannot be read. Such changes of one plan belong together: a
    /// patch for some of them would leave values that no ledger lists.
    #[must_use]
    pub fn discards_ledger(&self) -> bool {
        self.edit.ledger == LedgerEdit::Discard
    }

    /// Returns whether the resource was in the ledger before.
    #[must_use]
    pub fn was_listed(&self) -> bool {
        self.was_listed
    }

    /// Returns what had been lost where the resource was the controller's own already: a change to a
    /// listed resource follows a changed value, one to another resource a lost ledger entry.
    #[must_use]
    pub fn lost(&self) -> Lost {
        if self.was_listed { Lost::Value } else { Lost::LedgerEntry }
    }

    /// A change that does nothing, for tests of what reports changes.
    #[cfg(test)]
    pub(crate) fn for_test(resource: &str, action: Action) -> Self {
        let edit = Edit { ledger: LedgerEdit::Keep, value: ValueEdit::Keep, guarded: false };
        Self { resource: resource.to_owned(), action, edit, lowers: false, was_listed: true }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, action, .. } = self;
        match action {
            Action::Advertise { quantity, rule } => {
                write!(f, "advertised {resource}={quantity} (rule {rule})")
            }
            Action::Hold { quantity, rule, declared } => write!(
                f,
                "held {resource} at {quantity}, which pods request (rule {rule} declares {declared})"
            ),
            Action::Repair { quantity, rule, observed, manager }
            | Action::TakeOver { quantity, rule, observed, manager } => {
                let done = if self.is_repair() { "repaired" } else { "took over" };
                write!(f, "{done} {resource}={quantity} (rule {rule}; was {observed}")?;
                match manager {
                    Some(manager) => write!(f, ", written by {manager})"),
                    None => f.write_str(")"),
                }
            }
            Action::Adopt { quantity, rule } => write!(
                f,
                "adopted {resource}={quantity} (rule {rule}; written by {FIELD_MANAGER} before)"
            ),
            Action::Release { rule, cause: ReleaseCause::Retained { restored: None } } => {
                write!(f, "released {resource} (rule {rule}; retained)")
            }
            Action::Release {
                rule,
                cause: ReleaseCause::Retained { restored: Some(quantity) },
            } => {
                write!(f, "released {resource}={quantity} (rule {rule}; retained; was 0)")
            }
            Action::Release { rule, cause: ReleaseCause::Overwritten { observed, manager } } => {
                write!(f, "released {resource} (rule {rule}): another field manager")?;
                if let Some(manager) = manager {
                    write!(f, ", {manager},")?;
                }
                write!(f, " has written {observed} since")
            }
            Action::Withdraw { rule } => write!(f, "withdrew {resource} (rule {rule})"),
            Action::RemoveZero => write!(f, "removed the 0 that was left of {resource}"),
            Action::RemoveLedger => f.write_str("removed the annotation"),
        }
    }
}
