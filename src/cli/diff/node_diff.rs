//! What becomes of one node.

use std::sync::Arc;

use json_patch::Patch;
use serde::Serialize;

use super::amounts::Amounts;
use super::prospect::Prospect;
use super::reasons;
use super::rules::Rules;
use super::sign::Sign;
use crate::model::ledger::Ledger;
use crate::model::node::Node;
use crate::planner::rules::Rule;
use crate::planner::{self, Action, NodePlan, Outcome, Plan};

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
    /// Why nothing on the node changes, where its ledger cannot be read.
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
    /// What is done: the planner's word.
    pub action: &'static str,
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
    /// For people, and to count it.
    #[serde(skip)]
    pub(super) sign: Sign,
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
    pub outcome: Prospect,
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
            let reason = reasons::outcome(&outcome, rule, rules);
            let by = match &outcome {
                Outcome::Overridden { by, .. } => Some(Arc::clone(by)),
                _ => None,
            };
            let outcome = Prospect::new(outcome, change.is_some());
            // The change has the reason then.
            let is_changed = outcome.is_held() && change.is_some();
            let listed = ledger.get(rule.resource.as_str()).filter(|_| by.is_none());
            Some(RuleResult {
                resource: rule.resource.as_str().to_owned(),
                priority: rule.priority,
                outcome,
                listed_rule: listed.map(|entry| entry.rule.clone()),
                reason: reason.filter(|_| !is_changed),
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
                .map(|error| format!("{error}; nothing on the node changes until you repair or remove it")),
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
            outcome: Prospect::Missing,
            before: Amounts::default(),
            after: Amounts::default(),
            listed_rule: None,
            by: None,
            reason: Some(format!("rule {} names this node, which does not exist", rule.name)),
        });
    }

    /// Whether a resource is changed.
    pub(super) fn changes(&self, resource: &str) -> bool {
        self.changes.iter().any(|change| change.resource == resource)
    }

    /// Whether somebody may want to know of it; with `overridden`, also of rules that do not decide.
    pub(super) fn has_findings(&self, overridden: bool) -> bool {
        let is_finding =
            |outcome: &Prospect| outcome.is_problem() || overridden && outcome.is_overridden();
        !self.changes.is_empty()
            || self.invalid_ledger.is_some()
            || self.outcomes.iter().any(|outcome| is_finding(&outcome.outcome))
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
        let (name, quantity) = (change.action_name(), change.quantity().map(str::to_owned));
        let planner::Change { resource, action, .. } = change;
        let before = Amounts::on(node, &resource);
        let after = match (&action, quantity) {
            (_, Some(quantity)) => before.set_to(&quantity),
            (Action::Withdraw { .. } | Action::RemoveZero | Action::RemoveLedger, None) => {
                Amounts::default()
            }
            (_, None) => before.clone(),
        };
        let listed = ledger.get(&resource);
        let value_stays = before == after;
        let reason = reasons::change(&action, &resource, value_stays, listed, outcomes, rules);
        let sign = Sign::of(&action, &before);
        let priority = rules.get(&rule).map(|rule| rule.priority);
        let previous_rule = listed.map(|entry| &entry.rule).filter(|listed| **listed != rule);
        let previous_rule = previous_rule.cloned();
        Self { resource, action: name, before, after, rule, previous_rule, priority, reason, sign }
    }
}
