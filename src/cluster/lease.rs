//! Leader election by a Lease (`coordination.k8s.io/v1`).
//!
//! ```text
//!             the Lease (watch)
//!                  │
//!                  ▼
//!   time ──▶ election: wait, or write the Lease ──▶ POST, PUT ──▶ Leadership ──▶ the controller
//! ```
//!
//! Standbys watch the Lease, so that they take a released one at once. All times are on the monotonic clock of this
//! process: none is compared with a time that another process wrote, except for a Lease under which no process writes
//! anymore.

#[cfg(test)]
pub(crate) mod fake_api;

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::cluster::client::over_new_connections;
use crate::cluster::clock;
use crate::cluster::stored::Stored;
use crate::cluster::watch::watch as watch_objects;
use crate::election::participant::{Leadership, LeaseWrite, Note, Participant};
use crate::election::{AtEnd, Candidate, Election, Written, holder};
use crate::model::api::FIELD_MANAGER;
use crate::response::error::describe;

/// The timeout at the end for a write in flight, and then for the release, since the process must end.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(800);

/// The namespace and name of a Lease.
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

/// The state of a Lease at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Released.
    Released,
    /// Expires on its own.
    Expires,
    /// Not held by this process, nor taken from it.
    NotHeld,
    /// Taken by another process, or deleted or released by another client.
    Lost,
    /// Not released, for this reason; it expires on its own.
    NotReleased(String),
}

/// Takes part in the election until `end` is sent; then releases the Lease, or lets it expire. A dropped `end` counts
/// as [`AtEnd::Expire`]: requests may still be in flight.
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
        participant.take_notes().iter().for_each(log);
        if let Some(write) = write {
            let write = send(&client, write, participant.write_timeout());
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
                participant.written(written, found, started, Instant::now(), clock::now());
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
    // The outcome of writes in flight must be known before the Lease can be released.
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    while let Ok(Some((started, written, _))) = timeout_at(deadline, writes.next()).await {
        participant.written(written, None, started, Instant::now(), clock::now());
    }
    participant.take_notes().iter().for_each(log);
    end_election(client, participant.into_election()).await
}

/// Logs what has happened in an election.
pub(crate) fn log(note: &Note) {
    match note {
        Note::Expired => debug!("lease: the watch is too old"),
        Note::Failed(message) => warn!("{message}"),
        Note::Leads => info!("this process is now the leader"),
        Note::LeadsNoLonger => warn!("this process is no longer the leader"),
        Note::StandsBy(holder) => info!(%holder, "standing by"),
    }
}

/// Sends a write, and reads the Lease after a conflict.
pub(crate) fn send(
    client: &Client,
    write: LeaseWrite,
    limit: Duration,
) -> impl Future<Output = (Written, Option<Lease>)> + Send + use<> {
    let LeaseWrite { lease, is_repeated, sent: _ } = write;
    let client = if is_repeated { over_new_connections(client) } else { client.clone() };
    Leases::of(client, &lease).write_or_read(*lease, limit)
}

/// Releases the Lease if this process holds it, and logs the result.
pub(crate) async fn end_election(client: Client, election: Election) -> Ended {
    let leases = Leases::new(client, election.candidate());
    let ended = timeout(RELEASE_TIMEOUT, release(leases, election)).await;
    let ended = ended.unwrap_or_else(|_| Ended::NotReleased(format!("no response within {RELEASE_TIMEOUT:?}")));
    match &ended {
        Ended::Released => info!("released the lease"),
        Ended::Lost => debug!("another process has taken the lease"),
        Ended::NotReleased(message) => warn!("cannot release the lease: {message}"),
        Ended::NotHeld | Ended::Expires => {}
    }
    ended
}

/// Releases the Lease if this process holds it, including by a write whose response is lost.
async fn release(leases: Leases, election: Election) -> Ended {
    let identity = election.identity().to_owned();
    let led = election.has_led();
    if !election.may_hold() {
        return if led { Ended::Lost } else { Ended::NotHeld };
    }
    if let Some(lease) = election.held() {
        match leases.clone().write(holder::without_holder(lease), RELEASE_TIMEOUT).await {
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
    match leases.write(holder::without_holder(lease), RELEASE_TIMEOUT).await {
        Written::Done(_) => Ended::Released,
        Written::Conflict => Ended::Lost,
        Written::Refused(message) | Written::Failed(message) => Ended::NotReleased(message),
    }
}

/// Sleeps until `wake`, or forever without one.
async fn sleep_until_some(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Reads and writes the Lease.
#[derive(Clone)]
pub(crate) struct Leases {
    api: Api<Stored<Lease>>,
    name: String,
}

impl Leases {
    pub(crate) fn new(client: Client, candidate: &Candidate) -> Self {
        let api = Api::namespaced(client, &candidate.namespace);
        Self { api, name: candidate.name.clone() }
    }

    /// Returns access to the Lease of which `lease` is a state.
    pub(crate) fn of(client: Client, lease: &Lease) -> Self {
        let api = Api::namespaced(client, &lease.namespace().unwrap_or_default());
        Self { api, name: lease.name_any() }
    }

    /// Watches the Lease.
    pub(crate) fn watch(&self, seed: u64) -> impl Stream<Item = watcher::Result<watcher::Event<Lease>>> + Send + use<> {
        use watcher::Event;

        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        watch_objects(self.api.clone(), config, seed).map_ok(|event| match event {
            Event::Apply(Stored(lease)) => Event::Apply(lease),
            Event::InitApply(Stored(lease)) => Event::InitApply(lease),
            Event::Delete(Stored(lease)) => Event::Delete(lease),
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
        })
    }

    /// Reads the Lease with a list, since the controllers' Role does not grant get.
    async fn read(&self) -> Result<Option<Lease>, kube::Error> {
        let params = ListParams::default().fields(&format!("metadata.name={}", self.name));
        Ok(self.api.list(&params).await?.items.into_iter().next().map(|Stored(lease)| lease))
    }

    /// Writes the Lease, and reads it after a conflict: the watch may be silent for as long as a response may be lost.
    pub(crate) async fn write_or_read(self, lease: Lease, limit: Duration) -> (Written, Option<Lease>) {
        let written = self.clone().write(lease, limit).await;
        let found = match &written {
            Written::Conflict => timeout(limit, self.read()).await.ok(),
            _ => None,
        };
        (written, found.and_then(Result::ok).flatten())
    }

    /// Creates the Lease, or replaces it if its resource version is unchanged.
    async fn write(self, lease: Lease, limit: Duration) -> Written {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
        let name = lease.name_any();
        let lease = Stored(lease);
        let request = async {
            if lease.resource_version().is_some() {
                self.api.replace(&name, &params, &lease).await
            } else {
                self.api.create(&params, &lease).await
            }
        };
        match timeout(limit, request).await {
            Ok(Ok(Stored(lease))) => Written::Done(Box::new(lease)),
            Ok(Err(error)) => error.into(),
            Err(_) => Written::Failed(format!("cannot write the lease: no response within {limit:?}")),
        }
    }
}

impl From<kube::Error> for Written {
    fn from(error: kube::Error) -> Self {
        match error {
            // 404: deleted in the meantime. 409: changed or created in the meantime.
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
