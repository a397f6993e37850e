//! The rules, from their watch. A new leader begins it again: the list with which it begins is its evidence (I4).

use std::sync::Arc;

use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tracing::{info, warn};

use super::decide::is_young;
use super::{Now, Rank, Reconciler, Watched};
use crate::controller::rules::{Enqueue, RuleObject, Seen};
use crate::controller::tally::Counts;
use crate::model::node::Node;

impl Reconciler {
    pub(super) fn observe_rule(&mut self, event: watcher::Result<Event<RuleObject>>, now: Now) {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                let missing = ": the CustomResourceDefinition is not installed; apply the file in crds/";
                let message = self.watch_failed(Watched::Rules, &error, missing, now);
                if !self.rules.listed() && message.is_some() {
                    self.set_ready(|readiness| readiness.rules = message);
                }
                return;
            }
        };
        if !matches!(event, Event::Init) {
            self.watches.works(Watched::Rules);
        }
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
        if enqueue != Enqueue::None {
            self.nodes.keep(self.rules.facts());
        }
        let names = match &enqueue {
            Enqueue::None => Vec::new(),
            Enqueue::Selected(rules) => {
                self.nodes.names_where(|node| rules.iter().any(|rule| rule.selection.selects(node)))
            }
            Enqueue::SelectedOrRecorded(rules, name) => {
                let is_recorded = self.nodes.rules_in_ledgers().contains(name);
                let is_selected = |node: &Node| rules.iter().any(|rule| rule.selection.selects(node));
                self.nodes.names_where(|node| is_recorded || is_selected(node))
            }
            Enqueue::All => self.nodes.names_where(|_| true),
        };
        for name in names {
            self.enqueue(&name, Rank::Replan, now);
        }
        if enqueue != Enqueue::None {
            for rule in touched.iter().chain(&removed) {
                self.restart_rollout(rule, now);
            }
        }
        for rule in &removed {
            self.reports.statuses.forget(rule);
            self.reports.changed_rules.insert(Arc::clone(rule));
        }
        for rule in &touched {
            self.touch_status(rule, now.instant);
        }
        if is_list {
            info!(rules = touched.len(), "all rules listed");
            self.set_ready(|readiness| readiness.rules = None);
        }
        self.report_memory();
        self.reports.gauges_changed = true;
    }

    /// Stalls the youngest rules if the states of all rules on all nodes take too much memory.
    pub(super) fn bound_memory(&mut self, now: Now) {
        let (rules, nodes) = (&mut self.rules, &mut self.nodes);
        let selected = nodes.tally().selected();
        let touched = rules.bound_nodes(selected, |rule| nodes.counts(rule).map_or(0, Counts::selected));
        if !touched.is_empty() {
            self.follow_rules(Seen { enqueue: Enqueue::All, touched, removed: Vec::new(), is_list: false }, now);
        }
    }

    /// Reports how much memory the rules take of what they may.
    fn report_memory(&mut self) {
        let states = self.rules.states();
        let (rules, unfit) = (states.len(), states.unfit());
        let (size, max_size) = (states.size(), states.max_size());
        let bytes = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.diagnostics.metrics.rules_memory.set(bytes(size));
        self.diagnostics.metrics.rules_memory_limit.set(bytes(max_size));
        if self.rules.becomes_scarce() {
            warn!(
                rules,
                bytes = size,
                limit = max_size,
                "rules take nearly all memory that they may, and the youngest of those that do not fit are stalled, {unfit} \
                 so far: delete rules, or raise --max-rules-memory and the memory limit of the pods"
            );
        }
    }

    /// Starts full reconciliation once all nodes and rules are known; until then, only repairs are written.
    pub(super) fn begin_if_complete(&mut self, now: Now) {
        if !self.knows_all() {
            return;
        }
        self.resume_contests(now.instant);
        self.hold_missing(now);
        self.end_hold();
        self.enqueue_all(now);
        // Since when a node has not been as declared is not known. A new one may have appeared while nobody led.
        for (_, state) in self.nodes.unordered_mut() {
            state.is_rollout = !is_young(&state.node, now);
        }
    }

    pub(super) fn enqueue_all(&mut self, now: Now) {
        for name in self.nodes.names_where(|_| true) {
            self.enqueue(&name, Rank::Replan, now);
        }
    }

    /// Holds the rules that ledgers name and a complete list lacks, if most rules are missing (I4).
    fn hold_missing(&mut self, now: Now) {
        if !self.knows_all() {
            return;
        }
        let in_ledgers = self.nodes.rules_in_ledgers();
        let delay = self.options.mass_withdrawal_delay;
        if !self.rules.hold_missing(&in_ledgers, delay, now.instant) {
            return;
        }
        let held = self.rules.hold().len();
        if held > 0 {
            let of = in_ledgers.len();
            warn!(
                rules = held,
                "{held} of the {of} rules named in node annotations are missing: their values stay \
                 for {delay:?}. To withdraw them now, run prune --rule NAME --force for each"
            );
        }
        self.reports.gauges_changed = true;
        self.enqueue_all(now);
    }

    /// Begins the watch anew when the delay of a hold is over: the list ends it, and what came back since may be missing in
    /// the watch.
    pub(super) fn list_rules_after_hold(&mut self, now: Instant) {
        // The list that a new leader needs comes first.
        if self.knows_all() && self.rules.take_due_list(now) {
            self.rules.list_again();
        }
    }

    /// Ends a hold that waits for the list that has just been evaluated.
    fn end_hold(&mut self) {
        let held = self.rules.end_hold();
        if held > 0 {
            warn!(rules = held, "the rules are still missing: withdrawing their values");
        }
    }
}
