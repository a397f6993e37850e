//! `run`: the controller.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tracing::{error, info};
use tracing_subscriber::EnvFilter;

use crate::client;
use crate::controller::{self, Options};
use crate::error::Error;
use crate::leader::{self, Candidate, Leadership};
use crate::readiness::Readiness;
use crate::server;

/// Every flag has an environment variable of its name, with the prefix NRA_.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where /readyz is answered.
    #[arg(long, env = "NRA_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// How many nodes are patched at once. The API server is busy at about ten.
    #[arg(long, env = "NRA_CONCURRENCY", default_value = "16")]
    concurrency: NonZeroUsize,
    /// How many seconds a request may take.
    #[arg(long, env = "NRA_REQUEST_TIMEOUT", default_value = "15")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=60))]
    request_timeout: u64,
    #[command(flatten)]
    lease: super::LeaseArgs,
    /// How many seconds another process waits for this one's next sign of life before it takes over.
    #[arg(long, env = "NRA_LEASE_DURATION", default_value = "15")]
    #[arg(value_parser = clap::value_parser!(u64).range(3..=300))]
    lease_duration: u64,
    /// What stands in the Lease, with something at random behind it: the pod's name.
    #[arg(long, env = "NRA_IDENTITY", default_value = "node-resource-advertiser")]
    identity: String,
    /// What is logged: error, warn, info, debug or trace, for all or by module (info,kube=debug).
    #[arg(long, env = "NRA_LOG", default_value = "info")]
    log: String,
    /// How it is logged.
    #[arg(long, env = "NRA_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub(super) async fn run(args: Args) -> Result<(), Error> {
    start_log(&args);
    info!(version = env!("CARGO_PKG_VERSION"), "node-resource-advertiser starts");
    let client = client::connect().await?;
    let candidate = Candidate {
        namespace: args.lease.namespace(&client),
        name: args.lease.lease_name.clone(),
        identity: format!("{}_{:08x}", args.identity, seed() as u32),
        duration: Duration::from_secs(args.lease_duration),
        seize: false,
    };
    let listener = server::listen(args.listen).await?;
    let stop = stop_signal()?;
    let (readiness, observed) = watch::channel(Readiness::default());
    let options = Options {
        concurrency: args.concurrency.get(),
        request_timeout: Duration::from_secs(args.request_timeout),
        seed: seed(),
    };

    tokio::spawn(async move {
        if let Err(error) = server::serve(listener, observed).await {
            error!("/readyz is not answered any more: {error}");
        }
    });
    let (lead, leadership) = watch::channel(Leadership::Standby(None));
    let (release, released) = oneshot::channel();
    let election = tokio::spawn(leader::run(client.clone(), candidate, lead, released));
    controller::run(client, options, readiness, leadership, wait_for(stop)).await;
    // Only now: while patches were under way, nobody else was to write.
    drop(release);
    if let Err(error) = election.await {
        error!("the lease is not released: {error}");
    }
    info!("stopped");
    Ok(())
}

/// kube logs an error of its own for what the controller reports in its own words.
const QUIET: &str = "kube_runtime=error,kube_client=error";

fn start_log(args: &Args) {
    let filter = EnvFilter::try_new(format!("{QUIET},{}", args.log));
    let (filter, complaint) = match filter {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(format!("{QUIET},info")), Some(error)),
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => log.with_target(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    if let Some(complaint) = complaint {
        error!("--log {:?} is not a filter, so info is logged: {complaint}", args.log);
    }
}

/// Turns true on SIGTERM (the kubelet) or SIGINT (Ctrl-C).
fn stop_signal() -> Result<watch::Receiver<bool>, Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signal)?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
        // Kept, so that those who wait see the value and not the end of the channel.
        stop.closed().await;
    });
    Ok(stopped)
}

async fn wait_for(mut stop: watch::Receiver<bool>) {
    // An error means that the task above is gone, and with it the runtime.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Two replicas, or two starts, must not pause in step.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
