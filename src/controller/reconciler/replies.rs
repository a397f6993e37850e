//! What the responses to patches come to.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource as _;
use tracing::{debug, error, warn};

use super::{Key, Now, Rank, Reconciler, Stage};
use crate::cluster::node_client::Reply;
use crate::controller::effect::RequestId;
use crate::controller::nodes::{Cause, Sent};
use crate::model::node::ApiNode;
use crate::planner::{Action, Change};

/// Of the nodes that wait for an API server or for a right, one is tried again so often while patches of others go
/// through.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

impl Reconciler {
    /// Takes in the response to a patch. What it changed is reported in any case; the rest is for the node that
    /// the patch was for, if it still is.
    pub(super) fn node_patched(&mut self, id: RequestId, node: &Arc<str>, reply: Reply, now: Now) {
        self.schedule.limiter.end(id.kind);
        self.diagnostics.metrics.patched(reply.result());
        let sent = self.nodes.in_flight(node, id).and_then(|state| state.work_mut().sent.take());
        let Some(sent) = sent else {
            // It has been deleted, or recreated under its name.
            return;
        };
        let dirty = self.schedule.queue.end(&Key::Node(Arc::clone(node)));
        match reply {
            Reply::Patched(answer) if answer.meta().name.as_deref() != Some(&**node) => {
                let message = "the response to the patch is not the node".to_owned();
                warn!(%node, "{message}");
                self.fail(node, &sent, (Cause::Overload, message, None), now);
            }
            Reply::Patched(answer) => {
                self.schedule.limiter.succeeded();
                self.node_changed(node, sent, *answer, now);
            }
            Reply::Stale { node: answer, message } => {
                debug!(%node, "the node changed meanwhile, and is planned again");
                self.fail(node, &sent, (Cause::Stale, message, None), now);
                self.observe_response(*answer, &sent, now);
            }
            Reply::NotFound => {
                debug!(%node, "there is no such node, as the watch will report");
                self.fail(node, &sent, (Cause::NotFound, String::new(), None), now);
            }
            Reply::Forbidden(message) => {
                let message = format!("no right to patch nodes/status: {message}");
                if self.reports.forbidden.is_none() {
                    error!("{message}; grant the verb patch on nodes/status");
                    self.reports.forbidden = Some(message.clone());
                }
                self.fail(node, &sent, (Cause::Forbidden, message, None), now);
            }
            Reply::Rejected(message) => {
                warn!(%node, "the API server rejects the patch: {message}");
                self.fail(node, &sent, (Cause::Rejected, message, None), now);
            }
            Reply::Failed { message, retry_after, maybe_applied } => {
                warn!(%node, "the patch failed and is sent again: {message}");
                self.schedule.limiter.overloaded(retry_after, now.instant);
                if maybe_applied && let Some(state) = self.nodes.get_mut(node) {
                    let work = state.work_mut();
                    add_changes(&mut work.maybe_applied, &sent.changes);
                    work.lost_at = Some(now.instant);
                }
                self.fail(node, &sent, (Cause::Overload, message, retry_after), now);
            }
        }
        let rank = dirty.unwrap_or(Rank::Changed).min(Rank::Changed);
        self.enqueue(node, rank, now);
    }

    /// A patch has gone through.
    fn node_changed(&mut self, node: &Arc<str>, sent: Sent, answer: ApiNode, now: Now) {
        let Sent { changes, version, .. } = &sent;
        self.report_changes(node, changes, now);
        let Some(state) = self.nodes.get_mut(node) else { return };
        if let Some(since) = state.pending_since.take() {
            let time = now.instant.duration_since(since).as_secs_f64();
            self.diagnostics.metrics.event_to_patch.observe(time);
        }
        let failures = &mut state.work_mut().failures;
        let had_waited_for = failures.cause();
        failures.succeed(changes);
        let is_written = |other: &Change| changes.iter().any(|one| one.resource == other.resource);
        state.work_mut().maybe_applied.retain(|other| !is_written(other));
        self.count_conflicts(node, changes, now);
        let (seen, is_newest) = self.nodes.observe_response(answer, *version);
        self.follow_node(seen, now);
        if is_newest && let Some(state) = self.nodes.get_mut(node) {
            state.work_mut().applied = sent.changes;
        }
        self.schedule.kept_back.remove(node);
        self.probe(had_waited_for, now);
    }

    fn observe_response(&mut self, answer: ApiNode, sent: &Sent, now: Now) {
        let (seen, _) = self.nodes.observe_response(answer, sent.version);
        self.follow_node(seen, now);
    }

    /// Notes that a patch did not go through, and reports what is new about that.
    fn fail(
        &mut self,
        node: &Arc<str>,
        sent: &Sent,
        (cause, message, retry_after): (Cause, String, Option<Duration>),
        now: Now,
    ) {
        let time = (now.instant, self.schedule.seed());
        let Some(state) = self.nodes.get_mut(node) else { return };
        let message: Arc<str> = message.into();
        let failures = &mut state.work_mut().failures;
        let new = failures.fail(cause, &message, &sent.changes, retry_after, time);
        match failures.cause() {
            Some(cause @ (Cause::Overload | Cause::Forbidden)) => {
                self.schedule.kept_back.insert(Arc::clone(node), cause);
            }
            _ => {
                self.schedule.kept_back.remove(node);
            }
        }
        self.report_not_withdrawn(node, &new, &message, now);
    }

    /// A patch has gone through, so that nodes which wait for the API server, or for a right, need not wait any
    /// longer. Where the node had waited itself, all of them are planned; else one, from time to time: a right
    /// may be there for some nodes alone.
    fn probe(&mut self, had_waited_for: Option<Cause>, now: Now) {
        let waited = |cause: &Cause| Some(*cause) == had_waited_for;
        let kept_back = &self.schedule.kept_back;
        let mut names: Vec<_> = kept_back
            .iter()
            .filter(|(_, cause)| waited(cause))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        let is_due = self
            .schedule
            .probed_at
            .is_none_or(|at| now.instant.duration_since(at) >= PROBE_INTERVAL);
        if names.is_empty() && is_due {
            // In turn: some may never get a right.
            let after = self.schedule.probed.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = kept_back.range::<Arc<str>, _>((after, Bound::Unbounded)).next();
            let next = next.or_else(|| kept_back.iter().next());
            names.extend(next.map(|(name, _)| Arc::clone(name)));
            self.schedule.probed = names.first().cloned();
        }
        if names.is_empty() {
            return;
        }
        self.schedule.probed_at = Some(now.instant);
        for name in names {
            if let Some(state) = self.nodes.get_mut(&name) {
                state.work_mut().failures.end_pause(now.instant);
            }
            // One that is not waiting is on its way already.
            let key = Key::Node(name);
            if self.schedule.queue.is_waiting(&key) {
                self.schedule.queue.add(&key, Stage::Plan, Rank::Replan);
            }
        }
    }

    /// Counts what was written again after it had been undone, and reports what has become a contest.
    fn count_conflicts(&mut self, node: &Arc<str>, changes: &[Change], now: Now) {
        for change in changes {
            let Some(state) = self.nodes.get_mut(node) else { return };
            let work = state.work_mut();
            let was_undone = work.undone.remove(&change.resource) && !change.was_listed();
            let (observed, manager) = match &change.action {
                Action::Repair { observed, manager, .. } => {
                    self.diagnostics.metrics.repairs.inc();
                    (observed.as_str(), manager.as_ref())
                }
                Action::TakeOver { observed, manager, .. } if was_undone => {
                    (observed.as_str(), manager.as_ref())
                }
                Action::Advertise { .. } | Action::Adopt { .. } if was_undone => ("", None),
                _ => continue,
            };
            let contests = &mut work.conflicts;
            if contests.add(&change.resource, observed, manager, change.lost(), now.instant) {
                self.report_contest(node, change, now);
            }
        }
    }
}

/// Adds changes in place of earlier ones of the same resources.
fn add_changes(all: &mut Vec<Change>, changes: &[Change]) {
    all.retain(|before| changes.iter().all(|change| change.resource != before.resource));
    all.extend_from_slice(changes);
}
