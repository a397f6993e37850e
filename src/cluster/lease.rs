//! One controller at a time, by a Lease (`coordination.k8s.io/v1`).
//!
//! ```text
//!             the Lease (watch)
//!                  │
//!                  ▼
//!   time ──▶ election: wait, or write the Lease ──▶ POST, PUT ──▶ Leadership ──▶ the controller
//! ```
//!
//! The others watch the Lease, so that one which is released is taken at once. All times are those of
//! this process's monotonic clock: none is compared with what another process wrote down, except for a
//! Lease under which nobody writes any more.

mod election;
#[cfg(test)]
pub(crate) mod fake_api;
pub(crate) mod holder;

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::cluster::error::{describe, describe_watch, is_expired};
use crate::model::api::FIELD_MANAGER;
pub use election::{Acquire, Candidate};
use election::{Election, Step, Written, write_timeout};

/// How long a write under way may take at the end, and then the release. The process is to end.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(800);

/// A Lease by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Whether this process may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It may not, and never will as things are: why the Lease cannot be read or written.
    Unavailable(String),
    /// Another process holds the Lease, by this identity, or nobody does yet.
    Standby(Option<String>),
    /// It may, until then; renewing the Lease moves that on.
    Leader {
        /// Well before another may take the Lease.
        until: Instant,
    },
}

impl Leadership {
    /// Whether this process may write at this moment. One that was stopped for longer than its Lease
    /// finds out here, before it does anything.
    #[must_use]
    pub fn leads(&self, now: Instant) -> bool {
        matches!(self, Self::Leader { until } if now < *until)
    }
}

/// What a process does about its Lease when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// It releases the Lease, so that another takes it at once: every request that it has sent is
    /// answered.
    Release,
    /// It leaves the Lease to expire: a request of its own may still be applied.
    Expire,
}

/// What has become of a Lease at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is released.
    Released,
    /// It expires by itself.
    Expires,
    /// This process does not hold it, and nobody else took it from this process.
    NotHeld,
    /// Another process has taken it meanwhile, or somebody has deleted or released it.
    Lost,
    /// It is not released, for this reason, and expires by itself.
    NotReleased(String),
}

/// Takes part in the election until `end` is sent; then releases the Lease, or leaves it to expire. An
/// `end` that is dropped is [`AtEnd::Expire`]: what is still under way is not known then.
pub async fn run(
    client: Client,
    candidate: Candidate,
    leadership: watch::Sender<Leadership>,
    mut end: oneshot::Receiver<AtEnd>,
) -> Ended {
    let leases = Leases::new(client, &candidate);
    let config = watcher::Config::default().fields(&format!("metadata.name={}", candidate.name));
    let mut events = pin!(watcher(leases.api.clone(), config).default_backoff());
    let request_timeout = write_timeout(candidate.duration);
    let mut election = Election::new(candidate);
    let mut last_error = None;
    let mut writes: FuturesUnordered<BoxFuture<'static, _>> = FuturesUnordered::new();
    let at_end = loop {
        let now = Instant::now();
        let mut wake = None;
        // One at a time: an answer that nobody waits for any more would not be known.
        if writes.is_empty() {
            match election.next(now) {
                Step::Write(lease) => {
                    let write = leases.clone().write_or_read(*lease, request_timeout);
                    let write = write.map(move |(written, found)| (now, written, found));
                    writes.push(write.boxed());
                }
                Step::Wait(until) => wake = until,
            }
        }
        publish(&leadership, &election, last_error.as_ref());
        tokio::select! {
            biased;
            at_end = &mut end => break at_end.unwrap_or(AtEnd::Expire),
            Some((started, written, found)) = writes.next() => {
                match &written {
                    Written::Refused(message) => {
                        warn!("{message}");
                        last_error = Some(message.clone());
                    }
                    Written::Failed(message) => warn!("{message}"),
                    Written::Done(_) | Written::Conflict => last_error = None,
                }
                election.written(written, started, Instant::now());
                if let Some(lease) = found {
                    election.observe(Event::Apply(lease), Instant::now(), Timestamp::now());
                }
            }
            Some(event) = events.next() => match event {
                Ok(event) => {
                    let listed = election.listed();
                    election.observe(event, Instant::now(), Timestamp::now());
                    if election.listed() && !listed {
                        last_error = None;
                    }
                }
                Err(error) if is_expired(&error) => debug!("lease: the watch is too old"),
                Err(error) => {
                    let message = format!("lease: {}", describe_watch(&error, ""));
                    warn!("{message}");
                    // Later it is an API server that is away, as for everything else.
                    if !election.listed() {
                        last_error = Some(message);
                    }
                }
            },
            () = sleep_until_some(wake), if wake.is_some() => {}
        }
    };
    if at_end == AtEnd::Expire {
        return Ended::Expires;
    }
    // What is under way has to be known before it can be undone.
    if let Ok(Some((started, written, _))) = timeout(RELEASE_TIMEOUT, writes.next()).await {
        election.written(written, started, Instant::now());
    }
    let ended = timeout(RELEASE_TIMEOUT, release(leases, election)).await;
    let ended = ended
        .unwrap_or_else(|_| Ended::NotReleased(format!("no answer within {RELEASE_TIMEOUT:?}")));
    match &ended {
        Ended::Released => info!("the lease is released"),
        Ended::Lost => debug!("the lease has been taken already"),
        Ended::NotReleased(message) => warn!("the lease is not released: {message}"),
        Ended::NotHeld | Ended::Expires => {}
    }
    ended
}

/// Releases the Lease where it is this process's, also by a write whose answer is lost.
async fn release(leases: Leases, election: Election) -> Ended {
    let identity = election.identity().to_owned();
    let led = election.has_led();
    if !election.may_hold() {
        return if led { Ended::Lost } else { Ended::NotHeld };
    }
    if let Some(lease) = election.held() {
        match leases.clone().write(without_holder(lease), RELEASE_TIMEOUT).await {
            Written::Done(_) => return Ended::Released,
            Written::Conflict => {}
            Written::Refused(message) | Written::Failed(message) => {
                return Ended::NotReleased(message);
            }
        }
    }
    let lease = match leases.read().await {
        Ok(lease) => lease.filter(|lease| holder::holder(lease) == Some(&identity)),
        Err(error) => return Ended::NotReleased(describe(&error)),
    };
    let Some(lease) = lease else { return if led { Ended::Lost } else { Ended::NotHeld } };
    match leases.write(without_holder(lease), RELEASE_TIMEOUT).await {
        Written::Done(_) => Ended::Released,
        Written::Conflict => Ended::Lost,
        Written::Refused(message) | Written::Failed(message) => Ended::NotReleased(message),
    }
}

fn without_holder(mut lease: Lease) -> Lease {
    lease.spec.get_or_insert_default().holder_identity = None;
    if let Some(annotations) = &mut lease.metadata.annotations {
        annotations.remove(holder::KEPT_UNTIL);
    }
    lease
}

/// Never, where there is nothing to wait for.
async fn sleep_until_some(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

fn publish(
    leadership: &watch::Sender<Leadership>,
    election: &Election,
    last_error: Option<&String>,
) {
    let now = match (election.leads_until(), last_error) {
        (Some(until), _) => Leadership::Leader { until },
        (None, Some(last_error)) => Leadership::Unavailable(last_error.clone()),
        (None, None) => Leadership::Standby(election.holder().map(str::to_owned)),
    };
    leadership.send_if_modified(|before| {
        let changed = *before != now;
        if changed {
            log_change(before, &now);
        }
        *before = now;
        changed
    });
}

fn log_change(before: &Leadership, now: &Leadership) {
    let led = matches!(before, Leadership::Leader { .. });
    match now {
        Leadership::Leader { .. } if led => {}
        Leadership::Leader { .. } => info!("this process leads now"),
        _ if led => warn!("this process leads no longer"),
        _ => {}
    }
    if let Leadership::Standby(Some(holder)) = now {
        info!(%holder, "standing by");
    }
}

/// Reads and writes the Lease.
#[derive(Clone)]
struct Leases {
    api: Api<Lease>,
    name: String,
}

impl Leases {
    fn new(client: Client, candidate: &Candidate) -> Self {
        let api = Api::namespaced(client, &candidate.namespace);
        Self { api, name: candidate.name.clone() }
    }

    /// Reads the Lease, by a list: the controllers' Role grants no get.
    async fn read(&self) -> Result<Option<Lease>, kube::Error> {
        let params = ListParams::default().fields(&format!("metadata.name={}", self.name));
        Ok(self.api.list(&params).await?.items.into_iter().next())
    }

    /// Writes the Lease, and reads how it is where that makes a conflict: the watch may be silent for as
    /// long as an answer may be lost.
    async fn write_or_read(self, lease: Lease, limit: Duration) -> (Written, Option<Lease>) {
        let written = self.clone().write(lease, limit).await;
        let found = match &written {
            Written::Conflict => timeout(limit, self.read()).await.ok(),
            _ => None,
        };
        (written, found.and_then(Result::ok).flatten())
    }

    /// Makes the Lease, or replaces it if it is still at its resource version.
    async fn write(self, lease: Lease, limit: Duration) -> Written {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
        let name = lease.name_any();
        let request = async {
            if lease.resource_version().is_some() {
                self.api.replace(&name, &params, &lease).await
            } else {
                self.api.create(&params, &lease).await
            }
        };
        match timeout(limit, request).await {
            Ok(Ok(lease)) => Written::Done(Box::new(lease)),
            // 404: it was deleted meanwhile. 409: it was changed, or made.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Written::Conflict
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => Written::Refused(format!(
                "the lease cannot be written: {}; grant the verbs create and update on leases",
                status.message
            )),
            Ok(Err(error)) => {
                Written::Failed(format!("the lease is not written: {}", describe(&error)))
            }
            Err(_) => Written::Failed(format!("the lease is not written: no answer in {limit:?}")),
        }
    }
}

#[cfg(test)]
mod tests;
