//! The shipped planner, asked once for each question; and its patches, applied once to each node and checked.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use json_patch::Patch;
use serde_json::json;

use super::checks::{Floor, Grant, License, check};
use super::node::{Entry, RESOURCES, RULES, SmallNode};
use super::search::FastHasher;
use super::state::PatchId;
use crate::model::api::DeletionPolicy;
use crate::model::node::Node;
use crate::model::pod::{NodeRequests, Requests};
use crate::planner::input::{Contested, NewValues, PlanningInput, PodUsage};
use crate::planner::rules::{Rule, RuleSet};
use crate::planner::tests::try_apply;
use crate::planner::{self, Action, Change, NodePlan};

type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

const RULES_CREATED: &str = "2026-01-02T00:00:00Z";

/// A rule as it may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) resource: usize,
    pub(super) quantity: u8,
    pub(super) priority: i32,
    pub(super) overwrite: bool,
    pub(super) immediate: bool,
    pub(super) deletion: DeletionPolicy,
    /// Whether it is invalid or paused, so that what it has is kept.
    pub(super) is_frozen: bool,
    /// Whether it is paused.
    pub(super) is_paused: bool,
}

/// Which of the planner's functions is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Plan,
    Repairs,
    Resets,
}

/// A question to the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) kind: Kind,
    pub(super) view: SmallNode,
    pub(super) rules: [u8; 2],
    pub(super) pods: Option<[u8; 2]>,
    pub(super) is_young: bool,
}

/// What it answers.
#[derive(Debug)]
pub(super) struct Answer {
    /// The patch for all changes, then one for each where there are several.
    pub(super) patches: Vec<PatchId>,
    pub(super) needs_pods: bool,
    /// Which resources are changed.
    pub(super) changes: [bool; 2],
}

/// A patch, with what its sender remembers of it.
#[derive(Debug)]
pub(super) struct Sent {
    patch: Patch,
    /// What it does, in words.
    pub(super) text: String,
    license: License,
    /// The ledger that it tests.
    pub(super) ledger: [Option<Entry>; 2],
    pub(super) withdraws: bool,
}

pub(super) struct Planning {
    variants: [Vec<Spec>; 2],
    created: &'static str,
    rule_sets: BTreeMap<[u8; 2], RuleSet>,
    nodes: FastMap<SmallNode, Arc<Node>>,
    answers: FastMap<Question, Arc<Answer>>,
    sent: Vec<Sent>,
    numbers: HashMap<(String, License), PatchId>,
    applied: FastMap<(PatchId, SmallNode), Result<Option<SmallNode>, String>>,
}

impl Planning {
    pub(super) fn new(variants: [Vec<Spec>; 2], is_young: bool) -> Self {
        let created = if is_young { "2026-01-03T00:00:00Z" } else { "2026-01-01T00:00:00Z" };
        Self {
            variants,
            created,
            rule_sets: BTreeMap::new(),
            nodes: FastMap::default(),
            answers: FastMap::default(),
            sent: Vec::new(),
            numbers: HashMap::new(),
            applied: FastMap::default(),
        }
    }

    pub(super) fn ask(&mut self, question: Question) -> Arc<Answer> {
        if let Some(answer) = self.answers.get(&question) {
            return Arc::clone(answer);
        }
        let answer = Arc::new(self.plan(question));
        self.answers.insert(question, Arc::clone(&answer));
        answer
    }

    pub(super) fn sent(&self, patch: PatchId) -> &Sent {
        &self.sent[usize::from(patch) - 1]
    }

    fn plan(&mut self, question: Question) -> Answer {
        let Question { kind, view, rules, pods, is_young } = question;
        let node = self.node(view);
        let variants = &self.variants;
        let set = self.rule_sets.entry(rules).or_insert_with(|| rule_set(variants, rules));
        let new_values = if is_young { NewValues::CheckOlderNodes } else { NewValues::Check };
        let input = PlanningInput {
            pods: pods.map_or(PodUsage::NotFetched, |pods| PodUsage::Known(requests(pods))),
            new_values,
            ..PlanningInput::default()
        };
        let planned = match kind {
            Kind::Plan => planner::plan(&node, set, &input),
            Kind::Repairs => planner::plan_repairs(&node, &Contested::default()),
            Kind::Resets => planner::plan_resets(&node),
        };
        let license = self.license(question);
        self.answer((&node, view), &planned, license)
    }

    fn answer(&mut self, node: (&Node, SmallNode), planned: &NodePlan, license: License) -> Answer {
        let changes = planned.changes();
        let mut patches = Vec::new();
        if !changes.is_empty() {
            patches.push(self.number(node, changes, license));
        }
        if changes.len() > 1 {
            patches.extend(changes.chunks(1).map(|part| self.number(node, part, license)));
        }
        let is_changed = |resource| changes.iter().any(|change| change.is_of(resource));
        let changes = RESOURCES.map(is_changed);
        Answer { patches, needs_pods: planned.needs_pods(), changes }
    }

    fn number(&mut self, (node, view): (&Node, SmallNode), changes: &[Change], license: License) -> PatchId {
        let patch = planner::patch(node, changes).unwrap();
        let withdraws = changes.iter().any(|change| matches!(change.action, Action::Withdraw { .. }));
        let key = (serde_json::to_string(&patch).unwrap(), license);
        let next = PatchId::try_from(self.sent.len() + 1).unwrap();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            let text: Vec<_> = changes.iter().map(ToString::to_string).collect();
            let (text, ledger) = (text.join("; "), view.ledger());
            self.sent.push(Sent { patch, text, license, ledger, withdraws });
        }
        number
    }

    /// What a patch may do, by what its sender knows: decided here without the planner.
    fn license(&self, question: Question) -> License {
        let Question { kind, view, rules, pods, is_young, .. } = question;
        let grant = |resource: usize| {
            let amount = view.amounts[resource];
            let decides = self.deciding(rules, resource, amount.entry);
            let floor = match (kind, decides) {
                (Kind::Plan, Some(spec)) if spec.immediate && !spec.is_frozen => Floor::Any,
                (Kind::Plan, None) if amount.entry.is_none_or(|it| it.policy != DeletionPolicy::WhenUnused) => {
                    Floor::Any
                }
                _ => {
                    pods.map_or(Floor::Unknown, |pods| Floor::Known { bound: pods[resource], started: pods[resource] })
                }
            };
            let is_zeroed = amount.values.contains(&Some(0));
            Grant {
                overwrites: kind == Kind::Plan && decides.is_some_and(|spec| spec.overwrite && !spec.is_frozen),
                seen: amount.values,
                floor,
                may_appear: is_young && !is_zeroed,
            }
        };
        License { kind, grants: [grant(0), grant(1)] }
    }

    /// The rule that decides about a resource.
    pub(super) fn deciding(&self, rules: [u8; 2], resource: usize, entry: Option<Entry>) -> Option<Spec> {
        let specs = [0, 1].map(|rule| self.spec(rule, rules[rule]));
        let frozen = entry.filter(|entry| !entry.is_leaving).and_then(|entry| specs[usize::from(entry.rule)]);
        if let Some(frozen) = frozen.filter(|spec| spec.is_frozen) {
            return Some(frozen);
        }
        let valid = specs.into_iter().flatten();
        let valid = valid.filter(|spec| !spec.is_frozen && spec.resource == resource);
        // The first rule is the older one.
        valid.reduce(|first, other| if other.priority > first.priority { other } else { first })
    }

    fn spec(&self, rule: usize, variant: u8) -> Option<Spec> {
        let place = usize::from(variant).checked_sub(1)?;
        self.variants[rule].get(place).copied()
    }

    /// Applies a patch as the API server does. `None` where a test does not hold.
    pub(super) fn apply(&mut self, patch: PatchId, before: SmallNode) -> Result<Option<SmallNode>, String> {
        if let Some(applied) = self.applied.get(&(patch, before)) {
            return applied.clone();
        }
        let Sent { patch: operations, license, .. } = self.sent(patch);
        let mut object = before.object(self.created);
        let after = try_apply(&mut object, operations).ok().map(|()| before.written(&object));
        let result = match after.map(|after| check(license, &before, &after)) {
            Some(Err(violation)) => {
                let text = serde_json::to_string(operations).unwrap();
                Err(format!("{violation}\n  by {text}"))
            }
            _ => Ok(after),
        };
        self.applied.insert((patch, before), result.clone());
        result
    }

    fn node(&mut self, node: SmallNode) -> Arc<Node> {
        let created = self.created;
        let decoded = self.nodes.entry(node).or_insert_with(|| SmallNode::decoded(node.object(created)).into());
        Arc::clone(decoded)
    }
}

fn rule_set(variants: &[Vec<Spec>; 2], rules: [u8; 2]) -> RuleSet {
    let (mut valid, mut frozen) = (Vec::new(), Vec::new());
    for (rule, name) in RULES.into_iter().enumerate() {
        let Some(place) = usize::from(rules[rule]).checked_sub(1) else { continue };
        let Spec { resource, quantity, priority, overwrite, immediate, deletion, is_frozen, is_paused } =
            variants[rule][place];
        if is_frozen && !is_paused {
            frozen.push((name.into(), None));
            continue;
        }
        let object = json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name, "creationTimestamp": RULES_CREATED},
            "spec": {
                "resourceName": RESOURCES[resource], "quantity": quantity, "allNodes": true,
                "priority": priority,
                "conflictPolicy": if overwrite { "Overwrite" } else { "Keep" },
                "shrinkPolicy": if immediate { "Immediate" } else { "WhenFree" },
                "deletionPolicy": deletion,
                "paused": is_paused,
            },
        });
        valid.push(Arc::new(Rule::new(&serde_json::from_value(object).unwrap()).unwrap()));
    }
    RuleSet::new(valid, frozen)
}

/// What pods request of which each has started.
pub(crate) fn requests(pods: [u8; 2]) -> NodeRequests {
    let amounts = RESOURCES.iter().zip(pods).map(|(name, amount)| (*name, amount.to_string()));
    let amounts: BTreeMap<_, _> = amounts.collect();
    let pod = json!({"spec": {"containers": [{"resources": {"requests": amounts}}]}});
    let requests = Requests::of(&serde_json::from_value(pod).unwrap());
    NodeRequests { bound: requests.clone(), started: requests }
}
