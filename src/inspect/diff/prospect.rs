//! The outcome of a rule on a node, as far as it can be predicted.

use serde::{Serialize, Serializer};

use crate::planner::Outcome;

/// The outcome of a rule on a node: the planner's outcome, if it is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// The planner's outcome.
    Decided(Outcome),
    /// Pod requests are unknown. The planner returns [`Outcome::AwaitingPods`], or [`Outcome::Held`] with an error,
    /// depending on what the controller does in the meantime; a plan does not wait for pods, so it is uncertain
    /// whether the value changes.
    MaybeHeld,
    /// The rule names a node that does not exist and is not planned.
    Missing,
}

impl Prospect {
    /// Returns the prospect of an outcome. `is_changed` is whether the plan changes the rule's resource.
    pub(super) fn new(outcome: Outcome, is_changed: bool) -> Self {
        match outcome {
            // A lost value is restored even if the rule declares less: that is certain.
            Outcome::Held { pods_error: Some(_), .. } | Outcome::AwaitingPods { .. } if !is_changed => Self::MaybeHeld,
            outcome => Self::Decided(outcome),
        }
    }

    /// Returns whether another rule decides.
    pub(super) fn is_overridden(&self) -> bool {
        matches!(self, Self::Decided(Outcome::Overridden { .. }))
    }

    /// Returns whether the node has, or will have, more than declared.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Decided(Outcome::Held { .. } | Outcome::AwaitingPods { .. }))
    }

    /// Returns whether the outcome is a finding.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        match self {
            Self::Decided(outcome) => self.is_held() || outcome.is_problem(),
            Self::MaybeHeld | Self::Missing => true,
        }
    }

    /// Returns the name of the outcome, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Decided(outcome) => match outcome {
                Outcome::Advertised => "advertised",
                Outcome::Held { .. } | Outcome::AwaitingPods { .. } => "held",
                Outcome::Conflicted { .. } => "conflicted",
                Outcome::Contested { .. } => "contested",
                Outcome::Paused { .. } => "paused",
                Outcome::QuantityUnknown { .. } => "quantityUnknown",
                Outcome::Moving { .. } => "moving",
                Outcome::Overridden { .. } => "overridden",
                Outcome::LedgerFull => "ledgerFull",
                Outcome::InvalidLedger { .. } => "invalidLedger",
            },
            Self::MaybeHeld => "maybeHeld",
            Self::Missing => "missing",
        }
    }
}

impl Serialize for Prospect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}
