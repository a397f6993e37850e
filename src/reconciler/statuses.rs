//! The statuses of rules: at most one write per second and rule, however many nodes change; and the metrics of each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource as _;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use super::device_classes::{DeviceClass, DeviceClasses};
use super::effect::{Now, WrittenStatus};
use super::fleet::Fleet;
use super::happening::{Happening, LeaderGauges, RuleAmounts};
use super::nodes::Attempt;
use super::rules::{ObservedStatus, Rules};
use super::rules_by_state::RulesByState;
use super::status::{Used, status};
use super::status_writes::StatusWrites;
use super::usage::Usage;
use crate::model::api::{NodeExtendedResource, NodeExtendedResourceStatus};
use crate::response::request_error::RequestError;

/// What statuses depend on.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) rules: &'a Rules,
    pub(super) fleet: &'a Fleet,
    pub(super) usage: &'a Usage,
    pub(super) now: Now,
}

impl View<'_> {
    /// Returns what is known of the pods' requests for a rule's resource.
    fn used(&self, rule: &str) -> Used {
        match (self.usage.is_live(self.now.instant), self.usage.is_listing()) {
            (true, _) => Used::Known(self.fleet.requested(rule)),
            (false, true) => Used::Listing,
            (false, false) => Used::Unknown,
        }
    }
}

/// A status to write.
pub(super) struct NewStatus {
    pub(super) uid: Option<String>,
    pub(super) status: NodeExtendedResourceStatus,
    pub(super) observed: ObservedStatus,
}

#[derive(Clone, Default)]
pub(super) struct Statuses {
    writes: StatusWrites,
    classes: DeviceClasses,
    /// The rules by what is reported of them.
    reported: RulesByState,
    /// The rules whose metrics must be set again.
    changed: BTreeSet<Arc<str>>,
    happenings: Vec<Happening>,
}

impl Statuses {
    /// Handles an event of the watch of DeviceClasses. Returns whether statuses may change.
    pub(super) fn observe_class(&mut self, event: watcher::Result<Event<DeviceClass>>) -> bool {
        let before = self.classes.unreadable().map(str::to_owned);
        let may_change = self.classes.apply(event);
        let why = self.classes.unreadable().filter(|why| before.as_deref() != Some(*why)).map(str::to_owned);
        self.happenings.extend(why.map(|why| Happening::UnreadableClasses { why }));
        may_change
    }

    /// Returns what has happened since the last call.
    pub(super) fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Marks the status of a rule as changed.
    pub(super) fn touch(&mut self, rule: &Arc<str>, now: Instant) {
        self.writes.touch(rule, now);
        self.changed.insert(Arc::clone(rule));
    }

    /// Marks the pods' requests for a rule's resource as changed.
    pub(super) fn touch_use(&mut self, rule: &Arc<str>, now: Instant) {
        self.writes.touch_use(rule, now);
        self.changed.insert(Arc::clone(rule));
    }

    pub(super) fn touch_all(&mut self, rules: &Rules, now: Instant) {
        rules.names_with_status().for_each(|rule| self.touch(rule, now));
    }

    /// Forgets a rule that is gone.
    pub(super) fn forget(&mut self, rule: &Arc<str>) {
        self.writes.forget(rule);
        self.changed.insert(Arc::clone(rule));
    }

    /// Returns the next rule whose status is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Arc<str>> {
        self.writes.pop(now)
    }

    /// Returns when the next status becomes due.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        self.writes.next_due(now)
    }

    /// Returns the status of a rule, if the one that was observed is not as it should be.
    pub(super) fn new_status(&mut self, name: &Arc<str>, view: View<'_>) -> Option<NewStatus> {
        let now = view.now;
        let state = view.rules.with_status(name)?;
        let mapping = self.classes.mapping(state.resource().unwrap_or_default());
        let declared = state.rule.as_ref().ok().map(|rule| &rule.quantity);
        let coverage = view.fleet.nodes().coverage(name, declared);
        let status = status(state, &coverage, view.used(name), &mapping, now.wall);
        let observed = ObservedStatus::new(&status);
        match &state.status {
            Some(before) if *before == observed => return None,
            // That it is known at all is not delayed.
            Some(before)
                if before.requested().is_some()
                    && before.is_same_but_for_use(&observed)
                    && !self.writes.may_write_use(name, now.instant) =>
            {
                self.touch_use(name, now.instant);
                return None;
            }
            _ => {}
        }
        Some(NewStatus { uid: state.uid.clone(), status, observed })
    }

    /// Records that a status was sent.
    pub(super) fn sent(&mut self, name: &Arc<str>, observed: ObservedStatus, now: Instant) {
        self.writes.sent(name, observed, now);
        self.changed.insert(Arc::clone(name));
    }

    /// Handles the response to a write of the rule with this uid. Returns a pause of statuses that the API server requests.
    pub(super) fn written(
        &mut self,
        rule: &Arc<str>,
        uid: Option<String>,
        result: Result<WrittenStatus, RequestError>,
        rules: &mut Rules,
        attempt: Attempt,
    ) -> Option<Duration> {
        self.happenings.push(Happening::StatusAnswered { result: result_name(&result) });
        let is_dirty = self.writes.ended(rule);
        let mut pause = None;
        // A rule recreated under the same name in the meantime does not have this status.
        let Some(state) = rules.with_status(rule) else {
            self.writes.forget(rule);
            return None;
        };
        if state.uid != uid {
            self.touch(rule, attempt.ended);
            return None;
        }
        let failed = match result {
            Ok(WrittenStatus { status, version }) => {
                self.writes.succeeded(rule);
                // What the watch has shown since is newer: an earlier write may land late, after this one.
                if version.is_none() || state.version <= version {
                    rules.set_status(rule, status);
                }
                self.changed.insert(Arc::clone(rule));
                false
            }
            // The object does not match the CRD's schema, so no status can be written until it is corrected.
            Err(error) if is_rejected(&error) => {
                let (rule, error) = (Arc::clone(rule), error.to_string());
                self.happenings.push(Happening::StatusRejected { rule, error });
                false
            }
            Err(error) => {
                let attempt = Attempt { retry_after: error.retry_after(), ..attempt };
                self.writes.failed(rule, attempt);
                pause = attempt.retry_after.filter(|_| !error.is_by_webhook());
                // The watch will show that, and then there is nothing to write, or the status of another rule.
                let is_over = is_of_missing(&error);
                if !is_over {
                    let (rule, error) = (Arc::clone(rule), error.to_string());
                    self.happenings.push(Happening::StatusFailed { rule, error });
                }
                !is_over
            }
        };
        if failed || is_dirty {
            self.touch(rule, attempt.ended);
        }
        pause
    }

    /// Reports the amounts of the rules that have changed since the last call. Returns whether there are any.
    pub(super) fn report_amounts(&mut self, view: View<'_>) -> bool {
        let changed = std::mem::take(&mut self.changed);
        for rule in &changed {
            let (rule, amounts) = (Arc::clone(rule), self.amounts(rule, view));
            self.happenings.push(Happening::Amounts { rule, amounts });
        }
        !changed.is_empty()
    }

    fn amounts(&mut self, name: &Arc<str>, view: View<'_>) -> Option<RuleAmounts> {
        let state = view.rules.get(name);
        match state {
            // Also one that nobody can write.
            Some(state) => {
                let status = self.writes.unwritten(name).or(state.status.as_ref());
                self.reported.set(name, status);
            }
            None => self.reported.remove(name),
        }
        let rule = state?.rule.as_ref().ok()?;
        let counts = view.fleet.nodes().counts(name);
        Some(RuleAmounts {
            resource: rule.resource.as_str().into(),
            advertised: counts.map(|counts| counts.total(rule.quantity.fixed())).unwrap_or_default(),
            requested: match view.used(name) {
                Used::Known(amount) => Some(amount),
                Used::Listing | Used::Unknown => None,
            },
        })
    }

    /// Forgets what is reported of rules, because this process does not lead.
    pub(super) fn stand_by(&mut self) {
        self.reported = RulesByState::default();
        self.changed.clear();
    }

    /// Returns the gauges of a leader.
    pub(super) fn gauges(&self, view: View<'_>) -> LeaderGauges {
        LeaderGauges {
            nodes: view.fleet.nodes().tally().totals().collect(),
            rules: self.reported.counts(),
            rules_without_nodes: self.reported.without_nodes(),
            rules_missing: view.rules.hold().len(),
            values_leaving: view.fleet.nodes().leaving(),
        }
    }

    #[cfg(test)]
    pub(super) fn writes(&self) -> &StatusWrites {
        &self.writes
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
