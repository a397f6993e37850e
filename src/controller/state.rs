//! The controller's state: what it knows, what is queued, and the requests in flight.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use super::device_classes::DeviceClasses;
use super::events::Events;
use super::metrics::Metrics;
use super::nodes::{Nodes, SentPatch};
use super::pod_usage::{PodLists, PodsReply};
use super::readiness::Readiness;
use super::rules::Rules;
use super::status::StatusWritten;
use super::status_queue::StatusQueue;
use super::tally::Tally;
use crate::cluster::lease::Leadership;
use crate::cluster::node_client::{NodeClient, Reply};

/// How the controller works.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many patches may be under way at once. The API server is busy at about ten.
    pub concurrency: usize,
    /// How long a request may take before it counts as failed.
    pub request_timeout: Duration,
    /// Where the randomness of pauses comes from.
    pub seed: u64,
}

/// Where the controller tells how it is.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// What keeps it from its work.
    pub readiness: watch::Sender<Readiness>,
    /// When it last went round its loop: at least every ten seconds, unless it is stuck.
    pub heartbeat: watch::Sender<Instant>,
    /// What it has done.
    pub metrics: Arc<Metrics>,
}

/// A patch, and what came of it.
pub(super) type PatchReply = (SentPatch, Reply);

pub(super) struct Controller {
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) requests: NodeClient,
    pub(super) diagnostics: Diagnostics,
    pub(super) leadership: Leadership,
    pub(super) rules: Rules,
    pub(super) nodes: Nodes,
    pub(super) device_classes: DeviceClasses,
    pub(super) tally: Tally,
    pub(super) status_queue: StatusQueue,
    pub(super) patches: FuturesUnordered<BoxFuture<'static, PatchReply>>,
    pub(super) status_writes: FuturesUnordered<BoxFuture<'static, StatusWritten>>,
    pub(super) events: Events,
    pub(super) event_writes: FuturesUnordered<BoxFuture<'static, ()>>,
    /// The answer to the first patch that failed for want of a right, while any does.
    pub(super) forbidden: Option<String>,
    pub(super) pod_lists: PodLists,
    pub(super) pod_list_requests: FuturesUnordered<BoxFuture<'static, PodsReply>>,
    /// Whether the last list of pods failed.
    pub(super) pods_unreadable: bool,
}

impl Controller {
    pub(super) fn new(client: Client, options: Options, diagnostics: Diagnostics) -> Self {
        Self {
            requests: NodeClient::new(client.clone(), options.request_timeout),
            events: Events::new(client.clone(), options.request_timeout),
            client,
            options,
            diagnostics,
            leadership: Leadership::Standby(None),
            rules: Rules::default(),
            nodes: Nodes::default(),
            device_classes: DeviceClasses::default(),
            tally: Tally::default(),
            status_queue: StatusQueue::default(),
            patches: FuturesUnordered::new(),
            status_writes: FuturesUnordered::new(),
            event_writes: FuturesUnordered::new(),
            forbidden: None,
            pod_lists: PodLists::default(),
            pod_list_requests: FuturesUnordered::new(),
            pods_unreadable: false,
        }
    }

    /// Whether this is the process that writes, and rules and nodes are known in full: a rule that
    /// has not been listed yet is not gone.
    pub(super) fn may_write(&self) -> bool {
        self.rules.listed() && self.nodes.listed() && self.leadership.leads(Instant::now())
    }

    pub(super) fn has_free_slot(&self) -> bool {
        self.patches.len() < self.options.concurrency
    }

    pub(super) fn set_ready(&self, change: impl FnOnce(&mut Readiness)) {
        self.diagnostics.readiness.send_if_modified(|readiness| {
            let before = readiness.clone();
            change(readiness);
            *readiness != before
        });
    }
}
