//! What a decision comes to for the rules of a node: their states there, whether a value was undone, and the
//! pods' requests for their resources.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decide::Decision;
use super::nodes::NodeState;
use super::rules::Rules;
use super::standing::{Carries, Standing, State};
use super::work_queue::Sent;
use crate::model::ledger::Ledger;
use crate::model::quantity::Quantity;
use crate::planner::input::PodUsage;
use crate::planner::{Action, Change, Outcome};

/// What is known of a node, and what is planned and sent for it.
pub(super) struct Situation<'a> {
    state: &'a NodeState,
    rules: &'a Rules,
    /// The changes by resource, each with whether it waits for a rollout to resume.
    planned: BTreeMap<&'a str, (&'a Change, bool)>,
    /// The resources of the patch in flight.
    sent: BTreeSet<&'a str>,
}

/// The states of all rules that select a node.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) standings: Vec<(Arc<str>, Standing)>,
    /// The resources whose values were undone since they were advertised.
    pub(super) undone: Vec<String>,
}

impl<'a> Situation<'a> {
    pub(super) fn new(state: &'a NodeState, rules: &'a Rules, decision: &'a Decision, sent: Option<&'a Sent>) -> Self {
        let withheld = decision.withheld.changes.iter().map(|change| (change.name(), (change, true)));
        let changes = decision.changes.iter().map(|change| (change.name(), (change, false)));
        Self {
            state,
            rules,
            planned: withheld.chain(changes).collect(),
            sent: sent.into_iter().flat_map(|sent| &sent.changes).map(|change| change.name()).collect(),
        }
    }

    /// Returns the state of each rule by these outcomes.
    pub(super) fn record(&self, outcomes: Vec<(Arc<str>, Outcome)>) -> Recorded {
        let before = &self.state.standings;
        let ledger = LazyCell::new(|| Ledger::parse(self.state.node.ledger.as_deref()).unwrap_or_default());
        let by_rule = LazyCell::new(|| before.iter().map(|(rule, it)| (rule, it)).collect::<BTreeMap<_, _>>());
        let mut recorded = Recorded::default();
        for (place, (rule, outcome)) in outcomes.into_iter().enumerate() {
            let resource = self.rules.get(&rule).and_then(|rule| rule.resource()).unwrap_or_default();
            // By resource, since a value may be restored as another rule recorded it.
            let is_decided = !matches!(outcome, Outcome::Overridden { .. });
            let planned = self.planned.get(resource).filter(|_| is_decided).copied();
            let same_place = before.get(place).filter(|(other, _)| *other == rule);
            let before = same_place.map(|(_, standing)| standing).or_else(|| by_rule.get(&rule).copied());
            // A value of this rule that has lost its ledger entry was undone. If pods must be known before it is
            // restored, the change then shows whether that is so.
            let was_own =
                matches!(before.map(Standing::state), Some(State::Advertised | State::Held | State::Contested));
            let may_be_lost = matches!(outcome, Outcome::AwaitingPods { .. }) && ledger.get(resource).is_none();
            if was_own && (may_be_lost || planned.is_some_and(|(change, _)| is_lost(change))) {
                recorded.undone.push(resource.to_owned());
            }
            let standing = self.standing(&rule, resource, outcome, planned);
            recorded.standings.push((rule, standing));
        }
        recorded
    }

    /// Returns the state of a rule. Its resource is to be changed as planned.
    fn standing(&self, rule: &str, resource: &str, outcome: Outcome, planned: Option<(&Change, bool)>) -> Standing {
        let failure = self.state.work().and_then(|work| work.failures.message(resource));
        // A request in flight may have been sent for the rule before it was edited.
        let is_changing = planned.is_some() || self.sent.contains(resource);
        let derived = || {
            let declared = &self.rules.get(rule)?.rule.as_ref().ok()?.quantity;
            if declared.fixed().is_some() { None } else { declared.known_on(&self.state.node) }
        };
        match Standing::new(outcome, is_changing, failure) {
            Standing::Planned(Outcome::Advertised) => {
                derived().map_or(Standing::Planned(Outcome::Advertised), |at| Standing::Derived { at })
            }
            Standing::Pending if planned.is_some_and(|(_, is_withheld)| is_withheld) => Standing::Stopped,
            standing => standing,
        }
    }
}

/// Returns whether a change writes what the ledger does not record.
fn is_lost(change: &Change) -> bool {
    let writes = matches!(change.action, Action::Advertise { .. } | Action::TakeOver { .. } | Action::Adopt { .. });
    writes && !change.was_recorded()
}

/// Returns what pods on a node request of each rule's resource, where the rule has a value.
pub(super) fn requested(state: &NodeState, rules: &Rules, pods: &PodUsage) -> Box<[(Arc<str>, Quantity)]> {
    let (PodUsage::Known(requests) | PodUsage::LastKnown { requests, .. }) = pods else { return Box::default() };
    let standings = state.standings.iter();
    let valued = standings.filter(|(_, standing)| !matches!(standing.carries(), Carries::Nothing));
    let amounts = valued.filter_map(|(rule, _)| {
        let amount = requests.bound.get(rules.get(rule)?.resource()?);
        (!amount.is_zero()).then(|| (Arc::clone(rule), amount))
    });
    amounts.collect()
}
