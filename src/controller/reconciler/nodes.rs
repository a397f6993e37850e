//! One node: from an observation to a decision, and to the place where the node goes next.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::decide::{Authority, Decision, Next, Question, decide};
use super::{Now, Rank, Reconciler, Request, Stage, Step};
use crate::controller::events::{EventTemplate, NodeSubject};
use crate::controller::nodes::{NodeState, Seen};
use crate::model::ledger::InvalidLedger;

impl Reconciler {
    /// Handles changes in the cache of nodes.
    pub(super) fn follow_node(&mut self, seen: Seen, now: Now) {
        self.report_start(&seen, now);
        for name in seen.removed {
            self.schedule.queue.remove(&name);
            self.schedule.kept_back.remove(&name);
            self.schedule.rollouts.forget_node(&name);
            self.requested.record(&name, Box::default());
        }
        if let Some((name, rank)) = seen.changed {
            self.enqueue(&name, rank, now);
        }
    }

    /// Enqueues a node for planning. A node with a request in flight is planned after the response, and also soon for
    /// its states: a slow patch must not make the rule's status report an outdated node.
    pub(super) fn enqueue(&mut self, name: &Arc<str>, rank: Rank, now: Now) {
        let Some(state) = self.nodes.get_mut(name) else { return };
        if rank == Rank::Replan && state.pending_since.is_none() {
            state.is_rollout = true;
        }
        state.pending_since.get_or_insert(now.instant);
        if !self.schedule.queue.add(name, Stage::Plan, rank) {
            self.schedule.standings_due.insert(Arc::clone(name));
        }
    }

    /// Plans every node again, by the rules.
    pub(super) fn restart_all(&mut self, now: Now) {
        self.restart_nodes(now);
        self.resume_contests(now.instant);
        self.touch_all_statuses(now.instant);
    }

    /// Plans every node again, and drops all planned changes.
    pub(super) fn restart_nodes(&mut self, now: Now) {
        self.schedule.kept_back.clear();
        self.schedule.standings_due.clear();
        self.schedule.rollouts.clear();
        for (_, state) in self.nodes.unordered_mut() {
            state.reset(now.instant);
            state.pending_since = Some(now.instant);
        }
        for name in self.nodes.names_where(|_| true) {
            self.schedule.queue.add(&name, Stage::Plan, Rank::Replan);
        }
    }

    /// Enqueues the nodes that wait when they are due.
    pub(super) fn wake_due(&mut self, now: Now) {
        while let Some(name) = self.schedule.queue.pop_due(now.instant) {
            self.schedule.queue.add(&name, Stage::Plan, Rank::Changed);
        }
    }

    /// Decides what a node needs, and puts it where it must go next.
    pub(super) fn reconcile(&mut self, name: &Arc<str>, now: Now) {
        self.reports.planned += 1;
        if let Some(decision) = self.decide(name, now) {
            self.place(name, &decision);
        }
    }

    /// Sends the patches for which there are slots. Each node is planned once more when it is its turn: nothing that was
    /// decided before is sent.
    pub(super) fn send_patches(&mut self, deadline: Instant, now: Now, step: &mut Step) {
        while let Some(name) = self.schedule.pop_patch(now.instant) {
            let Some(decision) = self.decide(&name, now) else { continue };
            match decision.next {
                Next::Send { rank, changes } => {
                    let Some(state) = self.nodes.get_mut(&name) else { continue };
                    let effect = self.schedule.start_patch(state, changes, rank, now.instant);
                    step.requests.extend(effect.map(|effect| Request { effect, deadline }));
                }
                Next::AwaitUsage | Next::Rest => self.place(&name, &decision),
            }
        }
    }

    /// Puts a node where it must go next.
    fn place(&mut self, name: &Arc<str>, decision: &Decision) {
        let queue = &mut self.schedule.queue;
        match (&decision.next, decision.until) {
            (Next::Send { rank, .. }, until) => {
                queue.add(name, Stage::Patch, *rank);
                until.into_iter().for_each(|at| queue.wake_at(name, at));
            }
            (Next::AwaitUsage, until) => queue.await_usage(name, until),
            (Next::Rest, Some(until)) => queue.wait(name, until),
            (Next::Rest, None) => queue.remove(name),
        }
    }

    fn authority(&self, now: Instant) -> Authority {
        match (self.leads(now), self.knows_all()) {
            (false, _) => Authority::Resets,
            (true, false) => Authority::Repairs,
            (true, true) => Authority::Rules,
        }
    }

    /// Decides what a node needs in its current state, and records what its rules come to. Returns `None` if a request
    /// about it is in flight: it is decided again after the response.
    fn decide(&mut self, name: &Arc<str>, now: Now) -> Option<Decision> {
        let authority = self.authority(now.instant);
        let rule_set = &self.rules.set();
        let state = self.nodes.get_mut(name)?;
        if authority == Authority::Resets {
            state.pending_since.get_or_insert(now.instant);
        }
        let question = Question {
            state,
            authority,
            rules: &self.rules,
            rule_set,
            pods: self.usage.on(name, now.instant),
            rollouts: &self.schedule.rollouts,
            has_condition: self.options.node_condition,
            now,
        };
        let mut decision = decide(&question, &mut self.plans);
        let pods = question.pods;
        self.report_unreadable(name, decision.unreadable.as_ref(), now);
        let state = self.nodes.get_mut(name)?;
        if authority == Authority::Rules
            && decision.unreadable.is_none()
            && !decision.awaits_usage
            && let Some(work) = state.working()
        {
            work.failures.forget_others(|resource| decision.asks_for(resource));
        }
        for rule in decision.withheld.rules() {
            self.schedule.rollouts.withhold(rule, name);
        }
        if authority == Authority::Rules {
            let outcomes = std::mem::take(&mut decision.outcomes);
            self.record(name, outcomes, (&decision.changes, &decision.withheld), now);
            self.record_use(name, &pods);
        }
        if self.schedule.queue.is_in_flight(name) {
            return None;
        }
        if decision.is_in_sync() && self.follow_in_sync(name, authority, now) {
            return self.decide(name, now);
        }
        let state = self.nodes.get_mut(name)?;
        if authority == Authority::Rules
            && decision.is_condition_right
            && let Some(work) = state.working()
        {
            work.failures.forget_condition();
        }
        if decision.is_in_sync() || decision.withheld.until.is_some() {
            state.compact(now.instant);
        }
        Some(decision)
    }

    /// Reports a ledger that cannot be read, once.
    fn report_unreadable(&mut self, name: &Arc<str>, error: Option<&InvalidLedger>, now: Now) {
        let Some(state) = self.nodes.get_mut(name) else { return };
        let was_reported = std::mem::replace(&mut state.is_blocked, error.is_some());
        if let Some(error) = error.filter(|_| !was_reported) {
            warn!(
                node = %name,
                "cannot change the node: {error}; repair the annotation, or remove it with prune --repair-ledger \
                 --node {name} --force"
            );
            let node = NodeSubject { name, uid: &state.node.uid };
            self.reports.events.on_node(node, &EventTemplate::invalid_ledger(name, error), now);
        }
    }

    /// Handles a node that is as this process may make it. Returns whether changes have turned out to count that were not
    /// known to be applied, so that another decision is due.
    fn follow_in_sync(&mut self, name: &Arc<str>, authority: Authority, now: Now) -> bool {
        let Some(state) = self.nodes.get_mut(name) else { return false };
        let has_counted = match authority {
            // This does not show that the node needs nothing of what has failed.
            Authority::Repairs => {
                state.mark_repaired();
                return false;
            }
            // The process that restored the value reports it.
            Authority::Resets => state.working().is_some_and(|work| work.count_lost_resets(now.instant)),
            Authority::Rules => {
                let is_blocked = state.is_blocked;
                self.schedule.rollouts.forget_node(name);
                !is_blocked && self.report_applied(name, now)
            }
        };
        self.nodes.get_mut(name).into_iter().for_each(NodeState::mark_in_sync);
        self.schedule.kept_back.remove(name);
        has_counted
    }
}
