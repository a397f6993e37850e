//! Withdraws all that ledgers list: the whole cluster, node by node, with nobody writing beside it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::{Api, Client};
use thiserror::Error;

use super::lease_guard::LeaseGuard;
use crate::cluster::backoff::Backoff;
use crate::cluster::error::describe;
use crate::cluster::lease::AtEnd;
use crate::cluster::node_client::{self, NodeClient, Reply};
use crate::cluster::paging::{self, Page};
use crate::model::label::excerpt;
use crate::model::ledger::{InvalidLedger, Ledger};
use crate::model::node::{ApiNode, Interner, Node};
use crate::planner::withdraw::{Withdrawal, withdraw, withdraw_unreadable};
use crate::planner::{Change, NodePlan, Plan, patch};

/// How many nodes are patched at once. The API server is busy at about ten.
const CONCURRENCY: usize = 16;
/// How often a patch is sent before the node counts as failed.
const TRIES: usize = 6;

/// Which nodes, and what of them.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Their names; where there is none, all nodes.
    pub nodes: Vec<String>,
    /// What is to be withdrawn.
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
    /// The rules that were named, and that no ledger lists.
    pub unlisted_rules: BTreeSet<String>,
}

/// A node with something to do.
#[derive(Debug)]
pub struct NodePrune {
    node: Node,
    plan: NodePlan,
    /// Whether its ledger cannot be read, and is removed.
    repairs_ledger: bool,
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
        self.plan.changes()
    }

    /// The beginning of a ledger that cannot be read, and is removed.
    #[must_use]
    pub fn unreadable_ledger(&self) -> Option<String> {
        self.node.ledger.as_deref().filter(|_| self.repairs_ledger).map(excerpt)
    }

    /// Plans a node as it is now.
    fn new(node: ApiNode, scope: &Scope, interner: &mut Interner) -> Self {
        let own = node.own_resources();
        let node = Node::new(node, interner);
        let mut plan = withdraw(&node, &scope.withdrawal);
        let repairs_ledger = matches!(plan.plan, Plan::Blocked(_)) && scope.repair_ledgers;
        if repairs_ledger {
            let own: Vec<_> = own.iter().map(String::as_str).collect();
            plan = withdraw_unreadable(&node, &own, &scope.withdrawal);
        }
        Self { node, plan, repairs_ledger }
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
    for name in &scope.nodes {
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
        if let Plan::Blocked(unreadable) = planned.plan.plan {
            self.unreadable.push((planned.node.name, unreadable));
            return;
        }
        if !self.unlisted_rules.is_empty()
            && let Ok(ledger) = Ledger::parse(planned.node.ledger.as_deref())
        {
            for (_, entry) in ledger.entries() {
                self.unlisted_rules.remove(&entry.rule);
            }
        }
        if !scope.withdrawal.zeros {
            let node = &planned.node;
            let zeros = node.zeros().map(|resource| (Arc::clone(&node.name), resource.to_owned()));
            self.zeros.extend(zeros);
        }
        if !planned.changes().is_empty() {
            self.planned.push(planned);
        }
    }
}

/// What came of one node.
#[derive(Debug)]
pub struct NodeResult {
    /// Its name.
    pub node: Arc<str>,
    /// What was done; or why it could not be done, in words.
    pub result: Result<Pruned, String>,
}

/// What was done to one node.
#[derive(Debug, PartialEq, Eq)]
pub enum Pruned {
    /// These changes; where there are none, the ledger alone was removed.
    Changed(Vec<Change>),
    /// Nothing: what was planned has been done by another by now.
    NothingLeft,
    /// Nothing: the node no longer exists.
    Gone,
}

/// Does what has been planned, and reports each node to `done` as soon as it is through. Returns
/// whether the Leases may be released: not while a patch without a response may still be applied.
pub async fn prune(
    client: &Client,
    scope: &Scope,
    planned: Vec<NodePrune>,
    lease_guard: &LeaseGuard,
    mut done: impl FnMut(NodeResult),
) -> AtEnd {
    let requests = NodeClient::new(client.clone(), node_client::TIMEOUT);
    let mut pruned = futures::stream::iter(planned.into_iter().enumerate())
        .map(|(number, planned)| {
            let node = Arc::clone(&planned.node.name);
            let work = prune_node(&requests, scope, planned, lease_guard, number as u64);
            async move { (node, work.await) }
        })
        .buffer_unordered(CONCURRENCY);
    let mut at_end = AtEnd::Release;
    while let Some((node, (result, is_answered))) = pruned.next().await {
        if !is_answered {
            at_end = AtEnd::Expire;
        }
        done(NodeResult { node, result });
    }
    at_end
}

/// Sends the patch of one node until it is applied, and returns also whether no patch without a
/// response is left. After a failure the node is read and planned again: a patch without a response may
/// have been applied, and may still be.
async fn prune_node(
    requests: &NodeClient,
    scope: &Scope,
    planned: NodePrune,
    lease_guard: &LeaseGuard,
    seed: u64,
) -> (Result<Pruned, String>, bool) {
    let (name, uid) = (Arc::clone(&planned.node.name), planned.node.uid.clone());
    let planned = Some(planned);
    let mut work = Work { requests, scope, lease_guard, name, uid, planned, maybe_done: None };
    let result = work.run(seed).await;
    // Where the node is done, a patch that is applied later fails at its tests.
    let is_answered = result.is_ok() || work.maybe_done.is_none();
    (result, is_answered)
}

/// One node, as far as it is done.
struct Work<'a> {
    requests: &'a NodeClient,
    scope: &'a Scope,
    lease_guard: &'a LeaseGuard,
    name: Arc<str>,
    /// Of the node that was last read: one that is created again has another.
    uid: Box<str>,
    /// `None` where the node has to be read first.
    planned: Option<NodePrune>,
    /// The changes of patches of which it is not known whether they were applied.
    maybe_done: Option<Vec<Change>>,
}

enum Attempt {
    Done(Pruned),
    /// The node has changed, and has been planned again.
    Stale(String),
    /// To be tried again after a pause.
    Failed {
        message: String,
        retry_after: Option<Duration>,
    },
}

impl Work<'_> {
    async fn run(&mut self, seed: u64) -> Result<Pruned, String> {
        let mut backoff = Backoff::new(seed);
        let mut last = String::new();
        for attempt in 1..=TRIES {
            match self.attempt().await? {
                Attempt::Done(pruned) => return Ok(pruned),
                Attempt::Stale(message) => last = message,
                Attempt::Failed { message, retry_after } => {
                    last = message;
                    if attempt < TRIES {
                        tokio::time::sleep(backoff.next(retry_after)).await;
                    }
                }
            }
        }
        Err(format!("given up after {TRIES} tries: {last}"))
    }

    async fn attempt(&mut self) -> Result<Attempt, String> {
        let planned = match self.planned.take() {
            Some(planned) => planned,
            None => match self.requests.get(&self.name).await {
                Ok(node) => self.plan(*node),
                Err(reply) => return self.take_in(reply),
            },
        };
        let changes = match planned.plan.plan {
            Plan::Patch { changes, .. } => changes,
            Plan::Blocked(unreadable) => return Err(unreadable.to_string()),
            Plan::InSync | Plan::NeedsPods => {
                let done = self.maybe_done.take().map_or(Pruned::NothingLeft, Pruned::Changed);
                return Ok(Attempt::Done(done));
            }
        };
        let patch = patch(&planned.node, &changes).map_err(|error| error.to_string())?;
        // Reading the node took its time.
        self.lease_guard.wait().await?;
        let reply = self.requests.clone().patch(Arc::clone(&self.name), patch).await;
        match &reply {
            Reply::Patched(_) => {
                return Ok(Attempt::Done(Pruned::Changed(self.with_maybe_done(changes))));
            }
            Reply::Failed { maybe_applied: true, .. } => {
                self.maybe_done = Some(self.with_maybe_done(changes));
            }
            _ => {}
        }
        self.take_in(reply)
    }

    /// Takes in the response to a request that has not pruned the node.
    fn take_in(&mut self, reply: Reply) -> Result<Attempt, String> {
        match reply {
            Reply::Stale { node, message } => {
                self.planned = Some(self.plan(*node));
                Ok(Attempt::Stale(message))
            }
            Reply::Patched(node) => {
                self.planned = Some(self.plan(*node));
                Ok(Attempt::Stale("the node has changed".to_owned()))
            }
            Reply::NotFound => Ok(Attempt::Done(Pruned::Gone)),
            Reply::Forbidden(message) => Err(message),
            Reply::Rejected(message) => Ok(Attempt::Failed { message, retry_after: None }),
            Reply::Failed { message, retry_after, .. } => {
                Ok(Attempt::Failed { message, retry_after })
            }
        }
    }

    /// These changes, and those of earlier patches to other resources: where a patch was not applied, its
    /// resources are in the next one too.
    fn with_maybe_done(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let mut all = self.maybe_done.take().unwrap_or_default();
        all.retain(|before| changes.iter().all(|change| change.resource != before.resource));
        all.extend(changes);
        all
    }

    fn plan(&mut self, node: ApiNode) -> NodePrune {
        let planned = NodePrune::new(node, self.scope, &mut Interner::default());
        if planned.node.uid != self.uid {
            self.uid.clone_from(&planned.node.uid);
            self.maybe_done = None;
        }
        planned
    }
}

#[cfg(test)]
mod tests;
