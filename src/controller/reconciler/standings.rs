//! The states of rules on a node after a plan, and whether the last patch was undone.

use std::sync::Arc;

use super::decide::Withheld;
use super::{Now, Reconciler};
use crate::controller::nodes::{NodeState, has_resource};
use crate::controller::standing::{Standing, State};
use crate::model::ledger::Ledger;
use crate::planner::{Action, Change, Outcome};

impl Reconciler {
    /// Records the state of each rule that selects a node, and reports new problems.
    /// The `withheld` changes wait for a rollout to resume, the others do not.
    pub(super) fn record(
        &mut self,
        name: &Arc<str>,
        outcomes: Vec<(Arc<str>, Outcome)>,
        (changes, withheld): (&[Change], &Withheld),
        now: Now,
    ) {
        let Some(state) = self.nodes.get_mut(name) else { return };
        let mut undone = Vec::new();
        let standings = outcomes.into_iter().map(|(rule, outcome)| {
            let known = self.rules.get(&rule);
            let resource = known.and_then(|rule| rule.resource()).unwrap_or_default();
            // By resource, since a value may be restored as another rule listed it.
            let is_decided = !matches!(outcome, Outcome::Overridden { .. });
            let change =
                changes.iter().chain(&withheld.changes).find(|change| is_decided && change.resource == resource);
            let failure = state.work().and_then(|work| work.failures.message(resource));
            // A request in flight may have been sent for the rule before it was edited.
            let sent = state.work().and_then(|work| work.sent.as_ref());
            let mut in_flight = sent.into_iter().flat_map(|sent| &sent.changes);
            let is_changing = change.is_some() || in_flight.any(|sent| sent.resource == resource);
            let before = state.standings.iter().find(|(other, _)| *other == rule);
            let before = before.map(|(_, standing)| standing);
            // A value of this rule that has lost its ledger entry was undone. If pods must be listed before it is
            // restored, the change then shows whether that is so.
            let was_own =
                matches!(before.map(Standing::state), Some(State::Advertised | State::Held | State::Contested));
            let awaits_pods = matches!(outcome, Outcome::AwaitingPods { .. });
            let may_be_lost = || awaits_pods && !lists(state, resource);
            if was_own && (may_be_lost() || change.is_some_and(is_lost)) {
                undone.push(resource.to_owned());
            }
            let standing = Standing::new(outcome, is_changing, failure);
            let derived = || {
                let declared = &known?.rule.as_ref().ok()?.quantity;
                if declared.fixed().is_some() { None } else { declared.known_on(&state.node) }
            };
            let standing = match standing {
                Standing::Advertised => derived().map_or(standing, |at| Standing::Derived { at }),
                standing => standing,
            };
            let is_withheld = || change.is_some_and(|change| has_resource(&withheld.changes, change));
            let standing = if standing == Standing::Pending && is_withheld() { Standing::Stopped } else { standing };
            (rule, standing)
        });
        let standings: Box<[_]> = standings.collect();
        if !undone.is_empty() {
            state.work_mut().undone.extend(undone);
        }
        for place in self.nodes.record(name, standings) {
            self.report_standing(name, place, now);
        }
    }
}

/// Returns whether the ledger of a node lists a resource.
fn lists(state: &NodeState, resource: &str) -> bool {
    let ledger = Ledger::parse(state.node.ledger.as_deref()).unwrap_or_default();
    ledger.get(resource).is_some()
}

/// Returns whether a change writes what the ledger does not list.
fn is_lost(change: &Change) -> bool {
    let writes = matches!(change.action, Action::Advertise { .. } | Action::TakeOver { .. } | Action::Adopt { .. });
    writes && !change.was_listed()
}
