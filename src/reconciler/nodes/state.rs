//! The state of one node.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::conflict::Conflicts;
use super::failure::Failures;
use super::moves::Moves;
use super::released::Released;
use super::resets::Resets;
use crate::model::ledger::Ledger;
use crate::model::node::{Node, ResourceManagers};
use crate::planner::input::Lost;
use crate::planner::{self, Action, Change, Leaving};
use crate::reconciler::protection::Start;
use crate::reconciler::tally::Standings;
use crate::reconciler::work_queue::Rank;

/// A node with its states and work.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    pub(crate) node: Node,
    /// The state of each rule that selects the node.
    pub(crate) standings: Arc<Standings>,
    /// The values that no rule declares and that leave when they are unused. The quantity of one that is to change is not
    /// known.
    pub(crate) leaving: Box<[Leaving]>,
    /// Since when the node has had work.
    pub(crate) pending_since: Option<Instant>,
    /// Whether it has work only because rules were edited, so that it belongs to a rollout.
    pub(crate) is_rollout: bool,
    /// Whether its pods have changed while they held a value: that it follows them waits for no rollout.
    pub(crate) follows_pods: bool,
    /// Whether this process has withdrawn a value from it: a value that appears again may be less than what
    /// long-running pods request.
    pub(crate) has_withdrawn: bool,
    /// What a kubelet was observed to write over recorded values since the last observed boot.
    written_over: Option<Start>,
    /// What the ledger used to record.
    pub(crate) released: Released,
    /// Whether the ledger cannot be read, and that is reported.
    pub(crate) is_blocked: bool,
    work: Option<Box<Work>>,
}

/// The work on a node; idle nodes have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// The changes of patches whose responses were lost.
    pub(crate) maybe_applied: Vec<Change>,
    /// When the last response was lost.
    pub(crate) lost_at: Option<Instant>,
    /// Resources of the controller whose ledger entries were lost: writing them again counts as a repair.
    pub(crate) undone: BTreeSet<String>,
    pub(crate) failures: Failures,
    pub(crate) conflicts: Conflicts,
    /// The values that this process restored as a standby.
    pub(crate) resets: Resets,
    /// The quantities that were read from the node and have moved a moment ago.
    pub(crate) moves: Moves,
}

/// A node as the subject of an Event.
#[derive(Clone, Debug)]
pub(crate) struct NodeSubject {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Box<str>,
}

impl NodeState {
    pub(crate) fn new(node: Node) -> Self {
        Self {
            node,
            standings: Arc::default(),
            leaving: Box::default(),
            pending_since: None,
            is_rollout: false,
            follows_pods: false,
            has_withdrawn: false,
            written_over: None,
            released: Released::default(),
            is_blocked: false,
            work: None,
        }
    }

    /// Returns the node as the subject of an Event.
    pub(crate) fn subject(&self) -> NodeSubject {
        NodeSubject { name: Arc::clone(&self.node.name), uid: self.node.uid.clone() }
    }

    pub(crate) fn work(&self) -> Option<&Work> {
        self.work.as_deref()
    }

    /// Returns the work on the node, if there is any.
    pub(crate) fn working(&mut self) -> Option<&mut Work> {
        self.work.as_deref_mut()
    }

    pub(crate) fn work_mut(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Returns whether recorded values were kept, if the node shows that a kubelet has started since `before`. A kubelet
    /// resets values first, and reports the boot a moment later.
    pub(crate) fn observe_start(&mut self, before: &Node) -> Option<Start> {
        let (now, is_as_before) = (&self.node, before.allocatable == self.node.allocatable);
        if !is_as_before && has_resets(now) && !has_resets(before) {
            self.written_over = Some(Start::Reset);
            return Some(Start::Reset);
        }
        if now.kept_from_kubelet(before) {
            self.written_over.get_or_insert(Start::Kept);
        }
        let boots = [&before.boot_id, &self.node.boot_id];
        if boots[0] == boots[1] || boots.iter().any(|boot| boot.is_empty()) {
            return None;
        }
        match self.written_over.take() {
            // It was counted when it was observed.
            Some(Start::Reset) => None,
            None if self.node.ledger.is_none() => None,
            written_over => Some(written_over.unwrap_or(Start::Untouched)),
        }
    }

    /// Returns whether a patch whose response was lost after `since` may still be applied.
    pub(crate) fn may_be_patched(&self, since: Instant) -> bool {
        self.work
            .as_ref()
            .is_some_and(|work| !work.maybe_applied.is_empty() && work.lost_at.is_some_and(|at| at >= since))
    }

    /// Returns whether a change is sent without regard to rollouts: pods depend on a value that is lost, or lower
    /// than what they request; or it follows pods that held it.
    pub(crate) fn is_urgent(&self, change: &Change) -> bool {
        let follows = self.follows_pods && change.lowers();
        change.is_repair() || change.raises_for_pods() || follows
    }

    /// Returns when the plan for the same node may be another one, or less is to be remembered.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        let work = self.work()?;
        [work.conflicts.next_change(now), work.moves.next(now), work.resets.next_end(now)].into_iter().flatten().min()
    }

    /// Returns the changes of a plan that may be sent now; or when the first may be sent.
    pub(crate) fn sendable(&self, changes: Vec<Change>, now: Instant) -> Result<Vec<Change>, Instant> {
        match self.work() {
            Some(work) => work.failures.sendable(changes, now),
            None => Ok(changes),
        }
    }

    /// Returns the change of the condition alone; or when it may be sent, if later.
    pub(crate) fn sendable_condition(&self, condition: Change, now: Instant) -> Result<Vec<Change>, Instant> {
        match self.work().and_then(|work| work.moves.not_before(condition.name(), now)) {
            Some(at) => Err(at),
            None => self.sendable(vec![condition], now),
        }
    }

    /// Returns the rank of changes that may be sent. What is urgent waits for no rollout.
    pub(crate) fn rank(&self, changes: &[Change]) -> Rank {
        if changes.iter().any(Change::is_repair) {
            Rank::Repair
        } else if self.is_rollout && !changes.iter().any(|change| self.is_urgent(change)) {
            Rank::Replan
        } else {
            Rank::Changed
        }
    }

    /// Records that the node has changed by itself: what it needs now waits for no rollout. If that is a drift of its
    /// values, repairs are all that it needs now, which never wait; the rest stays in the rollout.
    pub(crate) fn changed_by_itself(&mut self, is_drift: bool) {
        if self.is_rollout {
            self.is_rollout = is_drift;
            // Its time so far is that of the rollout.
            self.pending_since = None;
        }
    }

    /// Returns the changes whose responses were lost but that the node shows once it is in sync, once.
    pub(crate) fn take_applied(&mut self) -> Vec<Change> {
        let Some(work) = &mut self.work else { return Vec::new() };
        let mut changes = std::mem::take(&mut work.maybe_applied);
        if changes.is_empty() {
            return changes;
        }
        let node = &self.node;
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        changes.retain(|change| {
            if change.is_of_condition() {
                return false;
            }
            let entry = ledger.get(change.name());
            // Another rule may have come to declare the same value meanwhile.
            if entry.is_some_and(|entry| change.rule().is_some_and(|rule| rule != entry.rule)) {
                return false;
            }
            // A repair does not change the ledger.
            if change.is_repair() {
                return node.field_managers(change.name()).is_none_or(ResourceManagers::are_own);
            }
            let listed = entry.map(|entry| entry.quantity.as_str());
            let is_withdrawn = matches!(change.action, Action::Withdraw { .. });
            // Another client may have removed the entry alone.
            listed == change.recorded_quantity() && !(is_withdrawn && node.values(change.name()) != [None, None])
        });
        changes
    }

    /// Records that nothing on the node is lost.
    pub(crate) fn mark_repaired(&mut self) {
        (self.pending_since, self.is_rollout, self.follows_pods) = (None, false, false);
    }

    /// Records that the node is as planned.
    pub(crate) fn mark_in_sync(&mut self) {
        self.mark_repaired();
        if let Some(work) = &mut self.work {
            work.failures.clear();
            work.undone.clear();
        }
    }

    /// Drops state that is no longer needed.
    pub(crate) fn compact(&mut self, now: Instant) {
        self.work.take_if(|work| {
            work.conflicts.expire(now);
            work.resets.expire(now);
            work.moves.expire(now);
            work.is_idle()
        });
    }

    /// Forgets failures, conflicts and pauses when leadership begins or ends, since they may be stale. What may
    /// still be applied stays.
    pub(crate) fn reset(&mut self, now: Instant) {
        if let Some(work) = self.work.take() {
            let Work { maybe_applied, lost_at, resets, .. } = *work;
            *self.work_mut() = Work { maybe_applied, lost_at, resets, ..Work::default() };
            self.compact(now);
        }
        (self.pending_since, self.is_rollout, self.follows_pods) = (None, false, false);
        self.is_blocked = false;
    }
}

impl Work {
    /// Records that a patch with these changes succeeded, and whether all of them were undone.
    pub(crate) fn succeed(&mut self, changes: &[Change], is_undone: bool, now: Instant) {
        self.moves.record(changes, now);
        self.failures.succeed(changes, is_undone);
        self.maybe_applied.retain(|before| !has_resource(changes, before));
    }

    /// Records that a patch with these changes may be applied, now or later.
    pub(crate) fn lose(&mut self, changes: &[Change], now: Instant) {
        self.moves.record(changes, now);
        self.maybe_applied.retain(|before| !has_resource(changes, before));
        self.maybe_applied.extend_from_slice(changes);
        self.lost_at = Some(now);
    }

    /// Counts a change, if it has restored what was undone. Returns whether the value is contested from now on.
    pub(crate) fn count_conflict(&mut self, change: &Change, lost: Lost, now: Instant) -> Option<bool> {
        let was_undone = self.undone.remove(change.name()) && !change.was_recorded();
        let (observed, manager) = match &change.action {
            Action::Repair { observed, manager, .. } => (observed.as_str(), manager.as_ref()),
            Action::TakeOver { observed, manager, .. } if was_undone => (observed.as_str(), manager.as_ref()),
            Action::Advertise { .. } | Action::Adopt { .. } if was_undone => ("", None),
            _ => return None,
        };
        Some(self.conflicts.add(change.name(), observed, manager, lost, now))
    }

    /// Counts the repairs of a standby whose responses were lost: the values are there again. Returns whether there are
    /// any.
    pub(crate) fn count_lost_resets(&mut self, now: Instant) -> bool {
        let changes = std::mem::take(&mut self.maybe_applied);
        let mut repairs = changes.iter().filter(|change| change.is_repair()).peekable();
        let is_any = repairs.peek().is_some();
        repairs.for_each(|repair| self.resets.repaired(repair.name(), now));
        is_any
    }

    fn is_idle(&self) -> bool {
        let Self { maybe_applied, undone, failures, conflicts, resets, moves, lost_at: _ } = self;
        maybe_applied.is_empty()
            && undone.is_empty()
            && failures.is_empty()
            && conflicts.is_empty()
            && resets.is_empty()
            && moves.is_empty()
    }
}

fn has_resets(node: &Node) -> bool {
    !planner::plan_resets(node).changes().is_empty()
}

/// Returns whether one of the changes is of the same resource.
pub(crate) fn has_resource(changes: &[Change], change: &Change) -> bool {
    changes.iter().any(|other| other.subject == change.subject)
}
