//! Lists of pods: before a value is lowered or appears on a node, after it was lowered, and periodically while it is
//! held. Pods are listed on demand and not watched: a watch would cache all pods of the cluster for the sake of a few
//! nodes now and then.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::{Effect, Kind, Now, Rank, Reconciler, Stage, Step};
use crate::cluster::node_client::{PodsByNode, describe_pods_error};
use crate::cluster::requests::RequestError;
use crate::controller::effect::{PodScope, RequestId};
use crate::controller::nodes::Sent;

/// If more nodes than this need their pods, one list of all pods replaces the single lists, for each of which the API server
/// may read all pods from etcd. Fewer never share one, which may be large.
const MAX_SINGLE_LISTS: usize = 8;
/// A list costs an API server that reads it from its cache about as much as the encoding of so many pods, besides that of the
/// pods in it: 1.2 ms in the benches.
const PODS_PER_REQUEST: usize = 35;
/// How long the lists of a rollout wait for its end, if so many nodes are patched in this time that one list of all pods
/// costs less than a list for each. After a lowering, a pod that was bound in the meantime waits as long for its value (I5).
const MAX_ROLLOUT_WAIT: Duration = Duration::from_secs(5);

impl Reconciler {
    /// Sends the lists of pods for which there are slots, and time: those of nodes that changed by themselves; then those of a rollout
    /// after its patches, together if they can be, and those before its patches, in turns.
    pub(super) fn send_pod_lists(&mut self, now: Instant, step: &mut Step) {
        if self.schedule.queue.len(Stage::ListPods) == 0 {
            self.schedule.lists_due_since = None;
        }
        while let Some((kind, stage, is_batch)) = self.due_lists(now, step) {
            let id = self.schedule.request_id(kind);
            let mut nodes = Vec::new();
            while let Some((name, _)) = self.schedule.queue.pop(stage, Rank::Replan) {
                nodes.push(name);
                if !is_batch {
                    break;
                }
            }
            let scope = match nodes.as_slice() {
                [node] if !is_batch => PodScope::Node(Arc::clone(node)),
                _ => PodScope::Cluster,
            };
            if !self.send(Effect::ListPods { id, scope }, now, step) {
                for name in nodes {
                    self.schedule.queue.add(&name, Stage::Plan, Rank::Changed);
                }
                return;
            }
            self.schedule.limiter.start(kind, now);
            self.schedule.listed_ahead = stage == Stage::ListAhead;
            for name in &nodes {
                self.schedule.queue.start(name);
                if let Some(state) = self.nodes.get_mut(name) {
                    state.work_mut().sent = Some(Sent { id, at: now, changes: Vec::new(), version: None });
                }
            }
            if is_batch {
                self.schedule.start_pod_batch(id, nodes);
            }
        }
    }

    /// Returns how many nodes in this stage have a list of their own. More share one, which costs less than theirs.
    fn max_single_lists(&self, stage: Stage) -> usize {
        if !self.nodes.lists_pods_from_cache() {
            return MAX_SINGLE_LISTS;
        }
        // What comes after a patch should not depend on a list of all pods that may be slow, or fail. Where the number of
        // pods does not count, or is not known, more than half of the nodes share one.
        let is_ahead = stage == Stage::ListAhead && self.nodes.lists_all_pods_from_cache();
        let pods = self.schedule.pods_per_thousand.filter(|_| is_ahead).unwrap_or(1000 * PODS_PER_REQUEST);
        let share = self.nodes.len().saturating_mul(pods) / pods.saturating_add(1000 * PODS_PER_REQUEST);
        share.max(MAX_SINGLE_LISTS)
    }

    /// Returns the kind of the next list, the stage of its nodes, and whether all of them there share it.
    fn due_lists(&mut self, now: Instant, step: &mut Step) -> Option<(Kind, Stage, bool)> {
        let [kind, kind_ahead] = if self.nodes.lists_pods_from_cache() {
            [Kind::CachedPodList, Kind::PodListAhead]
        } else {
            [Kind::PodList; 2]
        };
        if !self.schedule.limiter.is_free(kind, now) {
            return None;
        }
        let ahead = self.unless_batched(kind_ahead, Stage::ListAhead, self.schedule.queue.len(Stage::ListAhead));
        let ahead = ahead.filter(|_| self.schedule.limiter.is_free(kind_ahead, now));
        let Some(rank) = self.schedule.queue.first_rank(Stage::ListPods) else { return ahead };
        let waiting = match self.rollout_wait(now) {
            // Nor do others wait for the list of all pods that is in flight, which may take long.
            wait if rank < Rank::Replan && (wait.is_some() || self.schedule.pod_batch(kind).is_some()) => {
                self.schedule.queue.len_of(Stage::ListPods, Rank::Changed)
            }
            Some(until) => {
                step.wake = Some(step.wake.map_or(until, |wake| wake.min(until)));
                return ahead;
            }
            // Lists before patches and lists after them take turns: a rollout is as fast as both allow, at any latency.
            None if rank == Rank::Replan && !self.schedule.listed_ahead && ahead.is_some() => return ahead,
            None => self.schedule.queue.len(Stage::ListPods),
        };
        self.unless_batched(kind, Stage::ListPods, waiting)
    }

    /// Returns the list for so many nodes, and whether they share it, unless there are none, or they wait for the list of all
    /// pods in flight for others of their kind.
    fn unless_batched(&self, kind: Kind, stage: Stage, nodes: usize) -> Option<(Kind, Stage, bool)> {
        let is_batch = nodes > self.max_single_lists(stage);
        let waits = is_batch && self.schedule.pod_batch(kind).is_some();
        (nodes > 0 && !waits).then_some((kind, stage, is_batch))
    }

    /// Returns until when the lists of a rollout wait for its other patches.
    fn rollout_wait(&mut self, now: Instant) -> Option<Instant> {
        let is_in_flight = |kind| self.schedule.limiter.has_in_flight(kind);
        let is_waiting = |stage| self.schedule.queue.len(stage) > 0;
        let is_patching = is_in_flight(Kind::Patch)
            || is_in_flight(Kind::Rollout)
            || is_waiting(Stage::Patch)
            || is_waiting(Stage::PatchAsListed);
        // Lists that waited in vain would come all at once, and hold up those before the next patches.
        if !is_patching || !self.can_share_list_after_rollout() {
            return None;
        }
        // Until none waits anymore, so that those beyond the slots do not wait once more.
        let since = *self.schedule.lists_due_since.get_or_insert(now);
        Some(since + MAX_ROLLOUT_WAIT).filter(|until| now < *until)
    }

    /// Returns whether a rollout may patch enough nodes before their lists are due that they share one.
    fn can_share_list_after_rollout(&self) -> bool {
        let patched = |rate: u32| MAX_ROLLOUT_WAIT.saturating_mul(rate).as_secs() as usize;
        self.options
            .rollouts
            .patches_per_second
            .is_none_or(|rate| patched(rate) > self.max_single_lists(Stage::ListPods))
    }

    /// Handles a list of pods: each node is planned with it next, since the list is valid only for the moment.
    pub(super) fn pods_listed(
        &mut self,
        id: RequestId,
        scope: PodScope,
        reply: Result<PodsByNode, RequestError>,
        now: Now,
    ) {
        self.schedule.limiter.end(id.kind);
        let nodes = match scope {
            PodScope::Node(node) => vec![node],
            PodScope::Cluster => {
                // After a failure, only more than half of all nodes share another.
                let total = reply.as_ref().ok().and_then(|pods| pods.total);
                self.schedule.pods_per_thousand =
                    total.and_then(|pods| pods.saturating_mul(1000).checked_div(self.nodes.len()));
                self.schedule.end_pod_batch(id)
            }
        };
        let reply = reply.map_err(|error| {
            if error.is_overload() {
                self.schedule.limiter.overloaded(error.retry_after(), now.instant);
            }
            let message = describe_pods_error(&error);
            // One line for all nodes: the status of the rules names them.
            if !std::mem::replace(&mut self.reports.pods_unavailable, true) {
                warn!("cannot lower values, or write new ones, without a list of pods: {message}");
            }
            (Arc::<str>::from(message), error.retry_after())
        });
        if reply.is_ok() {
            self.reports.pods_unavailable = false;
            self.schedule.limiter.succeeded();
        }
        for name in nodes {
            let seed = self.schedule.seed();
            let Some(state) = self.nodes.in_flight(&name, id) else { continue };
            let work = state.work_mut();
            work.sent = None;
            let dirty = self.schedule.queue.end(&name);
            match &reply {
                Ok(pods) => {
                    let requests = pods.requests.get(&name).cloned().unwrap_or_default();
                    work.pods.succeed(requests, now.instant);
                    self.schedule.unlisted.remove(&name);
                }
                Err((why, retry_after)) => {
                    work.pods.fail(Arc::clone(why), *retry_after, (now.instant, seed));
                    if state.is_rollout {
                        self.schedule.unlisted.insert(Arc::clone(&name));
                    } else {
                        self.schedule.unlisted.remove(&name);
                    }
                }
            }
            let rank = dirty.unwrap_or(Rank::Changed).min(Rank::Changed);
            self.schedule.queue.add(&name, Stage::Plan, rank);
        }
    }
}
