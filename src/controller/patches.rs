//! From a plan to a patch, and from its answer to what is next.

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;
use tracing::field::display;
use tracing::{debug, error, warn};

use super::change_log::{log_change, log_conflict};
use super::events::{EventTemplate, NodeSubject, RuleSubject, contest};
use super::nodes::SentPatch;
use super::outcome::Outcome;
use super::state::Controller;
use crate::cluster::node_client::Reply;
use crate::planner::input::{PlanningInput, PodUsage};
use crate::planner::{Action, Change, NodePlan, Plan, plan};

impl Controller {
    /// Plans a node as it is now, counts what becomes of its rules, and sends the patch if there is
    /// one and nothing speaks against it.
    pub(super) fn reconcile(&mut self, name: &Arc<str>) {
        let pod_usage = self.pod_usage(name);
        self.reconcile_with(name, pod_usage);
    }

    /// The same, with what is known of the pods on the node.
    pub(super) fn reconcile_with(&mut self, name: &Arc<str>, pod_usage: PodUsage) {
        let usage_is_known = matches!(pod_usage, PodUsage::Known(_));
        // What pods use is true for this moment only, and they are looked at on a few nodes at once.
        let free_slot = self.has_free_slot() || usage_is_known;
        let Some(state) = self.nodes.get_mut(name) else {
            return;
        };
        let began = Instant::now();
        let input = PlanningInput {
            contested: state.contested(began),
            pods: pod_usage,
            ..PlanningInput::default()
        };
        let plan = plan(&state.node, self.rules.set(), &input);
        self.diagnostics.metrics.plan.observe(began.elapsed().as_secs_f64());
        let needs_pods = plan.needs_pods();
        let NodePlan { outcomes, plan } = plan;
        let (changes, mut invalid_ledger) = match plan {
            Plan::Patch { changes, .. } => (changes, None),
            Plan::Blocked(error) => (Vec::new(), Some(error)),
            Plan::InSync | Plan::NeedsPods => (Vec::new(), None),
        };
        let patch = match crate::planner::patch(&state.node, &changes) {
            Ok(patch) => Some(patch).filter(|_| !changes.is_empty()),
            Err(error) => {
                invalid_ledger = Some(error);
                None
            }
        };
        let outcomes = outcomes.into_iter().map(|(rule, outcome)| {
            let outcome = Outcome::new(&rule, outcome, &changes);
            (rule, outcome)
        });
        let outcomes = outcomes.collect();
        let uid = state.node.uid.clone();
        // A value that was lost costs pods their life within a second.
        let urgent = changes.iter().any(Change::is_repair);
        let begun = state.record(outcomes, &mut self.tally);
        let is_busy = state.is_busy();
        let node = NodeSubject { name, uid: &uid };
        if state.ledger_became_invalid(invalid_ledger.is_some())
            && let Some(unreadable) = &invalid_ledger
        {
            warn!(node = %name, "the node is left alone: {unreadable}");
            let template = EventTemplate::invalid_ledger(unreadable);
            self.event_writes.extend(self.events.on_node(node, template, Instant::now()));
        }
        for (rule, outcome) in begun {
            self.report_outcome(node, &rule, &outcome);
        }
        // What can be done without, is done first: the node is planned again after it.
        if !usage_is_known && !is_busy && patch.is_none() {
            self.list_pods(name, needs_pods);
        }
        match patch {
            None => self.nodes.forget_failure(name),
            Some(_) if is_busy => {}
            Some(_) if !free_slot => self.nodes.await_slot(name, urgent),
            Some(patch) => {
                let request_id = self.nodes.sent(name);
                let node = Arc::clone(name);
                let sent = SentPatch { node, uid, request_id, changes };
                let reply = self.requests.clone().patch(Arc::clone(name), patch);
                self.patches.push(reply.map(|reply| (sent, reply)).boxed());
            }
        }
    }

    /// Something that is different each time, so that each failure gets pauses of its own.
    fn seed(&mut self) -> u64 {
        self.options.seed = self.options.seed.wrapping_add(1);
        self.options.seed
    }

    /// Takes in the answer to a patch. What changed is told in any case; the rest is for the node that
    /// the patch was for, if it still is.
    pub(super) fn on_reply(&mut self, sent: &SentPatch, reply: Reply) {
        let node = &sent.node;
        let now = Instant::now();
        let seed = self.seed();
        self.diagnostics.metrics.patched(reply.result());
        if let Reply::Patched(_) = &reply {
            self.report_changes(sent, now);
        }
        if !self.nodes.answered(node, sent.request_id) {
            return;
        }
        match reply {
            Reply::Patched(answer) => {
                if let Some(since) = self.nodes.take_pending_since(node) {
                    let time = now.duration_since(since).as_secs_f64();
                    self.diagnostics.metrics.event_to_patch.observe(time);
                }
                self.nodes.observe_response(*answer, &mut self.tally);
                self.nodes.clear_forbidden();
                if self.is_undone(sent) {
                    let message = "the patch went through, and yet the node is as before: \
                                   something between here and there undoes it";
                    warn!(%node, "{message}");
                    self.nodes.fail(node, Some(message.to_owned()), None, now, seed);
                } else {
                    self.nodes.forget_failure(node);
                }
                self.count_repairs(sent, now);
            }
            Reply::Stale { node: answer, message } => {
                if self.nodes.stale(node, &message, now, seed) {
                    warn!(%node, "the patch is refused again and again: {message}");
                } else {
                    debug!(%node, "the node changed meanwhile, and is planned again");
                }
                self.nodes.observe_response(*answer, &mut self.tally);
            }
            Reply::NotFound => {
                debug!(%node, "there is no such node, which the watch will tell");
                self.nodes.fail(node, None, None, now, seed);
            }
            Reply::Forbidden(message) => {
                let message = format!("no right to patch nodes/status: {message}");
                self.nodes.fail(node, Some(message.clone()), None, now, seed);
                self.nodes.mark_forbidden(node);
                self.forbidden.get_or_insert_with(|| {
                    error!("{message}; grant the verb patch on nodes/status");
                    message
                });
            }
            Reply::Failed { message, retry_after, maybe_applied } => {
                if maybe_applied {
                    self.nodes.mark_unanswered(node);
                }
                warn!(%node, "the patch failed and will be tried again: {message}");
                self.nodes.fail(node, Some(message), retry_after, now, seed);
            }
        }
        self.report_not_withdrawn(sent, now);
    }

    /// Where a node's patch has failed, tells what it still has for that. The rules that are in force
    /// have it in their status; those that are gone have none.
    fn report_not_withdrawn(&mut self, sent: &SentPatch, now: Instant) {
        let SentPatch { node, changes, .. } = sent;
        let Some((message, changes)) = self.nodes.failing(node, changes) else {
            return;
        };
        for change in changes {
            self.report_change(
                sent,
                &change,
                EventTemplate::not_withdrawn(node, &change, &message),
                now,
            );
        }
    }

    /// Notes what was repaired or adopted, and tells of what has become a contest. A ledger entry that is
    /// removed again and again must not cost a request each time either.
    fn count_repairs(&mut self, sent: &SentPatch, now: Instant) {
        let SentPatch { node, uid, changes, .. } = sent;
        for change in changes {
            let (rule, observed, manager) = match &change.action {
                Action::Repair { rule, observed, manager, .. } => {
                    self.diagnostics.metrics.repairs.inc();
                    (rule, observed, manager.as_ref())
                }
                Action::Adopt { rule, quantity } => (rule, quantity, None),
                _ => continue,
            };
            if self.nodes.repaired(node, (&change.resource, observed), manager, now) {
                let (resource, manager) = (&change.resource, change.manager().map(display));
                let message = contest(node, change);
                warn!(%node, %rule, %resource, manager, "repairs pause: {message}");
                let template = EventTemplate::contested(node, change);
                let rule = self.rule_subject(rule);
                let node = NodeSubject { name: node, uid };
                self.event_writes.extend(self.events.on_both(node, &rule, &template, now));
            }
        }
    }

    /// Whether the answer to a patch asks for the same patch again, as where a webhook strips it.
    fn is_undone(&mut self, sent: &SentPatch) -> bool {
        let pod_usage = self.pod_usage(&sent.node);
        let state = self.nodes.get_mut(&sent.node);
        state.is_some_and(|state| {
            let contested = state.contested(Instant::now());
            let input = PlanningInput { contested, pods: pod_usage, ..PlanningInput::default() };
            plan(&state.node, self.rules.set(), &input).changes() == sent.changes
        })
    }

    /// Readiness says no from the first patch that fails for want of a right until none does.
    pub(super) fn report_forbidden(&mut self) {
        if !self.nodes.any_forbidden() {
            self.forbidden = None;
        }
        self.diagnostics.readiness.send_if_modified(|readiness| {
            let changed = readiness.patches != self.forbidden;
            readiness.patches.clone_from(&self.forbidden);
            changed
        });
    }

    fn report_changes(&mut self, sent: &SentPatch, now: Instant) {
        let SentPatch { node, changes, .. } = sent;
        for change in changes {
            log_change(node, change);
            self.report_change(sent, change, EventTemplate::for_change(node, change), now);
        }
    }

    /// Tells of a change on the node and on the rule that it is for.
    fn report_change(
        &mut self,
        sent: &SentPatch,
        change: &Change,
        template: Option<EventTemplate>,
        now: Instant,
    ) {
        if let Some(template) = template {
            let rule = self.rule_subject(change.rule().unwrap_or_default());
            let node = NodeSubject { name: &sent.node, uid: &sent.uid };
            self.event_writes.extend(self.events.on_both(node, &rule, &template, now));
        }
    }

    /// Tells of what has just become of a rule on a node, where somebody has to see to it.
    fn report_outcome(&mut self, node: NodeSubject<'_>, rule: &Arc<str>, outcome: &Outcome) {
        let state = self.rules.get(rule).and_then(|state| state.rule.as_ref().ok());
        let resource = state.map(|rule| rule.resource.to_string()).unwrap_or_default();
        let Some(template) = EventTemplate::for_outcome(node.name, rule, &resource, outcome) else {
            return;
        };
        let subject = self.rule_subject(rule);
        let writes = self.events.on_both(node, &subject, &template, Instant::now());
        let before = self.event_writes.len();
        self.event_writes.extend(writes);
        // A failed patch is in the log where its answer is taken in.
        if self.event_writes.len() > before
            && let Outcome::Conflicted { present, manager } = outcome
        {
            log_conflict(node.name, rule, &resource, (present, manager.as_deref()));
        }
    }

    /// A rule as Events refer to it.
    pub(super) fn rule_subject(&self, name: &str) -> RuleSubject {
        let uid = self.rules.get(name).and_then(|state| state.uid.clone());
        RuleSubject { name: name.into(), uid }
    }
}
