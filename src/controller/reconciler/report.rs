//! What is reported: log lines, Events, metrics and readiness. Nothing here decides anything but which Events are sent.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tracing::field::display;
use tracing::{debug, error, info, warn};

use super::happening::Happening;
use crate::cluster::lease::Leadership;
use crate::controller::change_log::{log_change, log_conflict, log_equal_priority};
use crate::controller::confinement;
use crate::controller::effect::{Now, Watched};
use crate::controller::events::{EventTemplate, Events, NodeSubject, RuleSubject, contest};
use crate::controller::metrics::{self, KEPT, Metrics, RESET, RuleAmounts};
use crate::controller::nodes::Cause;
use crate::controller::options::Diagnostics;
use crate::controller::protection::{self, PolicyObject, Protection, Start};
use crate::controller::readiness::Readiness;
use crate::controller::rollouts::Stopped;
use crate::controller::rules::{ObservedStatus, Rules};
use crate::controller::standing::{ADMISSION, Standing};
use crate::controller::tally::Counts;
use crate::controller::usage::Usage;
use crate::controller::watches::{self, Failed};
use crate::model::api::Reason;
use crate::model::ledger::InvalidLedger;
use crate::planner::input::Lost;
use crate::planner::{Change, Leaving};

/// The resource, for metrics.
const PODS: &str = "pods";

#[derive(Clone)]
pub(super) struct Report {
    diagnostics: Diagnostics,
    events: Events,
    protection: Protection,
    /// The first rejection for a missing permission, while a node waits for that permission.
    forbidden: Option<String>,
    /// Whether all objects that a watch shows are listed.
    is_listed: [bool; 2],
    /// Why the watch of pods was broken, as of the last report.
    pods_broken: Option<Arc<str>>,
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
    pub(super) fn new(events: Events, protection: Protection, diagnostics: Diagnostics) -> Self {
        Self { diagnostics, events, protection, forbidden: None, is_listed: [false; 2], pods_broken: None }
    }

    /// Returns when the next Event is due.
    pub(super) fn next_event(&self, now: Instant) -> Option<Instant> {
        self.events.next_due(now)
    }

    /// Lends the Events to send.
    pub(super) fn events(&mut self) -> &mut Events {
        &mut self.events
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.diagnostics.metrics
    }

    /// Reports what has happened to nodes.
    pub(super) fn happened(&mut self, happening: Happening, by: Reporter<'_>) {
        match happening {
            Happening::Started { node, start } => self.started(&node, start, by.leads),
            Happening::Unreadable { node, error } => self.unreadable(&node, &error, by.now),
            Happening::Problem { node, rule, standing } => self.problem(&node, &rule, &standing, by),
            Happening::Leaving { node, leaving } => self.leaving(&node, &leaving, by),
            Happening::Answered { result } => self.metrics().patched(result),
            Happening::Patched { after } if by.leads => self.metrics().event_to_patch.observe(after.as_secs_f64()),
            Happening::Patched { .. } => {}
            Happening::Changed { node, change } => {
                log_change(&node.name, &change);
                let template = EventTemplate::for_change(&node.name, &change);
                self.of_change(&node, &change, template, by);
            }
            Happening::PutBack { node, rule, change } => {
                let (name, resource) = (&node.name, &change.resource);
                warn!(node = %name, %rule, %resource, "cannot withdraw {resource}: {ADMISSION} puts a value back");
                self.of_change(&node, &change, Some(EventTemplate::put_back(name, &rule, resource)), by);
            }
            Happening::Repaired => _ = self.metrics().repairs.inc(),
            Happening::Contested { node, change, lost } => self.contested(&node, &change, lost, by),
            Happening::Failed { node, cause, message } => self.failed(&node, cause, &message),
            // Existing rules have the failure in their status; deleted rules have none.
            Happening::NotWithdrawn { node, change, message } => {
                let template = EventTemplate::not_withdrawn(&node.name, &change, &message);
                self.of_change(&node, &change, template, by);
            }
            Happening::RolloutStopped { node, rule, stopped, message } => {
                self.rollout_stopped(node.as_ref(), &rule, stopped, &message, by);
            }
        }
    }

    /// Reports whether recorded values were kept when a kubelet started. Each replica observes that.
    fn started(&mut self, node: &str, start: Start, leads: bool) {
        let changed = self.protection.started(start);
        let state = self.protection.state();
        let values = match start {
            Start::Kept => {
                info!(%node, "the node rebooted, and listed values were kept");
                KEPT
            }
            Start::Reset if matches!(state, protection::State::Present(_) | protection::State::Static(_)) => {
                warn!(%node, "the kubelet reset listed values despite the policy: {state}");
                RESET
            }
            Start::Reset => {
                info!(%node, "the kubelet reset listed values");
                RESET
            }
        };
        if leads {
            self.metrics().kubelet_starts.get_or_create(&values).inc();
        }
        if changed {
            self.protection();
        }
    }

    fn unreadable(&mut self, node: &NodeSubject, error: &InvalidLedger, now: Now) {
        let name = &node.name;
        warn!(
            node = %name,
            "cannot change the node: {error}; repair the annotation, or remove it with prune --repair-ledger \
             --node {name} --force"
        );
        self.events.on_node(node, &EventTemplate::invalid_ledger(name, error), now);
    }

    fn problem(&mut self, node: &NodeSubject, rule: &str, standing: &Standing, by: Reporter<'_>) {
        let resource = by.rules.get(rule).and_then(|state| state.resource()).unwrap_or_default();
        let Some(template) = EventTemplate::for_standing(&node.name, rule, resource, standing) else { return };
        let is_reported = self.events.on_both(node, &subject(by.rules, rule), &template, by.now);
        // A failed patch is logged when its response is handled.
        if is_reported && let Standing::Conflicted { present, manager } = standing {
            log_conflict(&node.name, rule, resource, present, manager.as_ref());
        }
    }

    fn leaving(&mut self, node: &NodeSubject, leaving: &Leaving, by: Reporter<'_>) {
        let Some(template) = EventTemplate::for_leaving(&node.name, leaving) else { return };
        self.events.on_both(node, &subject(by.rules, &leaving.rule), &template, by.now);
    }

    /// Reports a change on the node and on its rule.
    fn of_change(&mut self, node: &NodeSubject, change: &Change, template: Option<EventTemplate>, by: Reporter<'_>) {
        if let Some(template) = template.filter(|_| by.leads) {
            let rule = subject(by.rules, change.rule().unwrap_or_default());
            self.events.on_both(node, &rule, &template, by.now);
        }
    }

    fn contested(&mut self, node: &NodeSubject, change: &Change, lost: Lost, by: Reporter<'_>) {
        let (name, resource, manager) = (&node.name, &change.resource, change.manager().map(display));
        let (rule, message) = (change.rule().unwrap_or_default(), contest(name, change, lost));
        warn!(node = %name, %rule, %resource, manager, "backing off from {message}");
        self.of_change(node, change, Some(EventTemplate::contested(name, change, lost)), by);
    }

    fn failed(&mut self, node: &str, cause: Cause, message: &str) {
        match cause {
            Cause::Stale => debug!(%node, "the node changed in the meantime, planning again"),
            Cause::NotFound => debug!(%node, "the node does not exist"),
            Cause::Forbidden => {
                if self.forbidden.is_none() {
                    error!("{message}; grant the verb patch on nodes/status");
                    self.forbidden = Some(message.to_owned());
                }
            }
            Cause::Rejected => warn!(%node, "the API server rejects the patch: {message}"),
            Cause::Overload | Cause::Deferred | Cause::Undone => {
                warn!(%node, "cannot patch the node, retrying: {message}");
            }
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
        let Stopped { nodes, pause, is_first } = stopped;
        warn!(%rule, nodes, "stopped the rollout of the rule for {pause:?}, because patches fail: {message}");
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
        let forbidden = &self.forbidden;
        self.set_ready(|readiness| readiness.patches.clone_from(forbidden));
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
            warn!(rule = %name, "the rule is stalled: {why}");
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
                    log_equal_priority(rule, other, resource);
                }
            }
        }
    }

    pub(super) fn leadership(&self, leadership: Leadership) {
        self.set_ready(|readiness| {
            (readiness.lease, readiness.standby) = match leadership {
                Leadership::Leader { .. } => (None, None),
                Leadership::Standby(None) => (None, Some("no leader is elected yet".to_owned())),
                Leadership::Standby(Some(holder)) => (None, Some(format!("{holder} is the leader"))),
                Leadership::Unavailable(why) => (Some(why), None),
            };
        });
    }

    /// Reports that leadership has begun or ended. A process that loses leadership stops reporting.
    pub(super) fn leads(&mut self, leads: bool) {
        self.metrics().leader.set(leads.into());
        if !leads {
            self.events.clear();
            self.forbidden(false);
        }
    }

    /// Reports that a watch has failed, and restarts.
    pub(super) fn watch_failed(&self, watched: Watched, failed: Failed) {
        let resource = watched.name();
        // An unreachable API server counts as one restart, however many attempts fail.
        if failed.is_first {
            self.metrics().restarted(resource);
        }
        let Some(message) = failed.message else { return info!("{resource}: the watch is too old, listing again") };
        if failed.is_new {
            warn!("{message}");
        }
        if !self.is_listed[watched as usize] {
            self.set_ready(|readiness| *reason(readiness, watched) = Some(message));
        }
    }

    /// Reports since when a watch is broken.
    pub(super) fn watch(&self, watched: Watched, report: watches::Report) {
        let since = report.broken_since.map_or(0, |since| since.as_second());
        self.metrics().watch_broken(watched.name(), since);
        // Before the first list, the reason is that there is none.
        if self.is_listed[watched as usize] {
            self.set_ready(|readiness| *reason(readiness, watched) = report.unready);
        }
    }

    pub(super) fn yields(&self, watched: Watched, patience: Duration) {
        warn!(
            "the watch of {} has been broken for {patience:?} or longer while the lease could be renewed: letting \
             another replica lead",
            watched.name()
        );
    }

    /// Reports that all objects of a kind are listed.
    pub(super) fn listed(&mut self, watched: Watched, number: usize) {
        self.is_listed[watched as usize] = true;
        match watched {
            Watched::Nodes => info!(nodes = number, "all nodes listed"),
            Watched::Rules => info!(rules = number, "all rules listed"),
        }
        self.set_ready(|readiness| *reason(readiness, watched) = None);
    }

    /// Reports how much memory the rules take of what they may.
    pub(super) fn memory(&self, rules: &mut Rules) {
        let states = rules.states();
        let (number, unfit, size, limit) = (states.len(), states.unfit(), states.size(), states.max_size());
        let bytes = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.metrics().rules_memory.set(bytes(size));
        self.metrics().rules_memory_limit.set(bytes(limit));
        if rules.becomes_scarce() {
            warn!(
                rules = number,
                bytes = size,
                limit,
                "rules take nearly all memory that they may, and the youngest of those that do not fit are stalled, {unfit} \
                 so far: delete rules, or raise --max-rules-memory and the memory limit of the pods"
            );
        }
    }

    /// Reports that the values of missing rules stay.
    pub(super) fn missing(&self, rules: usize, of: usize, delay: Duration) {
        if rules > 0 {
            warn!(
                rules,
                "{rules} of the {of} rules named in node annotations are missing: their values stay \
                 for {delay:?}. To withdraw them now, run prune --rule NAME --force for each"
            );
        }
    }

    pub(super) fn still_missing(&self, rules: usize) {
        if rules > 0 {
            warn!(rules, "the rules are still missing: withdrawing their values");
        }
    }

    /// Reports the restart of a watch of pods that had worked.
    pub(super) fn pods_expired(&self) {
        if self.pods_broken.is_none() {
            self.metrics().restarted(PODS);
        }
    }

    /// Reports that the watch of pods has broken, or works again. That alone makes the process neither unready nor let another
    /// replica lead: repairs need no pods, and where the permission is missing, it is missing for all.
    pub(super) fn pods(&mut self, usage: &Usage, now: Now) {
        let why = usage.broken();
        if why == self.pods_broken.as_ref() {
            return;
        }
        match why {
            Some(why) => warn!("{why}"),
            None if usage.is_on() => info!("the watch of pods works again"),
            None => {}
        }
        if self.pods_broken.is_none() {
            self.metrics().restarted(PODS);
        }
        let ago = |since| SignedDuration::try_from(now.instant.saturating_duration_since(since)).ok();
        let since = usage.broken_since().map(|since| now.wall - ago(since).unwrap_or_default());
        self.metrics().watch_broken(PODS, since.map_or(0, |since| since.as_second()));
        self.pods_broken = why.cloned();
    }

    /// Reports pods that cannot be decoded.
    pub(super) fn unreadable_pods(&self, usage: &mut Usage) {
        self.metrics().unreadable_pods.set(usage.unreadable().try_into().unwrap_or(i64::MAX));
        if let Some(error) = usage.take_unreadable() {
            warn!("a pod cannot be decoded, and what it requests is not known: {error}");
        }
    }

    /// Handles what is shown of the policy that keeps recorded values when a kubelet resets them.
    pub(super) fn observe_protection(&mut self, kind: protection::Kind, event: watcher::Result<Event<PolicyObject>>) {
        if self.protection.observe(kind, event) {
            self.protection();
        }
    }

    /// Reports what is known of the policy without the API.
    pub(super) fn expected_protection(&self) {
        if !matches!(self.protection.state(), protection::State::Unknown(_)) {
            self.protection();
        }
    }

    fn protection(&self) {
        let state = self.protection.state();
        info!("protection: {state}");
        let states = protection::State::NAMES.map(|name| (name, usize::from(name == state.name())));
        metrics::set_all(&self.metrics().protection, "state", states);
        self.set_ready(|readiness| readiness.protection = state.to_string());
    }

    /// Reports the state of the tests of the confinement.
    pub(super) fn confinement(&self, state: &confinement::State) {
        let text = state.to_string();
        match state {
            confinement::State::Unconfined => warn!("confinement: {text}"),
            // The initial state, or the state after a loss of leadership.
            confinement::State::Standby => {}
            _ => info!("confinement: {text}"),
        }
        let states = confinement::State::NAMES.map(|name| (name, usize::from(name == state.name())));
        metrics::set_all(&self.metrics().confinement, "state", states);
        self.set_ready(|readiness| readiness.confinement = text);
    }

    /// Sets the metrics of rules.
    pub(super) fn amounts(&self, amounts: Vec<(Arc<str>, Option<RuleAmounts>)>) {
        amounts.into_iter().for_each(|(rule, amounts)| self.metrics().amounts.set(rule, amounts));
    }

    #[cfg(test)]
    pub(super) fn diagnostics(&self) -> Diagnostics {
        self.diagnostics.clone()
    }

    #[cfg(test)]
    pub(super) fn is_forbidden(&self) -> &Option<String> {
        &self.forbidden
    }

    fn set_ready(&self, change: impl FnOnce(&mut Readiness)) {
        self.diagnostics.readiness.send_if_modified(|readiness| {
            let before = readiness.clone();
            change(readiness);
            *readiness != before
        });
    }
}

/// Returns why the process is not ready as long as this watch does not work.
fn reason(readiness: &mut Readiness, watched: Watched) -> &mut Option<String> {
    match watched {
        Watched::Nodes => &mut readiness.nodes,
        Watched::Rules => &mut readiness.rules,
    }
}

/// Returns a rule as the subject of an Event.
fn subject(rules: &Rules, name: &str) -> RuleSubject {
    RuleSubject { name: name.into(), uid: rules.get(name).and_then(|state| state.uid.clone()) }
}
