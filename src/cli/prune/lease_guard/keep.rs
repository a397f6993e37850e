//! The last write of a Lease that stays in place.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use crate::cluster::clock;
use crate::cluster::lease::LeaseName;
use crate::cluster::stored::Stored;
use crate::election::holder;
use crate::model::api::FIELD_MANAGER;
use crate::response::error::describe;

/// The number of attempts to write, and the timeout of each.
const TRIES: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes the Lease of `identity` for the last time, with the holder `ended`, so that it stays until `until`.
pub(super) async fn leave_behind(
    client: &Client,
    lease: &LeaseName,
    identity: &str,
    ended: &str,
    until: Timestamp,
) -> Result<(), String> {
    let mut why = String::new();
    for attempt in 0..TRIES {
        if attempt > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        match timeout(TIMEOUT, write_last(client, lease, identity, ended, until)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(LastWriteError::Lost(why))) => return Err(why),
            Ok(Err(LastWriteError::Failed(error))) => why = describe(&error),
            Err(_) => why = format!("no response within {TIMEOUT:?}"),
        }
    }
    Err(why)
}

enum LastWriteError {
    Lost(String),
    Failed(kube::Error),
}

async fn write_last(
    client: &Client,
    lease: &LeaseName,
    identity: &str,
    ended: &str,
    until: Timestamp,
) -> Result<(), LastWriteError> {
    let LeaseName { namespace, name } = lease;
    let api = Api::<Stored<Lease>>::namespaced(client.clone(), namespace);
    // The controllers' Role does not grant get.
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let leases = api.list(&params).await.map_err(LastWriteError::Failed)?;
    let Some(Stored(mut lease)) = leases.items.into_iter().next() else {
        return Err(LastWriteError::Lost("it was deleted".to_owned()));
    };
    match holder::holder(&lease) {
        Some(holder) if holder == identity => {}
        // The previous attempt was applied, and its response was lost.
        Some(holder) if holder == ended => return Ok(()),
        Some(holder) => return Err(LastWriteError::Lost(format!("{holder} holds it now"))),
        None => return Err(LastWriteError::Lost("another client released it".to_owned())),
    }
    // Rounded up: the renewal time compensates for it, so the expiry is exact.
    let left = until.duration_since(clock::now()).as_secs().saturating_add(1).max(1);
    let renewed = until.checked_sub(SignedDuration::from_secs(left)).unwrap_or(until);
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(holder::KEPT_UNTIL.to_owned(), until.to_string());
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(ended.to_owned());
    spec.renew_time = Some(MicroTime(renewed));
    spec.lease_duration_seconds = i32::try_from(left).ok();
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
    api.replace(name, &params, &Stored(lease)).await.map(drop).map_err(LastWriteError::Failed)
}
