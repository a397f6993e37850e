//! Whether controllers lead.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;

use crate::cluster::lease::LeaseName;
use crate::election::holder::{self, Kind};
use crate::inspect::doctor::read::version;
use crate::inspect::lists;
use crate::response::request_error::RequestError;

/// Returns whether a controller holds an unexpired Lease; `None` if Leases cannot be listed.
pub(crate) async fn leads(client: &Client) -> Option<bool> {
    Some(!leading(client).await.ok()?.is_empty())
}

/// Returns the Leases that controllers hold and that have not expired, by the API server's clock: that of this machine may
/// be wrong by more than a Lease lasts.
pub(crate) async fn leading(client: &Client) -> Result<Vec<LeaseName>, RequestError> {
    let requests = lists::requests(client);
    let (leases, (_, now)) = tokio::join!(lists::leases(&requests, None), version(&requests));
    let leads = |lease: &Lease| {
        let is_controller = holder::holder(lease).map(Kind::of) == Some(Kind::Controller);
        is_controller && holder::is_live(lease, now)
    };
    let name = |lease: Lease| LeaseName {
        namespace: lease.metadata.namespace.unwrap_or_default(),
        name: lease.metadata.name.unwrap_or_default(),
    };
    Ok(leases?.into_iter().filter(leads).map(name).collect())
}
