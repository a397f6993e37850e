//! Why patches of a node fail, and when they are sent again.
//!
//! A failure concerns the whole node (no response, no permission, a stale observation) or one resource: if admission
//! rejects a patch, its changes are sent in halves, and again, so that a rejected value does not delay the others. Of 512
//! changes, one is found with ten patches.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::slice::Chunks;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::election::backoff::Backoff;
use crate::planner::{Change, Subject};

/// How often in a row a patch may find the node changed before that counts as a failure.
const STALE_LIMIT: u32 = 3;

/// The cause of a failed patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node changed in the meantime.
    Stale,
    /// The API server rejects a change.
    Rejected,
    /// The permission is missing, for this node or for all.
    Forbidden,
    /// The API server is overloaded, fails or does not respond.
    Overload,
    /// An admission webhook wants the patch of this node later.
    Deferred,
    /// The node does not exist; the watch will report that.
    NotFound,
    /// The patch succeeded and changed nothing.
    Undone,
}

/// An attempt to write something that has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) ended: Instant,
    /// The pause that the API server, or a webhook, requests.
    pub(crate) retry_after: Option<Duration>,
    /// The seed of the pauses, if this is the first failure in a row.
    pub(crate) seed: u64,
}

/// The failures of one node's patches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    node: Option<Failure>,
    subjects: BTreeMap<Subject, Failure>,
    /// How many changes a patch has at most, after one was rejected.
    most: Option<usize>,
    /// How often in a row the node changed in the meantime.
    stale: u32,
}

#[derive(Clone, Debug)]
struct Failure {
    cause: Cause,
    /// The message; `None` if there is nothing to report.
    message: Option<Arc<str>>,
    not_before: Instant,
    backoff: Backoff,
    /// The number of attempts since the last success.
    attempts: usize,
    /// The last change of each subject in the patches since the last success.
    changes: Vec<Change>,
}

impl Failures {
    /// Returns whether there are no failures.
    pub(crate) fn is_empty(&self) -> bool {
        self.node.is_none() && self.subjects.is_empty() && self.most.is_none() && self.stale == 0
    }

    /// Returns the changes of a plan that may be sent now; or when the first may be sent.
    pub(crate) fn sendable(&self, changes: Vec<Change>, now: Instant) -> Result<Vec<Change>, Instant> {
        let belong_together = changes.iter().any(Change::discards_ledger);
        let mut later: Option<Instant> = None;
        let mut chosen = Vec::new();
        for unit in units(&changes) {
            let not_before = unit.iter().filter_map(|change| self.not_before(change));
            match not_before.max().filter(|not_before| now < *not_before) {
                Some(until) => later = Some(later.map_or(until, |later| later.min(until))),
                None => chosen.extend_from_slice(unit),
            }
        }
        if chosen.is_empty() {
            return Err(later.unwrap_or(now));
        }
        if !belong_together {
            self.narrow(&mut chosen);
        }
        Ok(chosen)
    }

    /// Reduces the changes of the next patch after one was rejected: what may be rejected delays neither a repair nor
    /// what is new.
    fn narrow(&self, chosen: &mut Vec<Change>) {
        let was_rejected = |change: &Change| self.subjects.contains_key(&change.subject);
        let most = if chosen.iter().all(was_rejected) {
            1
        } else {
            chosen.retain(|change| !was_rejected(change));
            self.most.unwrap_or(usize::MAX)
        };
        if most < chosen.len() && chosen.iter().any(Change::is_repair) {
            chosen.retain(Change::is_repair);
        }
        if most < chosen.len() {
            // Whoever declares much that is rejected is served after others.
            let mut rejected = BTreeMap::<&str, usize>::new();
            for subject in self.subjects.keys() {
                *rejected.entry(domain(subject)).or_default() += 1;
            }
            chosen.sort_by_key(|change| rejected.get(domain(&change.subject)).copied());
            chosen.truncate(most);
        }
    }

    /// Returns the earliest time to send a change. A repair that has not failed yet does not wait: a pod's life may
    /// depend on it, and it is one request.
    fn not_before(&self, change: &Change) -> Option<Instant> {
        let failures = [self.subjects.get(&change.subject), self.node.as_ref()];
        let failures = failures.into_iter().flatten();
        let holds = failures.filter(|failure| !change.is_repair() || failure.has(change));
        holds.map(|failure| failure.not_before).max()
    }

    /// Records that a patch with these changes failed. Returns the changes that had not failed like this before, for a
    /// report.
    pub(crate) fn fail(
        &mut self,
        cause: Cause,
        message: &Arc<str>,
        changes: &[Change],
        attempt: Attempt,
    ) -> Vec<Change> {
        match cause {
            Cause::Stale => {
                self.stale += 1;
                // The first time, the node is planned again at once, since its current state is known.
                if self.stale == 1 {
                    return Vec::new();
                }
            }
            Cause::Rejected => {
                // The API server responds, so earlier failures of the node are over.
                self.node = None;
                if changes.len() > 1 && !changes.iter().any(Change::discards_ledger) {
                    self.most = Some(changes.len() / 2);
                    return Vec::new();
                }
                let mut new = Vec::new();
                for change in changes {
                    let failure = self.subjects.entry(change.subject.clone());
                    let failure = failure.or_insert_with(|| Failure::new(cause, attempt));
                    let change = std::slice::from_ref(change);
                    new.extend(failure.fail(Some(message), change, attempt));
                }
                return new;
            }
            Cause::Forbidden | Cause::Overload | Cause::Deferred | Cause::NotFound | Cause::Undone => {}
        }
        let is_reported = match cause {
            Cause::Stale => self.stale >= STALE_LIMIT,
            Cause::NotFound => false,
            _ => true,
        };
        let failure = self.node.get_or_insert_with(|| Failure::new(cause, attempt));
        failure.cause = cause;
        failure.fail(Some(message).filter(|_| is_reported), changes, attempt)
    }

    /// Records that a patch with these changes succeeded. One that is undone each time keeps its growing pauses.
    pub(super) fn succeed(&mut self, changes: &[Change], is_undone: bool) {
        self.node.take_if(|failure| !is_undone || failure.cause != Cause::Undone);
        self.stale = 0;
        self.most = self.most.map(|most| most.saturating_mul(2));
        for change in changes {
            self.subjects.remove(&change.subject);
        }
    }

    /// Forgets failures of resources that a plan does not change: another client may have written the rejected value.
    pub(crate) fn forget_others(&mut self, is_planned: impl Fn(&str) -> bool) {
        self.subjects.retain(|subject, _| *subject == Subject::Condition || is_planned(subject.name()));
    }

    /// Returns whether the change of the condition goes along with others: not after a rejection, which may be because
    /// of the condition.
    pub(crate) fn takes_along(&self, condition: &Change, now: Instant) -> bool {
        self.most.is_none() && self.not_before(condition).is_none_or(|not_before| not_before <= now)
    }

    /// Forgets failures of the condition: it is right.
    pub(crate) fn forget_condition(&mut self) {
        self.subjects.remove(&Subject::Condition);
    }

    /// Forgets all failures: the node is as planned.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns whether the API server rejects the planned value of a resource.
    pub(crate) fn is_rejected(&self, resource: &str) -> bool {
        self.of(resource).is_some()
    }

    /// Ends the pause of the whole node.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        if let Some(failure) = &mut self.node {
            failure.not_before = now;
        }
    }

    /// Returns why a change of a resource fails.
    pub(crate) fn message(&self, resource: &str) -> Option<&Arc<str>> {
        let failure = self.of(resource).or(self.node.as_ref())?;
        failure.message.as_ref()
    }

    fn of(&self, resource: &str) -> Option<&Failure> {
        if self.subjects.is_empty() { None } else { self.subjects.get(&Subject::Resource(resource.to_owned())) }
    }

    /// Returns how often each change of a plan has failed since its last success, alone or with the whole node; and
    /// why.
    pub(crate) fn attempts(&self, changes: &[Change]) -> impl Iterator<Item = (usize, Option<&Arc<str>>)> {
        units(changes).flat_map(|unit| {
            let resources = unit.iter().filter_map(|change| self.subjects.get(&change.subject));
            let failures = resources.chain(&self.node);
            let worst = failures.max_by_key(|failure| failure.attempts);
            let attempts = worst.map_or((0, None), |failure| (failure.attempts, failure.message.as_ref()));
            repeat_n(attempts, unit.len())
        })
    }

    /// Returns the cause that affects the whole node.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.node.as_ref().map(|failure| failure.cause)
    }
}

/// Returns the domain of a resource.
fn domain(subject: &Subject) -> &str {
    let name = subject.name();
    name.split_once('/').map_or(name, |(domain, _)| domain)
}

/// Returns the changes of a plan in units that are never split: single changes, or all if the ledger is discarded.
fn units(changes: &[Change]) -> Chunks<'_, Change> {
    let belong_together = changes.iter().any(Change::discards_ledger);
    changes.chunks(if belong_together { changes.len() } else { 1 })
}

impl Failure {
    /// Returns whether a patch with the same values failed, whatever was observed before.
    fn has(&self, change: &Change) -> bool {
        let key =
            |change: &Change| (change.subject.clone(), change.action_name(), change.quantity().map(str::to_owned));
        self.changes.iter().any(|other| key(other) == key(change))
    }

    fn new(cause: Cause, attempt: Attempt) -> Self {
        let backoff = Backoff::new(attempt.seed);
        Self { cause, message: None, not_before: attempt.ended, backoff, attempts: 0, changes: Vec::new() }
    }

    fn fail(&mut self, message: Option<&Arc<str>>, changes: &[Change], attempt: Attempt) -> Vec<Change> {
        self.not_before = attempt.ended + self.backoff.next(attempt.retry_after);
        self.attempts += 1;
        self.message = message.cloned();
        let new = changes.iter().filter(|change| !self.has(change));
        let new: Vec<_> = new.cloned().collect();
        // The last of each subject: a value may be edited again and again.
        self.changes.retain(|other| new.iter().all(|change| change.subject != other.subject));
        self.changes.extend(new.iter().cloned());
        if message.is_some() { new } else { Vec::new() }
    }
}
