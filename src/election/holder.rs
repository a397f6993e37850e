//! The holder of a Lease, and its expiry.
//!
//! `prune` has its own kind of identity. While it runs, its Lease is like any other. When it ends, it may leave the
//! Lease in place, so that no controller writes for a while: no process writes under such a Lease, so its end can be
//! read from the clock, and deleting it releases it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The label of every Lease that a controller of this program has held. `prune` finds Leases by it, whatever their
/// names.
pub(crate) const LABEL: (&str, &str) = ("noderesource.dev/leader-election", "true");

/// The annotation of a Lease that a `prune` keeps, with the end of that time. It stays while another `prune` runs under
/// the Lease, so that the time also holds if that one is killed.
pub(crate) const KEPT_UNTIL: &str = "noderesource.dev/kept-until";
/// How long a `prune` keeps the Lease after taking it over: within that time, the controllers should be removed.
pub(crate) const KEEP: Duration = Duration::from_secs(600);

/// The longest accepted duration: the one that an ending `prune` writes, in whole seconds. Otherwise anyone who may
/// write the Lease could make every replica stand by for 68 years.
const MAX_DURATION: Duration = Duration::from_secs(KEEP.as_secs() + 1);

const PRUNE: &str = "prune_";
const ENDED: &str = "_ended";

/// The kind of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Controller,
    /// A running or killed `prune`.
    Prune,
    /// A `prune` that has ended and keeps the Lease.
    EndedPrune,
}

impl Kind {
    /// Returns the kind of the holder with this identity.
    pub(crate) fn of(holder: &str) -> Self {
        let Some(rest) = holder.strip_prefix(PRUNE) else { return Self::Controller };
        let (number, kind) = match rest.strip_suffix(ENDED) {
            Some(number) => (number, Self::EndedPrune),
            None => (rest, Self::Prune),
        };
        // The suffix of a controller whose --identity is "prune" has eight digits.
        let is_time = number.len() > 8 && number.bytes().all(|byte| byte.is_ascii_digit());
        if is_time { kind } else { Self::Controller }
    }
}

/// Returns the identity of a `prune` that starts at this time.
pub(crate) fn prune_identity(start: Timestamp) -> String {
    format!("{PRUNE}{}", start.as_nanosecond())
}

/// Returns the identity under which a `prune` leaves its Lease in place.
pub(crate) fn ended_identity(identity: &str) -> String {
    format!("{identity}{ENDED}")
}

/// Returns the identity of a Lease's holder.
pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    Some(holder).filter(|holder| !holder.is_empty())
}

/// Returns the Lease duration, as its holder wrote it, up to a limit.
pub(crate) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(|seconds| Duration::from_secs(seconds).min(MAX_DURATION))
}

/// Returns when the Lease expires, by the clock of its holder.
pub(crate) fn expiry(lease: &Lease) -> Option<Timestamp> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
    renewed.checked_add(SignedDuration::try_from(duration(lease)?).ok()?).ok()
}

/// Returns the time until the Lease expires, at most its own duration.
pub(crate) fn remaining(lease: &Lease, now: Timestamp) -> Duration {
    let remaining = expiry(lease).map(|expiry| expiry.duration_since(now));
    let remaining = remaining.and_then(|remaining| Duration::try_from(remaining).ok());
    remaining.unwrap_or_default().min(duration(lease).unwrap_or_default())
}

/// Returns whether the Lease has not expired, and its time can be true: a renewal in the future is none, but for clocks that
/// differ by less than its duration.
pub(crate) fn is_live(lease: &Lease, now: Timestamp) -> bool {
    let ahead = expiry(lease).map(|expiry| expiry.duration_since(now));
    let ahead = ahead.and_then(|ahead| Duration::try_from(ahead).ok()).filter(|ahead| !ahead.is_zero());
    ahead.is_some_and(|ahead| ahead <= 2 * duration(lease).unwrap_or_default())
}

/// Returns until when a `prune` keeps the Lease, if that is in the future: at most ten minutes ahead, whatever the
/// annotation says.
pub(crate) fn kept_until(lease: &Lease, now: Timestamp) -> Option<Timestamp> {
    let kind = Kind::of(holder(lease)?);
    let annotations = lease.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|annotations| annotations.get(KEPT_UNTIL)?.parse().ok());
    let until = match kind {
        Kind::Controller => None,
        Kind::Prune => annotated,
        Kind::EndedPrune => annotated.max(expiry(lease)),
    };
    until.map(|until| until.min(now + KEEP)).filter(|until| *until > now)
}

/// Returns the Lease as its holder releases it.
pub(crate) fn without_holder(mut lease: Lease) -> Lease {
    lease.spec.get_or_insert_default().holder_identity = None;
    if let Some(annotations) = &mut lease.metadata.annotations {
        annotations.remove(KEPT_UNTIL);
    }
    lease
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn identity_of_a_holder_shows_its_kind() {
        let prune = prune_identity(Timestamp::now());
        for (holder, kind) in [
            (prune.clone(), Kind::Prune),
            (ended_identity(&prune), Kind::EndedPrune),
            ("prune_12345678".to_owned(), Kind::Controller),
            ("prune_1a2b3c4d5e".to_owned(), Kind::Controller),
            ("prune_".to_owned(), Kind::Controller),
            ("prune__ended".to_owned(), Kind::Controller),
            ("node-resource-advertiser-7c9_1a2b3c4d".to_owned(), Kind::Controller),
        ] {
            assert_eq!(Kind::of(&holder), kind, "{holder}");
        }
    }

    #[test]
    fn lease_duration_beyond_what_is_ever_written_is_not_believed() {
        let lease = |seconds| Lease {
            spec: Some(LeaseSpec { lease_duration_seconds: Some(seconds), ..LeaseSpec::default() }),
            ..Lease::default()
        };
        for (written, believed) in [(15, Some(15)), (601, Some(601)), (i32::MAX, Some(601)), (-1, None)] {
            let duration = duration(&lease(written)).map(|duration| duration.as_secs());
            assert_eq!(duration, believed, "{written}");
        }
    }

    #[test]
    fn lease_whose_renewal_is_in_the_future_is_not_live() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let lease = |renewed: &str| Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some("one".to_owned()),
                lease_duration_seconds: Some(15),
                renew_time: renewed.parse().ok().map(MicroTime),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        };
        for (renewed, expected) in [
            ("2026-01-01T11:59:50Z", true),
            ("2026-01-01T11:59:45Z", false),
            // Clocks differ.
            ("2026-01-01T12:00:15Z", true),
            ("2026-01-01T12:00:16Z", false),
            ("2126-01-01T12:00:00Z", false),
            ("9999-12-30T22:00:00Z", false),
            ("", false),
        ] {
            assert_eq!(is_live(&lease(renewed), now), expected, "{renewed}");
        }
    }
}
