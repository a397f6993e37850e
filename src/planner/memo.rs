//! Plans of nodes that are alike, each made once: an edit of a rule plans every node, most of which differ in nothing
//! that a plan depends on.

use std::collections::HashMap;
use std::sync::Arc;

use super::input::PlanningInput;
use super::plan::NodePlan;
use super::resolve;
use super::rules::RuleSet;
use crate::model::node::{Node, Shape};

/// How many plans are remembered, and how many outcomes they may have together: whoever writes rules chooses how many
/// select a node. When there are more, all are forgotten.
const MAX_PLANS: usize = 256;
const MAX_OUTCOMES: usize = 64 * 1024;

/// Plans by what they depend on. It gives the plans that [`resolve::plan`] gives.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// The rules of the remembered plans.
    rules: Option<Arc<RuleSet>>,
    plans: HashMap<Key, NodePlan>,
    /// How many outcomes the plans have together.
    outcomes: usize,
}

/// What a plan depends on, besides the input.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    shape: Shape,
    /// The rules that select the node, by their places.
    selecting: Box<[usize]>,
}

/// A copy remembers nothing: plans are the same without a memory.
impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Memo {
    /// Plans one node by the rules.
    pub(crate) fn plan(&mut self, node: &Node, rules: &Arc<RuleSet>, input: &PlanningInput) -> NodePlan {
        let selecting = rules.places_selecting(node);
        // A derived quantity depends on labels and annotations, of which nodes share little.
        let is_derived = || rules.at(&selecting).any(|rule| rule.quantity.fixed().is_none());
        if !input.is_plain() || is_derived() {
            return resolve::plan(node, rules, &selecting, input);
        }
        if !self.rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, rules)) {
            self.forget();
            self.rules = Some(Arc::clone(rules));
        }
        let key = Key { shape: node.shape(), selecting: selecting.into() };
        if let Some(plan) = self.plans.get(&key) {
            return plan.clone();
        }
        let plan = resolve::plan(node, rules, &key.selecting, input);
        if self.plans.len() >= MAX_PLANS || self.outcomes >= MAX_OUTCOMES {
            self.forget();
        }
        self.outcomes += plan.outcomes.len();
        self.plans.insert(key, plan.clone());
        plan
    }

    fn forget(&mut self) {
        self.plans.clear();
        self.outcomes = 0;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.plans.len()
    }
}
