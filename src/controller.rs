//! The controller: the shell around the reconciler.
//!
//! ```text
//!  watches ──▶ Observation ─▶ ┌────────────┐ ─▶ Request ───▶ executor ──▶ API server
//!  a timer ──▶                │ reconciler │
//!  responses ─▶ Completion ─▶ └────────────┘ ─▶ Happening ─▶ log, metrics, endpoints
//! ```
//!
//! The reconciler ([`crate::reconciler`]) decides and is pure; the executor sends requests; this file connects the two,
//! and reports what has happened. Dropping the future of [`run`] stops the controller at once: no task outlives it.

mod diagnostics;
mod executor;
mod log;
pub mod metrics;
mod object_watches;
mod pod_watch;
pub mod prune;
pub mod server;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use thiserror::Error;
use tokio::time::Instant;

use crate::cluster::clock;
use crate::cluster::lease::Leases;
use crate::election::Candidate;
use crate::reconciler::effect::{Now, Observation, Watched};
use crate::reconciler::{Options, Reconciler};
pub use diagnostics::Diagnostics;
use executor::{Executor, InFlight};
use object_watches::ObjectWatches;
use pod_watch::PodWatch;

/// How often the controller sends a heartbeat if nothing else happens.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// The API server went back to an earlier state.
#[derive(Debug, Error)]
#[error(
    "the API server went back to an earlier state, as after a restore of etcd, and reports no changes until it has \
     caught up: restart the controller (in a pod, the kubelet does so)"
)]
pub struct WentBack;

/// Runs the controller until `shutdown` is ready; then waits for requests in flight and releases the Lease. It writes
/// only while it holds the Lease, and keeps its cache up to date otherwise.
///
/// Failures are logged, shown in `readiness`, and retried.
///
/// # Errors
/// If the API server went back to an earlier state, so that everything must be listed again.
pub async fn run(
    client: Client,
    candidate: Candidate,
    options: Options,
    diagnostics: Diagnostics,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WentBack> {
    let leases = Leases::new(client.clone(), &candidate);
    let seed = options.seed;
    let mut lease_events = pin!(leases.watch(seed));
    let mut watches = ObjectWatches::new(&client, seed);
    let mut pod_watch = PodWatch::new(&client, seed);
    let mut class_events = pin!(object_watches::device_classes(client.clone(), seed));
    let mut policy_events = pin!(object_watches::policies(client.clone(), seed));
    let mut shutdown = pin!(shutdown.fuse());
    let executor = Executor::new(client);
    let mut in_flight = FuturesUnordered::<InFlight>::new();
    let mut reconciler = Reconciler::new(candidate, options);

    loop {
        let now = read_clocks();
        let step = reconciler.next(now);
        diagnostics.report_plans(step.planned, now.instant.elapsed());
        diagnostics.report(&reconciler.take_happenings());
        if step.done {
            break;
        }
        if step.relists_nodes {
            watches.list_again(Watched::Nodes);
        }
        if step.relists_rules {
            watches.list_again(Watched::Rules);
        }
        pod_watch.turn(step.watches_pods);
        in_flight.extend(step.requests.into_iter().map(|request| executor.send(request)));
        diagnostics.heartbeat.send_replace(now.instant);
        let heartbeat = now.instant + HEARTBEAT_INTERVAL;
        let wake = step.wake.map_or(heartbeat, |wake| wake.min(heartbeat));
        tokio::select! {
            biased;
            () = &mut shutdown => reconciler.observe(Observation::Stop, read_clocks()),
            Some(completion) = in_flight.next() => reconciler.complete(completion, read_clocks()),
            Some(event) = lease_events.next() => reconciler.observe(Observation::Lease(event), read_clocks()),
            observations = watches.next() => {
                observations.into_iter().for_each(|observation| reconciler.observe(observation, read_clocks()));
            }
            observation = pod_watch.next() => reconciler.observe(observation, read_clocks()),
            Some(event) = class_events.next() => {
                reconciler.observe(Observation::DeviceClass(event), read_clocks());
            }
            Some((kind, event)) = policy_events.next() => {
                reconciler.observe(Observation::Protection(kind, event), read_clocks());
            }
            // Yields even if there is work: the runtime has to serve connections in between.
            () = tokio::task::yield_now(), if wake <= now.instant => {}
            () = tokio::time::sleep_until(wake), if wake > now.instant => {}
        }
    }
    if reconciler.server_went_back() { Err(WentBack) } else { Ok(()) }
}

/// Reads both clocks.
fn read_clocks() -> Now {
    Now { instant: Instant::now(), wall: clock::now() }
}

#[cfg(test)]
mod tests;
