//! What the condition of a node is to be, from the outcomes of its plan.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::nodes::NodeState;
use super::rules::Rules;
use super::standing::{Standing, State};
use crate::model::api::Reason;
use crate::model::ledger::Ledger;
use crate::planner::{Change, Condition, Outcome, condition};

/// The number of rules that a message names.
const NAMED: usize = 3;

/// The message of a condition that is true.
const ALL: &str = "the resource of every rule that selects this node is advertised";

/// The rules that select a node, each with its state if its resource is missing. A rule that is overridden counts as well:
/// the rule that overrides it may be invalid, and claims nothing itself.
#[derive(Debug, Default)]
pub(super) struct Claims(Vec<(Arc<str>, State)>);

impl Claims {
    /// Returns what rules claim by these outcomes, if these changes are planned.
    pub(super) fn new<'a, I: Iterator<Item = &'a Change>>(
        outcomes: &[(Arc<str>, Outcome)],
        rules: &Rules,
        planned: impl Fn() -> I,
    ) -> Self {
        let claim = |(rule, outcome): &(Arc<str>, Outcome)| {
            let needs_patch = match outcome {
                Outcome::QuantityUnknown { at: None, .. } => false,
                // It may be lost, or stay as it is for as long as pods cannot be listed.
                Outcome::Held { pods_error: Some(_), .. } => {
                    let resource = rules.get(rule).and_then(|rule| rule.resource());
                    planned().any(|change| resource.is_some_and(|resource| change.is_of(resource)))
                }
                // If another outcome needs a patch that is not sent now, the patch is still to come.
                _ => true,
            };
            let state = Standing::new(outcome.clone(), needs_patch, None).state();
            (Arc::clone(rule), state)
        };
        Self(outcomes.iter().map(claim).collect())
    }

    /// Returns the change of the condition that goes with these changes of the node; `None` if the condition is right, or
    /// if it would change alone though a patch is still to come: the condition then waits for that patch.
    pub(super) fn change(
        &self,
        state: &NodeState,
        rules: &Rules,
        changes: &[Change],
        now: Timestamp,
    ) -> Option<Change> {
        let (is_alone, node) = (changes.is_empty(), &state.node);
        if self.0.is_empty() {
            return condition::change(node, None, is_alone, now);
        }
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        let missing = self.0.iter().filter_map(|(rule, unless_there)| {
            let resource = rules.get(rule)?.resource()?;
            let is_there = condition::has_after(node, &ledger, resource, changes);
            let fails = || state.work().is_some_and(|work| work.failures.message(resource).is_some());
            match unless_there {
                State::InvalidLedger => Some((rule, State::InvalidLedger)),
                _ if is_there => None,
                State::Pending if fails() => Some((rule, State::Failed)),
                state => Some((rule, *state)),
            }
        });
        let mut missing: Vec<_> = missing.collect();
        if is_alone && missing.iter().any(|(_, state)| *state == State::Pending) {
            return None;
        }
        missing.sort_by_key(|(_, state)| *state);
        let desired = match missing.first() {
            None => Condition { is_true: true, reason: Reason::Advertised, message: ALL.to_owned() },
            Some((_, worst)) => Condition { is_true: false, reason: worst.info().reason, message: message(&missing) },
        };
        condition::change(node, Some(desired), is_alone, now)
    }
}

/// Returns which rules lack their resources, and why.
fn message(missing: &[(&Arc<str>, State)]) -> String {
    let named = missing.iter().take(NAMED).map(|(rule, state)| format!("{rule}: {}", state.info().reason));
    let mut message = format!("not advertised: {}", named.collect::<Vec<_>>().join(", "));
    if let Some(others) = missing.len().checked_sub(NAMED).filter(|others| *others > 0) {
        message.push_str(&format!(", and {others} more"));
    }
    message
}
