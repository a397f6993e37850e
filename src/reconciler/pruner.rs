//! Decides what `prune` sends, and when a node is finished. Pure, like the reconciler.

mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::effect::{Completion, Request, Step};
use super::happening::Happening;
use super::nodes::{Cause, Nodes, has_resource};
use super::schedule::{Answered, PatchOutcome, Schedule};
use super::work_queue::Rank;
use crate::election::AtEnd;
use crate::model::node::ApiNode;
use crate::planner::input::PodUsage;
use crate::planner::{Change, Plan};
use crate::response;
pub use plan::{NodePrune, Scope};

/// The maximum number of concurrent patches; about ten saturate the API server.
const CONCURRENCY: usize = 16;
/// The number of consecutive attempts for each change before the node fails.
pub(crate) const TRIES: usize = 6;
/// If the API server fails for this long, and for this many attempts, all remaining nodes fail.
const MAX_OUTAGE: Duration = Duration::from_secs(60);
/// The message for a change that fails without being rejected.
pub(crate) const CHANGING: &str = "the node keeps changing";
/// The message for a value that has come to leave when it is unused.
const LEAVES: &str = "the annotation has changed, and the pods' requests for its values are not known: run prune again";
/// How long to wait for a Lease that is not renewed: it has expired by then.
const MAX_SUSPENSION: Duration = Duration::from_secs(60);

/// The permission to patch nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Granted, until this time if there is an end. A request sent before may end after it: the Lease lasts a third
    /// longer than its holder relies on.
    Granted(Option<Instant>),
    /// Not now, but perhaps later, for this reason.
    Suspended(String),
    /// Never again, for this reason.
    Revoked(String),
}

/// The end of a run.
#[derive(Debug)]
pub struct PruneEnd {
    /// Whether the Leases may be released: not while a patch without a response may still be applied.
    pub at_end: AtEnd,
    /// Why a controller may have written values, if that is possible.
    pub alone: Result<(), String>,
}

/// The result for one node.
#[derive(Debug)]
pub struct NodeResult {
    /// Its name.
    pub node: Arc<str>,
    /// The changes that were made, even if others failed.
    pub changes: Vec<Change>,
    /// How the node is finished.
    pub outcome: NodeOutcome,
}

/// The end of the work on a node.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// Nothing left to withdraw.
    Pruned,
    /// The node no longer exists.
    Gone,
    /// Values are left, for this reason.
    Failed(String),
}

/// A failing API server.
#[derive(Debug)]
struct Outage {
    since: Instant,
    failures: usize,
    message: Arc<str>,
}

/// A node that is not finished yet.
#[derive(Debug)]
struct Job {
    /// The controller's values according to managedFields.
    own: Vec<String>,
    /// What pods requested when the node was planned.
    pods: PodUsage,
    done: Vec<Change>,
}

/// Withdraws from nodes.
#[derive(Debug)]
pub(crate) struct Pruner {
    scope: Scope,
    nodes: Nodes,
    schedule: Schedule,
    jobs: BTreeMap<Arc<str>, Job>,
    permission: Permission,
    /// Since when nodes must not be patched.
    suspended_since: Option<Instant>,
    outage: Option<Outage>,
    finished: Vec<NodeResult>,
    happenings: Vec<Happening>,
    /// Whether a patch without a response may be applied after the end.
    may_land: bool,
}

impl Pruner {
    pub(crate) fn new(scope: Scope, planned: Vec<NodePrune>, now: Instant) -> Self {
        let mut pruner = Self {
            scope,
            nodes: Nodes::default(),
            schedule: Schedule::new(CONCURRENCY, None, 0),
            jobs: BTreeMap::new(),
            permission: Permission::Suspended("the state of the Leases is unknown".to_owned()),
            suspended_since: Some(now),
            outage: None,
            finished: Vec::new(),
            happenings: Vec::new(),
            may_land: false,
        };
        for NodePrune { node, own, pods, .. } in planned {
            let name = Arc::clone(&node.name);
            pruner.nodes.insert(node);
            pruner.schedule.enqueue(&name, Rank::Changed);
            pruner.jobs.insert(name, Job { own, pods, done: Vec::new() });
        }
        pruner
    }

    /// Handles a change of the permission.
    pub(crate) fn observe(&mut self, permission: Permission, now: Instant) {
        match (&permission, self.suspended_since) {
            (Permission::Granted(_), _) => self.suspended_since = None,
            (Permission::Suspended(_), None) => {
                self.suspended_since = Some(now);
                // Nothing is sent in the meantime.
                self.outage = None;
            }
            (Permission::Suspended(_), Some(_)) | (Permission::Revoked(_), _) => {}
        }
        // A revoked permission is never granted again: another process may have written values.
        if !matches!(self.permission, Permission::Revoked(_)) {
            self.permission = permission;
        }
    }

    /// Handles the response to a request.
    pub(crate) fn complete(&mut self, completion: Completion, now: Instant) {
        let Completion::NodePatched { slot, node: name, reply } = completion else { return };
        let answered = self.schedule.patch_answered(&mut self.nodes, slot, &name, reply, now);
        let Some(Answered { sent, rank, outcome }) = answered else { return };
        match outcome {
            PatchOutcome::Applied { node, undone, .. } => {
                if !undone.is_empty() {
                    self.happenings.push(Happening::Undone { node: Arc::clone(&name) });
                }
                self.outage = None;
                self.observe_node(&name, *node, sent.version);
                if let Some(job) = self.jobs.get_mut(&name) {
                    add(&mut job.done, sent.changes);
                }
            }
            PatchOutcome::Failed { cause, message, node, .. } => {
                self.count_outage(cause, &message, now);
                if let Some(node) = node {
                    self.observe_node(&name, *node, sent.version);
                }
                match cause {
                    Cause::NotFound => return self.finish(&name, NodeOutcome::Gone),
                    Cause::Forbidden => {
                        return self.finish(&name, NodeOutcome::Failed(message.to_string()));
                    }
                    Cause::Overload | Cause::Deferred | Cause::Stale | Cause::Rejected | Cause::Undone => {}
                }
            }
        }
        self.schedule.enqueue(&name, rank);
    }

    fn count_outage(&mut self, cause: Cause, message: &Arc<str>, now: Instant) {
        if cause != Cause::Overload {
            self.outage = None;
            return;
        }
        let new = || Outage { since: now, failures: 0, message: Arc::clone(message) };
        let outage = self.outage.get_or_insert_with(new);
        outage.failures += 1;
        if outage.failures >= TRIES && now.duration_since(outage.since) >= MAX_OUTAGE {
            let (seconds, why) = (MAX_OUTAGE.as_secs(), &outage.message);
            let why = format!("stopped: the API server has failed for {seconds} s: {why}");
            self.give_up(&why);
        }
    }

    /// Decides what to send now.
    pub(crate) fn next(&mut self, now: Instant) -> Step {
        let mut step = Step::default();
        self.schedule.wake_due(now);
        while let Some(name) = self.schedule.next_unplanned() {
            match self.plan(&name, now) {
                Some(Ok(_)) => self.schedule.await_slot(&name, Rank::Changed, None),
                Some(Err(at)) => self.schedule.rest(&name, Some(at)),
                None => {}
            }
        }
        let mut end_of_wait = None;
        match self.may_write(now) {
            MayWrite::Until(until) => {
                self.send_patches(now, &mut step);
                end_of_wait = until;
            }
            MayWrite::NotBefore(until) => end_of_wait = Some(until),
            MayWrite::Never(why) => self.give_up(&why),
        }
        step.wake_by(self.schedule.has_ready().then_some(now));
        step.wake_by(self.schedule.next_due());
        step.wake_by(self.schedule.next_slot(now));
        step.wake_by(end_of_wait);
        let is_decided = !matches!(self.may_write(now), MayWrite::NotBefore(_));
        step.done = self.jobs.is_empty() && is_decided && self.schedule.writes() == 0;
        step
    }

    /// Returns the nodes that were finished since the last call.
    pub(crate) fn take_finished(&mut self) -> Vec<NodeResult> {
        std::mem::take(&mut self.finished)
    }

    /// Returns what has happened since the last call.
    pub(crate) fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Returns the end of the run.
    pub(crate) fn into_end(self) -> PruneEnd {
        let at_end = if self.may_land { AtEnd::Expire } else { AtEnd::Release };
        let alone = match self.permission {
            Permission::Granted(_) => Ok(()),
            Permission::Suspended(why) | Permission::Revoked(why) => Err(why),
        };
        PruneEnd { at_end, alone }
    }

    /// Returns whether nodes may be patched.
    fn may_write(&mut self, now: Instant) -> MayWrite {
        if let Permission::Granted(Some(until)) = self.permission
            && until <= now
        {
            let why = "the Lease was not renewed in time: a controller may be active; run prune again";
            self.observe(Permission::Suspended(why.to_owned()), now);
        }
        match &self.permission {
            Permission::Granted(until) => MayWrite::Until(*until),
            Permission::Revoked(why) => MayWrite::Never(why.clone()),
            Permission::Suspended(why) => {
                let until = self.suspended_since.unwrap_or(now) + MAX_SUSPENSION;
                if until <= now { MayWrite::Never(why.clone()) } else { MayWrite::NotBefore(until) }
            }
        }
    }

    /// Sends the patches for which there are slots, each with what its node needs by now.
    fn send_patches(&mut self, now: Instant, step: &mut Step) {
        let deadline = now + response::TIMEOUT;
        while let Some(name) = self.schedule.pop_patch(now) {
            match self.plan(&name, now) {
                Some(Ok(changes)) => {
                    let Some(state) = self.nodes.get_mut(&name) else { continue };
                    match self.schedule.start_patch(state, changes, Rank::Changed, now) {
                        Ok(effect) => step.requests.extend(effect.map(|effect| Request { effect, deadline })),
                        Err(message) => self.happenings.push(Happening::NotBuilt { node: name, message }),
                    }
                }
                Some(Err(at)) => self.schedule.rest(&name, Some(at)),
                None => {}
            }
        }
    }

    /// Plans a node in its current state. Returns the changes to send now, or when to try again; `None` if the node is
    /// finished.
    fn plan(&mut self, name: &Arc<str>, now: Instant) -> Option<Result<Vec<Change>, Instant>> {
        let state = self.nodes.get_mut(name)?;
        let job = self.jobs.get_mut(name)?;
        let changes = match self.scope.plan(&state.node, &job.own, &job.pods).0.plan {
            Plan::Patch { changes, .. } => changes,
            Plan::InSync => {
                self.finish(name, NodeOutcome::Pruned);
                return None;
            }
            // Pods were listed for what was to leave when the node was first planned.
            Plan::NeedsPods => {
                self.finish(name, NodeOutcome::Failed(LEAVES.to_owned()));
                return None;
            }
            Plan::Blocked(unreadable) => {
                self.finish(name, NodeOutcome::Failed(unreadable.to_string()));
                return None;
            }
        };
        // A change that is planned again was not made.
        job.done.retain(|done| !has_resource(&changes, done));
        let work = state.work_mut();
        let attempts: Vec<_> = work.failures.attempts(&changes).collect();
        if attempts.iter().all(|(tries, _)| *tries >= TRIES) {
            let messages = attempts.iter().map(|(_, message)| message.map_or(CHANGING, |why| why));
            let messages: BTreeSet<_> = messages.collect();
            let messages: Vec<_> = messages.into_iter().collect();
            let why = format!("stopped after {TRIES} attempts: {}", messages.join("; "));
            self.finish(name, NodeOutcome::Failed(why));
            return None;
        }
        Some(work.failures.sendable(changes, now))
    }

    /// Handles a node in a response.
    fn observe_node(&mut self, name: &str, node: ApiNode, sent: Option<u64>) {
        if let Some(job) = self.jobs.get_mut(name) {
            job.own = node.own_resources();
        }
        self.nodes.observe_response(node, sent);
    }

    /// Fails every node without a request in flight.
    fn give_up(&mut self, why: &str) {
        let is_in_flight = |name: &Arc<str>| self.schedule.is_in_flight(name);
        let names: Vec<_> = self.jobs.keys().filter(|name| !is_in_flight(name)).cloned().collect();
        for name in names {
            self.finish(&name, NodeOutcome::Failed(why.to_owned()));
        }
    }

    fn finish(&mut self, name: &Arc<str>, outcome: NodeOutcome) {
        let Some(Job { own, pods, done }) = self.jobs.remove(name) else { return };
        self.schedule.forget(name);
        let mut changes = Vec::new();
        if let Some(state) = self.nodes.get_mut(name) {
            changes = std::mem::take(&mut state.work_mut().maybe_applied);
            // A change that may have been applied and is no longer planned was applied. The others may still be
            // applied; a patch for an applied change fails at its tests.
            let left = self.scope.plan(&state.node, &own, &pods).0;
            let is_open =
                |change: &Change| matches!(left.plan, Plan::Blocked(_)) || has_resource(left.changes(), change);
            let may_land = changes.iter().any(is_open);
            changes.retain(|change| outcome != NodeOutcome::Gone && !is_open(change));
            self.may_land |= may_land && outcome != NodeOutcome::Gone;
        }
        add(&mut changes, done);
        self.finished.push(NodeResult { node: Arc::clone(name), changes, outcome });
    }
}

/// Whether nodes may be patched now.
enum MayWrite {
    /// Until this time, if there is an end.
    Until(Option<Instant>),
    /// Not now; and never, unless that changes before this time.
    NotBefore(Instant),
    Never(String),
}

/// Adds changes, replacing earlier changes of the same resources.
fn add(all: &mut Vec<Change>, changes: Vec<Change>) {
    all.retain(|before| !has_resource(&changes, before));
    all.extend(changes);
}
