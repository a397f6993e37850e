//! The controller: one loop over two watches.
//!
//! Every event ends as nodes in a queue. Each is planned as it is at that moment; where the plan
//! has a patch, the patch is sent, and its answer is the node's next state. What becomes of a rule
//! is counted node by node and written to its status.

mod change_log;
mod contest;
mod device_classes;
mod events;
pub mod metrics;
mod nodes;
mod outcome;
mod patches;
mod pod_usage;
mod pods;
pub mod readiness;
mod rules;
pub mod server;
mod state;
mod status;
mod status_queue;
mod status_writes;
mod tally;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::cluster::error::{describe_watch, is_expired};
use crate::cluster::lease::{AtEnd, Leadership};
use crate::cluster::paging::PAGE_SIZE;
use crate::model::node::ApiNode;
use device_classes::DeviceClass;
use rules::{Enqueue, RuleObject};
use state::Controller;
pub use state::{Diagnostics, Options};

/// How often it says that it is alive, where nothing else happens.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// How many nodes are planned between two looks at what else has happened.
const PLAN_BATCH_SIZE: usize = 256;
/// How long patches under way may take to end once the controller is told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs the controller until `shutdown` is ready; then lets the patches under way end. It writes while
/// it leads, and otherwise keeps itself up to date. Returns what to do about the Lease then.
///
/// Nothing the API server does ends it: what fails is logged, told in `readiness` and tried again.
pub async fn run(
    client: Client,
    options: Options,
    diagnostics: Diagnostics,
    mut leadership: watch::Receiver<Leadership>,
    shutdown: impl Future<Output = ()>,
) -> AtEnd {
    let rules = Api::<RuleObject>::all(client.clone());
    let nodes = Api::<ApiNode>::all(client.clone());
    let by_pages = watcher::Config::default().page_size(PAGE_SIZE);
    let mut rule_events = pin!(watcher(rules, watcher::Config::default()).default_backoff());
    let mut node_events = pin!(watcher(nodes, by_pages).default_backoff());
    let mut class_events = pin!(device_classes::watch(client.clone()));
    let mut shutdown = pin!(shutdown);
    let mut controller = Controller::new(client, options, diagnostics);
    leadership.mark_changed();

    loop {
        controller.reconcile_ready();
        let now = Instant::now();
        controller.diagnostics.heartbeat.send_replace(now);
        let wake = controller
            .next_wake()
            .map_or(now + HEARTBEAT_INTERVAL, |wake| wake.min(now + HEARTBEAT_INTERVAL));
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Ok(()) = leadership.changed() => {
                let leadership = leadership.borrow_and_update().clone();
                controller.on_leadership(leadership);
            }
            Some((node, reply)) = controller.patches.next() => controller.on_reply(&node, reply),
            Some((node, reply)) = controller.pod_list_requests.next() => controller.on_pods(&node, reply),
            Some(written) = controller.status_writes.next() => controller.on_status_written(written),
            Some(()) = controller.event_writes.next() => {}
            () = tokio::time::sleep_until(wake) => controller.on_timer(),
            Some(event) = rule_events.next() => controller.on_rule_event(event),
            Some(event) = node_events.next() => controller.on_node_event(event),
            Some(event) = class_events.next() => controller.on_device_class_event(event),
            // Not just ready: the runtime has to see to the connections in between.
            () = tokio::task::yield_now(), if controller.has_more_to_reconcile() => {}
        }
    }
    controller.drain().await
}

impl Controller {
    /// A leader that is new to it looks at everything: what it knows of failures and pauses is old.
    fn on_leadership(&mut self, leadership: Leadership) {
        let led = matches!(self.leadership, Leadership::Leader { .. });
        let leads = matches!(leadership, Leadership::Leader { .. });
        if leads && !led {
            self.nodes.enqueue_where(|_| true);
            let now = Instant::now();
            for rule in self.rules.names() {
                self.status_queue.mark_dirty(rule, now);
            }
        }
        self.set_ready(|readiness| {
            (readiness.lease, readiness.standby) = match &leadership {
                Leadership::Leader { .. } => (None, None),
                Leadership::Standby(None) => (None, Some("nobody leads yet".to_owned())),
                Leadership::Standby(Some(holder)) => (None, Some(format!("{holder} leads"))),
                Leadership::Unavailable(why) => (Some(why.clone()), None),
            };
        });
        self.diagnostics.metrics.leader.set(leads.into());
        self.leadership = leadership;
    }

    /// Does what can be done without waiting.
    fn reconcile_ready(&mut self) {
        if !self.may_write() {
            return;
        }
        for _ in 0..PLAN_BATCH_SIZE {
            let Some(name) = self.nodes.next(self.has_free_slot()) else {
                break;
            };
            self.reconcile(&name);
        }
        self.report_forbidden();
        // With nodes still to be planned the counts are not what they will be in a moment.
        if !self.nodes.has_queued() {
            let now = Instant::now();
            let changed = self.tally.take_changed();
            if !changed.is_empty() {
                metrics::set_all(&self.diagnostics.metrics.nodes, "state", self.tally.totals());
            }
            for rule in changed {
                self.status_queue.mark_dirty(&rule, now);
            }
            for rule in self.status_queue.pop_due(now) {
                self.write_status(&rule, now);
            }
        }
    }

    fn has_more_to_reconcile(&self) -> bool {
        self.may_write()
            && (self.nodes.has_queued() || (self.has_free_slot() && self.nodes.has_awaiting_slot()))
    }

    fn on_node_event(&mut self, event: watcher::Result<watcher::Event<ApiNode>>) {
        if event.is_err() {
            self.diagnostics.metrics.restarted("nodes");
        }
        match event {
            Ok(event) => {
                let listed = self.nodes.listed();
                self.nodes.apply(event, &mut self.tally);
                if self.nodes.listed() && !listed {
                    info!(nodes = self.nodes.len(), "all nodes listed");
                    self.set_ready(|readiness| readiness.nodes = None);
                }
            }
            Err(error) if is_expired(&error) => info!("nodes: the watch is too old, listing again"),
            Err(error) => {
                let message = format!("nodes: {}", describe_watch(&error, ""));
                warn!("{message}");
                if !self.nodes.listed() {
                    self.set_ready(|readiness| readiness.nodes = Some(message));
                }
            }
        }
    }

    fn on_rule_event(&mut self, event: watcher::Result<watcher::Event<RuleObject>>) {
        if event.is_err() {
            self.diagnostics.metrics.restarted("rules");
        }
        let event = match event {
            Ok(event) => event,
            Err(error) if is_expired(&error) => {
                info!("rules: the watch is too old, listing again");
                return;
            }
            Err(error) => {
                let missing =
                    ": the CustomResourceDefinition is not installed; apply the file in crds/";
                let message = format!("rules: {}", describe_watch(&error, missing));
                warn!("{message}");
                if !self.rules.listed() {
                    self.set_ready(|readiness| readiness.rules = Some(message));
                }
                return;
            }
        };
        // An event that affects no node may still ask for a status: for a new generation, or a rule
        // that selects nothing.
        let (name, gone) = match &event {
            watcher::Event::Apply(object) => (Some(object), false),
            watcher::Event::Delete(object) => (Some(object), true),
            _ => (None, false),
        };
        let name: Option<Arc<str>> = name.map(|object| kube::ResourceExt::name_any(object).into());
        let is_list = matches!(event, watcher::Event::InitDone);
        let listed = self.rules.listed();
        match self.rules.apply(event) {
            Enqueue::None => {}
            Enqueue::Selected(rules) => self
                .nodes
                .enqueue_where(|node| rules.iter().any(|rule| rule.selection.selects(node))),
            Enqueue::All => self.nodes.enqueue_where(|_| true),
        }
        let now = Instant::now();
        if is_list {
            self.status_queue.retain(|rule| self.rules.get(rule).is_some());
            self.events.retain(|rule| self.rules.get(rule).is_some());
            for name in self.rules.names() {
                self.status_queue.mark_dirty(name, now);
            }
        }
        match name {
            Some(name) if gone => {
                self.status_queue.retain(|rule| **rule != *name);
                self.events.retain(|rule| **rule != *name);
            }
            Some(name) => self.status_queue.mark_dirty(&name, now),
            None => {}
        }
        if self.rules.listed() {
            self.update_rule_metrics();
        }
        if self.rules.listed() && !listed {
            info!(rules = self.rules.names().count(), "all rules listed");
            self.set_ready(|readiness| readiness.rules = None);
        }
    }

    fn on_device_class_event(&mut self, event: watcher::Result<watcher::Event<DeviceClass>>) {
        if self.device_classes.apply(event) {
            let now = Instant::now();
            for rule in self.rules.names() {
                self.status_queue.mark_dirty(rule, now);
            }
        }
    }

    fn on_timer(&mut self) {
        let now = Instant::now();
        self.nodes.wake(now);
        for node in self.pod_lists.wake(now) {
            self.nodes.enqueue(&node);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        if !self.may_write() {
            return None;
        }
        // A status that is due waits for the planning to be through, and must not wake it.
        let status = if self.nodes.has_queued() { None } else { self.status_queue.next_due() };
        let wakes = [self.nodes.next_wake(), self.pod_lists.next_wake(), status];
        wakes.into_iter().flatten().min()
    }

    /// Lets what is under way end. While a patch of a node without a response may still be applied, no
    /// other process is to lead.
    async fn drain(mut self) -> AtEnd {
        let in_flight = self.patches.len();
        info!(in_flight, "stopping");
        let ended = tokio::time::timeout(DRAIN_TIMEOUT, async {
            while let Some((sent, reply)) = self.patches.next().await {
                self.on_reply(&sent, reply);
            }
            while self.status_writes.next().await.is_some() {}
            while self.event_writes.next().await.is_some() {}
        });
        if ended.await.is_err() {
            warn!(in_flight = self.patches.len(), "stopped with patches unanswered");
        } else if self.nodes.any_unanswered() {
            warn!("a patch that failed without an answer may still be applied");
        } else {
            return AtEnd::Release;
        }
        AtEnd::Expire
    }
}

#[cfg(test)]
mod tests;
