//! Writes the statuses of rules: at most one per second and rule, however many nodes change, and the metrics of each.

use std::sync::Arc;

use kube::Resource as _;
use tokio::time::Instant;
use tracing::warn;

use super::{Effect, Now, Reconciler, Request, RulesByState, Step};
use crate::cluster::requests::RequestError;
use crate::controller::change_log::log_equal_priority;
use crate::controller::effect::WrittenStatus;
use crate::controller::events::EventTemplate;
use crate::controller::limiter::Kind;
use crate::controller::metrics::{LeaderGauges, RuleAmounts};
use crate::controller::rules::ObservedStatus;
use crate::controller::status::{Used, status};
use crate::model::api::{NodeExtendedResource, Reason};

impl Reconciler {
    /// Marks the status of a rule as changed.
    pub(super) fn touch_status(&mut self, rule: &Arc<str>, now: Instant) {
        self.reports.statuses.touch(rule, now);
        self.reports.changed_rules.insert(Arc::clone(rule));
    }

    /// Marks what pods request of a rule's resource as changed.
    fn touch_use(&mut self, rule: &Arc<str>, now: Instant) {
        self.reports.statuses.touch_use(rule, now);
        self.reports.changed_rules.insert(Arc::clone(rule));
    }

    pub(super) fn touch_all_statuses(&mut self, now: Instant) {
        let rules: Vec<_> = self.rules.names_with_status().cloned().collect();
        for rule in rules {
            self.touch_status(&rule, now);
        }
    }

    /// Sends the statuses that are due, if they have changed.
    pub(super) fn send_statuses(&mut self, deadline: Instant, now: Now, step: &mut Step) {
        let changed = self.nodes.tally().take_changed();
        self.reports.gauges_changed |= !changed.is_empty();
        for rule in changed {
            if self.rules.get(&rule).is_some() {
                self.touch_status(&rule, now.instant);
            }
        }
        for rule in self.requested.take_changed() {
            if self.rules.get(&rule).is_some() {
                self.touch_use(&rule, now.instant);
            }
        }
        if !self.knows_all() {
            return;
        }
        while self.schedule.limiter.is_free(Kind::Status, now.instant)
            && let Some(rule) = self.reports.statuses.pop(now.instant)
        {
            step.requests.extend(self.send_status(&rule, now).map(|effect| Request { effect, deadline }));
        }
    }

    /// Returns the write of a status, if that is not as it should be.
    fn send_status(&mut self, name: &Arc<str>, now: Now) -> Option<Effect> {
        let state = self.rules.with_status(name)?;
        let mapping = self.cluster.device_classes.mapping(state.resource().unwrap_or_default());
        let used = self.used(name, now.instant);
        let status = status(state, self.nodes.counts(name), used, &mapping, now.wall);
        let observed = ObservedStatus::new(&status);
        match &state.status {
            Some(before) if *before == observed => return None,
            // That it is known at all is not delayed.
            Some(before)
                if before.requested().is_some()
                    && before.is_same_but_for_use(&observed)
                    && !self.reports.statuses.may_write_use(name, now.instant) =>
            {
                self.touch_use(name, now.instant);
                return None;
            }
            _ => {}
        }
        let uid = state.uid.clone();
        self.report_status(name, &observed, now);
        let slot = self.schedule.limiter.take(Kind::Status, now.instant)?;
        self.reports.statuses.sent(name, observed, now.instant);
        self.reports.changed_rules.insert(Arc::clone(name));
        Some(Effect::PatchStatus { slot, rule: Arc::clone(name), uid, status: Box::new(status) })
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
        self.diagnostics.metrics.status_written(result_name(&result));
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
                self.reports.changed_rules.insert(Arc::clone(rule));
                false
            }
            // The object does not match the CRD's schema, so no status can be written until it is corrected.
            Err(error) if is_rejected(&error) => {
                warn!(%rule, "the API server rejects the rule's status: {error}");
                false
            }
            Err(error) => {
                self.reports.statuses.failed(rule, error.retry_after(), (now, seed));
                if let Some(pause) = error.retry_after().filter(|_| !error.is_by_webhook()) {
                    self.schedule.limiter.side_overloaded(pause, now);
                }
                // The watch will show that, and then there is nothing to write, or the status of another rule.
                let is_over = is_of_missing(&error);
                if !is_over {
                    warn!(%rule, "cannot write the rule's status, retrying: {error}");
                }
                !is_over
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
        if leads && self.has_unplanned() {
            return;
        }
        self.report_rules(leads, now);
        if std::mem::take(&mut self.reports.gauges_changed) {
            let gauges = leads.then(|| self.gauges());
            self.diagnostics.metrics.report(gauges.as_ref());
        }
    }

    /// Sets the metrics of each rule that has changed.
    fn report_rules(&mut self, leads: bool, now: Instant) {
        let amounts = &self.diagnostics.metrics.amounts;
        let changed = std::mem::take(&mut self.reports.changed_rules);
        if !leads {
            self.reports.rules = RulesByState::default();
            return amounts.clear();
        }
        self.reports.gauges_changed |= !changed.is_empty();
        for name in changed {
            let state = self.rules.get(&name);
            match state {
                // Also one that nobody can write.
                Some(state) => {
                    let status = self.reports.statuses.unwritten(&name).or(state.status.as_ref());
                    self.reports.rules.set(&name, status);
                }
                None => self.reports.rules.remove(&name),
            }
            let rule = state.and_then(|state| state.rule.as_ref().ok());
            let reported = rule.map(|rule| RuleAmounts {
                resource: rule.resource.as_str().into(),
                advertised: self
                    .nodes
                    .counts(&name)
                    .map(|counts| counts.total(rule.quantity.fixed()))
                    .unwrap_or_default(),
                requested: match self.used(&name, now) {
                    Used::Known(amount) => Some(amount),
                    Used::Listing | Used::Unknown => None,
                },
            });
            amounts.set(name, reported);
        }
    }

    fn gauges(&mut self) -> LeaderGauges {
        LeaderGauges {
            nodes: self.nodes.tally().totals().collect(),
            rules: self.reports.rules.counts(),
            rules_without_nodes: self.reports.rules.without_nodes(),
            rules_held: self.rules.hold().len(),
        }
    }

    /// Sends the Events for which there are slots.
    pub(super) fn send_events(&mut self, deadline: Instant, now: Instant, step: &mut Step) {
        while self.reports.events.is_ready(now)
            && let Some(slot) = self.schedule.limiter.take(Kind::Event, now)
        {
            match self.reports.events.pop() {
                Some(event) => {
                    let effect = Effect::CreateEvent { slot, event };
                    step.requests.push(Request { effect, deadline });
                }
                None => return self.schedule.limiter.give_back(slot),
            }
        }
    }
}

/// Returns the name of the result of a status write, for the metric.
fn result_name(result: &Result<WrittenStatus, RequestError>) -> &'static str {
    match result {
        Ok(_) => "written",
        Err(error) if is_of_missing(error) => "gone",
        Err(error) if is_rejected(error) => "rejected",
        Err(error) if error.code().is_some_and(|code| code == 403) => "forbidden",
        Err(_) => "failed",
    }
}

/// Returns whether the API server rejects what is written, and would do so again.
fn is_rejected(error: &RequestError) -> bool {
    error.code().is_some_and(|code| code == 422) && !error.is_stale()
}

/// Returns whether the rule is gone, or another one has its name: the patch tests the uid, and nothing else.
fn is_of_missing(error: &RequestError) -> bool {
    let is_tested = error.code().is_some_and(|code| code == 422) && error.is_stale();
    is_tested || error.is_missing(&NodeExtendedResource::plural(&()))
}
