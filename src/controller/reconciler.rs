//! The reconciler: decides what to send, and when, from what it observes. It is pure: no client, no clock except the
//! argument, no randomness except a seed. Its only side effects are logs and metrics.
//!
//! ```text
//!   an event, a rule, a response, the end of a pause
//!        │ enqueue
//!        ▼
//!      Plan ──▶ standings, always
//!        ├─ as declared ────────────▶ nothing, or wait (a contest)
//!        ├─ pods decide ────────────▶ wait until it is known what they request
//!        └─ a patch ─▶ after a failure: wait
//!                   └▶ else: Patch ──slot──▶ planned again ──▶ in flight ──▶ Plan, with the node as it is now
//! ```

mod conditions;
mod confinement;
mod decide;
mod nodes;
mod protection;
mod replies;
mod reports;
mod rollouts;
mod rules;
mod standby;
mod standings;
mod statuses;
mod usage;
mod watches;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tracing::info;

use super::confinement::Confinement;
use super::device_classes::DeviceClasses;
use super::effect::{Completion, Effect, Now, Observation, Request, Step, Watched};
use super::events::Events;
use super::leader::{Ending, Leader};
use super::nodes::Nodes;
use super::options::{Diagnostics, Options};
use super::protection::Protection;
use super::readiness::Readiness;
use super::requested::Requested;
use super::rules::Rules;
use super::rules_by_state::RulesByState;
use super::schedule::Schedule;
use super::status_writes::StatusWrites;
use super::usage::Usage;
use super::watches::{Failed, Watches};
use super::work_queue::{Rank, Stage};
use crate::cluster::lease::{Candidate, Leadership};
use crate::model::node::ApiNode;
use crate::planner::Memo;

/// How many nodes are planned before other events are handled.
const PLAN_BATCH_SIZE: usize = 256;

#[derive(Clone)]
pub(super) struct Reconciler {
    options: Options,
    diagnostics: Diagnostics,
    leader: Leader,
    rules: Rules,
    nodes: Nodes,
    schedule: Schedule,
    plans: Memo,
    reports: Reports,
    cluster: ClusterFacts,
    watches: Watches,
    usage: Usage,
    requested: Requested,
}

/// What the reconciler knows about the cluster besides nodes and rules.
#[derive(Clone)]
struct ClusterFacts {
    device_classes: DeviceClasses,
    protection: Protection,
    confinement: Confinement,
}

/// What the reconciler reports besides logs and metrics.
#[derive(Clone)]
struct Reports {
    events: Events,
    statuses: StatusWrites,
    /// The first rejection for a missing permission, while a node waits for that permission.
    forbidden: Option<String>,
    /// Whether the gauges of a leader must be set again.
    gauges_changed: bool,
    rules: RulesByState,
    /// The rules whose metrics must be set again.
    changed_rules: BTreeSet<Arc<str>>,
    /// The number of nodes planned in the current step.
    planned: usize,
}

impl Reconciler {
    pub(super) fn new(candidate: Candidate, options: Options, diagnostics: Diagnostics) -> Self {
        let reports = Reports {
            events: Events::new(candidate.identity.clone(), options.seed),
            statuses: StatusWrites::default(),
            forbidden: None,
            gauges_changed: false,
            rules: RulesByState::default(),
            changed_rules: BTreeSet::new(),
            planned: 0,
        };
        let cluster = ClusterFacts {
            device_classes: DeviceClasses::default(),
            protection: Protection::default(),
            confinement: Confinement::new(options.confinement_test),
        };
        let mut reconciler = Self {
            leader: Leader::new(candidate),
            schedule: Schedule::new(options.concurrency, options.rollouts, options.seed),
            nodes: Nodes::new(options.node_condition),
            rules: Rules::new(options.max_rules_memory),
            options,
            diagnostics,
            plans: Memo::default(),
            reports,
            cluster,
            watches: Watches::default(),
            usage: Usage::default(),
            requested: Requested::default(),
        };
        reconciler.report_confinement();
        reconciler
    }

    /// Handles an observation.
    pub(super) fn observe(&mut self, observation: Observation, now: Now) {
        match observation {
            Observation::Lease(event) => self.leader.observe(event, now),
            Observation::Rule(event) => self.observe_rule(event, now),
            Observation::Node(event) => self.observe_node(event, now),
            Observation::Pods(event) => self.observe_pods(event, now),
            Observation::PodsHeard(at) => self.pods_heard(at, now),
            Observation::WatchBegan(watched) => self.watches.began(watched, now.instant),
            Observation::DeviceClass(event) => {
                if self.cluster.device_classes.apply(event) {
                    self.touch_all_statuses(now.instant);
                }
            }
            Observation::Protection(kind, event) => self.observe_protection(kind, event),
            Observation::Stop => {
                info!(in_flight = self.schedule.limiter.writes(), "stopping");
                self.leader.stop(now.instant);
            }
        }
    }

    /// Handles the response to a request.
    pub(super) fn complete(&mut self, completion: Completion, now: Now) {
        match completion {
            Completion::LeaseWritten { started, written, found } => {
                self.leader.written(written, found.map(|lease| *lease), started, now);
            }
            Completion::LeaseReleased => self.leader.released(),
            Completion::NodePatched { slot, node, reply } => self.node_patched(slot, &node, reply, now),
            Completion::StatusPatched { slot, rule, uid, result } => {
                self.schedule.limiter.give_back(slot);
                self.status_patched(&rule, uid, result, now.instant);
            }
            Completion::EventCreated { slot, event, result } => {
                self.schedule.limiter.give_back(slot);
                self.reports.events.written(event, result, now.instant);
            }
            Completion::ConfinementTested { number, reply } => {
                self.confinement_tested(number, reply);
            }
        }
    }

    /// Returns whether the controller ends because the API server went back to an earlier state.
    pub(super) fn server_went_back(&self) -> bool {
        self.leader.server_went_back()
    }

    /// Decides what to send now.
    pub(super) fn next(&mut self, now: Now) -> Step {
        let mut step = Step { relists_nodes: self.nodes.take_relist(), ..Step::default() };
        step.wake = self.leader.next(now, &mut step.requests);
        self.follow_leadership(now);
        self.follow_watches(now, &mut step);
        self.expire_usage(now);
        let (is_stopping, leads) = (self.leader.is_stopping(), self.leads(now.instant));
        if leads && !is_stopping {
            self.plan(now, &mut step);
        }
        // What the statuses report that are sent now depends on it.
        self.follow_usage(now, &mut step);
        match (is_stopping, leads) {
            (true, _) => self.finish(now, &mut step),
            (false, true) => self.work(now, &mut step),
            (false, false) => self.stand_by(now, &mut step),
        }
        self.report_gauges(now.instant);
        step.relists_rules = self.rules.take_relist(now.instant);
        step
    }

    /// Ends leadership, once nothing is in flight.
    fn finish(&mut self, now: Now, step: &mut Step) {
        let in_flight = self.schedule.limiter.writes();
        let since = now.instant.checked_sub(self.leader.lease_duration());
        let may_land = || {
            let mut nodes = self.nodes.iter();
            since.is_some_and(|since| nodes.any(|(_, state)| state.may_be_patched(since)))
        };
        match self.leader.end(in_flight, may_land, now.instant, &mut step.requests) {
            Ending::Draining(until) => {
                step.wake = Some(step.wake.map_or(until, |wake| wake.min(until)));
            }
            Ending::Releasing => {}
            Ending::Done => step.done = true,
        }
    }

    /// Plans the nodes of a leader.
    fn plan(&mut self, now: Now, step: &mut Step) {
        self.wake_due(now);
        self.resume_ended(now);
        self.list_rules_after_hold(now.instant);
        self.reports.planned = 0;
        while self.reports.planned < PLAN_BATCH_SIZE
            && let Some(name) = self.schedule.queue.pop(Stage::Plan)
        {
            self.reconcile(&name, now);
        }
        self.bound_memory(now);
        while self.reports.planned < PLAN_BATCH_SIZE
            && let Some(name) = self.schedule.standings_due.pop_first()
        {
            // If the response has arrived in the meantime, the node was planned with it.
            if self.schedule.queue.is_in_flight(&name) {
                self.reconcile(&name, now);
            }
        }
        step.planned = self.reports.planned;
    }

    /// Sends what a leader has to send.
    fn work(&mut self, now: Now, step: &mut Step) {
        if let Some(deadline) = self.write_deadline(now.instant) {
            self.send_patches(deadline, now, step);
            // While nodes are still to be planned, the counts are about to change.
            if !self.has_unplanned() {
                self.send_statuses(deadline, now, step);
            }
            self.send_events(deadline, now.instant, step);
            self.test_confinement(deadline, now, step);
        }
        if self.has_unplanned() {
            step.wake = Some(now.instant);
        }
        self.report_forbidden();
        let wakes = [
            step.wake,
            self.schedule.queue.next_due(),
            self.schedule.limiter.next_wake(now.instant),
            // The hold does not end before rules and nodes are known.
            self.rules.hold().until().filter(|_| self.knows_all()),
            self.schedule.rollouts.next_end(),
            self.reports.events.next_due(now.instant),
            self.reports.statuses.next_due(now.instant),
            self.cluster.confinement.next_due().filter(|_| self.nodes.listed()),
        ];
        step.wake = wakes.into_iter().flatten().min();
    }

    /// Returns whether nodes are to be planned now.
    fn has_unplanned(&self) -> bool {
        self.schedule.queue.len(Stage::Plan) > 0 || !self.schedule.standings_due.is_empty()
    }

    fn leads(&self, now: Instant) -> bool {
        self.leader.leads(now)
    }

    /// Returns the deadline for the response to a request sent now; `None` if this process does not lead.
    fn write_deadline(&self, now: Instant) -> Option<Instant> {
        self.leader.write_deadline(now, self.options.request_timeout)
    }

    /// Handles a change of leadership. A new leader plans every node with the current rules, since its knowledge of
    /// rules, failures and pauses may be stale. A process that loses leadership stops reporting.
    fn follow_leadership(&mut self, now: Now) {
        if let Some(leadership) = self.leader.take_report() {
            self.set_ready(|readiness| {
                (readiness.lease, readiness.standby) = match leadership {
                    Leadership::Leader { .. } => (None, None),
                    Leadership::Standby(None) => (None, Some("no leader is elected yet".to_owned())),
                    Leadership::Standby(Some(holder)) => (None, Some(format!("{holder} is the leader"))),
                    Leadership::Unavailable(why) => (Some(why), None),
                };
            });
        }
        let Some(leads) = self.leader.take_change(now.instant) else { return };
        self.diagnostics.metrics.leader.set(leads.into());
        self.reports.gauges_changed = true;
        self.cluster.confinement.follow(leads, now.instant);
        self.report_confinement();
        if leads {
            self.rules.list_again();
            self.restart_all(now);
        } else {
            self.reports.forbidden = None;
            self.reports.events.clear();
            self.rules.stand_by();
            // Planned changes are not sent anymore.
            self.restart_nodes(now);
            self.report_forbidden();
        }
    }

    fn observe_node(&mut self, event: watcher::Result<Event<ApiNode>>, now: Now) {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                let message = self.watch_failed(Watched::Nodes, &error, "", now);
                if !self.nodes.listed() && message.is_some() {
                    self.set_ready(|readiness| readiness.nodes = message);
                }
                return;
            }
        };
        // A new list may fail like the previous one.
        if !matches!(event, Event::Init) {
            self.watches.works(Watched::Nodes);
        }
        let listed = self.nodes.listed();
        let seen = self.nodes.observe(event);
        let is_in_flight = seen.changed.as_ref().is_some_and(|(name, _)| self.schedule.queue.is_in_flight(name));
        self.leave_rollout(&seen, is_in_flight);
        self.follow_node(seen, now);
        if self.nodes.listed() && !listed {
            info!(nodes = self.nodes.len(), "all nodes listed");
            self.set_ready(|readiness| readiness.nodes = None);
            self.begin_if_complete(now);
        }
    }

    /// Returns whether all rules and nodes are known: until then, only repairs from ledgers are written (I4).
    fn knows_all(&self) -> bool {
        self.rules.are_known() && self.nodes.listed()
    }

    fn set_ready(&self, change: impl FnOnce(&mut Readiness)) {
        self.diagnostics.readiness.send_if_modified(|readiness| {
            let before = readiness.clone();
            change(readiness);
            *readiness != before
        });
    }

    /// Readiness fails from the first patch rejected for a missing permission until no node waits for that permission.
    fn report_forbidden(&mut self) {
        if !self.schedule.kept_back.is_any_forbidden() {
            self.reports.forbidden = None;
        }
        let forbidden = &self.reports.forbidden;
        self.set_ready(|readiness| readiness.patches.clone_from(forbidden));
    }
}

#[cfg(test)]
mod tests;
