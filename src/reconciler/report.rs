//! What is reported: the Events of what has happened, and whether the process is ready. Nothing here decides anything
//! but which Events are sent.

use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use super::effect::{Now, Watched};
use super::events::{EventTemplate, Events, RuleSubject};
use super::happening::Happening;
use super::nodes::{Cause, NodeSubject};
use super::protection::{self, PolicyObject, Protection, Start};
use super::rollouts::Stopped;
use super::rules::{ObservedStatus, Rules};
use super::standing::Standing;
use super::tally::Counts;
use super::usage::Usage;
use super::watches::{self, Failed};
use crate::model::api::Reason;
use crate::planner::{Change, Outcome};

/// The resource, for metrics.
const PODS: &str = "pods";

#[derive(Clone)]
pub(super) struct Report {
    events: Events,
    protection: Protection,
    /// The first rejection for a missing permission, while a node waits for that permission.
    forbidden: Option<Arc<str>>,
    /// The rejection that readiness shows.
    shown_forbidden: Option<Arc<str>>,
    /// Whether all objects that a watch shows are listed.
    is_listed: [bool; 2],
    /// Why the watch of each does not count as ready.
    unready: [Option<String>; 2],
    /// Why the watch of pods was broken, as of the last report.
    pods_broken: Option<Arc<str>>,
    happenings: Vec<Happening>,
}

/// Who reports what happened to nodes.
#[derive(Clone, Copy)]
pub(super) struct Reporter<'a> {
    pub(super) rules: &'a Rules,
    /// Only the leader writes Events, and counts what each replica observes.
    pub(super) leads: bool,
    pub(super) now: Now,
}

impl Report {
    pub(super) fn new(events: Events, protection: Protection) -> Self {
        let mut report = Self {
            events,
            protection,
            forbidden: None,
            shown_forbidden: None,
            is_listed: [false; 2],
            unready: [None, None],
            pods_broken: None,
            happenings: Vec::new(),
        };
        // What is known of the policy without the API.
        if !matches!(report.protection.state(), protection::State::Unknown(_)) {
            report.note_protection();
        }
        report
    }

    /// Returns when the next Event is due.
    pub(super) fn next_event(&self, now: Instant) -> Option<Instant> {
        self.events.next_due(now)
    }

    /// Lends the Events to send.
    pub(super) fn events(&mut self) -> &mut Events {
        &mut self.events
    }

    /// Adds what causes no Event.
    pub(super) fn note(&mut self, happenings: impl IntoIterator<Item = Happening>) {
        self.happenings.extend(happenings);
    }

    /// Returns what has happened since the last call.
    pub(super) fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Reports what has happened to nodes.
    pub(super) fn happened(&mut self, happening: Happening, by: Reporter<'_>) {
        match &happening {
            Happening::Unreadable { node, error } => {
                self.events.on_node(node, &EventTemplate::invalid_ledger(&node.name, error), by.now);
            }
            Happening::Problem { node, rule, resource, standing } => {
                let Some(template) = EventTemplate::for_standing(&node.name, rule, resource, standing) else { return };
                // The log has as many conflicts as there are Events, and a failed patch when its response is handled.
                if !self.events.on_both(node, &subject(by.rules, rule), &template, by.now)
                    || !matches!(standing, Standing::Planned(Outcome::Conflicted { .. }))
                {
                    return;
                }
            }
            Happening::Changed { node, change } => {
                let template = EventTemplate::for_change(&node.name, change);
                self.of_change(node, change, template, by);
            }
            Happening::PutBack { node, rule, change } => {
                let template = EventTemplate::put_back(&node.name, rule, change.name());
                self.of_change(node, change, Some(template), by);
            }
            Happening::Contested { node, change, lost } => {
                let template = EventTemplate::contested(&node.name, change, *lost);
                self.of_change(node, change, Some(template), by);
            }
            Happening::Failed { cause: Cause::Forbidden, message, .. } => {
                if self.forbidden.is_none() {
                    self.forbidden = Some(Arc::clone(message));
                    self.happenings.push(Happening::Forbidden { message: Arc::clone(message) });
                }
                return;
            }
            Happening::NotWithdrawn { node, change, message } => {
                let template = EventTemplate::not_withdrawn(&node.name, change, message);
                self.of_change(node, change, template, by);
            }
            Happening::Leaving { node, leaving } => {
                if let Some(template) = EventTemplate::for_leaving(&node.name, leaving) {
                    self.events.on_both(node, &subject(by.rules, &leaving.rule), &template, by.now);
                }
            }
            Happening::RolloutStopped { node, rule, stopped, message } => {
                self.rollout_stopped(node.as_ref(), rule, *stopped, message, by);
            }
            _ => {}
        }
        self.happenings.push(happening);
    }

    /// Reports whether recorded values were kept when a kubelet started. Each replica observes that.
    pub(super) fn started(&mut self, node: Arc<str>, start: Start, leads: bool) {
        let changed = self.protection.started(start);
        let protection = self.protection.state();
        self.happenings.push(Happening::Started { node, start, protection, is_counted: leads });
        if changed {
            self.note_protection();
        }
    }

    /// Reports a change on the node and on its rule.
    fn of_change(&mut self, node: &NodeSubject, change: &Change, template: Option<EventTemplate>, by: Reporter<'_>) {
        if let Some(template) = template.filter(|_| by.leads) {
            let rule = subject(by.rules, change.rule().unwrap_or_default());
            self.events.on_both(node, &rule, &template, by.now);
        }
    }

    /// Reports a stop: on the rule, or on this node if the rule is deleted, so that its withdrawal is what stopped. Of
    /// several in a row, the log has each, and an Event the first.
    fn rollout_stopped(
        &mut self,
        node: Option<&NodeSubject>,
        rule: &Arc<str>,
        stopped: Stopped,
        message: &str,
        by: Reporter<'_>,
    ) {
        let Stopped { nodes, is_first, .. } = stopped;
        if !is_first {
            return;
        }
        let template = EventTemplate::rollout_stopped(rule, nodes, message);
        let subject = subject(by.rules, rule);
        if subject.uid.is_some() {
            self.events.on_rule(&subject, &template, by.now);
        } else if let Some(node) = node {
            self.events.on_node(node, &template, by.now);
        }
    }

    /// Readiness fails from the first patch rejected for a missing permission until no node waits for that permission.
    pub(super) fn forbidden(&mut self, is_any: bool) {
        if !is_any {
            self.forbidden = None;
        }
        if self.shown_forbidden != self.forbidden {
            self.shown_forbidden.clone_from(&self.forbidden);
            self.happenings.push(Happening::Patches { forbidden: self.forbidden.clone() });
        }
    }

    /// Reports what is new in a status.
    pub(super) fn status(
        &mut self,
        name: &Arc<str>,
        status: &ObservedStatus,
        counts: Option<&Counts>,
        by: Reporter<'_>,
    ) {
        let Some(state) = by.rules.get(name) else { return };
        if let Err(why) = &state.rule {
            self.happenings.push(Happening::Stalled { rule: Arc::clone(name), why: why.clone() });
            self.events.on_rule(&subject(by.rules, name), &EventTemplate::for_stalled(why), by.now);
        }
        let ties = |status: &ObservedStatus| status.reports(Reason::EqualPriority);
        if !ties(status) || state.status.as_ref().is_some_and(ties) {
            return;
        }
        let resource = state.resource().unwrap_or_default();
        for winner in counts.into_iter().flat_map(|counts| counts.overridden_by.keys()) {
            for (rule, other) in [(name, winner), (winner, name)] {
                if self.events.on_rule(&subject(by.rules, rule), &EventTemplate::equal_priority(other), by.now) {
                    let (rule, other) = (Arc::clone(rule), Arc::clone(other));
                    self.happenings.push(Happening::Tied { rule, other, resource: resource.into() });
                }
            }
        }
    }

    /// Reports that leadership has begun or ended. A process that loses leadership stops reporting.
    pub(super) fn leads(&mut self, leads: bool) {
        self.happenings.push(Happening::Leads(leads));
        if !leads {
            self.events.clear();
            self.forbidden(false);
        }
    }

    /// Reports that a watch has failed, and restarts.
    pub(super) fn watch_failed(&mut self, watched: Watched, failed: Failed) {
        // An unreachable API server counts as one restart, however many attempts fail.
        if let Failed::Expired { is_first: true } | Failed::Broken { is_first: true, .. } = failed {
            self.happenings.push(Happening::Restarted { resource: watched.name() });
        }
        let (is_new, message) = match failed {
            Failed::Quiet => return,
            Failed::Expired { .. } => return self.note([Happening::Expired { watched }]),
            Failed::Broken { is_new, message, .. } => (is_new, message),
        };
        if is_new {
            self.happenings.push(Happening::WatchFailed { message: message.clone() });
        }
        if !self.is_listed[watched as usize] {
            self.happenings.push(Happening::NotReady { watched, why: Some(message) });
        }
    }

    /// Reports since when a watch is broken.
    pub(super) fn watch(&mut self, watched: Watched, report: watches::Report) {
        self.happenings.push(Happening::Broken { resource: watched.name(), since: report.broken_since });
        // Before the first list, the reason is that there is none.
        if self.is_listed[watched as usize] {
            self.happenings.push(Happening::NotReady { watched, why: report.unready.clone() });
        }
        self.unready[watched as usize] = report.unready;
    }

    /// Reports that all objects of a kind are listed.
    pub(super) fn listed(&mut self, watched: Watched, number: usize) {
        self.is_listed[watched as usize] = true;
        // The watch may be rejected all the same.
        let why = self.unready[watched as usize].clone();
        self.note([Happening::Listed { watched, number }, Happening::NotReady { watched, why }]);
    }

    /// Reports how much memory the rules take of what they may.
    pub(super) fn memory(&mut self, rules: &mut Rules) {
        let (states, size) = (rules.states(), rules.size());
        let (number, unfit, limit) = (states.len(), states.unfit(), states.max_size());
        self.happenings.push(Happening::Memory { size, limit });
        if rules.becomes_scarce() {
            self.happenings.push(Happening::MemoryScarce { rules: number, unfit, size, limit });
        }
    }

    /// Reports the restart of a watch of pods that had worked.
    pub(super) fn pods_expired(&mut self) {
        if self.pods_broken.is_none() {
            self.happenings.push(Happening::Restarted { resource: PODS });
        }
    }

    /// Reports that the watch of pods has broken, or works again. That alone makes the process neither unready nor let another
    /// replica lead: repairs need no pods, and where the permission is missing, it is missing for all.
    pub(super) fn pods(&mut self, usage: &Usage, now: Now) {
        let broken = usage.broken();
        if broken == self.pods_broken.as_ref() {
            return;
        }
        if broken.is_some() || usage.is_on() {
            self.happenings.push(Happening::Pods { broken: broken.cloned() });
        }
        if self.pods_broken.is_none() {
            self.happenings.push(Happening::Restarted { resource: PODS });
        }
        let ago = |since| SignedDuration::try_from(now.instant.saturating_duration_since(since)).ok();
        let since = usage.broken_since().map(|since| now.wall - ago(since).unwrap_or_default());
        self.happenings.push(Happening::Broken { resource: PODS, since });
        self.pods_broken = broken.cloned();
    }

    /// Reports pods that cannot be decoded.
    pub(super) fn unreadable_pods(&mut self, usage: &mut Usage) {
        self.happenings.push(Happening::UnreadablePods { number: usage.unreadable() });
        self.happenings.extend(usage.take_unreadable().map(|error| Happening::UnreadablePod { error }));
    }

    /// Handles what is shown of the policy that keeps recorded values when a kubelet resets them.
    pub(super) fn observe_protection(&mut self, kind: protection::Kind, event: watcher::Result<Event<PolicyObject>>) {
        if self.protection.observe(kind, event) {
            self.note_protection();
        }
    }

    fn note_protection(&mut self) {
        self.happenings.push(Happening::Protection(self.protection.state()));
    }

    #[cfg(test)]
    pub(super) fn is_forbidden(&self) -> &Option<Arc<str>> {
        &self.forbidden
    }
}

/// Returns a rule as the subject of an Event.
fn subject(rules: &Rules, name: &str) -> RuleSubject {
    RuleSubject { name: name.into(), uid: rules.get(name).and_then(|state| state.uid.clone()) }
}
