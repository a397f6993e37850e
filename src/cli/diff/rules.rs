//! The rules that there would be.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::model::ledger::Ledger;
use crate::model::node::Node;
use crate::planner::input::{Contest, Contested, Lost};
use crate::planner::rules::{InvalidRule, Rule, RuleSet};

/// A rule as the cluster has it.
#[derive(Clone, Debug)]
pub struct ClusterRule {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.creationTimestamp`
    pub created: Option<Timestamp>,
    /// What it declares.
    pub rule: Result<Rule, InvalidRule>,
    /// The nodes on which its resource is contested, as far as its status says.
    pub contested: Vec<Arc<str>>,
}

/// Something to know that is not about one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The rule that it is about, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// A sentence, without a full stop.
    pub message: String,
    /// What it is about, so that many alike can be counted.
    #[serde(skip)]
    pub(super) kind: NoteKind,
}

/// What a note is about. The order is that of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NoteKind {
    InvalidRule,
    NoNodeSelected,
    EmptyFilter,
}

/// All rules that there would be, and what is known beside them.
#[derive(Debug, Default)]
pub struct Rules {
    set: RuleSet,
    by_name: BTreeMap<Arc<str>, Arc<Rule>>,
    /// By node, the resources.
    contested: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    notes: Vec<Note>,
}

impl Rules {
    /// Of files alone. Their creation timestamps count, where they have some.
    #[must_use]
    pub fn from_files(rules: Vec<Rule>) -> Self {
        Self::new(rules, BTreeMap::new())
    }

    /// Of a cluster in which the rules of files have been applied: they replace those of their names.
    /// With `prune` the cluster's other rules are gone.
    #[must_use]
    pub fn from_cluster(present: Vec<ClusterRule>, mut files: Vec<Rule>, prune: bool) -> Self {
        let ages: HashMap<_, _> =
            present.iter().map(|rule| (Arc::clone(&rule.name), rule.created)).collect();
        for rule in &mut files {
            // The server sets it, whatever the file says.
            rule.created = ages.get(&rule.name).copied().flatten();
        }
        let names: BTreeSet<_> = files.iter().map(|rule| Arc::clone(&rule.name)).collect();
        let mut contested = HashMap::<_, BTreeSet<Arc<str>>>::new();
        let mut frozen = BTreeMap::new();
        for ClusterRule { name, rule, contested: nodes, .. } in present {
            if let Ok(rule) = &rule {
                for node in nodes {
                    contested.entry(node).or_default().insert(rule.resource.as_str().into());
                }
            }
            if prune || names.contains(&name) {
                continue;
            }
            match rule {
                Ok(rule) => files.push(rule),
                Err(invalid) => drop(frozen.insert(name, invalid)),
            }
        }
        Self { contested, ..Self::new(files, frozen) }
    }

    fn new(rules: Vec<Rule>, frozen: BTreeMap<Arc<str>, InvalidRule>) -> Self {
        let rules: Vec<_> = rules.into_iter().map(Arc::new).collect();
        let frozen_note = |(name, invalid): (&Arc<str>, &InvalidRule)| Note {
            rule: Some(Arc::clone(name)),
            message: format!(
                "rule {name} in the cluster is invalid, and its values stay: {invalid}"
            ),
            kind: NoteKind::InvalidRule,
        };
        Self {
            notes: frozen.iter().map(frozen_note).collect(),
            set: RuleSet::new(rules.iter().cloned(), frozen.into_keys().map(|name| (name, None))),
            by_name: rules.into_iter().map(|rule| (Arc::clone(&rule.name), rule)).collect(),
            contested: HashMap::new(),
        }
    }

    /// To plan nodes with.
    #[must_use]
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// The valid rule of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Rule> {
        self.by_name.get(name).map(|rule| &**rule)
    }

    /// Every valid rule, by name.
    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.by_name.values().map(|rule| &**rule)
    }

    /// What another field manager keeps changing back on a node. It is not repaired: only the controller
    /// knows when the next try is due.
    #[must_use]
    pub fn contested(&self, node: &Node) -> Contested {
        let Some(resources) = self.contested.get(&node.name) else {
            return Contested::new();
        };
        // Where there is no entry, it is the annotation that is lost again and again.
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        let contest = |resource: &Arc<str>| Contest {
            may_repair: false,
            manager: node.other_manager(resource).cloned(),
            lost: if ledger.get(resource).is_some() { Lost::Value } else { Lost::LedgerEntry },
        };
        let resources = resources.iter();
        resources.map(|resource| (Arc::clone(resource), contest(resource))).collect()
    }

    /// Whether there is a rule of this name, valid or not.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name) || self.set.is_frozen(name)
    }

    /// What there is to know of them.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}
