//! The desired state of a node, by resource, and the rule that decides it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::declared::OnNode;
use super::input::PlanningInput;
use super::observed::Observed;
use super::rules::{Rule, RuleSet};
use crate::model::api::{ConflictPolicy, DeletionPolicy, ShrinkPolicy};
use crate::model::ledger::{Entry, Ledger};
use crate::model::node::Node;
use crate::model::quantity::Quantity;

/// A rule that selects the node, and the quantity that it declares there.
pub(super) struct Selecting<'a> {
    pub(super) rule: &'a Arc<Rule>,
    pub(super) quantity: OnNode,
}

impl<'a> Selecting<'a> {
    /// Returns the rules that declare a quantity on the node, or may.
    pub(super) fn on(node: &Node, rules: &[&'a Arc<Rule>]) -> Vec<Self> {
        let all = rules.iter().map(|rule| Self { rule, quantity: rule.quantity.on(node) });
        all.filter(|selecting| selecting.quantity != OnNode::Nothing).collect()
    }
}

/// The desired state of one resource on a node.
pub(super) struct Desired {
    pub(super) quantity: Quantity,
    pub(super) rule: Arc<str>,
    /// `None` if it is the priority of a frozen rule and cannot be read.
    pub(super) priority: Option<i32>,
    /// Whether the rule is frozen: it keeps its values, and adds none.
    pub(super) is_frozen: bool,
    /// Whether no rule declares the resource, and the value stays while pods use it.
    pub(super) is_leaving: bool,
    /// Whether the quantity is read from the node.
    pub(super) is_derived: bool,
    /// Whether the quantity is what the ledger records, because the rule declares none now.
    pub(super) is_recorded: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) conflict_policy: ConflictPolicy,
    pub(super) deletion_policy: DeletionPolicy,
    pub(super) shrink_policy: ShrinkPolicy,
}

/// Returns the deciding rule for each resource. The values of a frozen rule stay as the ledger records them, since pods
/// may be using them: another rule decides only with a higher priority. So do those of a rule whose quantity on the node
/// is unknown. A value that leaves when it is unused counts as declared to be 0, and no rule that is frozen by now keeps
/// it.
pub(super) fn desired<'a>(
    node: &Node,
    ledger: &'a Ledger,
    selecting: &[Selecting<'a>],
    rules: &RuleSet,
    input: &PlanningInput,
) -> BTreeMap<&'a str, Desired> {
    let frozen = ledger.entries().filter_map(|(resource, entry)| {
        let priority = rules.frozen_priority(&entry.rule);
        let is_frozen = rules.is_frozen(&entry.rule) && !entry.is_leaving;
        let frozen = is_frozen.then_some(entry)?;
        Some((resource, Desired::frozen(frozen, priority)?))
    });
    let mut desired: BTreeMap<_, _> = frozen.collect();
    let active = || selecting.iter().filter(|selecting| !selecting.rule.paused);
    for Selecting { rule, quantity } in active() {
        let resource = rule.resource.as_str();
        let recorded = ledger.get(resource).filter(|entry| *entry.rule == *rule.name);
        let decides = match quantity {
            OnNode::Known(quantity) => {
                let is_derived = rule.quantity.fixed().is_none();
                let waits = is_derived && input.moved.contains(resource);
                let waiting = recorded.filter(|_| waits).and_then(|recorded| Desired::at(rule, recorded));
                Some(waiting.unwrap_or_else(|| Desired { is_derived, ..Desired::by(rule, *quantity) }))
            }
            OnNode::Unknown(_) => recorded.and_then(|recorded| Desired::kept(rule, recorded)),
            // Not among them.
            OnNode::Nothing => None,
        };
        if let Some(decides) = decides
            && desired.get(resource).is_none_or(|present: &Desired| present.yields_to(rule))
        {
            desired.insert(resource, decides);
        }
    }
    // What no rule decides is no evidence against a value, as long as one of them may.
    for Selecting { rule, quantity } in active() {
        let resource = rule.resource.as_str();
        if let (OnNode::Unknown(_), Some(recorded)) = (quantity, ledger.get(resource))
            && !desired.contains_key(resource)
            && let Some(kept) = Desired::kept(rule, recorded)
        {
            desired.insert(resource, kept);
        }
    }
    for (resource, entry) in ledger.entries() {
        // A value that another client has overwritten is released.
        let leaves = || {
            entry.deletion_policy == DeletionPolicy::WhenUnused
                && !Observed::on(node, ledger, resource).is_overwritten()
        };
        if !desired.contains_key(resource) && leaves() {
            desired.insert(resource, Desired::leaving(entry));
        }
    }
    desired
}

impl Desired {
    fn frozen(entry: &Entry, priority: Option<i32>) -> Option<Self> {
        Some(Self {
            quantity: entry.quantity.parse().ok()?,
            rule: entry.rule.as_str().into(),
            priority,
            is_frozen: true,
            is_leaving: false,
            is_derived: false,
            is_recorded: true,
            created: None,
            conflict_policy: ConflictPolicy::Keep,
            deletion_policy: entry.deletion_policy,
            shrink_policy: ShrinkPolicy::WhenFree,
        })
    }

    /// Returns the end of a value that no rule declares, as far as pods let it go.
    fn leaving(entry: &Entry) -> Self {
        Self {
            quantity: Quantity::default(),
            rule: entry.rule.as_str().into(),
            priority: None,
            is_frozen: false,
            is_leaving: true,
            is_derived: false,
            is_recorded: false,
            created: None,
            conflict_policy: ConflictPolicy::Keep,
            deletion_policy: entry.deletion_policy,
            shrink_policy: ShrinkPolicy::WhenFree,
        }
    }

    /// Returns the recorded state, which stays while the quantity of the rule is unknown.
    fn kept(rule: &Rule, recorded: &Entry) -> Option<Self> {
        Some(Self { is_recorded: true, ..Self::at(rule, recorded)? })
    }

    /// Returns what the rule declares, at the recorded quantity.
    fn at(rule: &Rule, recorded: &Entry) -> Option<Self> {
        Some(Self::by(rule, recorded.quantity.parse().ok()?))
    }

    fn by(rule: &Rule, quantity: Quantity) -> Self {
        Self {
            quantity,
            rule: Arc::clone(&rule.name),
            priority: Some(rule.priority),
            is_frozen: false,
            is_leaving: false,
            is_derived: false,
            is_recorded: false,
            created: rule.created,
            conflict_policy: rule.conflict_policy,
            deletion_policy: rule.deletion_policy,
            shrink_policy: rule.shrink_policy,
        }
    }

    /// Returns what sorts by precedence, the winner first.
    pub(super) fn turn(&self) -> impl Ord + use<> {
        (Reverse(self.priority), self.created.is_none(), self.created, Arc::clone(&self.rule))
    }

    /// Rules arrive in order of precedence, so a later valid rule yields to an earlier one.
    fn yields_to(&self, rule: &Rule) -> bool {
        self.is_frozen && self.priority.is_some_and(|priority| priority < rule.priority)
    }

    /// Returns whether only age or name decides against a rule that declares another quantity.
    pub(super) fn is_tied_with(&self, Selecting { rule, quantity }: &Selecting<'_>) -> bool {
        let is_other = matches!(quantity, OnNode::Known(quantity) if *quantity != self.quantity);
        !self.is_frozen && self.priority == Some(rule.priority) && is_other
    }

    /// Returns the ledger entry for a quantity. Fields of later versions are kept.
    pub(super) fn entry(&self, quantity: Quantity, recorded: Option<&Entry>) -> Entry {
        Entry {
            quantity: quantity.to_string(),
            rule: self.rule.to_string(),
            deletion_policy: self.deletion_policy,
            is_leaving: self.is_leaving,
            unknown: recorded.map(|recorded| recorded.unknown.clone()).unwrap_or_default(),
        }
    }

    /// Returns whether the rule needs another entry than the recorded one because it was edited or is another rule, and
    /// not only because of what pods request. `target` is `None` while it is undecided.
    pub(super) fn edits(&self, recorded: &Entry, target: Option<Quantity>) -> bool {
        let Ok(quantity) = recorded.quantity.parse::<Quantity>() else {
            return false;
        };
        let is_less = target.map_or(self.quantity < quantity, |target| target < quantity);
        *recorded.rule != *self.rule
            || recorded.deletion_policy != self.deletion_policy
            || self.quantity > quantity
            || is_less
    }
}
