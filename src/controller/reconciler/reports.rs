//! Logs and Events about nodes.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::field::display;
use tracing::warn;

use super::{Now, Reconciler};
use crate::controller::change_log::{log_change, log_conflict};
use crate::controller::events::{EventTemplate, NodeSubject, RuleSubject, contest};
use crate::controller::standing::{ADMISSION, Standing};
use crate::model::ledger::Ledger;
use crate::model::node::ResourceManagers;
use crate::planner::input::Lost;
use crate::planner::{Action, Change};

impl Reconciler {
    pub(super) fn report_changes(&mut self, node: &Arc<str>, changes: &[Change], now: Now) {
        for change in changes {
            log_change(node, change);
            self.report_change(node, change, EventTemplate::for_change(node, change), now);
        }
    }

    /// Reports and counts changes whose responses were lost but that the node shows once it is in sync. Returns whether
    /// there were conflicts among them.
    pub(super) fn report_applied(&mut self, node: &Arc<str>, now: Now) -> bool {
        let Some(state) = self.nodes.get_mut(node) else { return false };
        if state.work().is_none_or(|work| work.maybe_applied.is_empty()) {
            return false;
        }
        let mut changes = std::mem::take(&mut state.work_mut().maybe_applied);
        let ledger = Ledger::parse(state.node.ledger.as_deref()).unwrap_or_default();
        let managers = |resource: &str| state.node.field_managers(resource);
        changes.retain(|change| {
            if change.is_of_condition() {
                return false;
            }
            // A repair does not change the ledger.
            if change.is_repair() {
                return managers(&change.resource).is_none_or(ResourceManagers::are_own);
            }
            let listed = ledger.get(&change.resource).map(|entry| entry.quantity.as_str());
            let is_withdrawn = matches!(change.action, Action::Withdraw { .. });
            // Another client may have removed the entry alone.
            listed == change.listed_quantity() && !(is_withdrawn && state.node.values(&change.resource) != [None, None])
        });
        self.report_changes(node, &changes, now);
        self.count_conflicts(node, &changes, |_| true, now)
    }

    /// Reports a change on the node and on its rule. Only the leader writes Events.
    fn report_change(&mut self, node: &Arc<str>, change: &Change, template: Option<EventTemplate>, now: Now) {
        let (Some(template), Some(state)) = (template, self.nodes.get(node)) else { return };
        if !self.leads(now.instant) {
            return;
        }
        let rule = self.rule_subject(change.rule().unwrap_or_default());
        let node = NodeSubject { name: node, uid: &state.node.uid };
        self.reports.events.on_both(node, &rule, &template, now);
    }

    /// If the patch of a node failed, reports the values that stay because of it. Existing rules have the failure in
    /// their status; deleted rules have none.
    pub(super) fn report_not_withdrawn(&mut self, node: &Arc<str>, changes: &[Change], message: &str, now: Now) {
        for change in changes {
            let template = EventTemplate::not_withdrawn(node, change, message);
            self.report_change(node, change, template, now);
        }
    }

    /// Reports a value that is there again in the response to the patch that removed it.
    pub(super) fn report_put_back(&mut self, node: &Arc<str>, rule: &str, change: &Change, now: Now) {
        let resource = &change.resource;
        warn!(%node, %rule, %resource, "cannot withdraw {resource}: {ADMISSION} puts a value back");
        self.report_change(node, change, Some(EventTemplate::put_back(node, rule, resource)), now);
    }

    pub(super) fn report_contest(&mut self, node: &Arc<str>, change: &Change, lost: Lost, now: Now) {
        let (resource, manager) = (&change.resource, change.manager().map(display));
        let (rule, message) = (change.rule().unwrap_or_default(), contest(node, change, lost));
        warn!(%node, %rule, %resource, manager, "backing off from {message}");
        self.report_change(node, change, Some(EventTemplate::contested(node, change, lost)), now);
    }

    /// Reports the new state of a rule on a node, if it needs an administrator.
    pub(super) fn report_standing(&mut self, node: &Arc<str>, place: usize, now: Now) {
        let Some(state) = self.nodes.get(node) else { return };
        let Some((rule, standing)) = state.standings.get(place) else { return };
        let resource = self.rules.get(rule).and_then(|state| state.resource()).unwrap_or_default();
        let Some(template) = EventTemplate::for_standing(node, rule, resource, standing) else {
            return;
        };
        let subject = self.rule_subject(rule);
        let on = NodeSubject { name: node, uid: &state.node.uid };
        let is_reported = self.reports.events.on_both(on, &subject, &template, now);
        // A failed patch is logged when its response is handled.
        if is_reported && let Standing::Conflicted { present, manager } = standing {
            log_conflict(node, rule, resource, (present, manager.as_ref()));
        }
    }

    /// Returns a rule as the subject of an Event.
    pub(super) fn rule_subject(&self, name: &str) -> RuleSubject {
        let uid = self.rules.get(name).and_then(|state| state.uid.clone());
        RuleSubject { name: name.into(), uid }
    }

    /// Resumes the contests that the previous leader reported in statuses, so that a new leader does not start with
    /// five more repairs for each.
    pub(super) fn resume_contests(&mut self, now: Instant) {
        for (_, rule) in self.rules.iter() {
            let Some(resource) = rule.resource() else { continue };
            for node in rule.status.iter().flat_map(|status| status.contested()) {
                if let Some(state) = self.nodes.get_mut(node) {
                    state.work_mut().conflicts.resume(resource, now);
                }
            }
        }
    }
}
