//! Leases of a fake API server: which are taken, and how they are left.

use k8s_openapi::jiff::ToSpan as _;
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::super::held::{ACQUIRE_LIMIT, LEASE_DURATION};
use super::*;
use crate::cluster::lease::fake_api::{FakeApi, Fault};

const ANY: LeaseSelector = LeaseSelector { namespace: None, name: None };

/// A Lease of the controllers, renewed now.
fn put(api: &FakeApi, name: &str, holder: &str, seconds: i32) {
    let mut lease = lease(holder, 0, 0);
    let spec = lease.spec.as_mut().unwrap();
    spec.lease_duration_seconds = Some(seconds);
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    lease.metadata.name = Some(name.to_owned());
    lease.metadata.labels = Some([(holder::LABEL.0.to_owned(), holder::LABEL.1.to_owned())].into());
    api.put(lease);
}

async fn guard(api: &FakeApi, if_active: IfControllerActive) -> Result<LeaseGuard, LeaseGuardError> {
    LeaseGuard::new(&api.client(), &ANY, if_active, |_| ()).await
}

fn holder_of(api: &FakeApi, name: &str) -> Option<String> {
    holder::holder(&api.lease(name)).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn kept_lease_stays_as_it_was_where_another_cannot_be_taken() {
    let api = FakeApi::default();
    put(&api, "a", ENDED, 500);
    put(&api, "b", "", 60);
    for _ in 0..200 {
        api.fail_next("b", Fault::Rejected(403));
    }
    let expiry = holder::expiry(&api.lease("a")).unwrap();
    let error = guard(&api, IfControllerActive::Refuse).await.err().unwrap();
    assert!(error.to_string().contains("cannot take the lease system/b"), "{error}");
    assert_eq!(holder_of(&api, "a").as_deref(), Some(ENDED));
    let now = holder::expiry(&api.lease("a")).unwrap();
    assert!(now.duration_since(expiry).abs() <= 1.second().try_into().unwrap(), "{expiry}, {now}");
    assert!(api.lease("a").spec.unwrap().lease_duration_seconds > Some(400));
}

#[tokio::test(start_paused = true)]
async fn second_run_keeps_what_the_first_has_promised_while_it_works() {
    let api = FakeApi::default();
    put(&api, "a", "controller_1a2b3c4d", 15);
    let first = guard(&api, IfControllerActive::TakeOver).await.unwrap();
    let ended = first.end(AtEnd::Release).await;
    let [EndedLease { end: LeaseEnd::Kept(until), .. }] = &ended[..] else { panic!("{ended:?}") };
    let second = guard(&api, IfControllerActive::Refuse).await.unwrap();
    let lease = api.lease("a");
    assert!(holder_of(&api, "a").unwrap().starts_with("prune_"));
    assert_eq!(holder::kept_until(&lease, Timestamp::now()), Some(*until), "{lease:?}");
    let ended = second.end(AtEnd::Expire).await;
    assert_eq!(ended[0].end, LeaseEnd::Kept(*until), "kept, whatever may still be applied");
}

/// The write is applied when nobody waits for it any more.
#[tokio::test(start_paused = true)]
async fn lease_that_is_not_acquired_in_time_is_released() {
    let api = FakeApi::default();
    put(&api, "a", "controller_1a2b3c4d", 15);
    let start = Instant::now();
    for _ in 0..200 {
        api.fail_next("a", Fault::Lost);
    }
    let error = guard(&api, IfControllerActive::TakeOver).await.err().unwrap();
    assert!(error.to_string().contains("cannot take the lease"), "{error}");
    let limit = ACQUIRE_LIMIT.as_secs();
    assert!((limit..limit + 5).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(holder_of(&api, "a").as_deref(), Some("controller_1a2b3c4d"));

    let api = FakeApi::default();
    put(&api, "a", "controller_1a2b3c4d", 15);
    api.silence_watches();
    api.fail_next("a", Fault::AppliedUnanswered);
    for _ in 0..200 {
        api.fail_next("a", Fault::Rejected(500));
    }
    api.heal_after(ACQUIRE_LIMIT);
    let error = guard(&api, IfControllerActive::TakeOver).await.err().unwrap();
    assert!(error.to_string().contains("cannot take the lease"), "{error}");
    assert_eq!(holder_of(&api, "a"), None, "the controllers go on at once");
}

/// Somebody else had the Lease while this process was suspended.
#[tokio::test(start_paused = true)]
async fn lease_that_another_took_and_released_is_reported_at_the_end() {
    let api = FakeApi::default();
    put(&api, "a", "", 60);
    let guard = guard(&api, IfControllerActive::Refuse).await.unwrap();
    let mut permissions = std::pin::pin!(guard.permissions());
    assert!(matches!(permissions.next().await, Some(Permission::Granted(Some(_)))));
    api.silence_watches();
    put(&api, "a", "", 15);
    let ended = guard.end(AtEnd::Release).await;
    assert_eq!(ended[0].end, LeaseEnd::Lost);
}

#[tokio::test(start_paused = true)]
async fn permission_follows_every_lease() {
    let api = FakeApi::default();
    put(&api, "a", "", 60);
    put(&api, "b", "", 60);
    let guard = guard(&api, IfControllerActive::Refuse).await.unwrap();
    let mut permissions = std::pin::pin!(guard.permissions());
    assert!(matches!(permissions.next().await, Some(Permission::Granted(Some(_)))));
    put(&api, "b", "controller_1a2b3c4d", 15);
    let is_revoked = |permission: &Permission| matches!(permission, Permission::Revoked(_));
    let revoked = permissions.filter(|permission| std::future::ready(is_revoked(permission)));
    let revoked = tokio::time::timeout(LEASE_DURATION, std::pin::pin!(revoked).next()).await;
    let Ok(Some(Permission::Revoked(why))) = revoked else { panic!("{revoked:?}") };
    assert!(why.contains("system/b is lost"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn lease_of_the_default_name_is_found_without_a_label() {
    let api = FakeApi::default();
    put(&api, "node-resource-advertiser", "controller_1a2b3c4d", 60);
    let mut lease = api.lease("node-resource-advertiser");
    lease.labels_mut().clear();
    api.put(lease);
    let error = guard(&api, IfControllerActive::Refuse).await.err().unwrap();
    assert!(matches!(error, LeaseGuardError::Controller { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn take_over_creates_a_lease_that_does_not_exist_yet() {
    let api = FakeApi::default();
    let choice = LeaseSelector { namespace: Some("system".to_owned()), name: Some("later".to_owned()) };
    let guard = LeaseGuard::new(&api.client(), &choice, IfControllerActive::TakeOver, |_| ()).await;
    let ended = guard.unwrap().end(AtEnd::Release).await;
    assert!(matches!(ended[0].end, LeaseEnd::Kept(_)), "{ended:?}");
    assert!(holder_of(&api, "later").unwrap().ends_with("_ended"));
}
