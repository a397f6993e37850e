//! Keeping controllers from writing meanwhile: what is pruned would be back in milliseconds.

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
use crate::cluster::error::describe;
use crate::cluster::lease::holder::{self, Kind};
use crate::cluster::lease::{AtEnd, Leadership, LeaseName};
use crate::cluster::node_client;
use crate::controller::prune::Permission;
pub use held::LeaseEnd;
use held::{Held, Watched, duration, name, take};
pub use search::LeaseSelector;
use search::{list, unwritten};

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

/// A Lease at the end.
#[derive(Debug)]
pub struct EndedLease {
    /// Which Lease.
    pub lease: LeaseName,
    /// What has become of it.
    pub end: LeaseEnd,
}

/// The Leases that keep controllers from writing, as long as this is there.
pub struct LeaseGuard {
    held: Vec<Held>,
}

impl LeaseGuard {
    /// Holds no Lease.
    #[must_use]
    pub fn none() -> Self {
        Self { held: Vec::new() }
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
        let leases = list(client, choice).await;
        let mut leases = leases.map_err(|error| LeaseGuardError::List(Box::new(error)))?;
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
            let now = clock::now();
            leases.iter().try_for_each(|lease| refuse_live(lease, now))?;
        }
        let mut guard = Self::none();
        let mut wait = Duration::ZERO;
        for lease in &leases {
            match take(client, lease, is_take_over, &progress).await {
                Ok(held) => guard.held.push(held),
                Err(why) => {
                    guard.undo(&progress).await;
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

    /// Whether controllers are kept from writing: now, and whenever that changes.
    pub fn permissions(&self) -> impl Stream<Item = Permission> + use<> {
        let watched: Vec<_> = self.held.iter().map(Held::watched).collect();
        let changes = watched.clone().into_iter().map(|watched| {
            let changed = |mut watched: Watched| async move {
                watched.leadership.changed().await.ok().map(|()| ((), watched))
            };
            futures::stream::unfold(watched, changed).boxed()
        });
        let changes = futures::stream::select_all(changes);
        let now = futures::stream::once(std::future::ready(()));
        now.chain(changes).map(move |()| permission(&watched))
    }

    /// Releases the Leases, or leaves them behind for as long as they are to keep controllers from
    /// writing.
    pub async fn end(self, at_end: AtEnd) -> Vec<EndedLease> {
        let mut ended = Vec::new();
        for held in self.held {
            let lease = held.lease.clone();
            let end = held.end(at_end).await;
            ended.push(EndedLease { lease, end });
        }
        ended
    }

    /// Leaves the Leases as they were.
    async fn undo(self, progress: &impl Fn(String)) {
        for held in self.held {
            held.undo(progress).await;
        }
    }
}

/// Whether all Leases are held.
fn permission(leases: &[Watched]) -> Permission {
    let (mut ends, mut suspended) = (Vec::new(), None);
    for Watched { lease, identity, leadership } in leases {
        let lost = || {
            format!("the lease {lease} is lost, so that a controller may be at work; run it again")
        };
        match &*leadership.borrow() {
            Leadership::Leader { until } => ends.push(*until),
            Leadership::Standby(Some(holder)) if holder != identity => {
                return Permission::Revoked(lost());
            }
            // It may be held again: a renewal is late, or its response is lost.
            Leadership::Standby(_) => suspended = Some(lost()),
            Leadership::Unavailable(why) => suspended = Some(format!("{}: {why}", lost())),
        }
    }
    let granted = || Permission::Granted(ends.into_iter().min());
    suspended.map_or_else(granted, Permission::Suspended)
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

#[cfg(test)]
mod tests;
