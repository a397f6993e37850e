//! The desired state of a node, by resource, and the rule that decides it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::rules::{Rule, RuleSet};
use crate::model::api::{ConflictPolicy, DeletionPolicy, ShrinkPolicy};
use crate::model::ledger::{Entry, Ledger};
use crate::model::quantity::Quantity;

/// The desired state of one resource on a node.
pub(super) struct Desired {
    pub(super) quantity: Quantity,
    pub(super) rule: Arc<str>,
    /// `None` if it is the priority of a frozen rule and cannot be read.
    pub(super) priority: Option<i32>,
    /// Whether the rule is frozen: it keeps its values, and adds none.
    pub(super) is_frozen: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) conflict_policy: ConflictPolicy,
    pub(super) deletion_policy: DeletionPolicy,
    pub(super) shrink_policy: ShrinkPolicy,
}

/// Returns the deciding rule for each resource. The values of a frozen rule stay as the ledger lists them, since pods
/// may be using them: another rule decides only with a higher priority.
pub(super) fn desired<'a>(
    ledger: &'a Ledger,
    selecting: &'a [&Arc<Rule>],
    rules: &RuleSet,
) -> BTreeMap<&'a str, Desired> {
    let frozen = ledger.entries().filter_map(|(resource, entry)| {
        let priority = rules.frozen_priority(&entry.rule);
        let frozen = rules.is_frozen(&entry.rule).then_some(entry)?;
        Some((resource, Desired::frozen(frozen, priority)?))
    });
    let mut desired: BTreeMap<_, _> = frozen.collect();
    for rule in selecting.iter().filter(|rule| !rule.paused) {
        let resource = rule.resource.as_str();
        if desired.get(resource).is_none_or(|present: &Desired| present.yields_to(rule)) {
            desired.insert(resource, Desired::by(rule));
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
            created: None,
            conflict_policy: ConflictPolicy::Keep,
            deletion_policy: entry.deletion_policy,
            shrink_policy: ShrinkPolicy::WhenFree,
        })
    }

    fn by(rule: &Rule) -> Self {
        Self {
            quantity: rule.quantity,
            rule: Arc::clone(&rule.name),
            priority: Some(rule.priority),
            is_frozen: false,
            created: rule.created,
            conflict_policy: rule.conflict_policy,
            deletion_policy: rule.deletion_policy,
            shrink_policy: rule.shrink_policy,
        }
    }

    /// Rules arrive in order of precedence, so a later valid rule yields to an earlier one.
    fn yields_to(&self, rule: &Rule) -> bool {
        self.is_frozen && self.priority.is_some_and(|priority| priority < rule.priority)
    }

    /// Returns whether only age or name decides against `rule`, which declares another quantity.
    pub(super) fn is_tied_with(&self, rule: &Rule) -> bool {
        !self.is_frozen && self.priority == Some(rule.priority) && self.quantity != rule.quantity
    }

    /// Returns the ledger entry for a quantity. Fields of later versions are kept.
    pub(super) fn entry(&self, quantity: Quantity, listed: Option<&Entry>) -> Entry {
        Entry {
            quantity: quantity.to_string(),
            rule: self.rule.to_string(),
            deletion_policy: self.deletion_policy,
            unknown: listed.map(|listed| listed.unknown.clone()).unwrap_or_default(),
        }
    }

    /// Returns whether the rule needs another entry than the listed one because it was edited or is another rule, and
    /// not only because of what pods request. `target` is `None` while it is undecided.
    pub(super) fn edits(&self, listed: &Entry, target: Option<Quantity>) -> bool {
        let Ok(quantity) = listed.quantity.parse::<Quantity>() else {
            return false;
        };
        let is_less = target.map_or(self.quantity < quantity, |target| target < quantity);
        *listed.rule != *self.rule
            || listed.deletion_policy != self.deletion_policy
            || self.quantity > quantity
            || is_less
    }
}
