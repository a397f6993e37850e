//! The state of a rule on a node that it selects: one table of states, from which counts, metrics, conditions, problems
//! and the documentation derive.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use super::words;
use crate::model::api::Reason;
use crate::model::quantity::Quantity;
use crate::planner::Outcome;

/// The states, by rank: the first state that any node of a rule is in gives the reason of `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Pending,
    Stopped,
    Failed,
    InvalidLedger,
    LedgerFull,
    Contested,
    Conflicted,
    PodsUnavailable,
    Held,
    Paused,
    QuantityUnknown,
    Overridden,
    Advertised,
}

/// The meaning of a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateInfo {
    pub(super) state: State,
    /// Its value in the label of the metric.
    pub(super) name: &'static str,
    /// Its reason in conditions and problems.
    pub(super) reason: Reason,
    /// The text after a number of nodes: "3 held at what pods request".
    pub(super) phrase: &'static str,
}

/// Returns the names of all states, by rank.
pub(crate) fn names() -> [&'static str; STATES] {
    TABLE.map(|row| row.name)
}

const fn row(state: State, name: &'static str, reason: Reason, phrase: &'static str) -> StateInfo {
    StateInfo { state, name, reason, phrase }
}

/// The number of states.
pub(super) const STATES: usize = 13;

/// Every state, by rank.
#[rustfmt::skip]
pub(super) const TABLE: [StateInfo; STATES] = [
    row(State::Pending, "pending", Reason::Progressing, "being patched"),
    row(State::Stopped, "stopped", Reason::RolloutStopped, "waiting because patches of other nodes failed"),
    row(State::Failed, "failed", Reason::PatchFailed, "failed and retried"),
    row(State::InvalidLedger, "invalid_ledger", Reason::InvalidLedger, "with an unreadable ledger"),
    row(State::LedgerFull, "ledger_full", Reason::LedgerFull, "without room in the ledger"),
    row(State::Contested, "contested", Reason::Contested, "contested by another field manager"),
    row(State::Conflicted, "conflicted", Reason::Conflict, "left to another field manager"),
    row(State::PodsUnavailable, "pods_unavailable", Reason::PodsUnavailable, "waiting for the watch of pods"),
    row(State::Held, "held", Reason::Held, "held at what pods request"),
    row(State::Paused, "paused", Reason::Paused, "not as declared while the rule is paused"),
    row(State::QuantityUnknown, "quantity_unknown", Reason::QuantityUnknown, "without a quantity that can be read"),
    row(State::Overridden, "overridden", Reason::Overridden, "overridden by another rule"),
    row(State::Advertised, "advertised", Reason::Advertised, "advertised"),
];

impl State {
    /// Returns the state of an outcome for which nothing is to be changed.
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Advertised => Self::Advertised,
            Outcome::Held { pods_error: None, .. } => Self::Held,
            Outcome::Held { pods_error: Some(_), .. } | Outcome::AwaitingPods { pods_error: Some(_) } => {
                Self::PodsUnavailable
            }
            Outcome::AwaitingPods { pods_error: None } | Outcome::Moving { .. } => Self::Pending,
            Outcome::Conflicted { .. } => Self::Conflicted,
            Outcome::Contested { .. } => Self::Contested,
            Outcome::Paused { .. } => Self::Paused,
            Outcome::QuantityUnknown { .. } => Self::QuantityUnknown,
            Outcome::Overridden { .. } => Self::Overridden,
            Outcome::LedgerFull => Self::LedgerFull,
            Outcome::InvalidLedger { .. } => Self::InvalidLedger,
        }
    }

    /// Returns whether `problems` names the node.
    pub(super) fn is_problem(self) -> bool {
        !matches!(self, Self::Pending | Self::Stopped | Self::Overridden | Self::Advertised)
    }

    /// Returns whether the controller continues on its own, so that the rule is reconciling.
    pub(super) fn is_working(self) -> bool {
        matches!(self, Self::Pending | Self::Stopped | Self::Failed | Self::Held)
    }

    /// Returns its row of the table.
    pub(super) fn info(self) -> StateInfo {
        TABLE[self as usize]
    }
}

/// The state of a rule on a node, with details for its message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// A patch is to be sent or in flight, or depends on pods that are not known yet.
    Pending,
    /// The last patch failed, and is retried.
    Failed(Arc<str>),
    /// Patches of other nodes failed, so that the rollout has stopped for a while.
    Stopped,
    /// Advertised with this quantity, which was read from the node.
    Derived { at: Quantity },
    /// The quantity cannot be read from the node. Whoever writes rules chooses for how many nodes that is so: why is read
    /// again where it is reported, and only a hash of it is kept.
    QuantityUnknown { at: Option<Quantity>, why: u64 },
    /// Anything else that the plan decides where nothing is to be changed.
    Planned(Outcome),
}

impl Standing {
    /// Returns the state for an outcome of the plan. `changing` is whether the plan has changes for the rule; `failure`
    /// is why they failed.
    pub(super) fn new(outcome: Outcome, changing: bool, failure: Option<&Arc<str>>) -> Self {
        match outcome {
            Outcome::Advertised | Outcome::Held { .. } if changing => Self::working(failure),
            Outcome::AwaitingPods { pods_error: None } | Outcome::Moving { .. } => Self::working(failure),
            Outcome::QuantityUnknown { .. } if changing => Self::working(failure),
            Outcome::QuantityUnknown { at, why } => Self::QuantityUnknown { at, why: hash(&why) },
            outcome => Self::Planned(outcome),
        }
    }

    fn working(failure: Option<&Arc<str>>) -> Self {
        failure.map_or(Self::Pending, |message| Self::Failed(Arc::clone(message)))
    }

    pub(super) fn state(&self) -> State {
        match self {
            Self::Pending => State::Pending,
            Self::Failed(_) => State::Failed,
            Self::Stopped => State::Stopped,
            Self::Derived { .. } => State::Advertised,
            Self::QuantityUnknown { .. } => State::QuantityUnknown,
            Self::Planned(outcome) => State::of(outcome),
        }
    }

    /// Returns the message for `status.problems`. `unknown` is why the quantity cannot be read from the node.
    pub(super) fn message(&self, unknown: &str) -> String {
        match self {
            Self::Failed(message) => message.to_string(),
            Self::QuantityUnknown { at, .. } => words::unknown_quantity(*at, unknown),
            Self::Planned(outcome) => words::problem(outcome),
            Self::Pending | Self::Stopped | Self::Derived { .. } => String::new(),
        }
    }

    /// Returns the quantity of the resource that the node has for the rule.
    pub(super) fn carries(&self) -> Carries {
        match self {
            Self::Planned(Outcome::Advertised) => Carries::Declared,
            Self::Derived { at }
            | Self::QuantityUnknown { at: Some(at), .. }
            | Self::Planned(Outcome::Held { at, .. } | Outcome::Paused { at: Some(at) }) => Carries::Quantity(*at),
            _ => Carries::Nothing,
        }
    }
}

/// Returns the same for equal texts, in every process.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The quantity of a resource that a node has for a rule.
pub(super) enum Carries {
    Declared,
    Quantity(Quantity),
    /// Nothing, or nothing certain.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_row_for_every_state_in_its_place() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(row.state as usize, place);
            assert_eq!(row.state.info().name, row.name);
        }
        assert!(TABLE.is_sorted_by_key(|row| row.state));
    }

    /// `UPDATE_GOLDEN=1` writes the table anew.
    #[test]
    fn every_state_is_documented() {
        let path = "docs/status-and-events.md";
        let page = std::fs::read_to_string(path).unwrap();
        let rows = TABLE.iter().map(|StateInfo { state, name, reason, phrase }| {
            let mark = if state.is_problem() { " *" } else { "" };
            format!("| `{name}` | `{reason}`{mark} | {phrase} |\n")
        });
        let expected = format!("| state | reason | in the message |\n|---|---|---|\n{}", rows.collect::<String>());
        let (before, rest) = page.split_once("<!-- states: made by UPDATE_GOLDEN=1 -->\n\n").unwrap();
        let (table, after) = rest.split_once("\n<!-- end of states -->").unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(
                path,
                format!(
                    "{before}<!-- states: made by UPDATE_GOLDEN=1 -->\n\n{expected}\n<!-- end of states -->{after}"
                ),
            )
            .unwrap();
        } else {
            assert_eq!(table, expected, "UPDATE_GOLDEN=1 writes it anew");
        }
    }

    #[test]
    fn failure_shows_only_where_something_is_to_be_done() {
        let failure: Arc<str> = "no".into();
        let at = Quantity::from(4);
        let held = || Outcome::Held { at, pods_error: None };
        for (outcome, changing, expected) in [
            (Outcome::Advertised, true, Standing::Failed(Arc::clone(&failure))),
            (Outcome::Advertised, false, Standing::Planned(Outcome::Advertised)),
            (held(), true, Standing::Failed(Arc::clone(&failure))),
            (held(), false, Standing::Planned(held())),
            (Outcome::AwaitingPods { pods_error: None }, false, Standing::Failed(Arc::clone(&failure))),
        ] {
            assert_eq!(Standing::new(outcome, changing, Some(&failure)), expected);
        }
        assert_eq!(Standing::new(Outcome::Advertised, true, None), Standing::Pending);
    }
}
