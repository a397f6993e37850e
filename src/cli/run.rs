//! `run`: the controller.

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::args::LeaseArgs;
use super::error::Error;
pub(super) use super::settings::Args;
use super::settings::Settings;
use super::{log, stop};
use crate::cluster::client::Connection;
use crate::cluster::lease::LeaseName;
use crate::controller::metrics::Metrics;
use crate::controller::server::{self, HealthState};
use crate::controller::{self, Diagnostics};
use crate::election::{Acquire, Candidate};
use crate::inspect::inventory::leader;
use crate::reconciler::readiness::Readiness;
use crate::reconciler::{Options, RolloutLimits};

pub(super) async fn run(args: Args) -> Result<(), Error> {
    let settings = Settings::new(args)?;
    let log = log::start(settings.log, settings.log_format);
    info!(version = env!("CARGO_PKG_VERSION"), "starting node-resource-advertiser");
    let Connection { client, server } = settings.cluster.connect().await?;
    if server.context.is_some() && settings.lease.leader_elect_resource_namespace.is_none() {
        refuse_another(&client, &settings.lease).await?;
    }
    let listener = server::listen(settings.listen).await?;
    let stop = stop_signal()?;
    let (readiness, ready) = watch::channel(Readiness::default());
    let (heartbeat, beats) = watch::channel(Instant::now());
    let mut metrics = Metrics::default();
    let lost = log.lost.clone();
    metrics.count_lost_lines(move || lost.dropped_lines());
    let diagnostics = Diagnostics { readiness, heartbeat, metrics: Arc::new(metrics) };
    let health = HealthState { readiness: ready, heartbeat: beats, metrics: Arc::clone(&diagnostics.metrics) };
    tokio::spawn(server::serve(listener, health));

    let candidate = Candidate {
        namespace: settings.lease.namespace(&client),
        name: settings.lease.leader_elect_resource_name,
        identity: format!("{}_{:08x}", settings.identity, seed() as u32),
        duration: settings.lease_duration,
        acquire: Acquire::WhenFree,
        reacquires: true,
    };
    let options = Options {
        concurrency: settings.concurrency,
        rollouts: RolloutLimits::at(settings.max_rollout_rate),
        request_timeout: settings.request_timeout,
        mass_withdrawal_delay: settings.mass_withdrawal_delay,
        confinement_test: settings.confinement_test,
        protection: settings.protection,
        node_condition: settings.node_condition,
        max_rules_memory: settings.max_rules_memory,
        seed: seed(),
    };
    controller::run(client, candidate, options, diagnostics, wait_for(stop)).await?;
    info!("stopped");
    Ok(())
}

/// Fails if the controllers of another Lease lead: the namespace of the kubeconfig is rarely that of the controller in the
/// cluster, and two that lead undo each other's changes. In a pod, the namespace is the controller's own.
async fn refuse_another(client: &Client, lease: &LeaseArgs) -> Result<(), Error> {
    let own = LeaseName { namespace: lease.namespace(client), name: lease.leader_elect_resource_name.clone() };
    let leading = leader::leading(client).await.unwrap_or_else(|error| {
        warn!(%error, "cannot see whether the controller of another Lease leads");
        Vec::new()
    });
    match leading.into_iter().find(|lease| (&lease.namespace, &lease.name) != (&own.namespace, &own.name)) {
        Some(other) => Err(Error::AnotherController { own, other }),
        None => Ok(()),
    }
}

/// Becomes true on SIGTERM (the kubelet) or SIGINT (Ctrl-C).
fn stop_signal() -> Result<watch::Receiver<bool>, Error> {
    let request = stop::requested().map_err(Error::Signal)?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        request.await;
        stop.send_replace(true);
        // Keeps the sender, so that receivers see the value and not the end of the channel.
        stop.closed().await;
    });
    Ok(stopped)
}

async fn wait_for(mut stop: watch::Receiver<bool>) {
    // An error means that the task above is gone, together with the runtime.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Returns a random seed: two replicas, or two starts, must not pause in step.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
