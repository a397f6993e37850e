//! What becomes of one node.

use std::fmt;
use std::sync::Arc;

use json_patch::Patch;
use serde::Serialize;

use super::reasons;
use super::result_kind::{Action, ResultKind};
use super::rules::Rules;
use crate::model::ledger::Ledger;
use crate::model::node::{Node, ResourceList};
use crate::model::quantity::Quantity;
use crate::planner::rules::Rule;
use crate::planner::{self, NodePlan, Outcome, Plan, ReleaseCause};

/// What the controller would do on a node, and what becomes there of every rule that selects it. The
/// fields are what `-o json` and `-o yaml` print.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDiff {
    /// The node's name.
    pub node: Arc<str>,
    /// What the patch does, by resource; empty where there is none.
    pub changes: Vec<Change>,
    /// What becomes of each rule that selects the node, by precedence.
    pub outcomes: Vec<RuleResult>,
    /// Why the node is left alone, where its ledger cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_ledger: Option<String>,
    /// For `/api/v1/nodes/<name>/status`.
    #[serde(skip)]
    pub patch: Option<Patch>,
}

/// A resource that the patch changes, or lists otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The resource's name.
    pub resource: String,
    /// What is done.
    pub action: Action,
    /// What the node has.
    pub before: Amounts,
    /// What it will have.
    pub after: Amounts,
    /// The rule that it is done for, or that it was listed under.
    pub rule: String,
    /// The rule that it was listed under, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_rule: Option<String>,
    /// That rule's priority; absent where there is no such valid rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The reason, for people.
    pub reason: String,
}

/// What becomes of a rule on a node that it selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleResult {
    /// The rule's name.
    pub rule: Arc<str>,
    /// The resource that it declares.
    pub resource: String,
    /// Its priority.
    pub priority: i32,
    /// What becomes of it.
    pub outcome: ResultKind,
    /// What the node has of the resource.
    pub before: Amounts,
    /// What it will have, whichever rule decides. For programs it is in the change.
    #[serde(skip)]
    pub(super) after: Amounts,
    /// The rule that the resource is listed under; only where this one decides.
    #[serde(skip)]
    pub(super) listed_rule: Option<String>,
    /// The rule that decides instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The reason, for people, where it is not simply advertised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A resource in a node's two maps; `null` where it is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    /// In `status.capacity`.
    pub capacity: Option<String>,
    /// In `status.allocatable`.
    pub allocatable: Option<String>,
}

impl NodeDiff {
    pub(super) fn new(node: &Node, plan: NodePlan, rules: &Rules) -> Self {
        let NodePlan { outcomes, plan } = plan;
        let (changes, mut invalid_ledger) = match plan {
            Plan::Patch { changes, .. } => (changes, None),
            Plan::Blocked(error) => (Vec::new(), Some(error)),
            Plan::InSync | Plan::NeedsPods => (Vec::new(), None),
        };
        let patch = match planner::patch(node, &changes) {
            Ok(patch) => Some(patch).filter(|_| !changes.is_empty()),
            Err(error) => {
                invalid_ledger = Some(error);
                None
            }
        };
        // One that cannot be read is reported in `invalid_ledger`, and nothing is changed.
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        let changes: Vec<_> = changes
            .into_iter()
            .map(|change| Change::new(change, node, &ledger, &outcomes, rules))
            .collect();
        let prospects = outcomes.into_iter().filter_map(|(name, outcome)| {
            let rule = rules.get(&name)?;
            let before = Amounts::on(node, rule.resource.as_str());
            let change = changes.iter().find(|change| change.resource == rule.resource.as_str());
            let after = change.map_or_else(|| before.clone(), |change| change.after.clone());
            let (result_kind, by) = match &outcome {
                Outcome::Advertised => (ResultKind::Advertised, None),
                Outcome::Held { pods_error: None, .. } => (ResultKind::Held, None),
                // What was lost is written back, though the rule declares less.
                Outcome::Held { .. } | Outcome::AwaitingPods { .. } if change.is_some() => {
                    (ResultKind::Held, None)
                }
                Outcome::Held { .. } | Outcome::AwaitingPods { .. } => {
                    (ResultKind::MaybeHeld, None)
                }
                Outcome::Conflicted { .. } => (ResultKind::Conflicted, None),
                Outcome::Contested { .. } => (ResultKind::Contested, None),
                Outcome::Overridden { by, .. } => (ResultKind::Overridden, Some(Arc::clone(by))),
                Outcome::LedgerFull => (ResultKind::LedgerFull, None),
                Outcome::InvalidLedger { .. } => (ResultKind::InvalidLedger, None),
            };
            // The change has the reason then.
            let is_changed = result_kind == ResultKind::Held && change.is_some();
            let listed = ledger.get(rule.resource.as_str()).filter(|_| by.is_none());
            Some(RuleResult {
                resource: rule.resource.as_str().to_owned(),
                priority: rule.priority,
                outcome: result_kind,
                listed_rule: listed.map(|entry| entry.rule.clone()),
                reason: reasons::outcome(&outcome, rule, rules).filter(|_| !is_changed),
                rule: name,
                before,
                after,
                by,
            })
        });
        let outcomes = prospects.collect();
        Self {
            node: Arc::clone(&node.name),
            changes,
            outcomes,
            invalid_ledger: invalid_ledger
                .map(|error| format!("{error}; nothing on the node changes until you repair that")),
            patch,
        }
    }

    /// A node that does not exist.
    pub(super) fn nothing(node: &Arc<str>) -> Self {
        Self {
            node: Arc::clone(node),
            changes: Vec::new(),
            outcomes: Vec::new(),
            invalid_ledger: None,
            patch: None,
        }
    }

    /// A rule names this node, which does not exist.
    pub(super) fn miss(&mut self, rule: &Rule) {
        self.outcomes.push(RuleResult {
            rule: Arc::clone(&rule.name),
            resource: rule.resource.as_str().to_owned(),
            priority: rule.priority,
            outcome: ResultKind::Missing,
            before: Amounts::default(),
            after: Amounts::default(),
            listed_rule: None,
            by: None,
            reason: Some(format!("rule {} names it, and there is no such node", rule.name)),
        });
    }

    /// Whether a resource is changed.
    pub(super) fn changes(&self, resource: &str) -> bool {
        self.changes.iter().any(|change| change.resource == resource)
    }

    /// Whether somebody may want to know of it; with `overridden`, also of rules that do not decide.
    pub(super) fn has_findings(&self, overridden: bool) -> bool {
        let is_finding =
            |kind: ResultKind| kind.is_problem() || overridden && kind == ResultKind::Overridden;
        !self.changes.is_empty()
            || self.invalid_ledger.is_some()
            || self.outcomes.iter().any(|outcome| is_finding(outcome.outcome))
    }
}

impl Change {
    fn new(
        change: planner::Change,
        node: &Node,
        ledger: &Ledger,
        outcomes: &[(Arc<str>, Outcome)],
        rules: &Rules,
    ) -> Self {
        let rule = change.rule().unwrap_or_default().to_owned();
        let planner::Change { resource, action, .. } = change;
        let before = Amounts::on(node, &resource);
        let listed = ledger.get(&resource);
        let (kind, after) = match &action {
            planner::Action::Advertise { quantity, .. } => {
                let after = before.set_to(quantity);
                let kind = match listed {
                    None => Action::Add,
                    Some(_) if after == before => Action::Annotate,
                    Some(_) => Action::Update,
                };
                (kind, after)
            }
            planner::Action::Hold { quantity, .. } => (Action::Hold, before.set_to(quantity)),
            planner::Action::Repair { quantity, .. } => (Action::Repair, before.set_to(quantity)),
            planner::Action::TakeOver { quantity, .. } => {
                (Action::TakeOver, before.set_to(quantity))
            }
            planner::Action::Adopt { .. } => (Action::Annotate, before.clone()),
            planner::Action::Release {
                cause: ReleaseCause::Retained { restored: Some(quantity) },
                ..
            } => (Action::Release, before.set_to(quantity)),
            planner::Action::Release { .. } => (Action::Release, before.clone()),
            planner::Action::Withdraw { .. }
            | planner::Action::RemoveZero
            | planner::Action::RemoveLedger => (Action::Remove, Amounts::default()),
        };
        let reason = reasons::change(kind, &resource, &action, listed, outcomes, rules);
        let priority = rules.get(&rule).map(|rule| rule.priority);
        let previous_rule = listed.map(|entry| &entry.rule).filter(|listed| **listed != rule);
        let previous_rule = previous_rule.cloned();
        Self { resource, action: kind, before, after, rule, previous_rule, priority, reason }
    }
}

impl Amounts {
    fn on(node: &Node, resource: &str) -> Self {
        let amount =
            |map: Option<&ResourceList>| map.and_then(|map| map.get(resource)).map(str::to_owned);
        Self {
            capacity: amount(node.capacity.as_ref()),
            allocatable: amount(node.allocatable.as_ref()),
        }
    }

    /// Whether both maps hold the same number, however it is written, or nothing.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let parsed = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        self.capacity == self.allocatable
            || parsed(&self.capacity).is_some_and(|quantity| self.is(&quantity))
    }

    /// Whether both maps are at this quantity.
    fn is(&self, quantity: &Quantity) -> bool {
        let is = |text: &Option<String>| {
            text.as_ref().and_then(|text| text.parse().ok()) == Some(*quantity)
        };
        is(&self.capacity) && is(&self.allocatable)
    }

    /// With this quantity in both maps. A value that is the same number stays as it is written.
    fn set_to(&self, quantity: &str) -> Self {
        let parsed = quantity.parse::<Quantity>().ok();
        let set = |text: &Option<String>| {
            let same = text.as_deref().filter(|text| text.parse().ok() == parsed);
            Some(same.unwrap_or(quantity).to_owned())
        };
        Self { capacity: set(&self.capacity), allocatable: set(&self.allocatable) }
    }
}

impl fmt::Display for Amounts {
    /// One value where both maps agree, else `capacity/allocatable`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |map: &Option<String>| map.clone().unwrap_or_else(|| "-".to_owned());
        f.write_str(&text(&self.capacity))?;
        if self.agrees() { Ok(()) } else { write!(f, "/{}", text(&self.allocatable)) }
    }
}
