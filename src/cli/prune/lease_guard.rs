//! Seeing to it that no controller writes meanwhile: what is pruned would be back in milliseconds.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::cluster::error::describe;
use crate::cluster::lease::{self, Candidate, Leadership};

/// For how long the Lease is kept after taking it over: within that the controllers are to be gone.
const TAKEOVER_DURATION: Duration = Duration::from_secs(600);
/// How long the Lease is held otherwise, after each renewal.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long it may take to get a Lease that nobody renews, beyond its own duration.
const ACQUIRE_MARGIN: Duration = Duration::from_secs(10);

/// Which Lease the controllers have.
#[derive(Clone, Debug)]
pub struct LeaseSelector {
    /// Its namespace; where none is given, all are searched.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
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
        "cannot tell whether a controller is at work: leases cannot be listed: {}; give \
         --leader-elect-resource-namespace, or --force to work beside one", describe(.0)
    )]
    List(#[source] Box<kube::Error>),
    /// A controller is at work.
    #[error(
        "a controller is at work, and would write again what is pruned: {holder} holds the lease \
         {lease}. Stop it first (if it has just crashed, wait {LEASE_DURATION:?}), or give --force"
    )]
    Live {
        /// Who holds the Lease.
        holder: String,
        /// Its namespace and name.
        lease: String,
    },
    /// The Lease could not be taken.
    #[error("the lease {lease} cannot be taken: {why}")]
    NotTaken {
        /// Its namespace and name.
        lease: String,
        /// In words.
        why: String,
    },
}

/// The Leases that keep controllers from writing, as long as this is there.
#[derive(Debug, Default)]
pub struct LeaseGuard {
    held: Vec<Held>,
    keep: bool,
}

#[derive(Debug)]
struct Held {
    leadership: watch::Receiver<Leadership>,
    release: oneshot::Sender<()>,
    election: JoinHandle<()>,
}

impl LeaseGuard {
    /// Takes the Lease of the controllers, if there is one.
    ///
    /// # Errors
    /// Where a controller is at work and is not to be ignored, or that cannot be told.
    pub async fn new(
        client: &Client,
        choice: &LeaseSelector,
        if_active: IfControllerActive,
    ) -> Result<Self, LeaseGuardError> {
        let keep = if_active == IfControllerActive::TakeOver;
        let mut lease_guard = Self { held: Vec::new(), keep };
        if if_active == IfControllerActive::Ignore {
            return Ok(lease_guard);
        }
        let api = match &choice.namespace {
            Some(namespace) => Api::<Lease>::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let params = ListParams::default().fields(&format!("metadata.name={}", choice.name));
        let leases = api.list(&params).await;
        for lease in leases.map_err(|error| LeaseGuardError::List(Box::new(error)))? {
            let name = format!("{}/{}", lease.namespace().unwrap_or_default(), lease.name_any());
            let live = live_holder(&lease, Timestamp::now());
            if let (Some(holder), false) = (live, keep) {
                let holder = holder.to_owned();
                return Err(LeaseGuardError::Live { holder, lease: name });
            }
            let is_live = live.is_some();
            let held = take(client, &lease, keep).await;
            lease_guard
                .held
                .push(held.map_err(|why| LeaseGuardError::NotTaken { lease: name, why })?);
            if is_live {
                // It has noticed by now, if it can; by then it has stopped in any case.
                tokio::time::sleep(duration(&lease)).await;
            }
        }
        Ok(lease_guard)
    }

    /// Fails where a Lease has been lost.
    ///
    /// # Errors
    /// In words.
    pub(super) fn check(&self) -> Result<(), String> {
        let now = Instant::now();
        let holds = |held: &Held| held.leadership.borrow().leads(now);
        if self.held.iter().all(holds) {
            return Ok(());
        }
        Err("the lease is lost, so that a controller may be at work; run it again".to_owned())
    }

    /// Gives the Leases back, unless they have been taken over.
    pub async fn end(self) {
        for Held { release, election, .. } in self.held {
            if self.keep {
                election.abort();
            } else {
                drop(release);
                // It tells of its own failures.
                let _ = election.await;
            }
        }
    }
}

async fn take(client: &Client, lease: &Lease, force_acquire: bool) -> Result<Held, String> {
    let candidate = Candidate {
        namespace: lease.namespace().unwrap_or_default(),
        name: lease.name_any(),
        identity: format!("prune_{}", Timestamp::now().as_nanosecond()),
        duration: if force_acquire { TAKEOVER_DURATION } else { LEASE_DURATION },
        force_acquire,
    };
    let (lead, mut leadership) = watch::channel(Leadership::Standby(None));
    let (release, released) = oneshot::channel();
    let election = tokio::spawn(lease::run(client.clone(), candidate, lead, released));
    let taken = leadership.wait_for(|leadership| match leadership {
        Leadership::Leader { .. } | Leadership::Unavailable(_) => true,
        Leadership::Standby(_) => false,
    });
    let limit = duration(lease) + ACQUIRE_MARGIN;
    let taken = timeout(limit, taken).await.map(|taken| taken.map(|taken| taken.clone()));
    match taken {
        Ok(Ok(Leadership::Leader { .. })) => Ok(Held { leadership, release, election }),
        Ok(Ok(Leadership::Unavailable(why))) => Err(why),
        Ok(Ok(Leadership::Standby(_)) | Err(_)) => Err("the election has ended".to_owned()),
        Err(_) => Err(format!("somebody else renews it, or nobody answers, for {limit:?}")),
    }
}

/// Who holds a Lease, if it has been renewed in time. This is the one place where clocks are compared:
/// to refuse at once. Where they differ, waiting for the Lease tells.
fn live_holder(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = lease::holder(lease)?;
    let until = spec.renew_time.as_ref()?.0 + SignedDuration::try_from(duration(lease)).ok()?;
    (now < until).then_some(holder)
}

fn duration(lease: &Lease) -> Duration {
    lease::duration(lease).unwrap_or(LEASE_DURATION)
}
