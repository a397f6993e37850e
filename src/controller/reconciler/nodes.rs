//! One node: from an observation to a plan, and from a plan to the next step.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::conditions::Claims;
use super::rollouts::{withhold, withhold_list};
use super::turns::list_before_turn;
use super::{Now, Rank, Reconciler, Request, Stage, Step};
use crate::controller::events::{EventTemplate, NodeSubject};
use crate::controller::nodes::{MAX_USAGE_AGE, MAX_USAGE_AGE_OF_PATCH, NodeState, Seen};
use crate::controller::rollouts::Rollouts;
use crate::controller::rules::Rules;
use crate::model::node::Node;
use crate::planner::input::{Contested, NewValues, PlanningInput, PodUsage};
use crate::planner::{self, Change, NodePlan, Outcome, Plan};

/// The age up to which a node is young.
const YOUNG_NODE_SECONDS: i64 = 600;
/// The maximum difference between the clocks of this process and of the API server.
const CLOCK_SKEW_SECONDS: i64 = 60;

/// The next step for a planned node.
pub(super) enum Next {
    Nothing,
    Wait(Instant),
    /// A list of pods; and when something else is due, if that is earlier.
    List(Stage, Rank, Option<Instant>),
    /// A patch with these changes, and when something else is due.
    Patch(Vec<Change>, Stage, Rank, Option<Instant>),
}

impl Reconciler {
    /// Handles changes in the cache of nodes.
    pub(super) fn follow_node(&mut self, seen: Seen, now: Now) {
        self.report_start(&seen, now);
        for name in seen.removed {
            self.schedule.queue.end(&name);
            self.schedule.queue.remove(&name);
            self.schedule.kept_back.remove(&name);
            self.schedule.unlisted.remove(&name);
            self.schedule.rollouts.forget_node(&name);
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
        // A repair does not wait for a list of pods, whose response is then ignored.
        if rank == Rank::Repair && state.is_listing_pods() && needs_repair(state, now.instant) {
            self.abandon_list(name, now);
        }
        if !self.schedule.queue.add(name, Stage::Plan, rank) {
            self.schedule.standings_due.insert(Arc::clone(name));
        }
    }

    /// Ignores the response to a list of pods that is in flight.
    pub(super) fn abandon_list(&mut self, name: &Arc<str>, now: Now) {
        let Some(state) = self.nodes.get_mut(name).filter(|state| state.is_listing_pods()) else { return };
        let work = state.work_mut();
        work.sent = None;
        work.pods.abandon(now.instant);
        self.schedule.queue.end(name);
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
        self.schedule.unlisted.clear();
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

    /// Plans a node in its current state, records the states of its rules, and puts it where it must go next.
    pub(super) fn reconcile(&mut self, name: &Arc<str>, now: Now) {
        self.reports.planned += 1;
        let next = self.decide(name, MAX_USAGE_AGE, now);
        if !self.schedule.queue.is_in_flight(name) {
            self.put(name, next);
        }
    }

    /// Puts a node where it must go next.
    pub(super) fn put(&mut self, name: &Arc<str>, next: Next) {
        let queue = &mut self.schedule.queue;
        match next {
            Next::Nothing => queue.remove(name),
            Next::Wait(until) => queue.wait(name, until),
            Next::List(stage, rank, wake) | Next::Patch(_, stage, rank, wake) => {
                queue.add(name, stage, rank);
                wake.into_iter().for_each(|at| queue.wake_at(name, at));
            }
        }
    }

    /// Sends the patches for which there are slots. Each node is planned once more when it is its turn: nothing that was
    /// decided before is sent.
    pub(super) fn send_patches(&mut self, deadline: Instant, now: Now, step: &mut Step) {
        while let Some((name, stage)) = self.schedule.pop_patch(now.instant) {
            let is_listed = stage == Stage::PatchAsListed;
            let age = self.nodes.get(&name).and_then(|state| state.work()?.pods.age(now.instant));
            self.schedule.sent_as_listed = is_listed;
            self.schedule.used_list(age.filter(|_| is_listed), now.instant);
            let next = if self.leads(now.instant) {
                self.decide(&name, MAX_USAGE_AGE_OF_PATCH, now)
            } else {
                self.decide_reset(&name, now.instant)
            };
            let Next::Patch(changes, _, rank, _) = next else {
                self.put(&name, next);
                continue;
            };
            let Some(state) = self.nodes.get_mut(&name) else { continue };
            let effect = self.schedule.start_patch(state, changes, rank, now.instant);
            step.requests.extend(effect.map(|effect| Request { effect, deadline }));
        }
    }

    /// Plans a node in its current state, with a list of pods of at most this age, and records the states of its rules.
    /// Returns what it needs next.
    fn decide(&mut self, name: &Arc<str>, max_age: Duration, now: Now) -> Next {
        let (knows_all, has_condition) = (self.knows_all(), self.options.node_condition);
        let rules = self.rules.set();
        let Some(state) = self.nodes.get_mut(name) else { return Next::Nothing };
        let input = planning_input(state, max_age, now);
        let has_pods = matches!(input.pods, PodUsage::Known(_));
        let plan = if knows_all {
            self.plans.plan(&state.node, &rules, &input)
        } else {
            planner::plan_repairs(&state.node, &input.contested)
        };
        let NodePlan { outcomes, plan } = plan;
        let (mut changes, mut needs_pods, blocked) = match plan {
            Plan::Patch { changes, needs_pods } => (changes, needs_pods, None),
            Plan::NeedsPods => (Vec::new(), true, None),
            Plan::InSync => (Vec::new(), false, None),
            Plan::Blocked(error) => (Vec::new(), false, Some(error)),
        };
        let is_blocked = blocked.is_some();
        if let Some(error) = blocked.filter(|_| !state.is_blocked) {
            warn!(
                node = %name,
                "cannot change the node: {error}; repair the annotation, or remove it with prune --repair-ledger \
                 --node {name} --force"
            );
            let node = NodeSubject { name, uid: &state.node.uid };
            self.reports.events.on_node(node, &EventTemplate::invalid_ledger(name, &error), now);
        }
        state.is_blocked = is_blocked;

        repair_as_listed(&mut changes, state, &self.schedule.rollouts, &input, now.instant);
        // I5: after a lowering, pods are listed once more, and again until the resulting change is written.
        let is_planned = knows_all && !is_blocked;
        if has_pods && is_planned && state.work().is_some() {
            state.forget_lowerings(&changes, &input.contested, now.instant);
        }
        let is_lowered = state.has_due_lowering(&input.contested);
        needs_pods |= is_planned && !has_pods && is_lowered;
        let is_held = outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Held { .. }));
        if is_planned
            && !needs_pods
            && let Some(work) = state.working()
        {
            work.failures.forget_others(&changes);
        }
        let Some(state) = self.nodes.get_mut(name) else { return Next::Nothing };
        let rollouts = &mut self.schedule.rollouts;
        let mut withheld = withhold(rollouts, (name, state), &mut changes, now.instant);
        if needs_pods && !is_lowered {
            needs_pods = !withhold_list(rollouts, &self.rules, (name, state), &outcomes, &mut withheld, now.instant);
        }
        // With no rule, or without the option, there is no condition.
        let claims = knows_all.then(|| {
            let planned = || changes.iter().chain(&withheld.changes);
            if has_condition { Claims::new(&outcomes, &self.rules, planned) } else { Claims::default() }
        });
        if knows_all {
            self.record(name, outcomes, (&changes, &withheld), now);
        }
        if self.schedule.queue.is_in_flight(name) {
            return Next::Nothing;
        }
        let poll = has_pods && is_held && !needs_pods;
        self.place(name, (changes, withheld.until, claims), (needs_pods, is_lowered), (poll, has_pods), is_planned, now)
    }

    /// Decides the next step for a node that was planned with these changes.
    fn place(
        &mut self,
        name: &Arc<str>,
        (changes, withheld_until, claims): (Vec<Change>, Option<Instant>, Option<Claims>),
        (needs_pods, is_lowered): (bool, bool),
        (poll, has_pods): (bool, bool),
        is_planned: bool,
        now: Now,
    ) -> Next {
        let (held, seed, knows_all) = (self.nodes.held(), self.schedule.seed(), self.knows_all());
        let Some(state) = self.nodes.get_mut(name) else { return Next::Nothing };
        let condition = |rules: &Rules, state: &NodeState, planned: &[Change]| {
            claims.as_ref()?.change(state, rules, planned, now.wall)
        };
        let alone = condition(&self.rules, state, &[]);
        let is_converged = changes.is_empty() && !needs_pods && withheld_until.is_none() && alone.is_none();
        if is_converged && knows_all {
            state.mark_in_sync();
            self.schedule.rollouts.forget_node(name);
            self.schedule.kept_back.remove(name);
            if is_planned {
                self.report_applied(name, now);
            }
        } else if is_converged {
            // Only repairs are planned: this does not show that the node needs nothing of what has failed.
            state.mark_repaired();
        }
        let Some(state) = self.nodes.get_mut(name) else { return Next::Nothing };
        if state.work().is_none() && is_converged {
            return Next::Nothing;
        }
        let is_rollout = state.is_rollout;
        let list_at = state.work().and_then(|work| work.pods.not_before.max(work.failures.pause(now.instant)));
        let list_at = list_at.filter(|at| now.instant < *at);
        let wake = state.work().and_then(|work| work.next_change(now.instant));
        let mut wait = wake.into_iter().chain(withheld_until).min();
        let mut until = |at: Instant| wait = Some(wait.map_or(at, |wait| wait.min(at)));
        if is_rollout
            && needs_pods
            && !has_pods
            && !changes.is_empty()
            && !changes.iter().any(|change| state.is_urgent(change))
        {
            self.schedule.unlisted.remove(name);
            match list_before_turn(state, (is_lowered, list_at), now.instant) {
                Some(at) if at <= now.instant => return Next::List(Stage::ListPods, Rank::Replan, wait),
                at => at.into_iter().for_each(&mut until),
            }
        }
        if is_rollout
            && needs_pods
            && changes.is_empty()
            && let Some(stage) = self.stage_before_list(name, now.instant)
        {
            return Next::List(stage, Rank::Replan, None);
        }
        if !needs_pods {
            self.schedule.unlisted.remove(name);
        }
        let Some(state) = self.nodes.get_mut(name) else { return Next::Nothing };
        let is_quiet = changes.is_empty() && !needs_pods;
        let mut patch = None;
        if !changes.is_empty() {
            match state.sendable(changes, now.instant) {
                Ok(mut changes) => {
                    let rank = state.rank(&changes);
                    let stage = if has_pods && rank == Rank::Replan { Stage::PatchAsListed } else { Stage::Patch };
                    let goes_along = |change: &Change| {
                        state.work().is_none_or(|work| work.failures.takes_along(change, now.instant))
                    };
                    changes.extend(condition(&self.rules, state, &changes).filter(goes_along));
                    patch = Some((changes, stage, rank));
                }
                Err(at) => until(at),
            }
        }
        let mut lists = needs_pods && patch.is_none();
        if lists && let Some(at) = list_at {
            lists = false;
            until(at);
        }
        match alone {
            None if knows_all => state.working().into_iter().for_each(|work| work.failures.forget_condition()),
            Some(change) if patch.is_none() && !lists => match state.sendable_condition(change, now.instant) {
                // Pods do not depend on it, so it has the limits of a rollout.
                Ok(changes) => patch = Some((changes, Stage::Patch, Rank::Replan)),
                Err(at) => until(at),
            },
            None | Some(_) => {}
        }
        // Also while the rollout of another rule is stopped.
        if is_quiet
            && knows_all
            && let Some(work) = state.working()
        {
            work.pods.forget_usage();
            if poll {
                until(work.pods.next(held, (now.instant, seed)));
            } else {
                work.pods.restart();
            }
        }
        if is_converged || withheld_until.is_some() {
            state.compact(now.instant);
        }
        match (patch, wait) {
            (Some((changes, stage, rank)), wait) => Next::Patch(changes, stage, rank, wait),
            (None, wait) if lists => {
                Next::List(Stage::ListPods, if is_rollout { Rank::Replan } else { Rank::Changed }, wait)
            }
            (None, Some(until)) => Next::Wait(until),
            (None, None) => Next::Nothing,
        }
    }
}

/// Returns whether a node was created a short time ago.
pub(super) fn is_young(node: &Node, now: Now) -> bool {
    node.created.is_some_and(|created| {
        let age = now.wall.duration_since(created).as_secs();
        (-CLOCK_SKEW_SECONDS..YOUNG_NODE_SECONDS).contains(&age)
    })
}

/// Returns the input of a plan besides the node and the rules.
pub(super) fn planning_input(state: &mut NodeState, max_age: Duration, now: Now) -> PlanningInput {
    // A new value on a young node cannot be less than what the pods there started with.
    let new_values =
        if is_young(&state.node, now) && !state.has_withdrawn { NewValues::CheckOlderNodes } else { NewValues::Check };
    let released = state.released.names().clone();
    if state.work().is_none() {
        return PlanningInput { new_values, released, ..PlanningInput::default() };
    }
    let work = state.work_mut();
    let pods = match (work.pods.usage(max_age, now.instant), &work.pods.error) {
        (Some(pods), _) => PodUsage::Known(pods.clone()),
        (None, Some(why)) => PodUsage::Unavailable(Arc::clone(why)),
        (None, None) => PodUsage::NotFetched,
    };
    PlanningInput {
        contested: work.conflicts.contested(now.instant),
        pods,
        new_values,
        lowered_from: work.lowered_from.clone(),
        released,
        moved: work.moves.recent(now.instant),
    }
}

/// Returns whether a value that the ledger lists is lost and may be restored.
fn needs_repair(state: &mut NodeState, now: Instant) -> bool {
    let contested = match state.work() {
        Some(_) => state.work_mut().conflicts.contested(now),
        None => Contested::default(),
    };
    !planner::plan_repairs(&state.node, &contested).changes().is_empty()
}

/// If the API server rejects what a rule declares, on this node or on many others, a lost value is restored as it was
/// listed.
fn repair_as_listed(
    changes: &mut [Change],
    state: &NodeState,
    rollouts: &Rollouts,
    input: &PlanningInput,
    now: Instant,
) {
    let node = &state.node;
    let is_rejected = |change: &Change| {
        let is_rejected_here = state.work().is_some_and(|work| work.failures.is_rejected(&change.resource));
        let is_stopped = || rollouts.stopped_until(change, &node.name, now).is_some();
        change.is_repair() && (is_rejected_here || is_stopped())
    };
    if !changes.iter().any(is_rejected) {
        return;
    }
    let repairs = planner::plan_repairs(node, &input.contested);
    for change in changes.iter_mut().filter(|change| is_rejected(change)) {
        let as_listed = repairs.changes().iter().find(|other| other.resource == change.resource);
        if let Some(as_listed) = as_listed {
            change.clone_from(as_listed);
        }
    }
}
