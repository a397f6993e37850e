//! Withdraws what ledgers record, regardless of rules: for `prune`.
//!
//! It uses the queue, limits, patches and executor of the reconciler. It differs in the plan, in that every node is
//! finished in the end, and in that the caller holds the Leases.

use std::pin::pin;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _};
use kube::Client;
use tokio::time::{Instant, sleep_until};

use super::executor::{Executor, InFlight};
use super::log::log;
use crate::reconciler::pruner::Pruner;
pub use crate::reconciler::pruner::{NodeOutcome, NodePrune, NodeResult, Permission, PruneEnd, Scope};

/// The maximum time between two iterations of the loop.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Executes the plans, and reports each node to `done` as soon as it is finished. Sends nothing before the first of
/// `permissions`.
pub async fn prune(
    client: Client,
    scope: Scope,
    planned: Vec<NodePrune>,
    permissions: impl Stream<Item = Permission>,
    mut done: impl FnMut(NodeResult),
) -> PruneEnd {
    let executor = Executor::new(client);
    let mut permissions = pin!(permissions.fuse());
    let mut in_flight = FuturesUnordered::<InFlight>::new();
    let mut pruner = Pruner::new(scope, planned, Instant::now());
    let mut finished = Vec::new();
    loop {
        // This may take long, so nothing is decided before it.
        finished.drain(..).for_each(&mut done);
        let now = Instant::now();
        // The latest permission applies to what is sent now.
        while let Some(Some(permission)) = permissions.next().now_or_never() {
            pruner.observe(permission, now);
        }
        let step = pruner.next(now);
        pruner.take_happenings().iter().for_each(log);
        finished = pruner.take_finished();
        if step.done {
            finished.into_iter().for_each(done);
            return pruner.into_end();
        }
        in_flight.extend(step.requests.into_iter().map(|request| executor.send(request)));
        let heartbeat = now + if finished.is_empty() { HEARTBEAT_INTERVAL } else { Duration::ZERO };
        let wake = step.wake.map_or(heartbeat, |wake| wake.min(heartbeat));
        tokio::select! {
            biased;
            Some(permission) = permissions.next() => pruner.observe(permission, Instant::now()),
            Some(completion) = in_flight.next() => pruner.complete(completion, Instant::now()),
            () = sleep_until(wake) => {}
        }
    }
}

#[cfg(test)]
mod tests;
