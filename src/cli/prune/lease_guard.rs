//! Keeps controllers from writing while `prune` runs: they would restore what it withdraws within milliseconds.

mod held;
mod keep;
mod search;

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use thiserror::Error;
use tokio::time::sleep;

use crate::cluster::clock;
use crate::cluster::lease::LeaseName;
use crate::controller::prune::Permission;
use crate::election::AtEnd;
use crate::election::holder::{self, Kind};
use crate::election::participant::Leadership;
use crate::response;
use crate::response::error::describe;
pub use held::LeaseEnd;
use held::{Held, Watched, duration, name, take};
pub use search::LeaseSelector;
use search::{list, unwritten};

/// What to do if a controller is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfControllerActive {
    /// Fail.
    Refuse,
    /// Run alongside it.
    Ignore,
    /// Take its Lease, so that it stops writing, and keep it for ten minutes.
    TakeOver,
}

/// Why controllers cannot be kept from writing.
#[derive(Debug, Error)]
pub enum LeaseGuardError {
    /// Leases cannot be listed.
    #[error(
        "cannot determine whether a controller is active: cannot list leases: {}{}", describe(.0), without_list(.0)
    )]
    List(#[source] Box<kube::Error>),
    /// A controller is active.
    #[error(
        "a controller is active and would write the values again: {holder} holds the lease \
         {lease}. Stop it first (a crashed controller counts as active for {remaining:?} more), use \
         --take-over to stop its writes for ten minutes, or --force to run alongside it"
    )]
    Controller {
        /// The holder of the Lease.
        holder: String,
        /// Which Lease.
        lease: LeaseName,
        /// The time until the Lease expires.
        remaining: Duration,
    },
    /// Another `prune` is running.
    #[error(
        "another prune is running: {holder} holds the lease {lease}. Wait until it ends (a killed \
         one counts as running for {remaining:?} more), or use --take-over to replace it"
    )]
    Prune {
        /// The holder of the Lease.
        holder: String,
        /// Which Lease.
        lease: LeaseName,
        /// The time until the Lease expires.
        remaining: Duration,
    },
    /// The Lease could not be taken.
    #[error("cannot take the lease {lease}: {why}")]
    NotTaken {
        /// Which Lease.
        lease: LeaseName,
        /// Why.
        why: String,
    },
}

/// Returns what to do without permission to list Leases. Another failure concerns every request.
fn without_list(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "; use --leader-elect-resource-namespace and --leader-elect-resource-name, or --force to run alongside a \
             controller"
        }
        _ => "",
    }
}

/// The state of a Lease at the end.
#[derive(Debug)]
pub struct EndedLease {
    /// Which Lease.
    pub lease: LeaseName,
    /// What has become of it.
    pub end: LeaseEnd,
}

/// Holds the Leases that keep controllers from writing.
pub struct LeaseGuard {
    held: Vec<Held>,
    /// How long previous holders may write without noticing that their Lease was taken.
    wait: Duration,
}

impl LeaseGuard {
    /// Returns a guard that holds no Lease.
    #[must_use]
    pub fn none() -> Self {
        Self { held: Vec::new(), wait: Duration::ZERO }
    }

    /// Takes the Leases of the controllers, if there are any. Reports what it waits for to `progress`.
    ///
    /// # Errors
    /// If a controller is active and `if_active` is [`IfControllerActive::Refuse`], or the Leases cannot be listed
    /// or taken.
    pub async fn new(
        client: &Client,
        choice: &LeaseSelector,
        if_active: IfControllerActive,
        progress: impl Fn(String),
    ) -> Result<Self, LeaseGuardError> {
        if if_active == IfControllerActive::Ignore {
            return Ok(Self::none());
        }
        let leases = list(client, choice).await;
        let mut leases = leases.map_err(|error| LeaseGuardError::List(Box::new(error)))?;
        let is_take_over = if_active == IfControllerActive::TakeOver;
        match (&choice.namespace, &choice.name) {
            // Creates the Lease, so that a controller that starts later finds it.
            (Some(namespace), Some(name)) if leases.is_empty() && is_take_over => {
                leases.push(unwritten(namespace, name));
            }
            _ if leases.is_empty() => {
                progress("no Lease of a controller found: a controller that starts now can write".to_owned())
            }
            _ => {}
        }
        if !is_take_over {
            let now = clock::now();
            leases.iter().try_for_each(|lease| refuse_live(lease, now))?;
        }
        let mut guard = Self::none();
        for lease in &leases {
            match take(client, lease, is_take_over, &progress).await {
                Ok(held) => guard.held.push(held),
                Err(why) => {
                    guard.undo(&progress).await;
                    return Err(LeaseGuardError::NotTaken { lease: name(lease), why });
                }
            }
            if is_take_over {
                guard.wait = guard.wait.max(writes_on_for(lease));
            }
        }
        Ok(guard)
    }

    /// Waits until nobody else writes under the Leases. A previous holder that can still reach the server has noticed by
    /// now that its Lease was taken; after the wait, any holder has stopped.
    pub async fn wait_for_previous_holders(&self, progress: impl Fn(String)) {
        let Self { wait, .. } = self;
        if !wait.is_zero() {
            progress(format!("waiting {wait:?} for the previous holder of the lease to stop writing"));
            sleep(*wait).await;
        }
    }

    /// Returns whether controllers are kept from writing: now, and at each change.
    pub fn permissions(&self) -> impl Stream<Item = Permission> + use<> {
        let watched: Vec<_> = self.held.iter().map(Held::watched).collect();
        let changes = watched.clone().into_iter().map(|watched| {
            let changed =
                |mut watched: Watched| async move { watched.leadership.changed().await.ok().map(|()| ((), watched)) };
            futures::stream::unfold(watched, changed).boxed()
        });
        let changes = futures::stream::select_all(changes);
        let now = futures::stream::once(std::future::ready(()));
        now.chain(changes).map(move |()| permission(&watched))
    }

    /// Releases the Leases, or leaves them in place for as long as they must keep controllers from writing.
    pub async fn end(self, at_end: AtEnd) -> Vec<EndedLease> {
        let mut ended = Vec::new();
        for held in self.held {
            let lease = held.lease.clone();
            let end = held.end(at_end).await;
            ended.push(EndedLease { lease, end });
        }
        ended
    }

    /// Restores the Leases.
    async fn undo(self, progress: &impl Fn(String)) {
        for held in self.held {
            held.undo(progress).await;
        }
    }
}

/// Returns whether all Leases are held.
fn permission(leases: &[Watched]) -> Permission {
    let (mut ends, mut suspended) = (Vec::new(), None);
    for Watched { lease, identity, leadership } in leases {
        let lost = || format!("the lease {lease} is lost: a controller may be active; run prune again");
        match &*leadership.borrow() {
            Leadership::Leader { until } => ends.push(*until),
            Leadership::Standby(Some(holder)) if holder != identity => {
                return Permission::Revoked(lost());
            }
            // A renewal may be late or its response lost, so the Lease may be held again.
            Leadership::Standby(_) => suspended = Some(lost()),
            Leadership::Unavailable(why) => suspended = Some(format!("{}: {why}", lost())),
        }
    }
    let granted = || Permission::Granted(ends.into_iter().min());
    suspended.map_or_else(granted, Permission::Suspended)
}

/// Fails if a process that may write holds the Lease. Clocks are compared here only to fail early: where they
/// differ, the wait for the Lease decides.
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

/// Returns how long the holder of this Lease, or earlier holders, may write without noticing that it was taken,
/// including a request sent at the last moment. It reads no wall clock, since clocks of other machines may differ.
fn writes_on_for(lease: &Lease) -> Duration {
    match holder::holder(lease).map(Kind::of) {
        None | Some(Kind::EndedPrune) => Duration::ZERO,
        // Also if the Lease seems to have expired.
        Some(Kind::Controller | Kind::Prune) => duration(lease) + response::TIMEOUT,
    }
}

#[cfg(test)]
mod tests;
