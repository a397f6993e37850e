use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::SignedDuration;

use super::*;

/// A Lease of 60 seconds that was acquired and renewed so many seconds ago.
fn lease(holder: &str, acquired: i64, renewed: i64) -> Lease {
    let ago = |seconds| MicroTime(now() - SignedDuration::from_secs(seconds));
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(60),
        acquire_time: Some(ago(acquired)),
        renew_time: Some(ago(renewed)),
        ..LeaseSpec::default()
    };
    Lease { spec: Some(spec), ..Lease::default() }
}

fn now() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

const PRUNE: &str = "prune_1795279958295983672";
const ENDED: &str = "prune_1795279958295983672_ended";

#[test]
fn take_over_waits_for_those_that_may_still_write() {
    let request = response::TIMEOUT.as_secs();
    for (holder, seconds) in [("controller_1a2b3c4d", 60 + request), (PRUNE, 60 + request), (ENDED, 0), ("", 0)] {
        // Whenever it was acquired, by whatever clock.
        for acquired in [-9000, 0, 45, 9000] {
            let wait = writes_on_for(&lease(holder, acquired, 0));
            assert_eq!(wait.as_secs(), seconds, "{holder} since {acquired} s");
        }
    }
    assert_eq!(writes_on_for(&Lease::default()), Duration::ZERO);
}

#[test]
fn live_holder_is_refused_unless_it_has_ended() {
    let refused = |holder, renewed| refuse_live(&lease(holder, 9000, renewed), now()).err();
    let controller = refused("controller_1a2b3c4d", 20).unwrap().to_string();
    assert!(controller.contains("counts as active for 40s more"), "{controller}");
    let prune = refused(PRUNE, 50).unwrap().to_string();
    assert!(prune.starts_with("another prune is running"), "{prune}");
    assert!(refused(ENDED, 0).is_none() && refused("controller_1a2b3c4d", 60).is_none());
}

mod requests;
