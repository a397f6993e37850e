//! The words of a plan: what is done to a resource, and what becomes of a rule.

use serde::Serialize;

/// What a patch does to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Puts it where there is nothing, or 0.
    Add,
    /// Writes another quantity in place of one of its own.
    Update,
    /// Lists it, or another rule or policy with it, and leaves the value.
    Annotate,
    /// Has it at what pods request, which is more than is declared.
    Hold,
    /// Writes back what another field manager changed.
    Repair,
    /// Writes over what another field manager put there.
    TakeOver,
    /// Removes it.
    Remove,
    /// Takes it off the list, and leaves the value.
    Release,
}

/// What becomes of a rule on a node: the words are those of `status.nodes` of the rule, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ResultKind {
    /// The node has what the rule declares, or will have it.
    Advertised,
    /// It has more, which pods request.
    Held,
    /// It has more, and what pods request is not known.
    MaybeHeld,
    /// Another field manager's value is there, and stays.
    Conflicted,
    /// Another field manager keeps changing it back, so it is not repaired for now.
    Contested,
    /// Another rule decides.
    Overridden,
    /// The ledger on the node has no room for another entry.
    LedgerFull,
    /// The ledger on the node cannot be read.
    InvalidLedger,
    /// There is no such node.
    Missing,
}

impl ResultKind {
    /// Whether somebody may want to know of it.
    #[must_use]
    pub fn is_problem(self) -> bool {
        match self {
            Self::Held
            | Self::MaybeHeld
            | Self::Conflicted
            | Self::Contested
            | Self::LedgerFull
            | Self::InvalidLedger
            | Self::Missing => true,
            Self::Advertised | Self::Overridden => false,
        }
    }
}
