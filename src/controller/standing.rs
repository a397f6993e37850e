//! The state of a rule on a node that it selects: one table of states, from which counts, metrics, conditions, problems
//! and the documentation derive.

use std::sync::Arc;

use crate::model::api::Reason;
use crate::model::node::FieldManager;
use crate::model::quantity::Quantity;
use crate::planner::Outcome;
use crate::planner::input::Lost;

/// The name in messages of what changes the controller's own writes on their way to storage: managedFields do not name it.
pub(super) const ADMISSION: &str = "an admission policy or webhook";

/// Returns what to do about a client that undoes what the controller writes. A kubelet does so for a device plugin, whose
/// number is the right one.
pub(super) fn contest_advice(lost: Lost, manager: Option<&FieldManager>) -> &'static str {
    match (lost, manager) {
        // Without its entry, a value would stay on a node that the rule no longer selects.
        (Lost::LedgerEntry, _) => "configure that client to keep the annotation",
        (Lost::OwnWrite, _) => "exempt the controller from that policy or webhook, or exclude the node from the rule",
        (Lost::Value, Some(manager)) if manager.is_kubelet() => {
            "a device plugin provides it: exclude the node from the rule, or rename the resource"
        }
        (Lost::Value, _) => "stop that client, or exclude the node from the rule",
    }
}

/// Returns what to do about a value of another field manager.
pub(super) fn conflict_advice(manager: Option<&FieldManager>) -> &'static str {
    match manager {
        Some(manager) if manager.is_kubelet() => "a device plugin probably provides it: exclude the node from the rule",
        _ => "to take it over, set conflictPolicy: Overwrite",
    }
}

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
pub(super) enum Standing {
    /// A patch is to be sent or in flight, or depends on pods that are not known yet.
    Pending,
    /// The last patch failed, and is retried.
    Failed(Arc<str>),
    /// Patches of other nodes failed, so that the rollout has stopped for a while.
    Stopped,
    InvalidLedger(Arc<str>),
    LedgerFull,
    Contested {
        manager: Option<FieldManager>,
        lost: Lost,
    },
    Conflicted {
        present: String,
        manager: Option<FieldManager>,
    },
    /// The value stays, or is not written yet.
    PodsUnavailable {
        at: Option<Quantity>,
        why: Arc<str>,
    },
    Held {
        at: Quantity,
    },
    /// The value stays; `None` if the rule has none on the node.
    Paused {
        at: Option<Quantity>,
    },
    /// What is advertised stays; `at` is `None` if that is nothing.
    QuantityUnknown {
        at: Option<Quantity>,
        why: Arc<str>,
    },
    Overridden {
        by: Arc<str>,
        tied: bool,
    },
    Advertised,
    /// Advertised with this quantity, which was read from the node.
    Derived {
        at: Quantity,
    },
}

impl Standing {
    /// Returns the state for an outcome of the plan. `changing` is whether the plan has changes for the rule; `failure`
    /// is why they failed.
    pub(super) fn new(outcome: Outcome, changing: bool, failure: Option<&Arc<str>>) -> Self {
        let working = || failure.map_or(Self::Pending, |message| Self::Failed(Arc::clone(message)));
        match outcome {
            Outcome::Advertised | Outcome::Held { .. } if changing => working(),
            Outcome::Advertised => Self::Advertised,
            Outcome::Held { at, pods_error: None } => Self::Held { at },
            Outcome::Held { at, pods_error: Some(why) } => Self::PodsUnavailable { at: Some(at), why },
            Outcome::AwaitingPods { pods_error: None } => working(),
            Outcome::AwaitingPods { pods_error: Some(why) } => Self::PodsUnavailable { at: None, why },
            Outcome::Conflicted { present, manager } => Self::Conflicted { present, manager },
            Outcome::Contested { manager, lost } => Self::Contested { manager, lost },
            Outcome::Paused { at } => Self::Paused { at },
            Outcome::QuantityUnknown { .. } if changing => working(),
            Outcome::QuantityUnknown { at, why } => Self::QuantityUnknown { at, why },
            Outcome::Moving { .. } => working(),
            Outcome::Overridden { by, tied } => Self::Overridden { by, tied },
            Outcome::LedgerFull => Self::LedgerFull,
            Outcome::InvalidLedger { message } => Self::InvalidLedger(message),
        }
    }

    pub(super) fn state(&self) -> State {
        match self {
            Self::Pending => State::Pending,
            Self::Failed(_) => State::Failed,
            Self::Stopped => State::Stopped,
            Self::InvalidLedger(_) => State::InvalidLedger,
            Self::LedgerFull => State::LedgerFull,
            Self::Contested { .. } => State::Contested,
            Self::Conflicted { .. } => State::Conflicted,
            Self::PodsUnavailable { .. } => State::PodsUnavailable,
            Self::Held { .. } => State::Held,
            Self::Paused { .. } => State::Paused,
            Self::Overridden { .. } => State::Overridden,
            Self::QuantityUnknown { .. } => State::QuantityUnknown,
            Self::Advertised | Self::Derived { .. } => State::Advertised,
        }
    }

    /// Returns the message for `status.problems`.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Failed(message) | Self::InvalidLedger(message) => message.to_string(),
            Self::LedgerFull => {
                "the node has no room for this resource, since its annotation has at most 64 KiB, and the node 496 extended \
                 resources; delete rules, or select this node in fewer rules"
                    .to_owned()
            }
            Self::Contested { lost, manager: by } => {
                let undone = match lost {
                    Lost::LedgerEntry => "something keeps removing its entry from the annotation".to_owned(),
                    Lost::OwnWrite => format!("{ADMISSION} keeps changing what the controller writes"),
                    Lost::Value => format!("{} keeps changing it back", FieldManager::display(by.as_ref())),
                };
                format!("{undone}; {}", contest_advice(*lost, by.as_ref()))
            }
            Self::Conflicted { present, manager: by } => {
                let advice = conflict_advice(by.as_ref());
                format!("already {present}, last written by {}; {advice}", FieldManager::display(by.as_ref()))
            }
            Self::PodsUnavailable { at: Some(at), why } => format!("stays at {at}: {why}"),
            Self::PodsUnavailable { at: None, why } => format!("not written yet: {why}"),
            Self::Held { at } => format!("at {at}, which pods on the node request"),
            Self::Paused { at: Some(at) } => format!("stays at {at} while the rule is paused"),
            Self::Paused { at: None } => "not advertised while the rule is paused".to_owned(),
            Self::QuantityUnknown { at: Some(at), why } => format!("stays at {at}: {why}"),
            Self::QuantityUnknown { at: None, why } => format!("not advertised: {why}"),
            Self::Pending | Self::Stopped | Self::Overridden { .. } | Self::Advertised | Self::Derived { .. } => {
                String::new()
            }
        }
    }

    /// Returns the quantity of the resource that the node has for the rule.
    pub(super) fn carries(&self) -> Carries {
        match self {
            Self::Advertised => Carries::Declared,
            Self::Derived { at }
            | Self::Held { at }
            | Self::PodsUnavailable { at: Some(at), .. }
            | Self::Paused { at: Some(at) }
            | Self::QuantityUnknown { at: Some(at), .. } => Carries::Quantity(*at),
            _ => Carries::Nothing,
        }
    }
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
            (Outcome::Advertised, false, Standing::Advertised),
            (held(), true, Standing::Failed(Arc::clone(&failure))),
            (held(), false, Standing::Held { at }),
            (Outcome::AwaitingPods { pods_error: None }, false, Standing::Failed(Arc::clone(&failure))),
        ] {
            assert_eq!(Standing::new(outcome, changing, Some(&failure)), expected);
        }
        assert_eq!(Standing::new(Outcome::Advertised, true, None), Standing::Pending);
    }
}
