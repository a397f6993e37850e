//! The nodes, and the plan for each.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::{Api, Client, ResourceExt as _};
use thiserror::Error;

use super::choice::NodeChoice;
use crate::cluster::paging::{self, Page};
use crate::controller::prune::{NodePrune, Scope};
use crate::inspect::diff::cluster::list_pods;
use crate::inspect::diff::label_filter::LabelFilter;
use crate::inspect::diff::order::NodeName;
use crate::model::ledger::{InvalidLedger, Ledger};
use crate::model::node::{ApiNode, FactNames, Interner};
use crate::planner::Leaving;
use crate::planner::input::PodUsage;
use crate::planner::withdraw::Recorded;
use crate::response::error::describe;

/// The nodes to prune, and what to withdraw from them. By default, nothing from all nodes.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The nodes.
    pub choice: NodeChoice,
    /// What to withdraw.
    pub scope: Scope,
}

/// The plan for all nodes.
#[derive(Debug, Default)]
pub struct PrunePlan {
    /// The number of nodes read.
    pub nodes: usize,
    /// How they were chosen.
    pub choice: NodeChoice,
    /// The nodes with changes.
    pub planned: Vec<NodePrune>,
    /// Nodes that do not change because their ledger cannot be read.
    pub unreadable: Vec<(Arc<str>, InvalidLedger)>,
    /// Values that stay because pods request them, by node.
    pub in_use: Vec<(Arc<str>, Leaving)>,
    /// Zeros that stay, by node: without `--zeros`.
    pub zeros: Vec<(Arc<str>, String)>,
    /// The rules given by name that no ledger lists.
    pub unlisted_rules: BTreeSet<String>,
}

/// Why nodes could not be planned.
#[derive(Debug, Error)]
pub enum PlanPruneError {
    /// Nodes cannot be listed.
    #[error("cannot list nodes: {}", describe(.0))]
    List(#[source] Box<kube::Error>),
    /// The selector, which may be misspelled, selects nothing.
    #[error("no node has the labels {0}")]
    NoNodes(LabelFilter),
    /// A node cannot be read.
    #[error("cannot read node {node}: {}", describe(.source))]
    Get {
        /// Its name.
        node: String,
        /// The error.
        source: Box<kube::Error>,
    },
}

/// Reads and plans the nodes, without writing. `progress` receives the number of nodes read.
///
/// # Errors
/// If nodes cannot be listed, or a named node cannot be read.
pub async fn plan_prune(
    client: &Client,
    target: &Target,
    mut progress: impl FnMut(usize),
) -> Result<PrunePlan, PlanPruneError> {
    let Target { choice, scope } = target;
    let NodeChoice { names, labels } = choice;
    let api = Api::<ApiNode>::all(client.clone());
    let named = match &scope.withdrawal.recorded {
        Recorded::OfRules(rules) => rules.clone(),
        Recorded::None | Recorded::All => BTreeSet::new(),
    };
    let mut used = Vec::new();
    let empty = || PrunePlan { unlisted_rules: named.clone(), ..PrunePlan::default() };
    let mut plan_prune = empty();
    let mut interner = Interner::keeping(FactNames::All);
    for name in names.iter().collect::<BTreeSet<_>>() {
        let node = api.get(name).await;
        let node = node.map_err(|error| PlanPruneError::Get { node: name.clone(), source: Box::new(error) })?;
        used.extend(plan_prune.add(node, scope, &mut interner));
        progress(plan_prune.nodes);
    }
    if names.is_empty() {
        let on_page = |page| match page {
            Page::Restarted => {
                plan_prune = empty();
                used.clear();
            }
            Page::Items(nodes) => {
                let selected = nodes.into_iter().filter(|node: &ApiNode| labels.matches(node.labels()));
                used.extend(selected.filter_map(|node| plan_prune.add(node, scope, &mut interner)));
                progress(plan_prune.nodes);
            }
        };
        paging::list(&api, on_page).await.map_err(|error| PlanPruneError::List(Box::new(error)))?;
    }
    let mut used = pin!(list_pods(client, used, |planned| &planned.node().name));
    while let Some((planned, pods)) = used.next().await {
        let pods = pods.map_or_else(PodUsage::Unavailable, |pods| PodUsage::Known(pods.requests));
        plan_prune.add_planned(planned.with_pods(pods, scope));
    }
    if plan_prune.nodes == 0 && !labels.is_empty() {
        return Err(PlanPruneError::NoNodes(labels.clone()));
    }
    plan_prune.choice = choice.clone();
    plan_prune.sort();
    Ok(plan_prune)
}

impl PrunePlan {
    /// Sorts the nodes as other commands do, `node-2` before `node-10`.
    fn sort(&mut self) {
        let order = |name: &Arc<str>| NodeName(Arc::clone(name));
        self.planned.sort_by_cached_key(|planned| order(&planned.node().name));
        self.unreadable.sort_by_cached_key(|(name, _)| order(name));
        self.in_use.sort_by_cached_key(|(name, _)| order(name));
        self.zeros.sort_by_cached_key(|(name, _)| order(name));
    }

    /// Plans a node. Returns it if it must be planned again with the requests of its pods.
    fn add(&mut self, node: ApiNode, scope: &Scope, interner: &mut Interner) -> Option<NodePrune> {
        self.nodes += 1;
        let planned = NodePrune::new(node, scope, interner);
        let node = planned.node();
        if let Some(unreadable) = planned.blocked() {
            self.unreadable.push((Arc::clone(&node.name), unreadable.clone()));
            return None;
        }
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        if !self.unlisted_rules.is_empty() {
            for (_, entry) in ledger.entries() {
                self.unlisted_rules.remove(&entry.rule);
            }
        }
        if !scope.withdrawal.zeros {
            let is_changed = |resource: &str| planned.changes().iter().any(|change| change.is_of(resource));
            let zeros = node.zeros().filter(|resource| ledger.get(resource).is_none() && !is_changed(resource));
            let zeros = zeros.map(|resource| (Arc::clone(&node.name), resource.to_owned()));
            self.zeros.extend(zeros);
        }
        if planned.needs_pods() {
            return Some(planned);
        }
        self.add_planned(planned);
        None
    }

    fn add_planned(&mut self, planned: NodePrune) {
        let node = &planned.node().name;
        self.in_use.extend(planned.in_use().iter().map(|value| (Arc::clone(node), value.clone())));
        if !planned.changes().is_empty() {
            self.planned.push(planned);
        }
    }
}

#[cfg(test)]
mod tests;
