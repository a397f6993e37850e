//! The diff of one node.

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
use crate::planner::{self, Action, Leaving, NodePlan, Outcome, Plan};

/// What the controller would do on a node, with the outcome of every rule that selects it. The fields are the output of
/// `-o json` and `-o yaml`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDiff {
    /// The node's name.
    pub node: Arc<str>,
    /// The changes of the patch, by resource; empty without a patch.
    pub changes: Vec<Change>,
    /// The outcome of each rule that selects the node, by precedence.
    pub outcomes: Vec<RuleResult>,
    /// Why the node does not change, if its ledger cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_ledger: Option<String>,
    /// The patch for `/api/v1/nodes/<name>/status`.
    #[serde(skip)]
    pub patch: Option<Patch>,
}

/// A resource whose value or ledger entry the patch changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The resource's name.
    pub resource: String,
    /// The planner's name of the action.
    pub action: &'static str,
    /// The current values.
    pub before: Amounts,
    /// The values after the change.
    pub after: Amounts,
    /// The rule that the change is for, or that the resource was listed under.
    pub rule: String,
    /// The rule that the resource was listed under, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_rule: Option<String>,
    /// The priority of the rule; absent if there is no such valid rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The reason, as text.
    pub reason: String,
    /// The sign in the table, by which changes are counted.
    #[serde(skip)]
    pub(super) sign: Sign,
}

/// The outcome of a rule on a node that it selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleResult {
    /// The rule's name.
    pub rule: Arc<str>,
    /// The declared resource.
    pub resource: String,
    /// Its priority.
    pub priority: i32,
    /// The outcome.
    pub outcome: Prospect,
    /// The current values.
    pub before: Amounts,
    /// The values after the change, whichever rule decides. In JSON, the change has them.
    #[serde(skip)]
    pub(super) after: Amounts,
    /// The rule that the resource is listed under; only if this rule decides.
    #[serde(skip)]
    pub(super) listed_rule: Option<String>,
    /// The rule that decides instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The reason, as text, if it is not simply advertised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl NodeDiff {
    pub(super) fn new(node: &Node, plan: NodePlan, rules: &Rules) -> Self {
        let NodePlan { outcomes, leaving, plan } = plan;
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
        // An invalid ledger is reported in `invalid_ledger`, and nothing changes.
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        let changes: Vec<_> =
            changes.into_iter().map(|change| Change::new(change, node, &ledger, &outcomes, rules)).collect();
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
            // The change has the reason in this case.
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
        // The change has the reason in the other case.
        let is_changed = |leaving: &Leaving| changes.iter().any(|change| *change.resource == *leaving.resource);
        let staying = leaving.iter().filter(|leaving| !is_changed(leaving));
        let outcomes = prospects.chain(staying.map(|leaving| RuleResult::leaving(leaving, node, rules))).collect();
        Self {
            node: Arc::clone(&node.name),
            changes,
            outcomes,
            invalid_ledger: invalid_ledger
                .map(|error| format!("{error}; nothing on the node changes until you repair or remove it")),
            patch,
        }
    }

    /// Returns the diff of a node that does not exist.
    pub(super) fn nothing(node: &Arc<str>) -> Self {
        Self { node: Arc::clone(node), changes: Vec::new(), outcomes: Vec::new(), invalid_ledger: None, patch: None }
    }

    /// Adds a rule that names this node, which does not exist.
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

    /// Returns whether a resource changes.
    pub(super) fn changes(&self, resource: &str) -> bool {
        self.changes.iter().any(|change| change.resource == resource)
    }

    /// Returns whether the node has findings; with `overridden`, including rules that do not decide.
    pub(super) fn has_findings(&self, overridden: bool) -> bool {
        let is_finding = |outcome: &Prospect| outcome.is_problem() || overridden && outcome.is_overridden();
        !self.changes.is_empty()
            || self.invalid_ledger.is_some()
            || self.outcomes.iter().any(|outcome| is_finding(&outcome.outcome))
    }
}

impl RuleResult {
    /// Returns what becomes of a value that no rule declares and that leaves when it is unused.
    fn leaving(leaving: &Leaving, node: &Node, rules: &Rules) -> Self {
        let before = Amounts::on(node, &leaving.resource);
        Self {
            rule: Arc::clone(&leaving.rule),
            resource: leaving.resource.to_string(),
            priority: 0,
            outcome: match (leaving.at, &leaving.pods_error) {
                (Some(at), None) => Prospect::Decided(Outcome::Held { at, pods_error: None }),
                _ => Prospect::MaybeHeld,
            },
            after: before.clone(),
            before,
            listed_rule: Some(leaving.rule.to_string()),
            by: None,
            reason: Some(reasons::leaving(leaving, node, rules)),
        }
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
        let resource = change.name().to_owned();
        let action = change.action;
        let before = Amounts::on(node, &resource);
        let after = match (&action, quantity) {
            (_, Some(quantity)) => before.set_to(&quantity),
            (Action::Withdraw { .. } | Action::RemoveZero | Action::RemoveLedger, None) => Amounts::default(),
            (_, None) => before.clone(),
        };
        let listed = ledger.get(&resource);
        let value_stays = before == after;
        let reason = reasons::change(&action, &resource, node, value_stays, listed, outcomes, rules);
        let sign = Sign::of(&action, &before);
        let priority = rules.get(&rule).map(|rule| rule.priority);
        let previous_rule = listed.map(|entry| &entry.rule).filter(|listed| **listed != rule);
        let previous_rule = previous_rule.cloned();
        Self { resource, action: name, before, after, rule, previous_rule, priority, reason, sign }
    }
}
