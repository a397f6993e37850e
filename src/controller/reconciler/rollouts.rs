//! Rollouts that stop because their patches fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::{Now, Rank, Reconciler, Stage};
use crate::controller::events::{EventTemplate, NodeSubject};
use crate::controller::nodes::NodeState;
use crate::controller::rollouts::{Rollouts, Stopped};
use crate::controller::rules::Rules;
use crate::planner::{Change, Outcome};

/// The changes of a node that wait because rollouts are stopped.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    pub(super) changes: Vec<Change>,
    /// The rules for which pods would have to be listed first.
    pub(super) unlisted: Vec<Arc<str>>,
    /// When the first of them may be sent.
    pub(super) until: Option<Instant>,
}

/// Removes the changes that must wait because the rollouts of their rules are stopped.
pub(super) fn withhold(
    rollouts: &mut Rollouts,
    (name, state): (&Arc<str>, &NodeState),
    changes: &mut Vec<Change>,
    now: Instant,
) -> Withheld {
    let mut withheld = Withheld::default();
    if !state.is_rollout {
        return withheld;
    }
    let stopped = changes.extract_if(.., |change| {
        let until = rollouts.stopped_until(change, name, now).filter(|_| !state.is_urgent(change));
        withheld.until = withheld.until.into_iter().chain(until).min();
        until.is_some()
    });
    withheld.changes = stopped.collect();
    for rule in withheld.changes.iter().filter_map(Change::rule) {
        rollouts.withhold(rule, name);
    }
    withheld
}

/// Returns whether the list of pods that a node needs must wait, because the rollouts of all rules that need it are stopped:
/// thousands of nodes would be listed for nothing.
pub(super) fn withhold_list(
    rollouts: &mut Rollouts,
    rules: &Rules,
    (name, state): (&Arc<str>, &NodeState),
    outcomes: &[(Arc<str>, Outcome)],
    withheld: &mut Withheld,
    now: Instant,
) -> bool {
    if !state.is_rollout {
        return false;
    }
    let (mut until, mut needs_list) = (withheld.until, false);
    for (rule, outcome) in outcomes {
        let stopped = match outcome {
            Outcome::AwaitingPods { .. } => rules.get(rule).and_then(|known| {
                let resource = known.resource()?;
                rollouts.rule_stopped_until(rule, name, resource, now)
            }),
            // A contested value may need the list too, and so does one that is held although pods cannot be listed.
            Outcome::Contested { .. } | Outcome::Held { .. } => None,
            _ => continue,
        };
        if let Some(stopped) = stopped {
            until = Some(until.map_or(stopped, |until| until.min(stopped)));
            rollouts.withhold(rule, name);
            withheld.unlisted.push(Arc::clone(rule));
        } else {
            needs_list = true;
        }
    }
    if needs_list || withheld.unlisted.is_empty() {
        return false;
    }
    withheld.until = until;
    true
}

impl Reconciler {
    /// Records that changes of a rollout failed, in a patch that was sent at this time.
    pub(super) fn rollout_failed(
        &mut self,
        node: &Arc<str>,
        changes: &[Change],
        sent_at: Instant,
        message: &str,
        now: Now,
    ) {
        if !self.leads(now.instant) {
            return;
        }
        for change in changes {
            let Some(rule) = change.rule() else { continue };
            let (rule, place): (Arc<str>, _) = (rule.into(), (node, &*change.resource));
            if let Some(stopped) = self.schedule.rollouts.failed(&rule, place, sent_at, now.instant) {
                self.replan_lists();
                self.report_stop(&rule, node, stopped, message, now);
            }
        }
    }

    /// Reports a stop: on the rule, or on this node if the rule is deleted, so that its withdrawal is what stopped. Of
    /// several in a row, the log has each, and an Event the first.
    fn report_stop(&mut self, rule: &Arc<str>, node: &Arc<str>, stopped: Stopped, message: &str, now: Now) {
        let Stopped { nodes, pause, is_first } = stopped;
        warn!(%rule, nodes, "stopped the rollout of the rule for {pause:?}, because patches fail: {message}");
        if !is_first {
            return;
        }
        let template = EventTemplate::rollout_stopped(rule, nodes, message);
        let subject = self.rule_subject(rule);
        if subject.uid.is_some() {
            self.reports.events.on_rule(&subject, &template, now);
        } else if let Some(state) = self.nodes.get(node) {
            let node = NodeSubject { name: node, uid: &state.node.uid };
            self.reports.events.on_node(node, &template, now);
        }
    }

    /// Records that changes succeeded, and resumes their rollouts.
    pub(super) fn rollout_succeeded(&mut self, node: &Arc<str>, changes: &[Change], sent_at: Instant, now: Now) {
        // A repair of what was there before shows nothing.
        for change in changes.iter().filter(|change| !change.is_repair()) {
            let Some(rule) = change.rule() else { continue };
            let resumed = self.schedule.rollouts.succeeded(rule, (node, &change.resource), sent_at);
            self.resume(resumed, now);
        }
    }

    /// Begins the rollout of an edited rule anew.
    pub(super) fn restart_rollout(&mut self, rule: &str, now: Now) {
        let resumed = self.schedule.rollouts.forget(rule, now.instant);
        self.resume(resumed, now);
    }

    /// Resumes the rollouts whose stop has ended.
    pub(super) fn resume_ended(&mut self, now: Now) {
        let ended = self.schedule.rollouts.take_ended(now.instant);
        self.resume(ended, now);
    }

    fn resume(&mut self, nodes: BTreeSet<Arc<str>>, now: Now) {
        for node in nodes {
            let queue = &self.schedule.queue;
            let is_before_list = || queue.is_at(&node, Stage::ListAhead) || queue.is_at(&node, Stage::ListBacklog);
            // One that is to be listed for another rule may need no list for this one. The others are being handled, in their
            // order.
            if queue.is_waiting(&node) || is_before_list() {
                self.enqueue(&node, Rank::Replan, now);
            }
        }
    }
}
