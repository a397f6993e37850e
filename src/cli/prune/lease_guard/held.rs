//! One held Lease: from its acquisition to its end.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, ResourceExt as _};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::keep::leave_behind;
use crate::cluster::clock;
use crate::cluster::lease::{self, Ended, LeaseName};
use crate::election::holder::{self, KEEP, Kind};
use crate::election::participant::Leadership;
use crate::election::{Acquire, AtEnd, Candidate};

/// The Lease duration while `prune` runs: the Lease of a killed `prune` delays others for no longer. A third of it
/// is longer than a request takes.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(60);
/// How long acquiring a Lease that no process renews may take, beyond its own duration.
const ACQUIRE_MARGIN: Duration = Duration::from_secs(10);
/// How long acquiring a Lease that is taken at once may take.
pub(super) const ACQUIRE_LIMIT: Duration = Duration::from_secs(30);

/// The state of a Lease at the end.
#[derive(Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// Released.
    Released,
    /// Kept until this time, so that no controller writes.
    Kept(Timestamp),
    /// Could not be kept, for this reason.
    NotKept(String),
    /// Could not be released, for this reason; it expires.
    Expires(String),
    /// Taken by another process, so a controller may have written values.
    Lost,
}

/// A held Lease.
pub(super) struct Held {
    client: Client,
    pub(super) lease: LeaseName,
    identity: String,
    keep: Keep,
    /// The identity with which an earlier `prune` keeps it, and until when.
    before: Option<(String, Timestamp)>,
    leadership: watch::Receiver<Leadership>,
    at_end: oneshot::Sender<AtEnd>,
    election: JoinHandle<Ended>,
}

/// The observed state of a held Lease.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) lease: LeaseName,
    /// Its holder identity.
    pub(super) identity: String,
    pub(super) leadership: watch::Receiver<Leadership>,
}

/// What to do with a Lease at the end.
#[derive(Clone, Copy, Debug)]
enum Keep {
    /// Release it.
    Release,
    /// Keep it for ten minutes from the end.
    FromTheEnd,
    /// Keep it for as long as the earlier `prune` kept it.
    Until(Timestamp),
}

impl Held {
    /// Returns a view of its state.
    pub(super) fn watched(&self) -> Watched {
        let (lease, identity) = (self.lease.clone(), self.identity.clone());
        Watched { lease, identity, leadership: self.leadership.clone() }
    }

    /// Releases the Lease, or leaves it in place for as long as it must keep controllers from writing.
    pub(super) async fn end(self, at_end: AtEnd) -> LeaseEnd {
        match self.keep {
            Keep::Release => self.release(at_end).await,
            Keep::FromTheEnd => self.keep(None, clock::now() + KEEP).await,
            Keep::Until(until) => self.keep(None, until).await,
        }
    }

    async fn release(self, at_end: AtEnd) -> LeaseEnd {
        // The receiver is dropped only when the election has ended.
        let _ = self.at_end.send(at_end);
        match self.election.await {
            Ok(Ended::Released) => LeaseEnd::Released,
            Ok(Ended::Lost | Ended::NotHeld) => LeaseEnd::Lost,
            Ok(Ended::Expires) => LeaseEnd::Expires("a patch without a response may still be applied".to_owned()),
            Ok(Ended::NotReleased(why)) => LeaseEnd::Expires(why),
            Err(error) => LeaseEnd::Expires(error.to_string()),
        }
    }

    /// Leaves the Lease in place, under the identity of a `prune` that has ended.
    async fn keep(self, identity: Option<String>, until: Timestamp) -> LeaseEnd {
        // A renewal in flight that is applied later shows itself by a conflict.
        let _ = self.at_end.send(AtEnd::Expire);
        let _ = self.election.await;
        let ended = identity.unwrap_or_else(|| holder::ended_identity(&self.identity));
        match leave_behind(&self.client, &self.lease, &self.identity, &ended, until).await {
            Ok(()) => LeaseEnd::Kept(until),
            Err(why) => LeaseEnd::NotKept(why),
        }
    }

    /// Restores the Lease: kept by the earlier `prune`, or released.
    pub(super) async fn undo(mut self, progress: &impl Fn(String)) {
        let lease = self.lease.clone();
        let end = match self.before.take() {
            Some((identity, until)) => self.keep(Some(identity), until).await,
            None => self.release(AtEnd::Release).await,
        };
        match end {
            LeaseEnd::NotKept(why) => progress(format!("cannot keep the lease {lease} any longer: {why}")),
            LeaseEnd::Expires(why) => {
                progress(format!("cannot release the lease {lease}: {why}; it expires within {LEASE_DURATION:?}"))
            }
            LeaseEnd::Released | LeaseEnd::Kept(_) | LeaseEnd::Lost => {}
        }
    }
}

/// Takes a Lease. Restores it on failure.
pub(super) async fn take(
    client: &Client,
    lease: &Lease,
    is_take_over: bool,
    progress: &impl Fn(String),
) -> Result<Held, String> {
    let now = clock::now();
    let holder = holder::holder(lease);
    let kept_until = holder::kept_until(lease, now);
    let has_ended = holder.is_some_and(|holder| Kind::of(holder) == Kind::EndedPrune);
    let kept = has_ended && kept_until.is_some();
    let keep = match kept_until {
        _ if is_take_over => Keep::FromTheEnd,
        Some(until) => Keep::Until(until),
        None => Keep::Release,
    };
    let before = holder.zip(kept_until).map(|(holder, until)| {
        let ended = if has_ended { holder.to_owned() } else { holder::ended_identity(holder) };
        (ended, until)
    });
    let acquire = if is_take_over { Acquire::Force } else { Acquire::FromEndedPrune };
    let LeaseName { namespace, name } = name(lease);
    let identity = holder::prune_identity(now);
    let candidate =
        Candidate { namespace, name, identity: identity.clone(), duration: LEASE_DURATION, acquire, reacquires: false };
    let limit = if is_take_over || kept { ACQUIRE_LIMIT } else { duration(lease) + ACQUIRE_MARGIN };
    if let (Some(holder), false, false) = (holder, is_take_over, kept) {
        progress(format!("waiting up to {limit:?} for the lease {} of {holder}, which has expired", self::name(lease)));
    }
    let (lead, mut leadership) = watch::channel(Leadership::Standby(None));
    let (at_end, end) = oneshot::channel();
    let election = tokio::spawn(lease::run(client.clone(), candidate, lead, end));
    let taken = leadership.wait_for(|leadership| match leadership {
        Leadership::Leader { .. } | Leadership::Unavailable(_) => true,
        Leadership::Standby(_) => false,
    });
    let taken = timeout(limit, taken).await.map(|taken| taken.map(|taken| taken.clone()));
    let (client, lease) = (client.clone(), self::name(lease));
    let held = Held { client, lease, identity, keep, before, leadership, at_end, election };
    let why = match taken {
        Ok(Ok(Leadership::Leader { .. })) => return Ok(held),
        Ok(Ok(Leadership::Unavailable(why))) => why,
        Ok(Ok(Leadership::Standby(_)) | Err(_)) => "the election has ended".to_owned(),
        Err(_) => format!("within {limit:?}, another process renewed it or the API server did not respond"),
    };
    // A write in flight may have taken it: release it for the controllers, or keep it as before.
    held.undo(progress).await;
    Err(why)
}

/// Returns the name of a Lease.
pub(super) fn name(lease: &Lease) -> LeaseName {
    LeaseName { namespace: lease.namespace().unwrap_or_default(), name: lease.name_any() }
}

/// Returns the Lease duration.
pub(super) fn duration(lease: &Lease) -> Duration {
    holder::duration(lease).unwrap_or(LEASE_DURATION)
}
