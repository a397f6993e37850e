//! Taking back all that ledgers list: the whole cluster, node by node, with nobody writing beside it.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::{Api, Client};
use thiserror::Error;

use super::lease_guard::LeaseGuard;
use crate::cluster::backoff::Backoff;
use crate::cluster::error::describe;
use crate::cluster::node_client::{self, NodeClient, Reply};
use crate::cluster::paging::{self, Page};
use crate::model::label::excerpt;
use crate::model::ledger::InvalidLedger;
use crate::model::node::{ApiNode, Interner, Node};
use crate::planner::withdraw::{Withdrawal, withdraw, withdraw_unreadable};
use crate::planner::{Change, Plan};

/// How many nodes are patched at once. The API server is busy at about ten.
const CONCURRENCY: usize = 16;
/// How often a patch is sent before the node counts as failed.
const TRIES: usize = 6;

/// Which nodes, and what of them.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Their names; where there is none, all nodes.
    pub nodes: Vec<String>,
    /// What is to be taken back.
    pub withdrawal: Withdrawal,
    /// Whether ledgers that cannot be read are removed, with what the controller has written by
    /// managedFields.
    pub repair_ledgers: bool,
}

/// What there is to do.
#[derive(Debug, Default)]
pub struct PrunePlan {
    /// How many nodes have been looked at.
    pub nodes: usize,
    /// Those with something to do.
    pub planned: Vec<NodePrune>,
    /// Nodes left alone, since their ledger cannot be read.
    pub unreadable: Vec<(Arc<str>, InvalidLedger)>,
    /// Zeros that stay, with their node: nobody asked for their removal.
    pub zeros: Vec<(Arc<str>, String)>,
}

/// A node with something to do.
#[derive(Debug)]
pub struct NodePrune {
    node: Node,
    plan: Plan,
    /// What the controller has written on it, where its ledger cannot be read.
    own: Option<Vec<String>>,
}

impl NodePrune {
    /// The node's name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node.name
    }

    /// What is to be done.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.plan.changes
    }

    /// The beginning of a ledger that cannot be read, and is removed.
    #[must_use]
    pub fn unreadable_ledger(&self) -> Option<String> {
        self.own.as_ref()?;
        self.node.ledger.as_deref().map(excerpt)
    }
}

/// Why a survey could not be made.
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

/// Looks at the nodes, and plans each. Nothing is written. `progress` is told how many have been seen.
///
/// # Errors
/// Where nodes cannot be listed, or one that was named cannot be read.
pub async fn plan_prune(
    client: &Client,
    scope: &Scope,
    mut progress: impl FnMut(usize),
) -> Result<PrunePlan, PlanPruneError> {
    let api = Api::<ApiNode>::all(client.clone());
    let mut plan_prune = PrunePlan::default();
    let mut interner = Interner::default();
    for name in &scope.nodes {
        let node = api.get(name).await;
        let node = node
            .map_err(|error| PlanPruneError::Get { node: name.clone(), source: Box::new(error) })?;
        plan_prune.add(node, scope, &mut interner);
        progress(plan_prune.nodes);
    }
    if scope.nodes.is_empty() {
        let on_page = |page| match page {
            Page::Restarted => plan_prune = PrunePlan::default(),
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
        let own = node.own_resources();
        let node = Node::new(node, interner);
        let Scope { withdrawal, repair_ledgers, .. } = scope;
        let mut plan = withdraw(&node, withdrawal);
        let mut repaired = None;
        if let Some(unreadable) = plan.invalid_ledger.take() {
            if !repair_ledgers {
                self.unreadable.push((Arc::clone(&node.name), unreadable));
                return;
            }
            plan = plan_repair(&node, &own, withdrawal);
            repaired = Some(own);
        }
        if !withdrawal.zeros {
            let zeros = node.zeros().map(|resource| (Arc::clone(&node.name), resource.to_owned()));
            self.zeros.extend(zeros);
        }
        if plan.patch.is_some() {
            self.planned.push(NodePrune { node, plan, own: repaired });
        }
    }
}

fn plan_repair(node: &Node, own: &[String], withdrawal: &Withdrawal) -> Plan {
    let own: Vec<_> = own.iter().map(String::as_str).collect();
    withdraw_unreadable(node, &own, withdrawal)
}

/// What came of one node.
#[derive(Debug)]
pub struct NodeResult {
    /// Its name.
    pub node: Arc<str>,
    /// What was done; or why nothing was, in words.
    pub result: Result<Vec<Change>, String>,
}

/// Does what has been planned, and tells `done` of each node as it is through.
pub async fn prune(
    client: &Client,
    scope: &Scope,
    planned: Vec<NodePrune>,
    lease_guard: &LeaseGuard,
    mut done: impl FnMut(NodeResult),
) {
    let requests = NodeClient::new(client.clone(), node_client::TIMEOUT);
    let mut pruned = futures::stream::iter(planned.into_iter().enumerate())
        .map(|(number, planned)| {
            let name = Arc::clone(&planned.node.name);
            let work = prune_node(&requests, scope, planned, lease_guard, number as u64);
            async move { NodeResult { node: name, result: work.await } }
        })
        .buffer_unordered(CONCURRENCY);
    while let Some(pruned) = pruned.next().await {
        done(pruned);
    }
}

async fn prune_node(
    requests: &NodeClient,
    scope: &Scope,
    planned: NodePrune,
    lease_guard: &LeaseGuard,
    seed: u64,
) -> Result<Vec<Change>, String> {
    let NodePrune { node, mut plan, own } = planned;
    let mut backoff = Backoff::new(seed);
    let mut last = String::new();
    for _ in 0..TRIES {
        lease_guard.check()?;
        let Some(patch) = plan.patch.take() else { return Ok(plan.changes) };
        let (message, retry_after) =
            match requests.clone().patch(Arc::clone(&node.name), patch).await {
                Reply::Patched(_) => return Ok(plan.changes),
                Reply::NotFound => return Ok(Vec::new()),
                Reply::Forbidden(message) => return Err(message),
                Reply::Stale { node: answer, message } => {
                    let now = Node::new(*answer, &mut Interner::default());
                    plan = match &own {
                        Some(own) => plan_repair(&now, own, &scope.withdrawal),
                        None => withdraw(&now, &scope.withdrawal),
                    };
                    if let Some(unreadable) = plan.invalid_ledger {
                        return Err(unreadable.to_string());
                    }
                    last = message;
                    continue;
                }
                Reply::Failed { message, retry_after } => (message, retry_after),
            };
        tokio::time::sleep(backoff.next(retry_after)).await;
        last = message;
    }
    Err(format!("given up after {TRIES} tries: {last}"))
}
