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
mod participant;

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::cluster::clock;
use crate::cluster::error::describe;
use crate::cluster::watch::watch as watch_objects;
use crate::model::api::FIELD_MANAGER;
pub use election::{Acquire, Candidate};
pub(crate) use election::{Election, Written};
pub use participant::Leadership;
pub(crate) use participant::Participant;

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
    let leases = Leases::new(client.clone(), &candidate);
    let mut events = pin!(leases.watch(0));
    let mut participant = Participant::new(candidate);
    let mut writes: FuturesUnordered<BoxFuture<'static, _>> = FuturesUnordered::new();
    let at_end = loop {
        let now = Instant::now();
        let (write, wake) = participant.next(now, clock::now());
        if let Some(lease) = write {
            let write = leases.clone().write_or_read(*lease, participant.write_timeout());
            writes.push(write.map(move |(written, found)| (now, written, found)).boxed());
        }
        leadership.send_if_modified(|before| {
            let changed = before != participant.leadership();
            before.clone_from(participant.leadership());
            changed
        });
        tokio::select! {
            biased;
            at_end = &mut end => break at_end.unwrap_or(AtEnd::Expire),
            Some((started, written, found)) = writes.next() => {
                let time = (Instant::now(), clock::now());
                participant.written(written, found, started, time);
            }
            Some(event) = events.next() => {
                participant.observe(event, Instant::now(), clock::now());
            }
            () = sleep_until_some(wake), if wake.is_some() => {}
        }
    };
    if at_end == AtEnd::Expire {
        return Ended::Expires;
    }
    // What is under way has to be known before it can be undone.
    if let Ok(Some((started, written, _))) = timeout(RELEASE_TIMEOUT, writes.next()).await {
        participant.written(written, None, started, (Instant::now(), clock::now()));
    }
    end_election(client, participant.into_election()).await
}

/// Releases the Lease where it is this process's, and logs what came of it.
pub(crate) async fn end_election(client: Client, election: Election) -> Ended {
    let leases = Leases::new(client, election.candidate());
    let ended = timeout(RELEASE_TIMEOUT, release(leases, election)).await;
    let ended = ended
        .unwrap_or_else(|_| Ended::NotReleased(format!("no response within {RELEASE_TIMEOUT:?}")));
    match &ended {
        Ended::Released => info!("released the lease"),
        Ended::Lost => debug!("another process has taken the lease"),
        Ended::NotReleased(message) => warn!("cannot release the lease: {message}"),
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

/// Reads and writes the Lease.
#[derive(Clone)]
pub(crate) struct Leases {
    api: Api<Lease>,
    name: String,
}

impl Leases {
    pub(crate) fn new(client: Client, candidate: &Candidate) -> Self {
        let api = Api::namespaced(client, &candidate.namespace);
        Self { api, name: candidate.name.clone() }
    }

    /// For the Lease that this one is a state of.
    pub(crate) fn of(client: Client, lease: &Lease) -> Self {
        let api = Api::namespaced(client, &lease.namespace().unwrap_or_default());
        Self { api, name: lease.name_any() }
    }

    /// Watches the Lease.
    pub(crate) fn watch(
        &self,
        seed: u64,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<Lease>>> + Send + use<> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        watch_objects(self.api.clone(), config, seed)
    }

    /// Reads the Lease, by a list: the controllers' Role grants no get.
    async fn read(&self) -> Result<Option<Lease>, kube::Error> {
        let params = ListParams::default().fields(&format!("metadata.name={}", self.name));
        Ok(self.api.list(&params).await?.items.into_iter().next())
    }

    /// Writes the Lease, and reads how it is where that makes a conflict: the watch may be silent for as
    /// long as an answer may be lost.
    pub(crate) async fn write_or_read(
        self,
        lease: Lease,
        limit: Duration,
    ) -> (Written, Option<Lease>) {
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
            Ok(Err(error)) => error.into(),
            Err(_) => Written::Failed(format!("cannot write the lease: no response within {limit:?}")),
        }
    }
}

impl From<kube::Error> for Written {
    fn from(error: kube::Error) -> Self {
        match error {
            // 404: it was deleted meanwhile. 409: it was changed, or made.
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => Self::Conflict,
            kube::Error::Api(status) if status.code == 403 => Self::Refused(format!(
                "cannot write the lease: {}; grant the verbs create and update on leases",
                status.message
            )),
            error => Self::Failed(format!("cannot write the lease: {}", describe(&error))),
        }
    }
}

#[cfg(test)]
mod tests;
