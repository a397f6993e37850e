//! Writes the statuses of rules: at most one per second and rule, however many nodes change.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::{Effect, Kind, Now, Reconciler, Step};
use crate::cluster::requests::RequestError;
use crate::controller::change_log::log_equal_priority;
use crate::controller::effect::WrittenStatus;
use crate::controller::events::EventTemplate;
use crate::controller::metrics::{self, LeaderGauges};
use crate::controller::rules::ObservedStatus;
use crate::controller::status::{metric_state, status};
use crate::model::api::Reason;

impl Reconciler {
    /// Marks the status of a rule as changed.
    pub(super) fn touch_status(&mut self, rule: &Arc<str>, now: Instant) {
        self.reports.statuses.touch(rule, now);
    }

    pub(super) fn touch_all_statuses(&mut self, now: Instant) {
        let rules: Vec<_> = self.rules.names_with_status().cloned().collect();
        for rule in rules {
            self.touch_status(&rule, now);
        }
    }

    /// Sends the statuses that are due, if they have changed.
    pub(super) fn send_statuses(&mut self, now: Now, step: &mut Step) {
        let changed = self.nodes.tally().take_changed();
        self.reports.gauges_changed |= !changed.is_empty();
        for rule in changed {
            if self.rules.get(&rule).is_some() {
                self.touch_status(&rule, now.instant);
            }
        }
        if !self.knows_all() {
            return;
        }
        while self.schedule.limiter.is_free(Kind::Status, now.instant)
            && let Some(rule) = self.reports.statuses.pop(now.instant)
        {
            self.send_status(&rule, now, step);
        }
    }

    fn send_status(&mut self, name: &Arc<str>, now: Now, step: &mut Step) {
        let Some(state) = self.rules.with_status(name) else { return };
        let mapping = self.cluster.device_classes.mapping(state.resource().unwrap_or_default());
        let status = status(state, self.nodes.counts(name), &mapping, now.wall);
        let observed = ObservedStatus::new(&status);
        if state.status.as_ref() == Some(&observed) {
            return;
        }
        let uid = state.uid.clone();
        self.report_status(name, &observed, now);
        let (rule, status) = (Arc::clone(name), Box::new(status));
        if !self.send(Effect::PatchStatus { rule, uid, status }, now.instant, step) {
            return;
        }
        self.schedule.limiter.start(Kind::Status, now.instant);
        self.reports.statuses.sent(name, now.instant);
    }

    /// Reports what is new in a status.
    fn report_status(&mut self, name: &Arc<str>, status: &ObservedStatus, now: Now) {
        let Some(state) = self.rules.get(name) else { return };
        if let Err(why) = &state.rule {
            warn!(rule = %name, "the rule is stalled: {why}");
            let template = EventTemplate::for_stalled(why);
            let rule = self.rule_subject(name);
            self.reports.events.on_rule(&rule, &template, now);
        }
        let ties = |status: &ObservedStatus| status.reports(Reason::EqualPriority);
        if !ties(status) || state.status.as_ref().is_some_and(ties) {
            return;
        }
        let resource = state.resource().unwrap_or_default();
        let winners = self.nodes.counts(name).map(|counts| &counts.overridden_by);
        for winner in winners.into_iter().flat_map(|winners| winners.keys()) {
            for (rule, other) in [(name, winner), (winner, name)] {
                let subject = self.rule_subject(rule);
                let template = EventTemplate::equal_priority(other);
                if self.reports.events.on_rule(&subject, &template, now) {
                    log_equal_priority(rule, other, resource);
                }
            }
        }
    }

    /// Handles the response to a status write.
    pub(super) fn status_patched(
        &mut self,
        rule: &Arc<str>,
        uid: Option<String>,
        result: Result<WrittenStatus, RequestError>,
        now: Instant,
    ) {
        self.schedule.limiter.end(Kind::Status);
        let is_dirty = self.reports.statuses.ended(rule);
        let seed = self.schedule.seed();
        // A rule recreated under the same name in the meantime does not have this status.
        let Some(state) = self.rules.with_status(rule) else { return self.reports.statuses.forget(rule) };
        if state.uid != uid {
            self.touch_status(rule, now);
            return;
        }
        let failed = match result {
            Ok(WrittenStatus { status, version }) => {
                self.reports.statuses.succeeded(rule);
                // What the watch has shown since is newer: an earlier write may land late, after this one.
                if version.is_none() || state.version <= version {
                    self.rules.set_status(rule, status);
                }
                self.reports.gauges_changed = true;
                false
            }
            // The object does not match the CRD's schema, so no status can be written until it is corrected.
            Err(error) if error.code().is_some_and(|code| code == 422) && !error.is_stale() => {
                warn!(%rule, "the API server rejects the rule's status: {error}");
                false
            }
            Err(error) => {
                self.reports.statuses.failed(rule, error.retry_after(), (now, seed));
                if let Some(pause) = error.retry_after().filter(|_| !error.is_by_webhook()) {
                    self.schedule.limiter.side_overloaded(pause, now);
                }
                warn!(%rule, "cannot write the rule's status, retrying: {error}");
                true
            }
        };
        if failed || is_dirty {
            self.touch_status(rule, now);
        }
    }

    /// Sets the gauges of a leader: what it knows, or nothing if this process does not lead. While nodes are still to be
    /// planned, the counts are about to change.
    pub(super) fn report_gauges(&mut self, now: Instant) {
        let leads = self.leads(now);
        if (leads && self.has_unplanned()) || !std::mem::take(&mut self.reports.gauges_changed) {
            return;
        }
        let gauges = leads.then(|| self.gauges());
        self.diagnostics.metrics.report(gauges.as_ref());
    }

    fn gauges(&mut self) -> LeaderGauges {
        let mut rules = metrics::RULE_STATES.map(|state| (state, 0));
        let mut rules_without_nodes = 0;
        for (_, rule) in self.rules.iter() {
            let word = metric_state(rule.status.as_ref());
            for (state, count) in &mut rules {
                *count += usize::from(*state == word);
            }
            let is_without = |status: &ObservedStatus| status.reports(Reason::NoNodesSelected);
            rules_without_nodes += usize::from(rule.status.as_ref().is_some_and(is_without));
        }
        LeaderGauges {
            nodes: self.nodes.tally().totals().collect(),
            rules,
            rules_without_nodes,
            rules_held: self.rules.hold().len(),
        }
    }

    /// Sends the Events for which there are slots.
    pub(super) fn send_events(&mut self, now: Instant, step: &mut Step) {
        while self.reports.events.is_ready(now) && self.schedule.limiter.is_free(Kind::Event, now) {
            let Some(event) = self.reports.events.pop() else { return };
            if !self.send(Effect::CreateEvent(event), now, step) {
                return;
            }
            self.schedule.limiter.start(Kind::Event, now);
        }
    }
}
