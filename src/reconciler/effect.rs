//! The input and output of the reconciler.
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
use super::limiter::Slot;
use super::protection::{self, PolicyObject};
use super::rules::{ObservedStatus, RuleObject};
use super::usage::PodObject;
use crate::election::participant::LeaseWrite;
use crate::election::{Election, Written};
use crate::model::api::NodeExtendedResourceStatus;
use crate::model::node::ApiNode;
use crate::response::reply::Reply;
use crate::response::request_error::RequestError;

/// The current time on both clocks: the monotonic clock measures, the wall clock is written into objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

/// A resource that the controller cannot work without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    Nodes,
    Rules,
}

impl Watched {
    pub(super) const ALL: [Self; 2] = [Self::Nodes, Self::Rules];

    /// Returns the resource, for messages and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Rules => "rules",
        }
    }

    /// Returns what to do if the API server does not serve the resource, for messages.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Nodes => "",
            Self::Rules => {
                ": the CustomResourceDefinition is not installed: \
                 `node-resource-advertiser crd | kubectl apply --server-side -f -`"
            }
        }
    }
}

/// An event from outside.
#[derive(Debug)]
pub(crate) enum Observation {
    Lease(watcher::Result<Event<Lease>>),
    Rule(watcher::Result<Event<RuleObject>>),
    Node(watcher::Result<Event<ApiNode>>),
    /// What the watch of pods shows.
    Pods(watcher::Result<Event<PodObject>>),
    /// When the watch of pods showed anything last, even a bookmark.
    PodsHeard(Instant),
    /// The watch of this resource is open, perhaps again, and shows what changes from now on.
    WatchBegan(Watched),
    /// The watch of this resource has shown something since it began, even a bookmark.
    WatchHeard(Watched),
    DeviceClass(watcher::Result<Event<DeviceClass>>),
    Protection(protection::Kind, watcher::Result<Event<PolicyObject>>),
    /// The process is asked to stop.
    Stop,
}

/// A request to the API server.
#[derive(Debug)]
pub(crate) enum Effect {
    WriteLease(LeaseWrite),
    /// The process ends, and has no request in flight.
    ReleaseLease(Box<Election>),
    PatchNode {
        slot: Slot,
        node: Arc<str>,
        patch: Patch,
    },
    PatchStatus {
        slot: Slot,
        rule: Arc<str>,
        uid: Option<String>,
        status: Box<NodeExtendedResourceStatus>,
    },
    CreateEvent {
        slot: Slot,
        event: Box<KubeEvent>,
    },
    /// A dry run that adds a label to a node: the API server must reject it, and stores nothing in any case.
    TestConfinement {
        number: u64,
        node: Arc<str>,
        label: String,
    },
}

/// An effect, and the deadline for its response.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) effect: Effect,
    pub(crate) deadline: Instant,
}

/// A status that the API server stored, and the rule's version since.
#[derive(Clone, Debug)]
pub(crate) struct WrittenStatus {
    pub(crate) status: ObservedStatus,
    pub(crate) version: Option<u64>,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) enum Completion {
    LeaseWritten {
        started: Instant,
        written: Written,
        /// The current Lease, if it was read after a conflict.
        found: Option<Box<Lease>>,
    },
    LeaseReleased,
    NodePatched {
        slot: Slot,
        node: Arc<str>,
        reply: Reply,
    },
    StatusPatched {
        slot: Slot,
        rule: Arc<str>,
        uid: Option<String>,
        result: Result<WrittenStatus, RequestError>,
    },
    EventCreated {
        slot: Slot,
        event: Box<KubeEvent>,
        result: Result<(), RequestError>,
    },
    ConfinementTested {
        number: u64,
        reply: Result<(), RequestError>,
    },
}

/// What to do now.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// The requests to send.
    pub(crate) requests: Vec<Request>,
    /// When to run the next step if nothing happens before, if known.
    pub(crate) wake: Option<Instant>,
    /// The number of planned nodes.
    pub(crate) planned: usize,
    /// Whether the watch of nodes is to begin anew with a list, because rules read from nodes what was not kept.
    pub(crate) relists_nodes: bool,
    /// Whether the watch of rules is to begin anew with a list: a new leader needs one, so does the end of the delay
    /// for missing rules, and there may be room for rules that did not fit.
    pub(crate) relists_rules: bool,
    /// Whether pods are to be watched. The watch begins with a list, and ends when it is no longer wanted.
    pub(crate) watches_pods: bool,
    /// Whether the process may end.
    pub(crate) done: bool,
}

impl Step {
    /// Has the next step run at this time at the latest.
    pub(super) fn wake_by(&mut self, at: Option<Instant>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }
}
