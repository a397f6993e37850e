//! Counts rules by what their statuses report, for the metrics: each when it changes, so that one of ten thousand costs
//! what one of ten does.

use std::collections::HashMap;
use std::sync::Arc;

use super::rules::ObservedStatus;
use crate::model::api::Reason;

/// The states of a rule, from its conditions.
pub(crate) const RULE_STATES: [&str; 3] = ["ready", "not_ready", "stalled"];

#[derive(Clone, Debug, Default)]
pub(super) struct RulesByState {
    rules: HashMap<Arc<str>, Reported>,
    by_state: [usize; RULE_STATES.len()],
    without_nodes: usize,
}

/// What the status of one rule reports.
#[derive(Clone, Copy, Debug)]
struct Reported {
    /// Its place in [`RULE_STATES`].
    state: usize,
    is_without_nodes: bool,
}

impl RulesByState {
    /// Records the status of a rule, or that it has none.
    pub(super) fn set(&mut self, rule: &Arc<str>, status: Option<&ObservedStatus>) {
        let reported = Reported::new(status);
        self.by_state[reported.state] += 1;
        self.without_nodes += usize::from(reported.is_without_nodes);
        if let Some(before) = self.rules.insert(Arc::clone(rule), reported) {
            self.subtract(before);
        }
    }

    /// Forgets a rule that is gone.
    pub(super) fn remove(&mut self, rule: &str) {
        if let Some(before) = self.rules.remove(rule) {
            self.subtract(before);
        }
    }

    fn subtract(&mut self, reported: Reported) {
        self.by_state[reported.state] -= 1;
        self.without_nodes -= usize::from(reported.is_without_nodes);
    }

    /// Returns the number of rules in each state.
    pub(super) fn counts(&self) -> [(&'static str, usize); RULE_STATES.len()] {
        std::array::from_fn(|state| (RULE_STATES[state], self.by_state[state]))
    }

    /// Returns the number of valid rules that select no node.
    pub(super) fn without_nodes(&self) -> usize {
        self.without_nodes
    }
}

impl Reported {
    fn new(status: Option<&ObservedStatus>) -> Self {
        let holds = |kind| status.is_some_and(|status| status.holds(kind));
        let word = match (holds("Stalled"), holds("Ready")) {
            (true, _) => "stalled",
            (false, true) => "ready",
            (false, false) => "not_ready",
        };
        let state = RULE_STATES.iter().position(|state| *state == word).unwrap_or_default();
        let is_without_nodes = status.is_some_and(|status| status.reports(Reason::NoNodesSelected));
        Self { state, is_without_nodes }
    }
}
