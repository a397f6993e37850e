//! Keeping controllers from writing meanwhile: what is pruned would be back in milliseconds.

mod keep;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::error::describe;
use crate::cluster::lease::holder::{self, Kind};
use crate::cluster::lease::{self, Acquire, Candidate, Leadership, LeaseName};
use crate::cluster::node_client;
use keep::leave_behind;

/// For how long the Lease is kept after taking it over: within that the controllers are to be gone.
const KEEP: Duration = Duration::from_secs(600);
/// How long the Lease is held at work, after each renewal: what is left of a `prune` that was killed
/// delays nobody for longer. A third of it is longer than a request takes.
const LEASE_DURATION: Duration = Duration::from_secs(60);
/// How long it may take to get a Lease that nobody renews, beyond its own duration.
const ACQUIRE_MARGIN: Duration = Duration::from_secs(10);
/// How long it may take to get a Lease that is taken at once.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(30);
/// The name that the Lease has where none is chosen. A controller of an older version has set no label.
const DEFAULT_NAME: &str = "node-resource-advertiser";

/// Which Lease the controllers have.
#[derive(Clone, Debug)]
pub struct LeaseSelector {
    /// Its namespace; where none is given, all are searched.
    pub namespace: Option<String>,
    /// Its name; where none is given, every Lease with the controllers' label or the default name counts.
    pub name: Option<String>,
}

/// What to do where a controller is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfControllerActive {
    /// Do nothing.
    Refuse,
    /// Work beside it.
    Ignore,
    /// Take its Lease, so that it stops writing, and keep it for ten minutes.
    TakeOver,
}

/// Why there is no being alone.
#[derive(Debug, Error)]
pub enum LeaseGuardError {
    /// Leases cannot be listed.
    #[error(
        "cannot determine whether a controller is at work: leases cannot be listed: {}; give \
         --leader-elect-resource-namespace and --leader-elect-resource-name, or --force to work \
         beside one", describe(.0)
    )]
    List(#[source] Box<kube::Error>),
    /// A controller is at work.
    #[error(
        "a controller is at work, and would write again what is pruned: {holder} holds the lease \
         {lease}. Stop it first (one that has just crashed counts for {remaining:?} more), give \
         --take-over to stop its writing for ten minutes, or --force to work beside it"
    )]
    Controller {
        /// Who holds the Lease.
        holder: String,
        /// Which Lease.
        lease: LeaseName,
        /// Until it expires.
        remaining: Duration,
    },
    /// Another `prune` is at work.
    #[error(
        "another prune is at work: {holder} holds the lease {lease}. Wait until it ends (one that \
         was killed counts for {remaining:?} more), or give --take-over to take its place"
    )]
    Prune {
        /// Who holds the Lease.
        holder: String,
        /// Which Lease.
        lease: LeaseName,
        /// Until it expires.
        remaining: Duration,
    },
    /// The Lease could not be taken.
    #[error("the lease {lease} cannot be taken: {why}")]
    NotTaken {
        /// Which Lease.
        lease: LeaseName,
        /// In words.
        why: String,
    },
}

/// A Lease that stays after the end, so that no controller writes.
#[derive(Debug)]
pub struct KeptLease {
    /// Which Lease.
    pub lease: LeaseName,
    /// Until then, or the reason why it is not kept, in words.
    pub until: Result<Timestamp, String>,
}

/// The Leases that keep controllers from writing, as long as this is there.
pub struct LeaseGuard {
    client: Option<Client>,
    held: Vec<Held>,
}

struct Held {
    lease: LeaseName,
    identity: String,
    keep: Keep,
    leadership: watch::Receiver<Leadership>,
    release: oneshot::Sender<()>,
    election: JoinHandle<()>,
}

/// What becomes of a Lease at the end.
#[derive(Clone, Copy, Debug)]
enum Keep {
    /// It is released.
    Release,
    /// It stays, for ten minutes from then.
    FromTheEnd,
    /// It stays for as long as the `prune` before has kept it.
    Until(Timestamp),
}

impl LeaseGuard {
    /// Holds no Lease.
    #[must_use]
    pub fn none() -> Self {
        Self { client: None, held: Vec::new() }
    }

    /// Takes the Leases of the controllers, if there are any. What it waits for is reported to
    /// `progress`.
    ///
    /// # Errors
    /// Where a controller is at work and is not to be ignored, or that cannot be determined.
    pub async fn new(
        client: &Client,
        choice: &LeaseSelector,
        if_active: IfControllerActive,
        progress: impl Fn(String),
    ) -> Result<Self, LeaseGuardError> {
        if if_active == IfControllerActive::Ignore {
            return Ok(Self::none());
        }
        let mut leases = list(client, choice).await?;
        let is_take_over = if_active == IfControllerActive::TakeOver;
        match (&choice.namespace, &choice.name) {
            // A controller that starts later must find it.
            (Some(namespace), Some(name)) if leases.is_empty() && is_take_over => {
                leases.push(unwritten(namespace, name));
            }
            _ if leases.is_empty() => progress(
                "there is no Lease of a controller: one that starts now is not kept from writing"
                    .to_owned(),
            ),
            _ => {}
        }
        if !is_take_over {
            let now = Timestamp::now();
            leases.iter().try_for_each(|lease| refuse_live(lease, now))?;
        }
        let mut guard = Self { client: Some(client.clone()), held: Vec::new() };
        let mut wait = Duration::ZERO;
        for lease in &leases {
            match take(client, lease, is_take_over, &progress).await {
                Ok(held) => guard.held.push(held),
                Err(why) => {
                    guard.release().await;
                    return Err(LeaseGuardError::NotTaken { lease: name(lease), why });
                }
            }
            if is_take_over {
                wait = wait.max(writes_on_for(lease));
            }
        }
        if !wait.is_zero() {
            // It has noticed by now, if it can; by then it has stopped in any case.
            progress(format!("waiting {wait:?}, until whoever held the lease has stopped writing"));
            sleep(wait).await;
        }
        Ok(guard)
    }

    /// Fails where a Lease has been lost.
    ///
    /// # Errors
    /// In words.
    pub(super) fn check(&self) -> Result<(), String> {
        let now = Instant::now();
        let holds = |held: &Held| held.leadership.borrow().leads(now);
        match self.held.iter().find(|held| !holds(held)) {
            None => Ok(()),
            Some(Held { lease, .. }) => Err(format!(
                "the lease {lease} is lost, so that a controller may be at work; run it again"
            )),
        }
    }

    /// Releases the Leases, or leaves them behind for as long as they are to keep controllers from
    /// writing.
    pub async fn end(self) -> Vec<KeptLease> {
        let mut kept = Vec::new();
        for held in self.held {
            let until = match held.keep {
                Keep::Release => {
                    held.release().await;
                    continue;
                }
                Keep::FromTheEnd => Timestamp::now() + KEEP,
                Keep::Until(until) => until,
            };
            // A renewal under way that lands later is found by the conflict that it makes.
            held.election.abort();
            let until = match &self.client {
                Some(client) => leave_behind(client, &held.lease, &held.identity, until).await,
                None => continue,
            };
            kept.push(KeptLease { lease: held.lease, until });
        }
        kept
    }

    async fn release(self) {
        for held in self.held {
            held.release().await;
        }
    }
}

impl Held {
    async fn release(self) {
        drop(self.release);
        // It is about to end in any case, and reports its own failures.
        let _ = self.election.await;
    }
}

async fn list(client: &Client, choice: &LeaseSelector) -> Result<Vec<Lease>, LeaseGuardError> {
    let api = match &choice.namespace {
        Some(namespace) => Api::<Lease>::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let by_name = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let (label, value) = holder::LABEL;
    let all_params = match &choice.name {
        Some(name) => vec![by_name(name)],
        None => {
            vec![ListParams::default().labels(&format!("{label}={value}")), by_name(DEFAULT_NAME)]
        }
    };
    let mut leases = Vec::<Lease>::new();
    for params in all_params {
        let list = api.list(&params).await;
        for lease in list.map_err(|error| LeaseGuardError::List(Box::new(error)))? {
            if leases.iter().all(|other| other.metadata.uid != lease.metadata.uid) {
                leases.push(lease);
            }
        }
    }
    Ok(leases)
}

/// A Lease that does not exist yet.
fn unwritten(namespace: &str, name: &str) -> Lease {
    let metadata = ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    Lease { metadata, ..Lease::default() }
}

/// Fails where somebody who may write holds the Lease. Clocks are compared here only to refuse at once:
/// where they differ, the wait for the Lease is decisive.
fn refuse_live(lease: &Lease, now: Timestamp) -> Result<(), LeaseGuardError> {
    let remaining = Duration::from_secs(holder::remaining(lease, now).as_secs());
    let Some(holder) = holder::holder(lease).filter(|_| !remaining.is_zero()) else {
        return Ok(());
    };
    let (kind, holder, lease) = (Kind::of(holder), holder.to_owned(), name(lease));
    match kind {
        Kind::Controller => Err(LeaseGuardError::Controller { holder, lease, remaining }),
        Kind::Prune => Err(LeaseGuardError::Prune { holder, lease, remaining }),
        Kind::EndedPrune => Ok(()),
    }
}

/// For how long the one who held this Lease, or those from whom it was taken before, may write without
/// having noticed that it was taken: a request that is sent at the last moment included. No clock on the
/// wall is asked, since another machine's may differ.
fn writes_on_for(lease: &Lease) -> Duration {
    match holder::holder(lease).map(Kind::of) {
        None | Some(Kind::EndedPrune) => Duration::ZERO,
        // Also where it seems to have expired.
        Some(Kind::Controller | Kind::Prune) => duration(lease) + node_client::TIMEOUT,
    }
}

async fn take(
    client: &Client,
    lease: &Lease,
    is_take_over: bool,
    progress: &impl Fn(String),
) -> Result<Held, String> {
    let now = Timestamp::now();
    let holder = holder::holder(lease);
    let kept = holder.is_some_and(|holder| Kind::of(holder) == Kind::EndedPrune)
        && !holder::remaining(lease, now).is_zero();
    let keep = match holder::expiry(lease) {
        _ if is_take_over => Keep::FromTheEnd,
        Some(until) if kept => Keep::Until(until.min(now + KEEP)),
        _ => Keep::Release,
    };
    let acquire = if is_take_over { Acquire::Force } else { Acquire::FromEndedPrune };
    let LeaseName { namespace, name } = name(lease);
    let identity = holder::prune_identity();
    let candidate = Candidate {
        namespace,
        name,
        identity: identity.clone(),
        duration: LEASE_DURATION,
        acquire,
        reacquires: false,
    };
    let limit = if is_take_over || kept { ACQUIRE_LIMIT } else { duration(lease) + ACQUIRE_MARGIN };
    if let (Some(holder), false, false) = (holder, is_take_over, kept) {
        progress(format!(
            "waiting up to {limit:?} for the lease {} of {holder}, which has expired",
            self::name(lease)
        ));
    }
    let (lead, mut leadership) = watch::channel(Leadership::Standby(None));
    let (release, released) = oneshot::channel();
    let election = tokio::spawn(lease::run(client.clone(), candidate, lead, released));
    let taken = leadership.wait_for(|leadership| match leadership {
        Leadership::Leader { .. } | Leadership::Unavailable(_) => true,
        Leadership::Standby(_) => false,
    });
    let taken = timeout(limit, taken).await.map(|taken| taken.map(|taken| taken.clone()));
    let why = match taken {
        Ok(Ok(Leadership::Leader { .. })) => {
            let lease = self::name(lease);
            return Ok(Held { lease, identity, keep, leadership, release, election });
        }
        Ok(Ok(Leadership::Unavailable(why))) => why,
        Ok(Ok(Leadership::Standby(_)) | Err(_)) => "the election has ended".to_owned(),
        Err(_) => format!("another process renews it, or the API server is silent, for {limit:?}"),
    };
    // A write under way may have taken it: it is released then, so that controllers go on.
    drop(release);
    let _ = election.await;
    Err(why)
}

fn name(lease: &Lease) -> LeaseName {
    LeaseName { namespace: lease.namespace().unwrap_or_default(), name: lease.name_any() }
}

fn duration(lease: &Lease) -> Duration {
    holder::duration(lease).unwrap_or(LEASE_DURATION)
}

#[cfg(test)]
mod tests;
