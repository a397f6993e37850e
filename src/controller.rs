//! The controller.
//!
//! ```text
//!  watches ──▶ Observation ─▶ ┌────────────┐ ─▶ Request ─▶ executor ──▶ API server
//!  a timer ──▶                │ reconciler │
//!  responses ─▶ Completion ─▶ └────────────┘
//! ```
//!
//! The reconciler decides and is pure; the executor sends requests; this file connects the two, and reports what has
//! happened. Dropping the future of [`run`] stops the controller at once: no task outlives it.

mod confinement;
mod device_classes;
mod diagnostics;
mod effect;
mod events;
mod executor;
mod happening;
mod leader;
mod limiter;
mod log;
pub mod metrics;
mod nodes;
mod object_watches;
mod options;
mod pod_watch;
mod protection;
pub mod prune;
pub mod readiness;
mod reconciler;
mod requested;
mod rollouts;
mod rules;
mod rules_by_state;
mod schedule;
pub mod server;
mod standing;
mod status;
mod status_writes;
mod tally;
mod usage;
mod watches;
mod words;
mod work_queue;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use thiserror::Error;

use crate::cluster::lease::Leases;
use crate::election::Candidate;
pub use diagnostics::Diagnostics;
use effect::{Now, Observation, Watched};
use executor::{Executor, InFlight};
use object_watches::ObjectWatches;
pub use options::{Options, RolloutLimits};
use pod_watch::PodWatch;
pub use protection::ExpectedPolicy;
pub(crate) use protection::LABEL as PROTECTION_LABEL;
use reconciler::Reconciler;

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
        let now = Now::read();
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
            () = &mut shutdown => reconciler.observe(Observation::Stop, Now::read()),
            Some(completion) = in_flight.next() => reconciler.complete(completion, Now::read()),
            Some(event) = lease_events.next() => reconciler.observe(Observation::Lease(event), Now::read()),
            observations = watches.next() => {
                observations.into_iter().for_each(|observation| reconciler.observe(observation, Now::read()));
            }
            observation = pod_watch.next() => reconciler.observe(observation, Now::read()),
            Some(event) = class_events.next() => {
                reconciler.observe(Observation::DeviceClass(event), Now::read());
            }
            Some((kind, event)) = policy_events.next() => {
                reconciler.observe(Observation::Protection(kind, event), Now::read());
            }
            // Yields even if there is work: the runtime has to serve connections in between.
            () = tokio::task::yield_now(), if wake <= now.instant => {}
            () = tokio::time::sleep_until(wake), if wake > now.instant => {}
        }
    }
    if reconciler.server_went_back() { Err(WentBack) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
