//! What planning a node results in.

use std::fmt;
use std::sync::Arc;

use json_patch::Patch;

use super::rules::Rule;
use crate::model::api::FIELD_MANAGER;
use crate::model::ledger::InvalidLedger;

/// What is to be done on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What the patch does, resource by resource; empty where the node is as declared.
    pub changes: Vec<Change>,
    /// For `/api/v1/nodes/<name>/status`; `None` where there is nothing to do.
    pub patch: Option<Patch>,
    /// For every rule that selects the node, what becomes of it there.
    pub outcomes: Vec<(Arc<str>, Outcome)>,
    /// Why the node is not touched, where it is not.
    pub invalid_ledger: Option<InvalidLedger>,
    /// Whether a value is to be lowered once it is known what pods on the node request: the node is
    /// to be planned again with that.
    pub needs_pods: bool,
}

/// What becomes of a rule on a node that it selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node carries the quantity.
    Advertised,
    /// It will, once the patch is through.
    Pending,
    /// The node carries more than the rule declares.
    Held {
        /// How much.
        at: String,
        /// Why pods cannot be listed, where they cannot; else they request that much.
        pods_error: Option<String>,
    },
    /// Another writer has put this value there, so it is left alone.
    Conflicted {
        /// The value, as the node has it.
        present: String,
        /// Who wrote it last, where managedFields tell.
        manager: Option<Arc<str>>,
    },
    /// Another writer keeps changing it back, and is given way to for now.
    Contested {
        /// Who, where managedFields tell.
        manager: Option<Arc<str>>,
    },
    /// A rule of higher precedence declares the same resource.
    Overridden {
        /// Its name.
        by: Arc<str>,
        /// Whether only its age or name decides, and it declares another quantity.
        tied: bool,
    },
    /// The last patch did not go through; it will be tried again.
    Failed {
        /// What went wrong, in words for the rule's status.
        message: String,
    },
    /// What on the node is the controller's own cannot be told, so that nothing is touched.
    InvalidLedger {
        /// Why, in words for the rule's status.
        message: String,
    },
}

impl Outcome {
    /// Whether somebody may want to know the node's name.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        match self {
            Self::Held { .. }
            | Self::Conflicted { .. }
            | Self::Contested { .. }
            | Self::Failed { .. }
            | Self::InvalidLedger { .. } => true,
            Self::Advertised | Self::Pending | Self::Overridden { .. } => false,
        }
    }
}

/// One thing that a patch does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The resource's name.
    pub resource: String,
    /// What is done to it.
    pub action: Action,
}

/// What a patch does to one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes a quantity that was not there, or replaces one of its own.
    Advertise {
        /// The new quantity.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
    },
    /// Lowers a quantity of its own, though not to what is declared: pods use more.
    Hold {
        /// What pods use.
        quantity: String,
        /// The rule that declares less.
        rule: Arc<str>,
        /// How much it declares.
        declared: String,
    },
    /// Writes back a quantity that another writer changed.
    Repair {
        /// The quantity, as declared.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
        /// What was found instead.
        observed: String,
        /// Who had written that, where managedFields tell: for a value that was removed they do not.
        manager: Option<Arc<str>>,
    },
    /// Writes a quantity in place of another writer's, as the rule says.
    TakeOver {
        /// The quantity, as declared.
        quantity: String,
        /// The rule that declares it.
        rule: Arc<str>,
        /// What was found.
        observed: String,
        /// Who had written that, where managedFields tell.
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
    /// Leaves the resource as it is, as nobody's: no rule declares it any more, and the one that did
    /// said that it is to be retained.
    Release {
        /// The rule that had declared it.
        rule: String,
    },
    /// Removes the resource, which no rule declares any more.
    Withdraw {
        /// The rule that had declared it.
        rule: String,
    },
    /// Removes the 0 of a resource that nobody has declared.
    RemoveZero,
}

impl Change {
    /// The rule that it is for; `None` where there is none.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match &self.action {
            Action::Advertise { rule, .. }
            | Action::Hold { rule, .. }
            | Action::Repair { rule, .. }
            | Action::Adopt { rule, .. }
            | Action::TakeOver { rule, .. } => Some(rule),
            Action::Release { rule } | Action::Withdraw { rule } => Some(rule),
            Action::RemoveZero => None,
        }
    }

    /// Whether it undoes what another writer did.
    #[must_use]
    pub fn is_repair(&self) -> bool {
        matches!(self.action, Action::Repair { .. })
    }

    /// Returns the quantity that the resource then has; `None` where it is removed or released.
    #[must_use]
    pub fn quantity(&self) -> Option<&str> {
        match &self.action {
            Action::Advertise { quantity, .. }
            | Action::Hold { quantity, .. }
            | Action::Repair { quantity, .. }
            | Action::Adopt { quantity, .. }
            | Action::TakeOver { quantity, .. } => Some(quantity),
            Action::Release { .. } | Action::Withdraw { .. } | Action::RemoveZero => None,
        }
    }

    /// Returns the field manager whose value is written over, where managedFields name one.
    #[must_use]
    pub fn manager(&self) -> Option<&str> {
        match &self.action {
            Action::Repair { manager, .. } | Action::TakeOver { manager, .. } => manager.as_deref(),
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
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, action } = self;
        match action {
            Action::Advertise { quantity, rule } => {
                write!(f, "advertised {resource}={quantity} (rule {rule})")
            }
            Action::Hold { quantity, rule, declared } => write!(
                f,
                "lowered {resource} to {quantity}, which pods use (rule {rule} declares {declared})"
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
            Action::Release { rule } => write!(f, "released {resource} (rule {rule}; retained)"),
            Action::Withdraw { rule } => write!(f, "withdrew {resource} (rule {rule})"),
            Action::RemoveZero => write!(f, "removed the 0 that was left of {resource}"),
        }
    }
}

impl Plan {
    /// A node whose ledger cannot be read, so that what on it is whose is not known; or one that could
    /// not be read the next time.
    pub(super) fn untouched(selecting: &[&Arc<Rule>], error: InvalidLedger) -> Self {
        let outcome = Outcome::InvalidLedger {
            message: format!(
                "{error}; nothing on the node is touched until it is mended or removed"
            ),
        };
        let outcomes = selecting.iter().map(|rule| (Arc::clone(&rule.name), outcome.clone()));
        Self { outcomes: outcomes.collect(), invalid_ledger: Some(error), ..Self::default() }
    }
}
