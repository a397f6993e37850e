//! The states of rules on a node after a plan, and whether the last patch was undone.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decide::Withheld;
use super::{Now, Reconciler};
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
        let withheld = withheld.changes.iter().map(|change| (&*change.resource, (change, true)));
        let changes = changes.iter().map(|change| (&*change.resource, (change, false)));
        let planned: BTreeMap<_, _> = withheld.chain(changes).collect();
        let sent = self.schedule.queue.sent(name);
        let sent: BTreeSet<_> = sent.into_iter().flat_map(|sent| &sent.changes).map(|it| &*it.resource).collect();
        let ledger = LazyCell::new(|| Ledger::parse(state.node.ledger.as_deref()).unwrap_or_default());
        let by_rule = LazyCell::new(|| state.standings.iter().map(|(rule, it)| (rule, it)).collect::<BTreeMap<_, _>>());
        let standings = outcomes.into_iter().enumerate().map(|(place, (rule, outcome))| {
            let known = self.rules.get(&rule);
            let resource = known.and_then(|rule| rule.resource()).unwrap_or_default();
            // By resource, since a value may be restored as another rule listed it.
            let is_decided = !matches!(outcome, Outcome::Overridden { .. });
            let planned = planned.get(resource).filter(|_| is_decided);
            let change = planned.map(|(change, _)| *change);
            let failure = state.work().and_then(|work| work.failures.message(resource));
            // A request in flight may have been sent for the rule before it was edited.
            let is_changing = change.is_some() || sent.contains(resource);
            let same_place = state.standings.get(place).filter(|(other, _)| *other == rule);
            let before = same_place.map(|(_, standing)| standing).or_else(|| by_rule.get(&rule).copied());
            // A value of this rule that has lost its ledger entry was undone. If pods must be listed before it is
            // restored, the change then shows whether that is so.
            let was_own =
                matches!(before.map(Standing::state), Some(State::Advertised | State::Held | State::Contested));
            let awaits_pods = matches!(outcome, Outcome::AwaitingPods { .. });
            let may_be_lost = || awaits_pods && ledger.get(resource).is_none();
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
            let is_withheld = planned.is_some_and(|(_, is_withheld)| *is_withheld);
            let standing = if standing == Standing::Pending && is_withheld { Standing::Stopped } else { standing };
            (rule, standing)
        });
        let standings: Vec<_> = standings.collect();
        if !undone.is_empty() {
            state.work_mut().undone.extend(undone);
        }
        for place in self.nodes.record(name, &standings) {
            self.report_standing(name, place, now);
        }
    }
}

/// Returns whether a change writes what the ledger does not list.
fn is_lost(change: &Change) -> bool {
    let writes = matches!(change.action, Action::Advertise { .. } | Action::TakeOver { .. } | Action::Adopt { .. });
    writes && !change.was_listed()
}
