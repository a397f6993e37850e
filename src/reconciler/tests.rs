//! The state machine, tried without a network, a client or a runtime.

mod broken_watches;
mod conditions;
mod confinement;
mod conflicts;
mod decisions;
mod derived;
mod exploration;
mod failures;
mod leadership;
mod memory;
mod metrics;
mod paused;
mod pods;
mod queue;
mod races;
mod responses;
mod rollouts;
mod rule_lists;
mod scale;
mod simulation;
mod standby;
mod starts;
mod statuses;
mod turns;
mod usage;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::core::Status;
use serde_json::{Value, json};

use super::nodes::Nodes;
use super::work_queue::{Stage, WorkQueue};
use super::*;
use crate::planner;
use crate::planner::input::PodUsage;
use crate::response::reply::Reply;
use crate::response::request_error::RequestError;
use decide::Question;
use responses::{error, failed};
use world::{Open, World, object};

impl Reconciler {
    /// Whether this process writes.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.leader.leads(now)
    }

    fn nodes(&self) -> &Nodes {
        self.fleet.nodes()
    }

    fn queue(&self) -> &WorkQueue {
        self.fleet.schedule().queue()
    }

    /// Whether Events are sent again after a pause.
    pub(crate) fn has_delayed_events(&self, now: Now) -> bool {
        self.report.next_event(now.instant).is_some()
    }

    /// Returns what is known of the pods on a node.
    pub(crate) fn usage_on(&self, node: &str, now: Instant) -> PodUsage {
        self.usage.on(node, now)
    }

    /// What the node has lost from its ledger, with its value unchanged.
    pub(crate) fn released(&self, node: &str) -> BTreeSet<Arc<str>> {
        self.nodes().get(node).map(|state| state.released.names().clone()).unwrap_or_default()
    }

    /// What is done later: the write of a status.
    pub(crate) fn postponed(&self) -> Option<&'static str> {
        let is_status = |(name, _): (&Arc<str>, _)| self.statuses.writes().is_pending(name);
        self.rules.iter().any(is_status).then_some("a status")
    }

    /// What this process waits for at a moment that is earlier than the one at which `step` has it woken.
    pub(crate) fn missed_wake(&self, step: &Step, now: Now) -> Option<&'static str> {
        if self.leader.is_stopping() {
            return None;
        }
        let leads = self.leads(now.instant);
        let knows_all = leads && self.knows_all();
        let patience = Patience::new(self.leader.lease_duration(), self.rules.are_known());
        let waits = [
            ("a node", true, self.queue().next_due()),
            ("a status", leads, self.statuses.next_due(now.instant)),
            ("a broken watch", true, self.watches.next_change(self.leader.led_since(), patience, now.instant)),
            ("the end of a hold", knows_all, self.rules.hold().until()),
            ("the silence of the watch of pods", true, self.usage.next_change(now.instant)),
            ("the end of a pause", leads, self.fleet.schedule().next_slot(now.instant)),
            ("an Event", leads, self.report.next_event(now.instant)),
            ("the end of a stop", leads, self.fleet.next_resume()),
            ("the turn of a node", leads, self.fleet.schedule().has_unplanned().then_some(now.instant)),
        ];
        let is_missed = |at: Instant| step.wake.is_none_or(|wake| at < wake);
        let missed = waits.into_iter().find(|(_, waits, at)| *waits && at.is_some_and(is_missed));
        missed.map(|(what, ..)| what)
    }

    /// A node with work to do that is nowhere to be worked on (I8).
    pub(crate) fn lost_node(&self, now: Now) -> Option<Arc<str>> {
        let (leads, knows_all) = (self.leads(now.instant), self.knows_all());
        let lost = self.nodes().iter().filter_map(|(name, state)| {
            if self.queue().has(name) {
                return None;
            }
            let authority = match (leads, knows_all) {
                (false, _) => Authority::Resets,
                (true, false) => Authority::Repairs,
                (true, true) => Authority::Rules,
            };
            let question = Question {
                state,
                authority,
                rules: &self.rules,
                rule_set: self.rules.set(),
                pods: self.usage.on(name, now.instant),
                rollouts: self.fleet.rollouts(),
                has_condition: false,
                now,
            };
            let plan = question.plan(&question.input(), &mut planner::Memo::default());
            let is_lost = !plan.changes().is_empty() || plan.needs_pods();
            is_lost.then(|| Arc::clone(name))
        });
        // The same one each time, whatever the order of the map.
        lost.min()
    }
}

#[test]
fn rule_is_advertised_and_withdrawn() {
    let mut world = World::leading(3, &[("dongle", 4)]);
    world.run_until_idle();
    assert_eq!(world.dongles("node-2"), 4);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("dongle"), "True Advertised");
    world.delete_rule("dongle");
    world.run_until_idle();
    assert_eq!((world.dongles("node-0"), world.ledger("node-0")), (-1, None));
}

/// Somebody's finalizer keeps the rule, and not its values.
#[test]
fn rule_that_a_finalizer_keeps_is_withdrawn_and_reports_that() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.advance(Duration::from_secs(2));
    let before = world.nodes.clone();
    let version = world.next_version();
    let rule = world.rules.get_mut("dongle").unwrap();
    let metadata = rule["metadata"].as_object_mut().unwrap();
    metadata["resourceVersion"] = json!(version);
    metadata.insert("deletionTimestamp".to_owned(), json!("2026-01-03T00:00:00Z"));
    metadata.insert("finalizers".to_owned(), json!(["example.com/keep"]));
    let deleting = rule.clone();
    world.observe(Observation::Rule(Ok(Event::Apply(object(deleting)))));
    world.run_until_idle();
    world.advance(Duration::from_secs(2));
    assert_eq!((world.dongles("node-0"), world.ledger("node-0")), (-1, None));
    assert_eq!(world.ready("dongle"), "False Deleting");
    let (_, status) = world.statuses.last().unwrap();
    assert_eq!((&status["total"], &status["nodes"]["summary"]), (&json!("0"), &json!("0/0")));
    let written = world.statuses.len();
    world.pass(60);
    assert_eq!(world.statuses.len(), written, "it is written once");

    // A new leader that finds the rule so, and its values still there, does not wait as for rules that are missing.
    let mut next = World::new(16);
    (next.nodes, next.rules, next.version) = (before, world.rules, world.version);
    next.rules.get_mut("dongle").unwrap()["status"] = json!({});
    next.start();
    next.run_until_idle();
    next.advance(Duration::from_secs(2));
    assert_eq!((next.dongles("node-0"), &*next.ready("dongle")), (-1, "False Deleting"));
    next.delete_rule("dongle");
    next.pass(60);
    assert_eq!(next.statuses.len(), 1, "{:?}", next.statuses);
}

/// I10: what is changed is reported, on the node and on a rule that exists, and once.
#[test]
fn each_change_is_reported_by_one_event() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let expect = |world: &mut World, events: &[&str]| {
        world.run_until_idle();
        world.advance(Duration::from_secs(2));
        assert_eq!(std::mem::take(&mut world.events), events, "{:?}", world.nodes);
    };
    expect(&mut world, &[]);
    world.set_dongles("node-0", 7);
    expect(&mut world, &["Repaired", "Repaired"]);
    world.delete_rule("dongle");
    expect(&mut world, &["Withdrawn"]);
    world.set_dongles("node-0", 7);
    world.set_rule("dongle", json!({"conflictPolicy": "Overwrite", "deletionPolicy": "Retain"}));
    expect(&mut world, &["TakenOver", "TakenOver"]);
    world.delete_rule("dongle");
    expect(&mut world, &["Released"]);
}
