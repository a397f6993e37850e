//! Listing the pods on a node, and planning with what they request.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::time::Instant;
use tracing::warn;

use super::state::Controller;
use crate::model::pod::Requests;
use crate::planner::input::InUse;

impl Controller {
    /// What is known of the pods on a node without looking.
    pub(super) fn in_use(&self, node: &str) -> InUse {
        self.looks.unreadable(node).cloned().map_or(InUse::Unknown, InUse::Unreadable)
    }

    /// The plan for a node could not be made in full without a look at its pods; or it could.
    pub(super) fn look_at_pods(&mut self, node: &Arc<str>, is_needed: bool) {
        if !is_needed {
            self.looks.forget(node);
        } else if self.looks.start(node) {
            let request = self.requests.clone().pods(Arc::clone(node));
            let node = Arc::clone(node);
            self.pod_looks.push(request.map(|reply| (node, reply)).boxed());
        }
    }

    /// Takes in what pods on a node request: the node is planned with it at once, since it is true
    /// for this moment only.
    pub(super) fn on_pods(&mut self, node: &Arc<str>, reply: Result<Requests, String>) {
        let now = Instant::now();
        let next = self.looks.ended(node, reply.as_ref().err().cloned(), now);
        match reply {
            Ok(requests) => {
                self.pods_unreadable = false;
                // A node that is gone meanwhile, or has a patch under way, is looked at afresh.
                if self.nodes.get_mut(node).is_none_or(|state| state.is_busy()) {
                    self.looks.forget(node);
                } else {
                    self.plan_node_with(node, InUse::Known(requests));
                }
            }
            Err(message) => {
                // One line for all nodes: the rules' status names them.
                if !std::mem::replace(&mut self.pods_unreadable, true) {
                    warn!(%node, "nothing is lowered where pods cannot be seen: {message}");
                }
                self.nodes.queue(node);
            }
        }
        if let Some(next) = next {
            self.nodes.queue(&next);
        }
    }
}
