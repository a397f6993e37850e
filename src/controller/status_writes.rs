//! Writing the status of rules.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::warn;

use super::change_log::log_equal_priority;
use super::events::EventTemplate;
use super::metrics;
use super::state::Controller;
use super::status::{StatusWritten, WriteError, metric_state, reports, status, write};

use crate::model::api::Reason;

/// How long a status that could not be written waits.
const STATUS_RETRY: Duration = Duration::from_secs(10);

impl Controller {
    /// Writes a rule's status, if that has changed, and tells of what is new in it.
    pub(super) fn write_status(&mut self, name: &Arc<str>, now: Instant) {
        let Some(state) = self.rules.get(name) else {
            return;
        };
        let resource = state.rule.as_ref().map(|rule| rule.resource.as_str());
        let mapping = self.device_classes.mapping(resource.unwrap_or_default());
        let status = status(state, self.tally.counts(name), &mapping, Timestamp::now());
        if state.status.as_ref() == Some(&status) {
            return;
        }
        if let Err(invalid) = &state.rule {
            warn!(rule = %name, "the rule is invalid, and stalled: {invalid}");
            let template = EventTemplate::for_invalid(invalid);
            let rule = self.rule_subject(name);
            self.event_writes.extend(self.events.on_rule(&rule, template, now));
        }
        let ties = |status| reports(status, Reason::EqualPriority);
        if ties(Some(&status)) && !ties(state.status.as_ref()) {
            let winners = self.tally.counts(name).map(|counts| &counts.overridden_by);
            for winner in winners.into_iter().flat_map(|winners| winners.keys()) {
                for (rule, other) in [(name, winner), (winner, name)] {
                    let subject = self.rule_subject(rule);
                    let template = EventTemplate::equal_priority(other);
                    if let Some(write) = self.events.on_rule(&subject, template, now) {
                        log_equal_priority(rule, other, resource.unwrap_or_default());
                        self.event_writes.push(write);
                    }
                }
            }
        }
        self.status_queue.started(name, now);
        let (client, timeout) = (self.client.clone(), self.options.request_timeout);
        let (rule, uid) = (Arc::clone(name), state.uid.clone());
        self.status_writes.push(write(client, timeout, rule, uid, status).boxed());
    }

    /// Takes in what came of it.
    pub(super) fn on_status_written(&mut self, written: StatusWritten) {
        let StatusWritten { rule, uid, result } = written;
        let retry = match result {
            Ok(status) => {
                // One made again under the same name meanwhile does not have it.
                let state = self.rules.get_mut(&rule).filter(|state| state.uid == uid);
                if let Some(state) = state {
                    state.status = Some(status);
                    self.update_rule_metrics();
                }
                None
            }
            Err(WriteError::NotFound) => None,
            Err(WriteError::Refused(message)) => {
                warn!(%rule, "the API server refuses a status for the rule: {message}");
                None
            }
            Err(WriteError::Failed(message)) => {
                warn!(%rule, "the rule's status could not be written: {message}");
                Some(Instant::now() + STATUS_RETRY)
            }
        };
        self.status_queue.ended(&rule, retry);
    }

    /// Counts the rules for the metrics.
    pub(super) fn update_rule_metrics(&self) {
        let mut counts = metrics::RULE_STATES.map(|state| (state, 0));
        for state in self.rules.states() {
            let word = metric_state(state.status.as_ref());
            for (state, count) in &mut counts {
                *count += usize::from(*state == word);
            }
        }
        metrics::set_all(&self.diagnostics.metrics.rules, "state", counts);
        let idle = self
            .rules
            .states()
            .filter(|state| reports(state.status.as_ref(), Reason::NoNodesSelected));
        let idle = i64::try_from(idle.count()).unwrap_or(i64::MAX);
        self.diagnostics.metrics.rules_without_nodes.set(idle);
    }
}
