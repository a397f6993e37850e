//! What is known of one node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::conflict::Conflicts;
use super::failure::{Cause, Failures, Sendable};
use super::released::Released;
use super::resets::Resets;
use super::start::Start;
use crate::cluster::backoff::Backoff;
use crate::controller::effect::RequestId;
use crate::controller::standing::Standing;
use crate::model::node::Node;
use crate::model::pod::Requests;
use crate::model::quantity::Quantity;
use crate::planner::{self, Change};

/// The pods on a node are not listed more often than this, however often it changes.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);
/// So long what pods request is good for a plan; the list that follows a lowering shows what has come since.
const MAX_USAGE_AGE: Duration = Duration::from_secs(2);
/// A held node is asked for its pods again after so long, at first.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Each pause is longer by up to a half, in this many steps.
const JITTER_STEPS: u64 = 1000;
/// And after so long at last: a node may be held for weeks.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// A patch without a response is applied within this time, or never: the API server gives a request a minute
/// (`--request-timeout`).
const MAX_LATENCY: Duration = Duration::from_secs(60);

/// Why a patch that succeeded counts as a failure.
const UNDONE: &str = "the patch succeeded but the node is unchanged: something between the controller and the \
                      API server's storage undoes it";

/// One node.
#[derive(Clone, Debug)]
pub(in crate::controller) struct NodeState {
    pub(in crate::controller) node: Node,
    /// Where each rule that selects it stands.
    pub(in crate::controller) standings: Box<[(Arc<str>, Standing)]>,
    /// Since when it has had something to do.
    pub(in crate::controller) pending_since: Option<Instant>,
    /// Whether this process has withdrawn something from it: what appears again may be less than what pods
    /// request that have been running since before.
    pub(in crate::controller) has_withdrawn: bool,
    /// Whether a kubelet was seen to reset listed values since the machine's last boot that was seen.
    is_reset: bool,
    /// What the ledger has listed, and lists no longer.
    pub(in crate::controller) released: Released,
    /// Whether it has been reported that the ledger cannot be read.
    pub(in crate::controller) is_blocked: bool,
    work: Option<Box<Work>>,
}

/// What only a node has on which something is going on.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct Work {
    /// What is to be sent, and was planned for the node as it is.
    pub(in crate::controller) planned: Vec<Change>,
    /// What is in flight.
    pub(in crate::controller) sent: Option<Sent>,
    /// What may have been applied by patches whose responses are lost.
    pub(in crate::controller) maybe_applied: Vec<Change>,
    /// When the last response was lost.
    pub(in crate::controller) lost_at: Option<Instant>,
    /// What the last response was for, until the plan after it: what it still wants has been undone.
    pub(in crate::controller) applied: Vec<Change>,
    /// Resources that were the controller's own, and whose ledger entries have been lost: to write them again
    /// counts towards a contest.
    pub(in crate::controller) undone: BTreeSet<String>,
    pub(in crate::controller) failures: Failures,
    pub(in crate::controller) conflicts: Conflicts,
    /// What this process has written back without leading.
    pub(in crate::controller) resets: Resets,
    pub(in crate::controller) pods: PodPolls,
    /// What there was before a lowering, by resource, until pods have been listed after it.
    pub(in crate::controller) lowered_from: BTreeMap<Arc<str>, Quantity>,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(in crate::controller) struct Sent {
    pub(in crate::controller) id: RequestId,
    /// What a patch is for; nothing for a list of pods.
    pub(in crate::controller) changes: Vec<Change>,
    /// The resource version of the node then.
    pub(in crate::controller) version: Option<u64>,
}

/// When the pods on the node are listed.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct PodPolls {
    /// What they request, since when that is known.
    listed: Option<(Requests, Instant)>,
    /// Why the last list failed.
    pub(in crate::controller) error: Option<Arc<str>>,
    /// Before when they are not listed again.
    pub(in crate::controller) not_before: Option<Instant>,
    interval: Option<Duration>,
    backoff: Option<Backoff>,
}

impl PodPolls {
    /// They have been listed.
    pub(in crate::controller) fn succeed(&mut self, requests: Requests, now: Instant) {
        self.listed = Some((requests, now));
        (self.error, self.backoff) = (None, None);
        self.not_before = Some(now + MIN_LIST_INTERVAL);
    }

    /// What they request, where they have just been listed: a node that is planned again before its patch is sent
    /// needs no other list.
    pub(in crate::controller) fn usage(&self, now: Instant) -> Option<&Requests> {
        let (requests, at) = self.listed.as_ref()?;
        (now.duration_since(*at) <= MAX_USAGE_AGE).then_some(requests)
    }

    /// What they request has been used, or is old.
    pub(in crate::controller) fn forget_usage(&mut self) {
        self.listed = None;
    }

    /// A list has been given up for a repair.
    pub(in crate::controller) fn abandon(&mut self, now: Instant) {
        self.not_before = Some(now + MIN_LIST_INTERVAL);
    }

    /// They could not be listed.
    pub(in crate::controller) fn fail(
        &mut self,
        why: Arc<str>,
        retry_after: Option<Duration>,
        (now, seed): (Instant, u64),
    ) {
        let backoff = self.backoff.get_or_insert_with(|| Backoff::new(seed));
        self.not_before = Some(now + backoff.next(retry_after));
        self.error = Some(why);
    }

    /// Returns when to list them again where nothing has changed, later each time. `held` is how many nodes
    /// are held: ten lists a second over all of them.
    pub(in crate::controller) fn next(
        &mut self,
        held: usize,
        (now, seed): (Instant, u64),
    ) -> Instant {
        let doubled = self.interval.map(|interval| (interval * 2).min(MAX_POLL_INTERVAL));
        let interval = doubled.unwrap_or(POLL_INTERVAL);
        self.interval = Some(interval);
        let shared =
            Duration::from_millis(100).saturating_mul(u32::try_from(held).unwrap_or(u32::MAX));
        // Nodes that were listed together are not listed together again.
        let jitter = u32::try_from(seed % JITTER_STEPS).unwrap_or_default();
        now + interval.max(shared) + interval / 2 * jitter / JITTER_STEPS as u32
    }

    fn is_idle(&self) -> bool {
        self.listed.is_none() && self.error.is_none() && self.interval.is_none()
    }

    /// Nothing is held any more, or something else.
    pub(in crate::controller) fn restart(&mut self) {
        (self.interval, self.error, self.backoff) = (None, None, None);
    }
}

impl NodeState {
    pub(in crate::controller) fn new(node: Node) -> Self {
        Self {
            node,
            standings: Box::default(),
            pending_since: None,
            has_withdrawn: false,
            is_reset: false,
            released: Released::default(),
            is_blocked: false,
            work: None,
        }
    }

    pub(in crate::controller) fn work(&self) -> Option<&Work> {
        self.work.as_deref()
    }

    /// What is going on there, where anything is.
    pub(in crate::controller) fn working(&mut self) -> Option<&mut Work> {
        self.work.as_deref_mut()
    }

    pub(in crate::controller) fn work_mut(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Returns what came of listed values, where the node shows that a kubelet has started since `before`. A kubelet
    /// resets them first, and reports the boot a moment later.
    pub(in crate::controller) fn observe_start(&mut self, before: &Node) -> Option<Start> {
        let (now, is_as_before) = (&self.node, before.allocatable == self.node.allocatable);
        if !is_as_before && has_resets(now) && !has_resets(before) {
            self.is_reset = true;
            return Some(Start::Reset);
        }
        let boots = [&before.boot_id, &self.node.boot_id];
        if boots[0] == boots[1] || boots.iter().any(|boot| boot.is_empty()) {
            return None;
        }
        let is_reset = std::mem::take(&mut self.is_reset);
        (!is_reset && self.node.ledger.is_some()).then_some(Start::Kept)
    }

    /// Whether a list of its pods is in flight.
    pub(in crate::controller) fn is_listing_pods(&self) -> bool {
        let sent = self.work.as_ref().and_then(|work| work.sent.as_ref());
        sent.is_some_and(|sent| sent.changes.is_empty())
    }

    /// Whether a patch whose response was lost after `since` may still be applied.
    pub(in crate::controller) fn may_be_patched(&self, since: Instant) -> bool {
        self.work.as_ref().is_some_and(|work| {
            !work.maybe_applied.is_empty() && work.lost_at.is_some_and(|at| at >= since)
        })
    }

    /// Forgets the lowerings after which pods have been listed, but where `is_open` holds for the resource. One whose
    /// response was lost stays until the node shows it, or it can be applied no more: it may be applied yet, or be
    /// applied and not seen.
    pub(in crate::controller) fn forget_lowerings(
        &mut self,
        is_listed: impl Fn(&str) -> bool,
        is_open: impl Fn(&str) -> bool,
        now: Instant,
    ) {
        let Self { node, work: Some(work), .. } = self else { return };
        let is_lost = work.lost_at.is_some_and(|at| now.duration_since(at) < MAX_LATENCY);
        work.lowered_from.retain(|resource, from| {
            let may_land = is_lost && is_listed(resource) && most(node, resource) >= Some(*from);
            is_open(resource) || may_land
        });
    }

    /// It is as it should be.
    pub(in crate::controller) fn settle(&mut self) {
        self.pending_since = None;
        if let Some(work) = &mut self.work {
            work.planned.clear();
            work.failures.clear();
            work.undone.clear();
        }
    }

    /// Drops what there is no need to remember.
    pub(in crate::controller) fn compact(&mut self, now: Instant) {
        self.work.take_if(|work| {
            work.resets.expire(now);
            work.is_idle()
        });
    }

    /// Forgets failures, conflicts and pauses where leadership begins or ends: what is known of them is old. What is in
    /// flight stays.
    pub(in crate::controller) fn reset(&mut self, now: Instant) {
        if let Some(work) = self.work.take() {
            let Work { sent, maybe_applied, lost_at, lowered_from, resets, .. } = *work;
            *self.work_mut() =
                Work { sent, maybe_applied, lost_at, lowered_from, resets, ..Work::default() };
            self.compact(now);
        }
        self.pending_since = None;
        self.is_blocked = false;
    }
}

impl Work {
    /// Takes up the changes of a plan that may be sent now. Returns whether a repair is among them; or when the first
    /// of them may be sent, where that is later.
    pub(in crate::controller) fn plan(
        &mut self,
        changes: Vec<Change>,
        now: Instant,
    ) -> Result<bool, Instant> {
        self.planned.clear();
        match self.failures.sendable(&changes, now) {
            Sendable::Now(places) => {
                let mut changes: Vec<_> = changes.into_iter().map(Some).collect();
                let chosen = places.into_iter().filter_map(|place| changes.get_mut(place)?.take());
                self.planned = chosen.collect();
                Ok(self.planned.iter().any(Change::is_repair))
            }
            Sendable::Later(at) => Err(at),
        }
    }

    /// A patch with these changes has gone through.
    pub(in crate::controller) fn succeed(&mut self, changes: &[Change]) {
        self.failures.succeed(changes);
        self.maybe_applied.retain(|before| !has_resource(changes, before));
    }

    /// A patch with these changes may have been applied, or may still be.
    pub(in crate::controller) fn lose(&mut self, changes: &[Change], now: Instant) {
        self.maybe_applied.retain(|before| !has_resource(changes, before));
        self.maybe_applied.extend_from_slice(changes);
        self.lost_at = Some(now);
    }

    /// Where the response to a patch shows the node as it was asked to be, and the plan for it asks for the same
    /// again, something undoes patches on their way: a failure. Returns that, in words.
    pub(in crate::controller) fn check_undone(
        &mut self,
        changes: &[Change],
        time: (Instant, u64),
    ) -> Option<Arc<str>> {
        let applied = std::mem::take(&mut self.applied);
        if applied.is_empty() || !applied.iter().all(|change| changes.contains(change)) {
            return None;
        }
        let message: Arc<str> = UNDONE.into();
        self.failures.fail(Cause::Undone, &message, &applied, None, time);
        Some(message)
    }

    fn is_idle(&self) -> bool {
        let Self {
            planned,
            sent,
            maybe_applied,
            applied,
            undone,
            failures,
            conflicts,
            resets,
            pods,
            lowered_from,
            lost_at: _,
        } = self;
        planned.is_empty()
            && sent.is_none()
            && maybe_applied.is_empty()
            && applied.is_empty()
            && undone.is_empty()
            && failures.is_empty()
            && conflicts.is_empty()
            && resets.is_empty()
            && pods.is_idle()
            && lowered_from.is_empty()
    }
}

/// How much of a resource a node carries: the larger of both maps' values.
pub(in crate::controller) fn most(node: &Node, resource: &str) -> Option<Quantity> {
    let maps = [&node.capacity, &node.allocatable];
    let values = maps.into_iter().flatten().filter_map(|map| map.get(resource)?.parse().ok());
    values.max()
}

fn has_resets(node: &Node) -> bool {
    !planner::plan_resets(node).changes().is_empty()
}

/// Whether one of the changes is to the same resource.
pub(in crate::controller) fn has_resource(changes: &[Change], change: &Change) -> bool {
    changes.iter().any(|other| other.resource == change.resource)
}
