//! `--node`, `-l` and `--rule`: select a part of a plan.

use std::collections::BTreeMap;

use kube::{Resource as _, ResourceExt as _};
use thiserror::Error;

use super::label_filter::LabelFilter;
use super::node_diff::NodeDiff;
use crate::model::node::ApiNode;

/// The selected part: the named nodes or all, with these labels; the named rules or all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The names, and whether the node exists.
    nodes: BTreeMap<String, bool>,
    labels: LabelFilter,
    /// The names, and whether the rule was found.
    rules: BTreeMap<String, bool>,
}

/// Names that do not exist: a plan for a misspelled name must not report that nothing changes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownName {
    /// Of nodes.
    #[error("there is no node {0} (--node)")]
    Node(String),
    /// Of rules.
    #[error("there is no rule {0}, and no node lists it (--rule)")]
    Rule(String),
}

impl Filter {
    /// Returns a filter for the given names.
    #[must_use]
    pub fn new(nodes: &[String], labels: LabelFilter, rules: &[String]) -> Self {
        let names = |names: &[String]| names.iter().map(|name| (name.clone(), false)).collect();
        Self { nodes: names(nodes), labels, rules: names(rules) }
    }

    /// Returns whether to show a node, and records that it exists.
    pub fn admits(&mut self, node: &ApiNode) -> bool {
        if !self.nodes.is_empty() {
            match node.meta().name.as_ref().and_then(|name| self.nodes.get_mut(name)) {
                Some(exists) => *exists = true,
                None => return false,
            }
        }
        self.labels.matches(node.labels())
    }

    /// Returns whether some nodes may be excluded.
    pub(super) fn leaves_out_nodes(&self) -> bool {
        !self.nodes.is_empty() || !self.labels.is_empty()
    }

    /// Returns whether some rules are excluded.
    pub(super) fn leaves_out_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns whether to show a rule.
    pub(super) fn shows_rule(&self, rule: &str) -> bool {
        self.rules.is_empty() || self.rules.contains_key(rule)
    }

    /// Drops what is about other rules, and also what is about the whole node if no selected rule selects it. A
    /// resource belongs to the rule that decides and to the rule that it is listed under, which loses it.
    pub(super) fn apply(&mut self, node_diff: &mut NodeDiff) {
        if self.rules.is_empty() {
            return;
        }
        let rules = &mut self.rules;
        let mut shows = |rule: &str| rules.get_mut(rule).map(|found| *found = true).is_some();
        // Checks both, so that both count as found.
        let mut shows_one = |rule: &str, listed: Option<&String>| {
            let shown = shows(rule);
            listed.is_some_and(|listed| shows(listed)) || shown
        };
        node_diff.changes.retain(|change| shows_one(&change.rule, change.previous_rule.as_ref()));
        node_diff.outcomes.retain(|outcome| shows_one(&outcome.rule, outcome.listed_rule.as_ref()));
        if node_diff.outcomes.is_empty() {
            node_diff.invalid_ledger = None;
        }
    }

    /// Checks for misspelled names. A deleted rule is known from the ledgers that list it.
    pub(super) fn check(&self, is_rule: impl Fn(&str) -> bool) -> Result<(), UnknownName> {
        let unknown = |names: &BTreeMap<String, bool>, known: &dyn Fn(&str) -> bool| {
            let unknown = names.iter().filter(|(name, found)| !**found && !known(name));
            let unknown: Vec<_> = unknown.map(|(name, _)| name.as_str()).collect();
            (!unknown.is_empty()).then(|| unknown.join(", "))
        };
        match (unknown(&self.nodes, &|_| false), unknown(&self.rules, &is_rule)) {
            (Some(nodes), _) => Err(UnknownName::Node(nodes)),
            (None, Some(rules)) => Err(UnknownName::Rule(rules)),
            (None, None) => Ok(()),
        }
    }
}
