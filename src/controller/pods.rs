//! Listing the pods on a node, and planning with what they request.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::time::Instant;
use tracing::warn;

use super::state::Controller;
use crate::model::pod::Requests;
use crate::planner::input::PodUsage;

impl Controller {
    /// What is known of the pods on a node without looking.
    pub(super) fn pod_usage(&self, node: &str) -> PodUsage {
        self.pod_lists
            .unreadable(node)
            .cloned()
            .map_or(PodUsage::NotFetched, |error| PodUsage::Unavailable(error.into()))
    }

    /// The plan for a node could not be made in full without a look at its pods; or it could.
    pub(super) fn list_pods(&mut self, node: &Arc<str>, is_needed: bool) {
        if !is_needed {
            self.pod_lists.forget(node);
        } else if self.pod_lists.start(node) {
            let request = self.requests.clone().pods(Arc::clone(node));
            let node = Arc::clone(node);
            self.pod_list_requests.push(request.map(|reply| (node, reply)).boxed());
        }
    }

    /// Takes in what pods on a node request: the node is planned with it at once, since it is true
    /// for this moment only.
    pub(super) fn on_pods(&mut self, node: &Arc<str>, reply: Result<Requests, String>) {
        let now = Instant::now();
        let next = self.pod_lists.ended(node, reply.as_ref().err().cloned(), now);
        match reply {
            Ok(requests) => {
                self.pods_unreadable = false;
                // A node that is gone meanwhile, or has a patch under way, is looked at afresh.
                if self.nodes.get_mut(node).is_none_or(|state| state.is_busy()) {
                    self.pod_lists.forget(node);
                } else {
                    self.reconcile_with(node, PodUsage::Known(requests));
                }
            }
            Err(message) => {
                // One line for all nodes: the rules' status names them.
                if !std::mem::replace(&mut self.pods_unreadable, true) {
                    warn!(%node, "nothing is lowered where pods cannot be seen: {message}");
                }
                self.nodes.enqueue(node);
            }
        }
        if let Some(next) = next {
            self.nodes.enqueue(&next);
        }
    }
}
