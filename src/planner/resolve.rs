//! Decides, resource by resource, the target value on a node and the changes to reach it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::{Action, Change, Edit, LedgerEdit, Subject, ValueEdit};
use super::declared::OnNode;
use super::desired::{Desired, Selecting, desired};
use super::input::{NewValues, PlanningInput, PodUsage};
use super::observed::Observed;
use super::plan::{Leaving, NodePlan, Outcome};
use super::room::Room;
use super::rules::{Rule, RuleSet};
use super::{repairs, withdraw};
use crate::model::api::{ConflictPolicy, ShrinkPolicy};
use crate::model::ledger::{Entry, Ledger};
use crate::model::node::Node;
use crate::model::pod::NodeRequests;
use crate::model::quantity::{MAX_QUANTITY, Quantity};

/// The plan of one node so far.
struct Resolver<'a> {
    node: &'a Node,
    ledger: &'a Ledger,
    input: &'a PlanningInput,
    changes: Vec<Change>,
    needs_pods: bool,
    /// `None` until needed.
    room: Option<Room>,
}

/// Plans a node that the rules at these places select.
pub(super) fn plan(node: &Node, rules: &RuleSet, places: &[usize], input: &PlanningInput) -> NodePlan {
    let selecting: Vec<_> = rules.at(places).collect();
    match Ledger::parse(node.ledger.as_deref()) {
        Ok(ledger) => resolve(node, &ledger, &selecting, rules, input),
        Err(error) => NodePlan::blocked(&selecting, error),
    }
}

fn resolve(
    node: &Node,
    ledger: &Ledger,
    rules_here: &[&Arc<Rule>],
    rules: &RuleSet,
    input: &PlanningInput,
) -> NodePlan {
    let mut resolver = Resolver { node, ledger, input, changes: Vec::new(), needs_pods: false, room: None };
    let selecting = &Selecting::on(node, rules_here);
    let desired = desired(node, ledger, selecting, rules, input);
    let mut decided = BTreeMap::new();
    // Where there is not room for all, precedence decides, and not the name of the resource.
    let mut in_turn: Vec<_> = desired.iter().collect();
    in_turn.sort_by_key(|(_, desired)| desired.turn());
    for (resource, desired) in in_turn {
        decided.insert(*resource, resolver.reconcile(resource, desired));
    }
    resolver.changes.sort_by(|one, other| one.subject.cmp(&other.subject));
    for (resource, entry) in ledger.entries() {
        if !desired.contains_key(resource) {
            let observed = Observed::on(node, ledger, resource);
            resolver.changes.push(withdraw::withdraw_entry(resource, entry, &observed));
        }
    }

    let leaving = desired.iter().filter(|(_, desired)| desired.is_leaving);
    let leaving = leaving.map(|(resource, desired)| {
        let (at, pods_error) = match decided.get(resource) {
            Some(Outcome::Held { at, pods_error }) => (Some(*at), pods_error.clone()),
            Some(Outcome::AwaitingPods { pods_error }) => (None, pods_error.clone()),
            _ => (None, None),
        };
        Leaving { resource: (*resource).into(), rule: Arc::clone(&desired.rule), at, pods_error }
    });
    let leaving = leaving.collect();
    let mut outcomes = Vec::with_capacity(selecting.len());
    for (place, this) in selecting.iter().enumerate() {
        let Selecting { rule, quantity } = this;
        let winner = desired.get(rule.resource.as_str());
        let outcome = match winner {
            // Of one that is paused, the value may leave: then it declares none.
            Some(winner) if winner.rule == rule.name && !winner.is_leaving => {
                let outcome = decided.remove(rule.resource.as_str());
                outcome.map(|outcome| match outcome {
                    Outcome::Advertised => advertised(rule, quantity, winner),
                    outcome => outcome,
                })
            }
            Some(winner) if !rule.paused || winner.is_frozen || has(&selecting[..place], &winner.rule) => {
                let by = Arc::clone(&winner.rule);
                Some(Outcome::Overridden { by, tied: winner.is_tied_with(this) })
            }
            _ => match quantity {
                _ if rule.paused => Some(Outcome::Paused { at: None }),
                OnNode::Unknown(why) => Some(Outcome::QuantityUnknown { at: None, why: Arc::clone(why) }),
                OnNode::Known(_) | OnNode::Nothing => None,
            },
        };
        outcomes.extend(outcome.map(|outcome| (Arc::clone(&rule.name), outcome)));
    }
    NodePlan { leaving, ..NodePlan::new(outcomes, resolver.changes, resolver.needs_pods) }
}

/// Returns the outcome of a rule whose value is there, though perhaps not the one that it declares by now.
fn advertised(rule: &Rule, quantity: &OnNode, winner: &Desired) -> Outcome {
    let at = Some(winner.quantity);
    match quantity {
        OnNode::Known(quantity) if *quantity == winner.quantity => Outcome::Advertised,
        _ if rule.paused => Outcome::Paused { at },
        OnNode::Known(_) => Outcome::Moving { at: winner.quantity },
        OnNode::Unknown(why) => Outcome::QuantityUnknown { at, why: Arc::clone(why) },
        OnNode::Nothing => Outcome::Advertised,
    }
}

fn has(selecting: &[Selecting<'_>], name: &str) -> bool {
    selecting.iter().any(|selecting| *selecting.rule.name == *name)
}

/// Whose the value on a node is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// Recorded in the ledger, or nobody's yet.
    Own,
    /// As declared, and the controller alone wrote it: only the ledger entry is missing.
    Adoptable,
    /// Another field manager's.
    Foreign,
}

/// What is to be written: in the spelling of the ledger, with which admission compares it.
struct Target<'a> {
    desired: &'a Desired,
    ownership: Ownership,
    quantity: Quantity,
    entry: Entry,
}

impl Resolver<'_> {
    /// Plans the desired value, unless the value of another field manager must be kept.
    fn reconcile(&mut self, resource: &str, desired: &Desired) -> Outcome {
        let observed = Observed::on(self.node, self.ledger, resource);
        let ownership = self.ownership(resource, desired, &observed);
        if ownership == Ownership::Foreign && desired.conflict_policy == ConflictPolicy::Keep {
            let (present, manager) = (observed.to_string(), observed.manager().cloned());
            return Outcome::Conflicted { present, manager };
        }
        let contest = self.input.contested.get(resource);
        // The resource stays contested for a while after a repair: it may be lost again.
        let contested =
            contest.map(|contest| Outcome::Contested { manager: contest.manager.clone(), lost: contest.lost });
        let waits = contest.is_some_and(|contest| !contest.may_repair);
        let may_write = |target| {
            let edits = |recorded| observed.is_as_recorded() || desired.edits(recorded, target);
            !waits || observed.recorded.is_some_and(edits)
        };
        if let Some(contested) = &contested
            && !may_write(None)
        {
            return contested.clone();
        }
        let quantity = match ownership {
            Ownership::Adoptable => Ok(desired.quantity),
            Ownership::Own | Ownership::Foreign => self.target(resource, desired, &observed),
        };
        let quantity = match quantity {
            Ok(quantity) => quantity,
            Err(outcome) => return contested.unwrap_or(outcome),
        };
        let outcome = match &contested {
            // No rule reports the contest of a value that leaves: it stays for its pods.
            Some(contested) if !desired.is_leaving => contested.clone(),
            _ if quantity == desired.quantity => Outcome::Advertised,
            _ => self.holds(Some(quantity)),
        };
        if let (true, Some(recorded)) = (quantity.is_zero(), observed.recorded) {
            let withdrawal = withdraw::withdraw_entry(resource, recorded, &observed);
            // The next pod would take what the last has freed.
            self.changes.push(Change { step: Some(Ordering::Less), ..withdrawal });
            return outcome;
        }
        let mut entry = desired.entry(quantity, observed.recorded);
        // That a value leaves is recorded with what pods request.
        let was_leaving = observed.recorded.is_some_and(|recorded| recorded.is_leaving);
        entry.is_leaving &= was_leaving || matches!(self.input.pods, PodUsage::Known(_));
        if observed.is_recorded_as(&entry) && observed.is(quantity) {
            return outcome;
        }
        if !may_write(Some(quantity)) {
            return contested.unwrap_or(outcome);
        }
        let Some(entry) = self.entry_with_room(resource, entry, &observed) else { return Outcome::LedgerFull };
        if observed.recorded == Some(&entry) && observed.is(quantity) {
            return outcome;
        }
        let change = self.change(resource, Target { desired, ownership, quantity, entry }, &observed);
        self.changes.push(change);
        outcome
    }

    fn ownership(&self, resource: &str, desired: &Desired, observed: &Observed<'_>) -> Ownership {
        let was_recorded = self.input.released.contains(resource);
        if observed.is_adoptable(desired.quantity, was_recorded) {
            Ownership::Adoptable
        } else if observed.is_unrecorded() {
            Ownership::Foreign
        } else {
            Ownership::Own
        }
    }

    /// Returns the entry to write: the recorded one if it means the same and there is no room for another. Without room,
    /// there is none, and a recorded value is repaired in any case.
    fn entry_with_room(&mut self, resource: &str, entry: Entry, observed: &Observed<'_>) -> Option<Entry> {
        if observed.recorded == Some(&entry) || self.has_room(resource, &entry) {
            return Some(entry);
        }
        let recorded = observed.recorded?;
        if observed.is_recorded_as(&entry) {
            return Some(recorded.clone());
        }
        // Without a record that it leaves, a value follows pods too.
        let unmarked = Entry { is_leaving: recorded.is_leaving, ..entry.clone() };
        if unmarked != entry && self.has_room(resource, &unmarked) {
            return Some(unmarked);
        }
        if !observed.is_as_recorded() {
            self.changes.extend(repairs::repair(resource, recorded, observed));
        }
        None
    }

    /// Returns the change that makes a resource what it is to be.
    fn change(&self, resource: &str, target: Target<'_>, observed: &Observed<'_>) -> Change {
        let action = self.action(&target, observed);
        let Target { desired, ownership, quantity, entry } = target;
        // A value that follows pods waits for nothing: the next pod would take what the last has freed.
        let is_held = matches!(action, Action::Hold { .. });
        let is_other = observed.recorded.is_some_and(|recorded| recorded.quantity != entry.quantity);
        let value = match ownership {
            Ownership::Adoptable => ValueEdit::Keep,
            Ownership::Own | Ownership::Foreign => ValueEdit::Write(entry.quantity.clone()),
        };
        Change {
            subject: Subject::Resource(resource.to_owned()),
            action,
            step: observed
                .most_or_recorded()
                .filter(|_| desired.shrink_policy == ShrinkPolicy::WhenFree)
                .map(|current| quantity.cmp(&current)),
            was_recorded: observed.recorded.is_some(),
            moves: desired.is_derived && is_other && !is_held,
            edit: Edit::of(
                if observed.recorded == Some(&entry) { LedgerEdit::Keep } else { LedgerEdit::Record(entry) },
                value,
                observed.recorded.is_none() && ownership != Ownership::Foreign,
            ),
        }
    }

    fn action(&self, target: &Target<'_>, seen: &Observed<'_>) -> Action {
        let Target { desired, ownership, quantity: at, entry } = target;
        let (rule, quantity) = (Arc::clone(&desired.rule), entry.quantity.clone());
        let was = || (seen.to_string(), seen.manager().cloned());
        match ownership {
            Ownership::Adoptable => Action::Adopt { quantity, rule },
            Ownership::Foreign => {
                let (observed, manager) = was();
                Action::TakeOver { quantity, rule, observed, manager }
            }
            Ownership::Own if !seen.is_as_recorded() => {
                let (observed, manager) = was();
                Action::Repair { quantity, rule, observed, manager }
            }
            Ownership::Own if *at != desired.quantity && self.is_requested(*at, seen) => {
                let declared = (!desired.is_leaving).then(|| desired.quantity.to_string());
                Action::Hold { quantity, rule, declared }
            }
            Ownership::Own => Action::Advertise { quantity, rule },
        }
    }

    /// Returns the target quantity, or the outcome of the rule while the target is undecided.
    ///
    /// If a value falls below what pods request, the kubelet rejects those pods when it restarts. So it goes no lower than
    /// what bound pods request, unless the rule demands it. It goes up again, or appears, for started pods only: a kubelet
    /// has admitted them. Any other bound pod it may still reject, and who creates one would set the quantity.
    fn target(&mut self, resource: &str, desired: &Desired, observed: &Observed<'_>) -> Result<Quantity, Outcome> {
        if desired.shrink_policy == ShrinkPolicy::Immediate {
            return Ok(desired.quantity);
        }
        let recorded = observed.recorded_quantity();
        let appears = recorded.is_none() && observed.is_vacant();
        // What a rule does not declare now stays as it is recorded, and would stay above that when the pods have ended.
        let raised_for = |requests: &NodeRequests| match desired.is_recorded {
            true => Quantity::default(),
            false => requests.raising(resource),
        };
        if let PodUsage::Known(requests) = &self.input.pods {
            let had = observed.most_or_recorded().unwrap_or_default();
            let held = requests.bound.get(resource).min(had.max(raised_for(requests)));
            return Ok(desired.quantity.max(advertisable(held)));
        }
        let current = observed.most_or_recorded().unwrap_or(desired.quantity);
        let raised = match &self.input.pods {
            PodUsage::LastKnown { requests, .. } => advertisable(raised_for(requests)),
            _ => Quantity::default(),
        };
        if appears {
            if !self.checks_new_value(desired, observed) {
                return Ok(desired.quantity.max(raised));
            }
            self.needs_pods = true;
            return Err(Outcome::AwaitingPods { pods_error: self.pods_error() });
        }
        if current.max(raised) <= desired.quantity {
            return Ok(desired.quantity);
        }
        self.needs_pods = true;
        if raised > current {
            return Ok(raised);
        }
        // A lost value is restored at once: pods may be using it.
        let is_lost = !observed.is_as_recorded();
        match recorded {
            Some(recorded) if recorded == current && (is_lost || self.pods_error().is_some()) => Ok(recorded),
            _ => Err(self.holds(observed.schedulable().or(Some(current)))),
        }
    }

    /// Returns whether a value that appears requires that pods are known.
    fn checks_new_value(&self, desired: &Desired, observed: &Observed<'_>) -> bool {
        match self.input.new_values {
            NewValues::Write => false,
            NewValues::Check => true,
            // A device plugin left a 0, and possibly pods.
            NewValues::CheckOlderNodes if observed.is_zeroed() => true,
            NewValues::CheckOlderNodes => match (self.node.created, desired.created) {
                (Some(node), Some(rule)) => node <= rule,
                _ => true,
            },
        }
    }

    /// Returns the outcome of a rule whose node has more than it declares.
    fn holds(&self, at: Option<Quantity>) -> Outcome {
        match (at, &self.input.pods) {
            (Some(at), PodUsage::Known(_) | PodUsage::LastKnown { .. } | PodUsage::Unavailable(_)) => {
                Outcome::Held { at, pods_error: self.pods_error() }
            }
            _ => Outcome::AwaitingPods { pods_error: self.pods_error() },
        }
    }

    /// Returns whether pods are known to request a target above the declared quantity.
    fn is_requested(&self, target: Quantity, observed: &Observed<'_>) -> bool {
        match self.input.pods {
            PodUsage::Known(_) => true,
            PodUsage::LastKnown { .. } => Some(target) > observed.most_or_recorded(),
            PodUsage::NotFetched | PodUsage::Unavailable(_) => false,
        }
    }

    fn pods_error(&self) -> Option<Arc<str>> {
        match &self.input.pods {
            PodUsage::Unavailable(error) | PodUsage::LastKnown { why: error, .. } => Some(Arc::clone(error)),
            PodUsage::NotFetched | PodUsage::Known(_) => None,
        }
    }

    /// Returns whether the node has room for an entry, and reserves it.
    fn has_room(&mut self, resource: &str, entry: &Entry) -> bool {
        let recorded = self.ledger.get(resource);
        let length = |entry: &Entry| Ledger::length_of(resource, entry);
        let growth = length(entry).saturating_sub(recorded.map_or(0, length));
        let is_absent = self.node.values(resource).map(|value| value.is_none());
        if growth == 0 && is_absent == [false; 2] {
            return true;
        }
        let room = self.room.get_or_insert_with(|| Room::on(self.node, self.ledger));
        room.reserve(resource, growth, is_absent)
    }
}

/// Returns the smallest advertisable quantity that is not less than what pods request.
fn advertisable(requested: Quantity) -> Quantity {
    requested.ceil().min(Quantity::from(MAX_QUANTITY))
}
