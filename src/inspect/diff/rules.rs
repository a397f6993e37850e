//! The rules to plan with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::model::api::Reason;
use crate::model::count::plural;
use crate::model::ledger::Ledger;
use crate::model::node::Node;
use crate::planner::input::{Contest, Contested, Lost};
use crate::planner::observed::Observed;
use crate::planner::rules::{InvalidRule, Rule, RuleSet};

/// A rule in the cluster.
#[derive(Clone, Debug)]
pub struct ClusterRule {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.creationTimestamp`
    pub created: Option<Timestamp>,
    /// The compiled rule.
    pub rule: Result<Rule, InvalidRule>,
    /// The nodes on which its resource is contested, according to its status.
    pub contested: Vec<Arc<str>>,
    /// What else is known about it.
    pub standing: Standing,
}

/// What is known about a rule of a cluster, besides what it declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether the status describes another version of the rule than the last.
    pub is_stale: bool,
    /// On how many nodes another field manager has set the value.
    pub conflicted: i64,
    /// When its spec was last written, or fields together with it, if managedFields record that.
    pub edited: Option<Timestamp>,
    /// Its resource, if that can be read, also if it is invalid.
    pub resource: Option<Arc<str>>,
    /// Why it is not Ready, according to its status.
    pub unready: Option<Unready>,
}

/// A condition `Ready` that is `False`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// The reasons that other words of `attention` stand for.
const IN_OTHER_WORDS: [Reason; 3] = [Reason::Paused, Reason::Conflict, Reason::Contested];

/// The rules of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterRules {
    /// Those that declare something, or are invalid.
    pub present: Vec<ClusterRule>,
    /// What keeps each rule that is being deleted, by name.
    pub deleting: BTreeMap<Arc<str>, String>,
}

impl From<Vec<ClusterRule>> for ClusterRules {
    fn from(present: Vec<ClusterRule>) -> Self {
        Self { present, deleting: BTreeMap::new() }
    }
}

/// A note that is not about one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The rule of the note, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// A sentence, without a period.
    pub message: String,
    /// The kind, so that many alike can be counted.
    #[serde(skip)]
    pub(crate) kind: NoteKind,
}

/// The kind of a note, in the order of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoteKind {
    InvalidRule,
    Deleting,
    NoNodeSelected,
    EmptyFilter,
    UnknownWriters,
}

/// All rules to plan with, and what else is known.
#[derive(Debug, Default)]
pub struct Rules {
    set: RuleSet,
    by_name: BTreeMap<Arc<str>, Arc<Rule>>,
    /// The contested resources by node.
    contested: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// What else is known about rules, by name.
    standings: BTreeMap<Arc<str>, Standing>,
    notes: Vec<Note>,
}

impl Rules {
    /// Returns the rules of files alone. Their creation timestamps count, if they have any.
    #[must_use]
    pub fn from_files(rules: Vec<Rule>) -> Self {
        Self::new(rules, BTreeMap::new())
    }

    /// Returns the rules of a cluster after the rules of files are applied, which replace rules of the same name. With
    /// `prune`, the cluster's other rules are gone.
    #[must_use]
    pub fn from_cluster(cluster: impl Into<ClusterRules>, mut files: Vec<Rule>, prune: bool) -> Self {
        let ClusterRules { present, deleting } = cluster.into();
        // An edit of a rule does not end its deletion.
        let in_files: BTreeSet<_> = files.iter().map(|rule| Arc::clone(&rule.name)).collect();
        files.retain(|rule| !deleting.contains_key(&rule.name));
        let ages: HashMap<_, _> = present.iter().map(|rule| (Arc::clone(&rule.name), rule.created)).collect();
        for rule in &mut files {
            // The API server sets it, whatever the file says.
            rule.created = ages.get(&rule.name).copied().flatten();
        }
        let names: BTreeSet<_> = files.iter().map(|rule| Arc::clone(&rule.name)).collect();
        let mut contested = HashMap::<_, BTreeSet<Arc<str>>>::new();
        let (mut frozen, mut standings) = (BTreeMap::new(), BTreeMap::new());
        for ClusterRule { name, rule, contested: nodes, standing, .. } in present {
            if let Ok(rule) = &rule {
                for node in nodes {
                    contested.entry(node).or_default().insert(rule.resource.as_str().into());
                }
            }
            if prune || names.contains(&name) {
                continue;
            }
            standings.insert(Arc::clone(&name), standing);
            match rule {
                Ok(rule) => files.push(rule),
                Err(invalid) => drop(frozen.insert(name, invalid)),
            }
        }
        let mut rules = Self { contested, standings, ..Self::new(files, frozen) };
        let notes = deleting.into_iter().map(|(name, waits_for)| {
            let and_file = if in_files.contains(&name) { ", and its file has no effect until it is gone" } else { "" };
            let message =
                format!("rule {name} is being deleted and declares nothing{and_file}: it waits for {waits_for}");
            Note { rule: Some(name), message, kind: NoteKind::Deleting }
        });
        rules.notes.extend(notes);
        rules
    }

    fn new(rules: Vec<Rule>, frozen: BTreeMap<Arc<str>, InvalidRule>) -> Self {
        let rules: Vec<_> = rules.into_iter().map(Arc::new).collect();
        let frozen_note = |(name, invalid): (&Arc<str>, &InvalidRule)| Note {
            rule: Some(Arc::clone(name)),
            message: format!("rule {name} in the cluster is invalid, and its values stay: {invalid}"),
            kind: NoteKind::InvalidRule,
        };
        Self {
            notes: frozen.iter().map(frozen_note).collect(),
            set: RuleSet::new(rules.iter().cloned(), frozen.into_keys().map(|name| (name, None))),
            by_name: rules.into_iter().map(|rule| (Arc::clone(&rule.name), rule)).collect(),
            contested: HashMap::new(),
            standings: BTreeMap::new(),
        }
    }

    /// Returns the set to plan nodes with.
    #[must_use]
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Returns the valid rule of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Rule> {
        self.by_name.get(name).map(|rule| &**rule)
    }

    /// Returns why the values of a rule may differ from what it declares, if its status or a pause explains it.
    #[must_use]
    pub fn attention(&self, name: &str) -> Option<String> {
        let Standing { is_stale, conflicted, unready, .. } = self.standings.get(name).cloned().unwrap_or_default();
        let paused = self.get(name).is_some_and(|rule| rule.paused);
        let paused = paused.then(|| "paused".to_owned());
        let conflicts = usize::try_from(conflicted).ok().filter(|count| *count > 0);
        let conflicts = conflicts.map(|count| format!("in conflict on {}", plural(count, "node", "nodes")));
        let stale = is_stale.then(|| "newer than its status, which no controller has written since".to_owned());
        let is_said = |reason: &str| is_stale || IN_OTHER_WORDS.iter().any(|said| said.as_str() == reason);
        let unready = unready.filter(|why| !is_said(&why.reason)).map(|why| format!("not Ready ({})", why.reason));
        let all: Vec<_> = paused.into_iter().chain(conflicts).chain(stale).chain(unready).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Returns when the spec of a rule was last written, if that is known.
    #[must_use]
    pub fn edited(&self, name: &str) -> Option<Timestamp> {
        self.standings.get(name)?.edited
    }

    /// Returns why a rule is not Ready, in the words of its status: not that of an earlier version of the rule, and not
    /// only because patches are in progress.
    pub(crate) fn unready(&self, name: &str) -> Option<String> {
        let Standing { is_stale: false, unready: Some(Unready { reason, message }), .. } = self.standings.get(name)?
        else {
            return None;
        };
        (reason != Reason::Progressing.as_str()).then(|| format!("{reason}: {message}"))
    }

    /// Returns the invalid rules of a resource, and those of which the resource cannot be read.
    pub(crate) fn invalid_of(&self, resource: &str) -> impl Iterator<Item = &Arc<str>> {
        let invalid = self.standings.iter().filter(|(name, _)| !self.by_name.contains_key(*name));
        let may_declare = move |standing: &Standing| standing.resource.as_ref().is_none_or(|own| **own == *resource);
        invalid.filter(move |(_, standing)| may_declare(standing)).map(|(name, _)| name)
    }

    /// Returns every valid rule, by name.
    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.by_name.values().map(|rule| &**rule)
    }

    /// Returns what another field manager keeps changing back on a node. It is not repaired: only the controller knows
    /// when the next attempt is due.
    #[must_use]
    pub fn contested(&self, node: &Node) -> Contested {
        let Some(resources) = self.contested.get(&node.name) else {
            return Contested::new();
        };
        // Without an entry, the annotation keeps losing it.
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        let contest = |resource: &Arc<str>| {
            let observed = Observed::on(node, &ledger, resource);
            let lost = match observed.manager() {
                _ if ledger.get(resource).is_none() => Lost::LedgerEntry,
                Some(manager) if manager.is_own() => Lost::OwnWrite,
                _ => Lost::Value,
            };
            Contest { may_repair: false, manager: node.other_manager(resource).cloned(), lost }
        };
        let resources = resources.iter();
        resources.map(|resource| (Arc::clone(resource), contest(resource))).collect()
    }

    /// Returns whether some rule of the cluster is invalid, so that its values stay.
    #[must_use]
    pub fn has_frozen(&self) -> bool {
        self.notes.iter().any(|note| note.kind == NoteKind::InvalidRule)
    }

    /// Returns whether there is a rule of this name, valid or not.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name) || self.set.is_frozen(name)
    }

    /// Returns the notes.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}
