//! What all rules need together, counted as they come and go: no step walks them.

use std::collections::BTreeMap;

use super::state::RuleState;
use crate::model::api::ShrinkPolicy;
use crate::model::node::{Fact, FactNames};

#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    /// The rules that read each fact besides labels, which are always kept.
    facts: BTreeMap<Fact, usize>,
    /// The rules not in force, and the paused ones: what is kept for them follows pods up.
    kept: usize,
    /// The other rules under `WhenFree`.
    when_free: usize,
}

impl Census {
    pub(super) fn add(&mut self, state: &RuleState) {
        if let Some(fact) = fact(state) {
            *self.facts.entry(fact.clone()).or_default() += 1;
        }
        if let Some(count) = self.following_pods(state) {
            *count += 1;
        }
    }

    pub(super) fn remove(&mut self, state: &RuleState) {
        if let Some(fact) = fact(state)
            && let Some(count) = self.facts.get_mut(fact)
        {
            *count -= 1;
            if *count == 0 {
                self.facts.remove(fact);
            }
        }
        if let Some(count) = self.following_pods(state) {
            *count -= 1;
        }
    }

    /// Returns the count to which a rule belongs whose values depend on pods.
    fn following_pods(&mut self, state: &RuleState) -> Option<&mut usize> {
        match &state.rule {
            Ok(rule) if rule.paused => Some(&mut self.kept),
            Ok(rule) if rule.shrink_policy == ShrinkPolicy::WhenFree => Some(&mut self.when_free),
            Ok(_) => None,
            Err(_) => Some(&mut self.kept),
        }
    }

    /// Returns what the rules read from nodes, besides labels.
    pub(super) fn facts(&self) -> FactNames {
        FactNames::Named(self.facts.keys().cloned().collect())
    }

    /// Returns whether values depend on pods wherever they are.
    pub(super) fn has_kept(&self) -> bool {
        self.kept > 0
    }

    /// Returns whether values depend on pods on the nodes that a rule selects.
    pub(super) fn has_when_free(&self) -> bool {
        self.when_free > 0
    }
}

fn fact(state: &RuleState) -> Option<&Fact> {
    let fact = state.rule.as_ref().ok()?.quantity.fact()?;
    (!matches!(fact, Fact::Label(_))).then_some(fact)
}
