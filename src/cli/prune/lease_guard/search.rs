//! Finds the Leases of the controllers.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::cluster::stored::Stored;
use crate::election::holder;

/// The default name of the Lease. Controllers of older versions set no label.
const DEFAULT_NAME: &str = "node-resource-advertiser";

/// Selects the Leases of the controllers.
#[derive(Clone, Debug)]
pub struct LeaseSelector {
    /// The namespace; `None` for all namespaces.
    pub namespace: Option<String>,
    /// The name; `None` for every Lease with the controllers' label or the default name.
    pub name: Option<String>,
}

/// Lists the Leases.
pub(super) async fn list(client: &Client, choice: &LeaseSelector) -> Result<Vec<Lease>, kube::Error> {
    let api = match &choice.namespace {
        Some(namespace) => Api::<Stored<Lease>>::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let by_name = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let (label, value) = holder::LABEL;
    let all_params = match &choice.name {
        Some(name) => vec![by_name(name)],
        None => {
            vec![ListParams::default().labels(&format!("{label}={value}")), by_name(DEFAULT_NAME)]
        }
    };
    let mut leases = Vec::<Lease>::new();
    for params in all_params {
        let list = api.list(&params).await;
        for Stored(lease) in list? {
            if leases.iter().all(|other| other.metadata.uid != lease.metadata.uid) {
                leases.push(lease);
            }
        }
    }
    Ok(leases)
}

/// Returns a Lease that does not exist yet.
pub(super) fn unwritten(namespace: &str, name: &str) -> Lease {
    let metadata =
        ObjectMeta { namespace: Some(namespace.to_owned()), name: Some(name.to_owned()), ..ObjectMeta::default() };
    Lease { metadata, ..Lease::default() }
}
