//! The rules: from the watch, and from the list that a new leader needs.

use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tracing::{info, warn};

use super::decide::is_young;
use super::{Effect, Kind, Now, Rank, Reconciler, RulesList, Step, Watched};
use crate::cluster::backoff::Backoff;
use crate::cluster::requests::RequestError;
use crate::controller::effect::RequestId;
use crate::controller::rules::{Enqueue, RuleList, RuleObject, Seen, Validity};
use crate::controller::tally::Counts;

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
        let seen = self.rules.observe(event);
        let is_in_doubt = match &self.schedule.rules {
            RulesList::Done => seen.is_in_doubt,
            RulesList::InFlight { mark, .. } => seen.is_list && self.rules.validity(mark) == Validity::Doubtful,
            RulesList::Needed { .. } => false,
        };
        if is_in_doubt {
            let backoff = Backoff::new(self.schedule.seed());
            self.schedule.rules = RulesList::Needed { not_before: None, backoff };
        }
        let is_list = seen.is_list;
        self.follow_rules(seen, now);
        if is_list {
            self.hold_missing(now);
        }
    }

    fn follow_rules(&mut self, seen: Seen, now: Now) {
        let Seen { enqueue, touched, removed, is_list, is_in_doubt: _ } = seen;
        if enqueue != Enqueue::None {
            self.nodes.keep(self.rules.facts());
        }
        let names = match &enqueue {
            Enqueue::None => Vec::new(),
            Enqueue::Selected(rules) => {
                self.nodes.names_where(|node| rules.iter().any(|rule| rule.selection.selects(node)))
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
            let (removed, is_list, is_in_doubt) = (Vec::new(), false, false);
            self.follow_rules(Seen { enqueue: Enqueue::All, touched, removed, is_list, is_in_doubt }, now);
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

    /// Lists the rules for a new leader: its watch may be behind what the previous leader observed.
    pub(super) fn list_rules(&mut self, now: Instant, step: &mut Step) {
        let RulesList::Needed { not_before, .. } = &self.schedule.rules else { return };
        if not_before.is_some_and(|not_before| now < not_before) {
            return;
        }
        let id = self.schedule.request_id(Kind::RuleList);
        let max_size = self.options.max_rules_memory;
        if !self.send(Effect::ListRules { id, max_size }, now, step) {
            return;
        }
        let done = std::mem::replace(&mut self.schedule.rules, RulesList::Done);
        if let RulesList::Needed { backoff, .. } = done {
            self.schedule.rules = RulesList::InFlight { id, mark: self.rules.mark(), backoff };
        }
    }

    pub(super) fn rules_listed(&mut self, id: RequestId, reply: Result<RuleList, RequestError>, now: Now) {
        let (mark, mut backoff) = match std::mem::replace(&mut self.schedule.rules, RulesList::Done) {
            RulesList::InFlight { id: sent, mark, backoff } if sent == id => (mark, backoff),
            // The list was requested before this process last became the leader.
            other => {
                self.schedule.rules = other;
                return;
            }
        };
        match reply {
            Ok(list) => match self.rules.validity(&mark) {
                Validity::Superseded => self.begin_if_complete(now),
                Validity::Doubtful => {
                    let not_before = Some(now.instant + backoff.next(None));
                    self.schedule.rules = RulesList::Needed { not_before, backoff };
                }
                Validity::Usable => {
                    let seen = self.rules.observe_list(list, &mark);
                    self.follow_rules(seen, now);
                    self.begin_if_complete(now);
                }
            },
            Err(error) => {
                // A failed list is no evidence that a rule is gone.
                warn!("cannot list rules, writing only repairs until a list succeeds: {error}");
                let not_before = Some(now.instant + backoff.next(error.retry_after()));
                self.schedule.rules = RulesList::Needed { not_before, backoff };
            }
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

    /// Requests the list that ends the hold when the delay is over: what came back since may be missing in the watch.
    pub(super) fn list_rules_after_hold(&mut self, now: Instant) {
        // The list that a new leader needs comes first.
        if self.knows_all() && self.rules.take_due_list(now) {
            self.schedule.list_rules();
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
