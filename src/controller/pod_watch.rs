//! The watch of pods, which is on while the reconciler wants it.

use std::future::pending;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::effect::Observation;
use super::usage::PodObject;
use crate::cluster::node_client::{BOUND, BOUND_PAGE_SIZE};
use crate::cluster::protobuf::{self, Objects};
use crate::cluster::watch::{heard, watch};

pub(super) struct PodWatch {
    pods: Api<PodObject>,
    seed: u64,
    heard: Receiver<Instant>,
    events: Option<BoxStream<'static, watcher::Result<Event<PodObject>>>>,
}

impl PodWatch {
    pub(super) fn new(client: &Client, seed: u64) -> Self {
        let (client, heard) = heard(client);
        Self { pods: Api::all(protobuf::client(&client, Objects::Pods)), seed, heard, events: None }
    }

    /// Begins the watch with a list, or ends it.
    pub(super) fn turn(&mut self, is_on: bool) {
        if !is_on {
            self.events = None;
        } else if self.events.is_none() {
            let bound = watcher::Config::default().fields(BOUND).page_size(BOUND_PAGE_SIZE);
            self.events = Some(watch(self.pods.clone(), bound, self.seed).boxed());
        }
    }

    /// Returns what the watch shows next. What was heard before an error comes before the error.
    pub(super) async fn next(&mut self) -> Observation {
        let Self { heard, events, .. } = self;
        let Some(events) = events else { return pending().await };
        tokio::select! {
            biased;
            Ok(()) = heard.changed() => Observation::PodsHeard(*heard.borrow_and_update()),
            Some(event) = events.next() => Observation::Pods(event),
            else => pending().await,
        }
    }
}
