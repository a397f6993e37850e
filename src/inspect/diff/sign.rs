//! The signs of a table.

use super::amounts::Amounts;
use crate::planner::Action;

/// The sign at the start of a line, like Terraform's. Changes are counted by the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sign {
    Add,
    Change,
    Remove,
    Problem,
    Unchanged,
}

impl Sign {
    /// Returns the sign of a change to a resource with the values `before`.
    pub(super) fn of(action: &Action, before: &Amounts) -> Self {
        match action {
            Action::Advertise { .. } if before.is_vacant() => Self::Add,
            Action::Advertise { .. }
            | Action::Hold { .. }
            | Action::Repair { .. }
            | Action::TakeOver { .. }
            | Action::Adopt { .. }
            | Action::Release { .. }
            | Action::SetCondition(_) => Self::Change,
            Action::Withdraw { .. } | Action::RemoveZero | Action::RemoveLedger | Action::RemoveCondition => {
                Self::Remove
            }
        }
    }
}
