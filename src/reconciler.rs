//! The reconciler: decides what to send, and when, from what it observes. It is pure: no client, no clock except the
//! argument, no randomness except a seed, and no side effect: the shell logs, counts and shows the happenings that it
//! returns.
//!
//! ```text
//!   an event, a rule, a response, the end of a pause
//!        │ enqueue
//!        ▼
//!      Plan ──▶ standings, always
//!        ├─ as declared ────────────▶ nothing, or wait (contested)
//!        ├─ pods decide ────────────▶ wait until it is known what they request
//!        └─ a patch ─▶ after a failure: wait
//!                   └▶ else: Patch ──slot──▶ planned again ──▶ in flight ──▶ Plan, with the node as it is now
//! ```
//!
//! Each part owns its state: `fleet.rs` the nodes and the work on them, `statuses.rs` the statuses of rules, `report.rs`
//! the Events and what has happened. This file takes what one part returns to the others.

mod conditions;
pub(crate) mod confinement;
mod decide;
pub(crate) mod device_classes;
pub(crate) mod effect;
pub(crate) mod events;
mod fleet;
pub(crate) mod happening;
mod leader;
mod limiter;
pub(crate) mod nodes;
mod options;
pub(crate) mod protection;
pub(crate) mod pruner;
pub mod readiness;
mod report;
mod requested;
mod rollouts;
pub(crate) mod rules;
pub(crate) mod rules_by_state;
pub(crate) mod schedule;
pub(crate) mod standing;
mod standings;
pub(crate) mod status;
mod status_writes;
mod statuses;
mod tally;
pub(crate) mod usage;
mod watches;
pub(crate) mod words;
mod work_queue;

use std::sync::Arc;

use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use crate::election::Candidate;
use crate::model::node::{ApiNode, Node};
use crate::planner::rules::Rule;
use crate::response::error::is_expired;
use confinement::Confinement;
use decide::Authority;
use effect::{Completion, Effect, Now, Observation, Request, Step, Watched};
use events::Events;
use fleet::{Fleet, Known};
use happening::Happening;
use leader::{Ending, Leader};
use limiter::Kind;
#[cfg(test)]
pub(crate) use limiter::Slot;
pub use options::{Options, RolloutLimits};
pub use protection::ExpectedPolicy;
pub(crate) use protection::LABEL as PROTECTION_LABEL;
use protection::Protection;
use report::{Report, Reporter};
use rules::{Enqueue, RuleObject, Rules, Seen};
use statuses::{NewStatus, Statuses, View};
use tally::Counts;
use usage::{Usage, Woken};
use watches::{Patience, Watches};

/// How many nodes are planned before other events are handled.
const PLAN_BATCH_SIZE: usize = 256;

#[derive(Clone)]
pub(crate) struct Reconciler {
    options: Options,
    leader: Leader,
    rules: Rules,
    fleet: Fleet,
    usage: Usage,
    statuses: Statuses,
    watches: Watches,
    confinement: Confinement,
    report: Report,
    /// Whether the gauges of a leader must be set again.
    gauges_changed: bool,
}

impl Reconciler {
    pub(crate) fn new(candidate: Candidate, options: Options) -> Self {
        let protection = Protection::new(options.protection);
        let mut report = Report::new(Events::new(candidate.identity.clone(), options.seed), protection);
        let mut confinement = Confinement::new(options.confinement_test);
        report.note(confinement.take_change().cloned().map(Happening::Confinement));
        Self {
            leader: Leader::new(candidate),
            rules: Rules::new(options.max_rules_memory),
            fleet: Fleet::new(&options),
            usage: Usage::default(),
            statuses: Statuses::default(),
            watches: Watches::default(),
            confinement,
            report,
            options,
            gauges_changed: false,
        }
    }

    /// Handles an observation.
    pub(crate) fn observe(&mut self, observation: Observation, now: Now) {
        match observation {
            Observation::Lease(event) => {
                self.leader.observe(event, now);
                self.report.note(self.leader.take_notes());
            }
            Observation::Rule(event) => self.observe_rule(event, now),
            Observation::Node(event) => self.observe_node(event, now),
            Observation::Pods(event) => {
                if event.as_ref().is_err_and(is_expired) {
                    self.report.pods_expired();
                }
                let woken = self.usage.observe(event, now.instant);
                self.follow_pods(woken, now);
                self.report.unreadable_pods(&mut self.usage);
            }
            Observation::PodsHeard(at) => {
                let woken = self.usage.heard(at);
                self.follow_pods(woken, now);
            }
            Observation::WatchBegan(watched) => self.watches.began(watched, now.instant),
            Observation::WatchHeard(watched) => self.watches.heard(watched),
            Observation::DeviceClass(event) => {
                if self.statuses.observe_class(event) {
                    self.statuses.touch_all(&self.rules, now.instant);
                }
                self.report.note(self.statuses.take_happenings());
            }
            Observation::Protection(kind, event) => self.report.observe_protection(kind, event),
            Observation::Stop => {
                self.report.note([Happening::Stopping { in_flight: self.fleet.schedule().writes() }]);
                self.leader.stop(now.instant);
            }
        }
    }

    /// Handles the response to a request.
    pub(crate) fn complete(&mut self, completion: Completion, now: Now) {
        let schedule = self.fleet.schedule_mut();
        match completion {
            Completion::LeaseWritten { started, written, found } => {
                let went_back = self.leader.written(written, found.map(|lease| *lease), started, now);
                self.report.note(self.leader.take_notes());
                self.report.note(went_back);
            }
            Completion::LeaseReleased => self.leader.released(),
            Completion::NodePatched { slot, node, reply } => {
                self.fleet.answered(slot, &node, reply, self.leader.leads(now.instant), now.instant);
            }
            Completion::StatusPatched { slot, rule, uid, result } => {
                schedule.give_back(slot);
                let attempt = schedule.attempt(None, now.instant);
                let pause = self.statuses.written(&rule, uid, result, &mut self.rules, attempt);
                pause.into_iter().for_each(|pause| schedule.pause_statuses(pause, now.instant));
                self.report.note(self.statuses.take_happenings());
            }
            Completion::EventCreated { slot, event, result } => {
                schedule.give_back(slot);
                let lost = self.report.events().written(event, result, now.instant);
                self.report.note(lost);
            }
            Completion::ConfinementTested { number, reply } => {
                let result = self.confinement.tested(number, reply, now.instant);
                self.report.note([Happening::ConfinementTested { result }]);
            }
        }
        self.report_happenings(now);
    }

    /// Returns what has happened since the last call, for the shell to report.
    pub(crate) fn take_happenings(&mut self) -> Vec<Happening> {
        self.report.take_happenings()
    }

    /// Returns whether the controller ends because the API server went back to an earlier state.
    pub(crate) fn server_went_back(&self) -> bool {
        self.leader.server_went_back()
    }

    /// Decides what to send now.
    pub(crate) fn next(&mut self, now: Now) -> Step {
        let mut step = Step { relists_nodes: self.fleet.take_relist(now.instant), ..Step::default() };
        step.wake = self.leader.next(now, &mut step.requests);
        step.wake_by(self.fleet.nodes().next_relist());
        self.report.note(self.leader.take_notes());
        self.follow_leadership(now);
        self.follow_watches(now, &mut step);
        let woken = self.usage.expire(now.instant);
        self.follow_pods(woken, now);
        let (is_stopping, leads) = (self.leader.is_stopping(), self.leader.leads(now.instant));
        if leads && !is_stopping {
            step.planned = self.plan(now);
        }
        // What the statuses report that are sent now depends on it.
        self.follow_usage(now, &mut step);
        if is_stopping {
            let schedule = self.fleet.schedule();
            let since = now.instant.checked_sub(self.leader.lease_duration());
            let may_land = || since.is_some_and(|since| self.fleet.nodes().may_be_patched(since));
            match self.leader.end(schedule.writes(), may_land, now.instant, &mut step.requests) {
                Ending::Draining(until) => step.wake_by(Some(until)),
                Ending::Releasing => {}
                Ending::Unanswered => {
                    self.report.note([Happening::Unanswered { in_flight: self.fleet.schedule().writes() }]);
                    step.done = true;
                }
                Ending::Done => step.done = true,
            }
        } else if leads {
            self.work(now, &mut step);
        } else {
            self.stand_by(now, &mut step);
        }
        self.report_gauges(now);
        step.relists_rules = self.rules.take_relist(now.instant);
        step
    }

    /// Plans the nodes of a leader. Returns how many.
    fn plan(&mut self, now: Now) -> usize {
        self.fleet.wake_due(now.instant);
        // Begins the watch anew when the delay for missing rules is over: the list ends it, and rules that came back
        // may be missing in the watch. The list that a new leader needs comes first.
        if self.knows_all() && self.rules.take_due_list(now.instant) {
            self.rules.list_again();
        }
        let (fleet, known) = self.lend(now);
        let planned = fleet.plan(PLAN_BATCH_SIZE, known);
        self.report_happenings(now);
        // Stalls the youngest rules if the states of all rules on all nodes take too much memory.
        let nodes = self.fleet.nodes();
        let of_rule = |rule: &str| nodes.counts(rule).map_or(0, Counts::size);
        let touched = self.rules.bound_states(nodes.tally().size(), of_rule);
        if !touched.is_empty() {
            self.fleet.forget_states(&touched);
            self.follow_rules(Seen { enqueue: Enqueue::All, touched, removed: Vec::new(), is_list: false }, now);
        }
        let (fleet, known) = self.lend(now);
        let planned = planned + fleet.plan_in_flight(PLAN_BATCH_SIZE - planned, known);
        self.report_happenings(now);
        planned
    }

    /// Lends the nodes, with what decisions about them depend on.
    fn lend(&mut self, now: Now) -> (&mut Fleet, Known<'_>) {
        let authority = match (self.leader.leads(now.instant), self.knows_all()) {
            (false, _) => Authority::Resets,
            (true, false) => Authority::Repairs,
            (true, true) => Authority::Rules,
        };
        (&mut self.fleet, Known { authority, rules: &self.rules, usage: &self.usage, now })
    }

    /// Sends what a leader has to send.
    fn work(&mut self, now: Now, step: &mut Step) {
        if let Some(deadline) = self.leader.write_deadline(now.instant, self.options.request_timeout) {
            self.send_patches(deadline, now, step);
            // While nodes are still to be planned, the counts are about to change.
            if !self.fleet.schedule().has_unplanned() {
                self.send_statuses(deadline, now, step);
            }
            while self.report.events().is_ready(now.instant)
                && let Some(slot) = self.fleet.schedule_mut().take_slot(Kind::Event, now.instant)
            {
                match self.report.events().pop() {
                    Some(event) => {
                        step.requests.push(Request { effect: Effect::CreateEvent { slot, event }, deadline })
                    }
                    None => {
                        self.fleet.schedule_mut().give_back(slot);
                        break;
                    }
                }
            }
            let test = self.confinement.next(self.fleet.nodes(), now);
            step.requests.extend(test.map(|effect| Request { effect, deadline }));
        }
        self.report_happenings(now);
        self.report.forbidden(self.fleet.schedule().is_any_forbidden());
        let schedule = self.fleet.schedule();
        let wakes = [
            schedule.has_unplanned().then_some(now.instant),
            schedule.next_due(),
            schedule.next_slot(now.instant),
            // The hold does not end before rules and nodes are known.
            self.rules.hold().until().filter(|_| self.knows_all()),
            self.fleet.next_resume(),
            self.report.next_event(now.instant),
            self.statuses.next_due(now.instant),
            self.confinement.next_due().filter(|_| self.fleet.nodes().listed()),
        ];
        step.wake_by(wakes.into_iter().flatten().min());
    }

    /// Sends the patches for which there are slots.
    fn send_patches(&mut self, deadline: Instant, now: Now, step: &mut Step) {
        let (fleet, known) = self.lend(now);
        step.requests.extend(std::iter::from_fn(|| fleet.next_patch(known)).map(|effect| Request { effect, deadline }));
        self.report_happenings(now);
    }

    /// Sends the statuses that are due, if they have changed.
    fn send_statuses(&mut self, deadline: Instant, now: Now, step: &mut Step) {
        let changed = self.fleet.take_changed();
        self.gauges_changed |= self.fleet.take_leaving_changed() | !changed.is_empty();
        let exists = |rule: &_| self.rules.get(rule).is_some();
        changed.iter().filter(|rule| exists(rule)).for_each(|rule| self.statuses.touch(rule, now.instant));
        let changed = self.fleet.take_changed_use();
        changed.iter().filter(|rule| exists(rule)).for_each(|rule| self.statuses.touch_use(rule, now.instant));
        if !self.knows_all() {
            return;
        }
        while self.fleet.schedule().is_free(Kind::Status, now.instant)
            && let Some(rule) = self.statuses.pop(now.instant)
        {
            let view = View { rules: &self.rules, fleet: &self.fleet, usage: &self.usage, now };
            let Some(NewStatus { uid, status, observed }) = self.statuses.new_status(&rule, view) else { continue };
            let by = Reporter { rules: &self.rules, leads: true, now };
            self.report.status(&rule, &observed, self.fleet.nodes().counts(&rule), by);
            let Some(slot) = self.fleet.schedule_mut().take_slot(Kind::Status, now.instant) else { break };
            self.statuses.sent(&rule, observed, now.instant);
            let effect = Effect::PatchStatus { slot, rule, uid, status: Box::new(status) };
            step.requests.push(Request { effect, deadline });
        }
    }

    /// Does what a standby may do: it restores values that a kubelet has reset to 0 if the leader does not (I6). A pod that
    /// uses the value survives for about a second after a reset, while a crashed leader is replaced after 15 seconds.
    fn stand_by(&mut self, now: Now, step: &mut Step) {
        self.fleet.wake_due(now.instant);
        let (fleet, known) = self.lend(now);
        fleet.plan(PLAN_BATCH_SIZE, known);
        // The patch is correct whenever it is applied, so no Lease bounds it.
        self.send_patches(now.instant + self.options.request_timeout, now, step);
        let schedule = self.fleet.schedule();
        step.wake_by(schedule.next_due());
        step.wake_by(schedule.has_ready().then_some(now.instant));
    }

    /// Handles a change of leadership. A new leader plans every node with the current rules, since its knowledge of
    /// rules, failures and pauses may be stale. A process that loses leadership stops reporting.
    fn follow_leadership(&mut self, now: Now) {
        self.report.note(self.leader.take_report().map(Happening::Leadership));
        let Some(leads) = self.leader.take_change(now.instant) else { return };
        self.report.leads(leads);
        self.gauges_changed = true;
        self.confinement.follow(leads, now.instant);
        if leads {
            self.rules.list_again();
        } else {
            self.rules.stand_by();
        }
        // Planned changes are not sent anymore.
        self.fleet.restart(now.instant);
        if leads {
            self.fleet.resume_contests(&self.rules, now.instant);
            self.statuses.touch_all(&self.rules, now.instant);
        }
        self.report_happenings(now);
    }

    /// Reports broken watches. If this process can renew the Lease while a watch stays broken, another replica is given a
    /// turn: the cause may be local.
    fn follow_watches(&mut self, now: Now, step: &mut Step) {
        for watched in Watched::ALL {
            if let Some(report) = self.watches.take_report(watched, now.instant) {
                self.report.watch(watched, report);
            }
        }
        let patience = Patience::new(self.leader.lease_duration(), self.rules.are_known());
        let led_since = self.leader.led_since();
        if let Some(led_since) = led_since
            && !self.leader.is_stopping()
            && let Some(watched) = self.watches.take_yield(led_since, patience, now.instant)
        {
            self.report.note([Happening::Yields { watched, patience: patience.of(watched) }]);
            self.leader.yield_lease(now.instant);
        }
        step.wake_by(self.watches.next_change(led_since, patience, now.instant));
    }

    fn observe_node(&mut self, event: watcher::Result<Event<ApiNode>>, now: Now) {
        let event = match self.watches.shown(Watched::Nodes, event, now) {
            Ok(event) => event,
            Err(failed) => return self.report.watch_failed(Watched::Nodes, failed),
        };
        let listed = self.fleet.nodes().listed();
        self.fleet.observe(event, now.instant);
        self.report_happenings(now);
        let nodes = self.fleet.nodes();
        if nodes.listed() && !listed {
            self.report.listed(Watched::Nodes, nodes.len());
            self.begin_if_complete(now);
        }
    }

    /// Handles an event of the watch of rules. A new leader begins it again: the list with which it begins is its evidence
    /// (I4).
    fn observe_rule(&mut self, event: watcher::Result<Event<RuleObject>>, now: Now) {
        let event = match self.watches.shown(Watched::Rules, event, now) {
            Ok(event) => event,
            Err(failed) => return self.report.watch_failed(Watched::Rules, failed),
        };
        let were_known = self.rules.are_known();
        let seen = self.rules.observe(event);
        let is_list = seen.is_list;
        self.follow_rules(seen, now);
        if is_list && were_known {
            self.hold_missing(now);
        } else if is_list {
            self.begin_if_complete(now);
        }
    }

    fn follow_rules(&mut self, seen: Seen, now: Now) {
        let Seen { enqueue, touched, removed, is_list } = seen;
        let (fleet, at) = (&mut self.fleet, now.instant);
        if enqueue != Enqueue::None {
            fleet.keep(self.rules.facts());
        }
        match &enqueue {
            Enqueue::None => {}
            Enqueue::Selected(rules) => fleet.enqueue_where(|node| selects(rules, node), at),
            Enqueue::SelectedOrRecorded(rules, name) => {
                let is_recorded = fleet.rules_in_ledgers().contains(name);
                fleet.enqueue_where(|node| is_recorded || selects(rules, node), at);
            }
            Enqueue::All => fleet.enqueue_where(|_| true, at),
        }
        if enqueue != Enqueue::None {
            touched.iter().chain(&removed).for_each(|rule| fleet.restart_rollout(rule, at));
        }
        removed.iter().for_each(|rule| self.statuses.forget(rule));
        touched.iter().for_each(|rule| self.statuses.touch(rule, at));
        if is_list {
            self.report.listed(Watched::Rules, touched.len());
        }
        self.report.memory(&mut self.rules);
        self.gauges_changed = true;
    }

    /// Returns whether all rules and nodes are known: until then, only repairs from ledgers are written (I4).
    fn knows_all(&self) -> bool {
        self.rules.are_known() && self.fleet.nodes().listed()
    }

    /// Starts full reconciliation once all nodes and rules are known; until then, only repairs are written.
    fn begin_if_complete(&mut self, now: Now) {
        if !self.knows_all() {
            return;
        }
        self.fleet.resume_contests(&self.rules, now.instant);
        self.hold_missing(now);
        // A hold that waits for the list that has just been evaluated is over.
        let rules = self.rules.end_hold(self.options.mass_withdrawal_delay, now.instant);
        self.report.note((rules > 0).then_some(Happening::StillMissing { rules }));
        self.fleet.begin(now);
    }

    /// Holds the rules that ledgers name and a complete list lacks, if most rules are missing (I4).
    fn hold_missing(&mut self, now: Now) {
        if !self.knows_all() {
            return;
        }
        let in_ledgers = self.fleet.rules_in_ledgers();
        let delay = self.options.mass_withdrawal_delay;
        if !self.rules.hold_missing(&in_ledgers, delay, now.instant) {
            return;
        }
        let (rules, of) = (self.rules.hold().len(), in_ledgers.len());
        self.report.note((rules > 0).then_some(Happening::Missing { rules, of, delay }));
        self.gauges_changed = true;
        self.fleet.enqueue_where(|_| true, now.instant);
    }

    /// Has pods watched while a leader has a rule that depends on them, or a value leaves when it is unused. Once a rule
    /// needs the watch, it stays until no such rule is left, also while a leader lists the rules again: to begin it costs a list of all pods.
    fn follow_usage(&mut self, now: Now, step: &mut Step) {
        let is_on = self.usage.is_on();
        let may_begin = is_on || self.knows_all();
        let nodes = self.fleet.nodes();
        let selects = |rule: &str| is_on || nodes.counts(rule).is_some_and(|counts| counts.selected() > 0);
        let depends = nodes.leaving() > 0 || self.rules.depend_on_pods(selects);
        let is_wanted = self.leader.leads(now.instant) && may_begin && depends;
        if is_wanted != is_on {
            self.usage.follow(is_wanted);
            self.report.pods(&self.usage, now);
            self.statuses.touch_all(&self.rules, now.instant);
        }
        step.watches_pods = is_wanted;
        step.wake_by(self.usage.next_change(now.instant));
    }

    /// Plans the nodes again for which it is known now what pods request, or not anymore.
    fn follow_pods(&mut self, woken: Woken, now: Now) {
        self.report.pods(&self.usage, now);
        match woken {
            Woken::Nothing => {}
            Woken::Node(name) => self.fleet.follow_pods(&name, now.instant),
            Woken::All => {
                self.fleet.enqueue_where(|_| true, now.instant);
                self.statuses.touch_all(&self.rules, now.instant);
            }
        }
    }

    /// Reports what has happened since the last call.
    fn report_happenings(&mut self, now: Now) {
        let by = Reporter { rules: &self.rules, leads: self.leader.leads(now.instant), now };
        for happening in self.fleet.take_happenings() {
            self.report.happened(happening, by);
        }
        self.fleet.take_started().into_iter().for_each(|(node, start)| self.report.started(node, start, by.leads));
        self.report.note(self.confinement.take_change().cloned().map(Happening::Confinement));
    }

    /// Sets the gauges of a leader: what it knows, or nothing if this process does not lead. While nodes are still to be
    /// planned, the counts are about to change.
    fn report_gauges(&mut self, now: Now) {
        let view = View { rules: &self.rules, fleet: &self.fleet, usage: &self.usage, now };
        if !self.leader.leads(now.instant) {
            self.statuses.stand_by();
            if std::mem::take(&mut self.gauges_changed) {
                self.report.note([Happening::Gauges(None)]);
            }
        } else if !self.fleet.schedule().has_unplanned() {
            self.gauges_changed |= self.statuses.report_amounts(view);
            self.report.note(self.statuses.take_happenings());
            if std::mem::take(&mut self.gauges_changed) {
                self.report.note([Happening::Gauges(Some(self.statuses.gauges(view)))]);
                self.report.memory(&mut self.rules);
            }
        }
    }
}

/// Returns whether one of the rules selects a node.
fn selects(rules: &[Arc<Rule>], node: &Node) -> bool {
    rules.iter().any(|rule| rule.selection.selects(node))
}

#[cfg(test)]
mod tests;
