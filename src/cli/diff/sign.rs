//! The signs of a table.

use super::amounts::Amounts;
use crate::planner::Action;

/// What stands before a line, as Terraform has it. The first three are also what changes are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Sign {
    Add,
    Change,
    Remove,
    Problem,
    Unchanged,
}

impl Sign {
    /// Of a change to a resource of which the node has `before`.
    pub(super) fn of(action: &Action, before: &Amounts) -> Self {
        match action {
            Action::Advertise { .. } if before.is_vacant() => Self::Add,
            Action::Advertise { .. }
            | Action::Hold { .. }
            | Action::Repair { .. }
            | Action::TakeOver { .. }
            | Action::Adopt { .. }
            | Action::Release { .. } => Self::Change,
            Action::Withdraw { .. } | Action::RemoveZero | Action::RemoveLedger => Self::Remove,
        }
    }
}
