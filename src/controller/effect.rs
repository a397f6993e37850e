//! What goes into the reconciler and what comes out of it.
//!
//! ```text
//! watches ─▶ Observation ─▶ reconciler ─▶ Request ─▶ executor ─▶ Completion ─▶ reconciler
//! ```

use std::sync::Arc;

use json_patch::Patch;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event as KubeEvent;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use super::device_classes::DeviceClass;
use super::limiter::Kind;
use super::protection::{self, PolicyObject};
use super::rules::RuleObject;
use crate::cluster::clock;
use crate::cluster::lease::{Election, Written};
use crate::cluster::node_client::{PodsByNode, Reply};
use crate::cluster::requests::RequestError;
use crate::model::api::NodeExtendedResourceStatus;
use crate::model::node::ApiNode;

/// A moment by both clocks: the monotonic one measures, the wall clock's is written into objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) wall: Timestamp,
}

impl Now {
    /// Reads both clocks.
    pub(super) fn read() -> Self {
        Self { instant: Instant::now(), wall: clock::now() }
    }
}

/// What has happened outside.
#[derive(Debug)]
pub(super) enum Observation {
    Lease(watcher::Result<Event<Lease>>),
    Rule(watcher::Result<Event<RuleObject>>),
    Node(watcher::Result<Event<ApiNode>>),
    DeviceClass(watcher::Result<Event<DeviceClass>>),
    Protection(protection::Kind, watcher::Result<Event<PolicyObject>>),
    /// The process has been asked to end.
    Stop,
}

/// Distinguishes one request about a node from another: a node may be deleted and recreated under its name while
/// one is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestId {
    pub(super) number: u64,
    /// The slot that it has.
    pub(super) kind: Kind,
}

/// Whose pods are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodScope {
    Node(Arc<str>),
    /// Those of all nodes, in pages: cheaper than a list for each of many.
    Cluster,
}

/// A request to the API server.
#[derive(Debug)]
pub(super) enum Effect {
    WriteLease(Box<Lease>),
    /// The process ends, and nothing that it has sent is unanswered.
    ReleaseLease(Box<Election>),
    /// All rules, consistently: what a new leader withdraws by.
    ListRules {
        id: RequestId,
    },
    PatchNode {
        id: RequestId,
        node: Arc<str>,
        patch: Patch,
    },
    ListPods {
        id: RequestId,
        scope: PodScope,
    },
    PatchStatus {
        rule: Arc<str>,
        uid: Option<String>,
        status: Box<NodeExtendedResourceStatus>,
    },
    CreateEvent(Box<KubeEvent>),
    /// A dry run that adds a label to a node: the API server is to reject it, and stores nothing either way.
    TestConfinement {
        number: u64,
        node: Arc<str>,
        label: String,
    },
}

/// An effect, and the moment after which it counts as unanswered.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) effect: Effect,
    pub(super) deadline: Instant,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Completion {
    LeaseWritten {
        started: Instant,
        written: Written,
        /// The Lease as it is, where it was read after a conflict.
        found: Option<Box<Lease>>,
    },
    LeaseReleased,
    RulesListed {
        id: RequestId,
        reply: Result<Vec<RuleObject>, RequestError>,
    },
    NodePatched {
        id: RequestId,
        node: Arc<str>,
        reply: Reply,
    },
    PodsListed {
        id: RequestId,
        scope: PodScope,
        reply: Result<PodsByNode, RequestError>,
    },
    StatusPatched {
        rule: Arc<str>,
        uid: Option<String>,
        result: Result<NodeExtendedResourceStatus, RequestError>,
    },
    EventCreated {
        event: Box<KubeEvent>,
        result: Result<(), RequestError>,
    },
    ConfinementTested {
        number: u64,
        reply: Result<(), RequestError>,
    },
}

/// What there is to do now.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// To be sent.
    pub(super) requests: Vec<Request>,
    /// When there is more to do, where nothing happens before.
    pub(super) wake: Option<Instant>,
    /// How many nodes have been planned.
    pub(super) planned: usize,
    /// Whether the process may end.
    pub(super) done: bool,
}
