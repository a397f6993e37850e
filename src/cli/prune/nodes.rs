//! The nodes, and what there is to do on each.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::{Api, Client};
use thiserror::Error;

use crate::cluster::error::describe;
use crate::cluster::paging::{self, Page};
use crate::controller::prune::{NodePrune, Scope};
use crate::model::ledger::{InvalidLedger, Ledger};
use crate::model::node::{ApiNode, Interner};

/// What there is to do.
#[derive(Debug, Default)]
pub struct PrunePlan {
    /// How many nodes have been looked at.
    pub nodes: usize,
    /// Those with something to do.
    pub planned: Vec<NodePrune>,
    /// Nodes that do not change, since their ledger cannot be read.
    pub unreadable: Vec<(Arc<str>, InvalidLedger)>,
    /// Zeros that stay, with their node: nobody asked for their removal.
    pub zeros: Vec<(Arc<str>, String)>,
    /// The rules that were named, and that no ledger lists.
    pub unlisted_rules: BTreeSet<String>,
}

/// Why nodes could not be planned.
#[derive(Debug, Error)]
pub enum PlanPruneError {
    /// Nodes cannot be listed.
    #[error("nodes cannot be listed: {}", describe(.0))]
    List(#[source] Box<kube::Error>),
    /// A node cannot be read.
    #[error("node {node} cannot be read: {}", describe(.source))]
    Get {
        /// Its name.
        node: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
}

/// Reads the nodes, and plans each. Nothing is written. `progress` receives how many have been read.
///
/// # Errors
/// Where nodes cannot be listed, or one that was named cannot be read.
pub async fn plan_prune(
    client: &Client,
    scope: &Scope,
    mut progress: impl FnMut(usize),
) -> Result<PrunePlan, PlanPruneError> {
    let api = Api::<ApiNode>::all(client.clone());
    let empty =
        || PrunePlan { unlisted_rules: scope.withdrawal.rules.clone(), ..PrunePlan::default() };
    let mut plan_prune = empty();
    let mut interner = Interner::default();
    for name in scope.nodes.iter().collect::<BTreeSet<_>>() {
        let node = api.get(name).await;
        let node = node
            .map_err(|error| PlanPruneError::Get { node: name.clone(), source: Box::new(error) })?;
        plan_prune.add(node, scope, &mut interner);
        progress(plan_prune.nodes);
    }
    if scope.nodes.is_empty() {
        let on_page = |page| match page {
            Page::Restarted => plan_prune = empty(),
            Page::Items(nodes) => {
                nodes.into_iter().for_each(|node| plan_prune.add(node, scope, &mut interner));
                progress(plan_prune.nodes);
            }
        };
        paging::list(&api, on_page).await.map_err(|error| PlanPruneError::List(Box::new(error)))?;
    }
    Ok(plan_prune)
}

impl PrunePlan {
    fn add(&mut self, node: ApiNode, scope: &Scope, interner: &mut Interner) {
        self.nodes += 1;
        let planned = NodePrune::new(node, scope, interner);
        let node = planned.node();
        if let Some(unreadable) = planned.blocked() {
            self.unreadable.push((Arc::clone(&node.name), unreadable.clone()));
            return;
        }
        if !self.unlisted_rules.is_empty()
            && let Ok(ledger) = Ledger::parse(node.ledger.as_deref())
        {
            for (_, entry) in ledger.entries() {
                self.unlisted_rules.remove(&entry.rule);
            }
        }
        if !scope.withdrawal.zeros {
            let zeros = node.zeros().map(|resource| (Arc::clone(&node.name), resource.to_owned()));
            self.zeros.extend(zeros);
        }
        if !planned.changes().is_empty() {
            self.planned.push(planned);
        }
    }
}

#[cfg(test)]
mod tests;
