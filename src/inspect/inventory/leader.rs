//! Whether controllers lead.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;

use crate::cluster::clock;
use crate::cluster::lease::LeaseName;
use crate::election::holder::{self, Kind};
use crate::inspect::lists;

/// Returns whether a controller holds an unexpired Lease; `None` if Leases cannot be listed.
pub(crate) async fn leads(client: &Client) -> Option<bool> {
    Some(!leading(client).await?.is_empty())
}

/// Returns the unexpired Leases that controllers hold; `None` if Leases cannot be listed.
pub(crate) async fn leading(client: &Client) -> Option<Vec<LeaseName>> {
    let leases = lists::leases(&lists::requests(client), None).await.ok()?;
    let now = clock::now();
    let leads = |lease: &Lease| {
        let is_controller = holder::holder(lease).map(Kind::of) == Some(Kind::Controller);
        is_controller && holder::is_live(lease, now)
    };
    let name = |lease: Lease| LeaseName {
        namespace: lease.metadata.namespace.unwrap_or_default(),
        name: lease.metadata.name.unwrap_or_default(),
    };
    Some(leases.into_iter().filter(leads).map(name).collect())
}
