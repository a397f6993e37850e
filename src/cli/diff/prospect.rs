//! What becomes of a rule on a node.

use serde::{Serialize, Serializer};

use crate::planner::Outcome;

/// What becomes of a rule on a node: what the planner decides, where it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// The planner's outcome.
    Decided(Outcome),
    /// What pods request is not known. The planner has this as [`Outcome::AwaitingPods`], or as
    /// [`Outcome::Held`] with an error, by what the controller does meanwhile; a plan, which lists no pods
    /// later, cannot say whether the value changes.
    MaybeHeld,
    /// The rule names a node that does not exist, for which nothing is planned.
    Missing,
}

impl Prospect {
    /// Of an outcome on a node where the plan changes the rule's resource, or does not.
    pub(super) fn new(outcome: Outcome, is_changed: bool) -> Self {
        match outcome {
            // What was lost is written back, though the rule declares less: that is certain.
            Outcome::Held { pods_error: Some(_), .. } | Outcome::AwaitingPods { .. }
                if !is_changed =>
            {
                Self::MaybeHeld
            }
            outcome => Self::Decided(outcome),
        }
    }

    /// Whether another rule decides.
    pub(super) fn is_overridden(&self) -> bool {
        matches!(self, Self::Decided(Outcome::Overridden { .. }))
    }

    /// Whether the node has, or will have, more than is declared.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Decided(Outcome::Held { .. } | Outcome::AwaitingPods { .. }))
    }

    /// Whether somebody may want to know of it.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        match self {
            Self::Decided(outcome) => self.is_held() || outcome.is_problem(),
            Self::MaybeHeld | Self::Missing => true,
        }
    }

    /// In one word, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Decided(outcome) => match outcome {
                Outcome::Advertised => "advertised",
                Outcome::Held { .. } | Outcome::AwaitingPods { .. } => "held",
                Outcome::Conflicted { .. } => "conflicted",
                Outcome::Contested { .. } => "contested",
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
