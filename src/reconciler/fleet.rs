//! The nodes, and the work on each: from an observation to a decision, from a decision to a patch, and from its response
//! to the next decision.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::decide::{Authority, Decision, Next, Question, decide, is_young};
use super::effect::{Effect, Now};
use super::happening::Happening;
use super::limiter::{Kind, Slot};
use super::nodes::{Cause, NodeState, Nodes, Seen};
use super::options::Options;
use super::protection::Start;
use super::requested::Requested;
use super::rollouts::Rollouts;
use super::rules::{NamedRules, Rules};
use super::schedule::{Answered, PatchOutcome, Schedule, UNDONE};
use super::standing::State;
use super::standings::{Recorded, Situation, requested};
use super::usage::Usage;
use super::work_queue::{Rank, Sent};
use crate::model::node::{ApiNode, FactNames, Node};
use crate::model::quantity::Quantity;
use crate::planner::input::Lost;
use crate::planner::{Action, Change, Memo};
use crate::response::reply::Reply;

/// The part of what states of rules may take after which planning pauses, so that all that they take is checked.
const NEW_STATES_SHARE: usize = 16;

/// What decisions depend on besides nodes.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) authority: Authority,
    pub(super) rules: &'a Rules,
    pub(super) usage: &'a Usage,
    pub(super) now: Now,
}

#[derive(Clone)]
pub(super) struct Fleet {
    nodes: Nodes,
    schedule: Schedule,
    rollouts: Rollouts,
    plans: Memo,
    requested: Requested,
    has_condition: bool,
    /// The kubelets that have started since the last call.
    started: Vec<(Arc<str>, Start)>,
    happenings: Vec<Happening>,
}

impl Fleet {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            nodes: Nodes::new(options.node_condition),
            schedule: Schedule::new(options.concurrency, options.rollouts.patches_per_second, options.seed),
            rollouts: Rollouts::new(options.rollouts.max_failed_nodes),
            plans: Memo::default(),
            requested: Requested::default(),
            has_condition: options.node_condition,
            started: Vec::new(),
            happenings: Vec::new(),
        }
    }

    /// Handles an event of the watch.
    pub(super) fn observe(&mut self, event: Event<ApiNode>, now: Instant) {
        let seen = self.nodes.observe(event);
        let may_be_patched = seen.changed.as_ref().is_some_and(|(name, _)| self.schedule.is_in_flight(name));
        self.follow(seen, may_be_patched, now);
    }

    /// Handles changes in the cache of nodes. A node leaves its rollout if it has changed by itself: others may depend on
    /// what it needs now. What a patch of this process may have changed is no such change.
    fn follow(&mut self, seen: Seen, may_be_patched: bool, now: Instant) {
        if let Some((name, _)) = &seen.changed
            && (seen.is_of_rules || !may_be_patched)
            && let Some(state) = self.nodes.get_mut(name)
        {
            state.changed_by_itself(seen.is_drift);
        }
        self.started.extend(seen.started);
        for name in seen.removed {
            self.schedule.forget(&name);
            self.rollouts.forget_node(&name);
            self.requested.record(&name, Box::default());
        }
        if let Some((name, rank)) = seen.changed {
            self.enqueue(&name, rank, now);
        }
    }

    fn enqueue(&mut self, name: &Arc<str>, rank: Rank, now: Instant) {
        let Some(state) = self.nodes.get_mut(name) else { return };
        if rank == Rank::Replan && state.pending_since.is_none() {
            state.is_rollout = true;
        }
        state.pending_since.get_or_insert(now);
        self.schedule.enqueue(name, rank);
    }

    /// Plans the nodes again for which this holds.
    pub(super) fn enqueue_where(&mut self, affected: impl Fn(&Node) -> bool, now: Instant) {
        for name in self.nodes.names_where(affected) {
            self.enqueue(&name, Rank::Replan, now);
        }
    }

    /// Plans a node again whose pods have changed. What follows on a node that pods hold waits for no rollout.
    pub(super) fn follow_pods(&mut self, name: &Arc<str>, now: Instant) {
        if let Some(state) = self.nodes.get_mut(name)
            && (state.standings.iter().any(|(_, standing)| standing.state() == State::Held)
                || state.leaving.iter().any(|leaving| leaving.at.is_some()))
        {
            state.follows_pods = true;
        }
        self.enqueue(name, Rank::Changed, now);
    }

    /// Plans every node again, and drops all planned changes. Problems are reported again: Events that waited when the
    /// last term ended were never sent.
    pub(super) fn restart(&mut self, now: Instant) {
        self.rollouts.clear();
        self.nodes.forget_standings();
        for (_, state) in self.nodes.unordered_mut() {
            state.reset(now);
            state.pending_since = Some(now);
        }
        self.schedule.restart(self.nodes.names_where(|_| true));
    }

    /// Plans every node by the rules, which are known from now on. Since when a node has not been as declared is not
    /// known. A new one may have appeared while nobody led.
    pub(super) fn begin(&mut self, now: Now) {
        self.enqueue_where(|_| true, now.instant);
        for (_, state) in self.nodes.unordered_mut() {
            state.is_rollout = !is_young(&state.node, now);
        }
    }

    /// Resumes the contests that the previous leader reported in statuses, so that a new leader does not start with
    /// five more repairs for each.
    pub(super) fn resume_contests(&mut self, rules: &Rules, now: Instant) {
        for (rule, resource) in rules.iter().filter_map(|(_, rule)| Some((rule, rule.resource()?))) {
            let contested = rule.status.iter().flat_map(|status| status.contested());
            contested.for_each(|node| self.nodes.resume_contest(node, resource, now));
        }
    }

    /// Begins the rollout of an edited rule anew.
    pub(super) fn restart_rollout(&mut self, rule: &str, now: Instant) {
        let resumed = self.rollouts.forget(rule, now);
        self.resume(resumed, now);
    }

    fn resume(&mut self, nodes: impl IntoIterator<Item = Arc<str>>, now: Instant) {
        for node in nodes {
            // The others are being handled, in their order.
            if self.schedule.is_waiting(&node) {
                self.enqueue(&node, Rank::Replan, now);
            }
        }
    }

    /// Enqueues what waits until now.
    pub(super) fn wake_due(&mut self, now: Instant) {
        self.schedule.wake_due(now);
        let ended = self.rollouts.take_ended(now);
        self.resume(ended, now);
    }

    /// Forgets the states of rules that have stalled because memory is short: to plan all nodes again would take more
    /// first.
    pub(super) fn forget_states(&mut self, rules: &[Arc<str>]) {
        self.nodes.forget_states(rules);
    }

    /// Plans so many nodes at most, fewer if many rules select them, and returns how many. Each goes where it must go
    /// next.
    pub(super) fn plan(&mut self, most: usize, known: Known<'_>) -> usize {
        self.plan_each(most, known, Schedule::next_unplanned)
    }

    /// Plans so many nodes in flight at most, likewise, for the states of their rules. Returns how many.
    pub(super) fn plan_in_flight(&mut self, most: usize, known: Known<'_>) -> usize {
        self.plan_each(most, known, Schedule::next_in_flight)
    }

    fn plan_each(&mut self, most: usize, known: Known<'_>, next: impl Fn(&mut Schedule) -> Option<Arc<str>>) -> usize {
        let pause_at = self.nodes.tally().size() + known.rules.states().max_size() / NEW_STATES_SHARE;
        let mut planned = 0;
        while planned < most
            && self.nodes.tally().size() < pause_at
            && let Some(name) = next(&mut self.schedule)
        {
            planned += 1;
            if let Some(decision) = self.decide(&name, known) {
                self.place(&name, &decision);
            }
        }
        planned
    }

    /// Returns the next patch for which there is a slot. Each node is planned once more when it is its turn: nothing that
    /// was decided before is sent.
    pub(super) fn next_patch(&mut self, known: Known<'_>) -> Option<Effect> {
        while let Some(name) = self.schedule.pop_patch(known.now.instant) {
            let Some(decision) = self.decide(&name, known) else { continue };
            match decision.next {
                Next::Send { rank, changes } => {
                    let Some(state) = self.nodes.get_mut(&name) else { continue };
                    match self.schedule.start_patch(state, changes, rank, known.now.instant) {
                        Ok(Some(effect)) => return Some(effect),
                        Ok(None) => {}
                        Err(message) => self.happenings.push(Happening::NotBuilt { node: name, message }),
                    }
                }
                Next::AwaitUsage | Next::Rest => self.place(&name, &decision),
            }
        }
        None
    }

    /// Puts a node where it must go next.
    fn place(&mut self, name: &Arc<str>, decision: &Decision) {
        match &decision.next {
            Next::Send { rank, .. } => self.schedule.await_slot(name, *rank, decision.until),
            Next::AwaitUsage => self.schedule.await_usage(name, decision.until),
            Next::Rest => self.schedule.rest(name, decision.until),
        }
    }

    /// Decides what a node needs in its current state, and records what its rules come to. Returns `None` if a request
    /// about it is in flight: it is decided again after the response.
    fn decide(&mut self, name: &Arc<str>, known: Known<'_>) -> Option<Decision> {
        let Known { authority, rules, usage, now } = known;
        let state = self.nodes.get_mut(name)?;
        if authority == Authority::Resets {
            state.pending_since.get_or_insert(now.instant);
        }
        let question = Question {
            state,
            authority,
            rules,
            rule_set: rules.set(),
            pods: usage.on(name, now.instant),
            rollouts: &self.rollouts,
            has_condition: self.has_condition,
            now,
        };
        let mut decision = decide(&question, &mut self.plans);
        let pods = question.pods;
        let was_reported = std::mem::replace(&mut state.is_blocked, decision.unreadable.is_some());
        if let Some(error) = decision.unreadable.clone().filter(|_| !was_reported) {
            self.happenings.push(Happening::Unreadable { node: state.subject(), error });
        }
        for rule in decision.withheld.rules() {
            self.rollouts.withhold(rule, name);
        }
        if authority == Authority::Rules {
            if decision.unreadable.is_none()
                && !decision.awaits_usage
                && let Some(work) = state.working()
            {
                work.failures.forget_others(|resource| decision.asks_for(resource));
            }
            self.record(name, &mut decision, rules);
            let amounts = self.nodes.get(name).map(|state| requested(state, rules, &pods));
            self.requested.record(name, amounts.unwrap_or_default());
        }
        if self.schedule.is_in_flight(name) {
            return None;
        }
        if decision.is_in_sync() && self.follow_in_sync(name, authority, now.instant) {
            return self.decide(name, known);
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

    /// Records the states of the rules that select a node.
    fn record(&mut self, name: &Arc<str>, decision: &mut Decision, rules: &Rules) {
        let Some(state) = self.nodes.get_mut(name) else { return };
        let outcomes = std::mem::take(&mut decision.outcomes);
        let situation = Situation::new(state, rules, decision, self.schedule.sent(name));
        let Recorded { standings, undone } = situation.record(outcomes);
        if !undone.is_empty() {
            state.work_mut().undone.extend(undone);
        }
        let mut leaving = std::mem::take(&mut decision.leaving);
        // What a value comes to that is to change, or is being changed, is seen after that.
        let sent = self.schedule.sent(name).map_or(&[][..], |sent| &sent.changes);
        let is_sent = |resource: &str| sent.iter().any(|change| change.is_of(resource));
        let is_open = |resource: &str| decision.asks_for(resource) || is_sent(resource);
        leaving.iter_mut().filter(|leaving| is_open(&leaving.resource)).for_each(|leaving| leaving.at = None);
        let problems = self.nodes.record(name, &standings);
        let kept = self.nodes.record_leaving(name, leaving);
        let Some(state) = self.nodes.get(name) else { return };
        let kept = kept.into_iter().map(|leaving| Happening::Leaving { node: state.subject(), leaving });
        self.happenings.extend(kept);
        let problems = problems.into_iter().filter_map(|place| state.standings.get(place)).cloned();
        let problems = problems.map(|(rule, standing)| {
            let resource = rules.get(&rule).and_then(|rule| rule.resource()).unwrap_or_default().into();
            Happening::Problem { node: state.subject(), rule, resource, standing }
        });
        self.happenings.extend(problems);
    }

    /// Handles a node that is as this process may make it. Returns whether changes have turned out to count that were not
    /// known to be applied, so that another decision is due.
    fn follow_in_sync(&mut self, name: &Arc<str>, authority: Authority, now: Instant) -> bool {
        let Some(state) = self.nodes.get_mut(name) else { return false };
        let has_counted = match authority {
            // This does not show that the node needs nothing of what has failed.
            Authority::Repairs => {
                state.mark_repaired();
                return false;
            }
            // The process that restored the value reports it.
            Authority::Resets => state.working().is_some_and(|work| work.count_lost_resets(now)),
            Authority::Rules => {
                self.rollouts.forget_node(name);
                let applied = if state.is_blocked { Vec::new() } else { state.take_applied() };
                self.report_changes(name, &applied);
                self.count_conflicts(name, &applied, |_| true, now)
            }
        };
        self.nodes.get_mut(name).into_iter().for_each(NodeState::mark_in_sync);
        self.schedule.in_sync(name);
        has_counted
    }

    /// Handles the response to a patch. Its changes are reported in any case; the rest applies only if the node is still
    /// the patched one.
    pub(super) fn answered(&mut self, slot: Slot, node: &Arc<str>, reply: Reply, leads: bool, now: Instant) {
        self.happenings.push(Happening::Answered { result: reply.result() });
        let is_rollout = slot.kind() == Kind::Rollout;
        let answered = self.schedule.patch_answered(&mut self.nodes, slot, node, reply, now);
        let Some(Answered { sent, rank, outcome }) = answered else { return };
        match outcome {
            PatchOutcome::Applied { node: answer, had_waited_for, stays, undone } => {
                if !undone.is_empty() {
                    self.happenings.push(Happening::Undone { node: Arc::clone(node) });
                }
                let sent_at = sent.at;
                // The limits of a rollout decide how long its nodes have work.
                let since = self.nodes.get_mut(node).and_then(|state| state.pending_since.take());
                let after = since.filter(|_| !is_rollout && leads).map(|since| now.duration_since(since));
                self.happenings.extend(after.map(|after| Happening::Patched { after }));
                self.changed(node, sent, *answer, leads, now);
                self.rollout_succeeded(node, &stays, sent_at, now);
                if is_rollout && leads {
                    self.rollout_failed(node, &undone, sent_at, UNDONE, now);
                }
                self.schedule.probe(&mut self.nodes, had_waited_for, now);
            }
            PatchOutcome::Failed { cause, message, new, node: answer } => {
                self.happenings.push(Happening::Failed {
                    node: Arc::clone(node),
                    cause,
                    message: Arc::clone(&message),
                });
                // If several changes are rejected together, each of them is sent alone next. A missing permission, like an
                // overload, says nothing about the rule.
                let is_evidence = cause == Cause::Rejected && sent.changes.len() == 1;
                if is_evidence && is_rollout && leads {
                    self.rollout_failed(node, &sent.changes, sent.at, &message, now);
                }
                if let Some(subject) = self.nodes.get(node).map(NodeState::subject) {
                    self.happenings.extend(new.into_iter().map(|change| Happening::NotWithdrawn {
                        node: subject.clone(),
                        change,
                        message: Arc::clone(&message),
                    }));
                }
                if let Some(answer) = answer {
                    let (seen, _) = self.nodes.observe_response(*answer, sent.version);
                    self.follow(seen, false, now);
                }
            }
        }
        self.enqueue(node, rank, now);
    }

    /// Handles a successful patch.
    fn changed(&mut self, node: &Arc<str>, sent: Sent, answer: ApiNode, leads: bool, now: Instant) {
        let Sent { number: _, at: _, changes, version } = sent;
        // Whether the response shows what the patch wrote. Nobody writes in between: if not, admission has changed the
        // request.
        let is_stored = |change: &Change| change.is_stored(answer.values(change.name()));
        for change in &changes {
            match (&change.action, self.nodes.get(node)) {
                (Action::Withdraw { rule }, Some(state)) if !is_stored(change) => {
                    let (node, rule, change) = (state.subject(), Arc::clone(rule), change.clone());
                    self.happenings.push(Happening::PutBack { node, rule, change });
                }
                // It has not happened: it is reported as undone, or as a contest once it has failed several times.
                _ if !is_stored(change) => {}
                _ => self.report_changes(node, std::slice::from_ref(change)),
            }
        }
        let Some(state) = self.nodes.get_mut(node) else { return };
        for change in changes.iter().filter(|change| change.is_repair() && !leads) {
            state.work_mut().resets.repaired(change.name(), now);
        }
        self.count_conflicts(node, &changes, is_stored, now);
        let (seen, _) = self.nodes.observe_response(answer, version);
        self.follow(seen, true, now);
    }

    fn report_changes(&mut self, node: &str, changes: &[Change]) {
        let Some(state) = self.nodes.get(node) else { return };
        let changed = changes.iter().map(|change| Happening::Changed { node: state.subject(), change: change.clone() });
        self.happenings.extend(changed);
    }

    /// Counts values that were restored after they were undone, and reports new contests. Returns whether there were any.
    fn count_conflicts(
        &mut self,
        node: &str,
        changes: &[Change],
        is_stored: impl Fn(&Change) -> bool,
        now: Instant,
    ) -> bool {
        let Some(state) = self.nodes.get_mut(node) else { return false };
        let mut has_counted = false;
        for change in changes {
            let lost = if is_stored(change) { change.lost() } else { Lost::OwnWrite };
            let Some(is_contest) = state.work_mut().count_conflict(change, lost, now) else { continue };
            has_counted = true;
            if change.is_repair() && lost != Lost::OwnWrite {
                self.happenings.push(Happening::Repaired);
            }
            if is_contest {
                let (node, change) = (state.subject(), change.clone());
                self.happenings.push(Happening::Contested { node, change, lost });
            }
        }
        has_counted
    }

    /// Records that changes of a rollout failed, in a patch that was sent at this time.
    fn rollout_failed(&mut self, node: &Arc<str>, changes: &[Change], sent_at: Instant, message: &str, now: Instant) {
        for (rule, stopped) in self.rollouts.patch_failed(node, changes, sent_at, now) {
            let node = self.nodes.get(node).map(NodeState::subject);
            self.happenings.push(Happening::RolloutStopped { node, rule, stopped, message: message.into() });
        }
    }

    /// Records that changes succeeded, and resumes their rollouts.
    fn rollout_succeeded(&mut self, node: &Arc<str>, changes: &[Change], sent_at: Instant, now: Instant) {
        let resumed = self.rollouts.patch_succeeded(node, changes, sent_at);
        self.resume(resumed, now);
    }

    /// Returns the kubelets that have started since the last call.
    pub(super) fn take_started(&mut self) -> Vec<(Arc<str>, Start)> {
        std::mem::take(&mut self.started)
    }

    /// Returns what has happened since the last call.
    pub(super) fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Returns the rules whose states on nodes have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        self.nodes.take_changed()
    }

    /// Returns whether another number of values leaves than at the last call.
    pub(super) fn take_leaving_changed(&mut self) -> bool {
        self.nodes.take_leaving_changed()
    }

    /// Returns the rules of whose resources pods may request another amount than at the last call.
    pub(super) fn take_changed_use(&mut self) -> BTreeSet<Arc<str>> {
        self.requested.take_changed()
    }

    /// Returns how much pods request of a rule's resource.
    pub(super) fn requested(&self, rule: &str) -> Quantity {
        self.requested.of(rule)
    }

    /// Returns the rules that ledgers name.
    pub(super) fn rules_in_ledgers(&mut self) -> Arc<NamedRules> {
        self.nodes.rules_in_ledgers()
    }

    /// Keeps what rules read from nodes.
    pub(super) fn keep(&mut self, facts: FactNames) {
        self.nodes.keep(facts);
    }

    /// Returns whether the nodes are to be listed again, once.
    pub(super) fn take_relist(&mut self, now: Instant) -> bool {
        self.nodes.take_relist(now)
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Lends the slots for requests that are about no node.
    pub(super) fn schedule_mut(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// Returns when a rollout resumes for which nodes wait.
    pub(super) fn next_resume(&self) -> Option<Instant> {
        self.rollouts.next_end()
    }

    #[cfg(test)]
    pub(super) fn rollouts(&self) -> &Rollouts {
        &self.rollouts
    }
}
