//! Which Leases the controllers have.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::cluster::lease::holder;

/// The name that the Lease has where none is chosen. A controller of an older version has set no label.
const DEFAULT_NAME: &str = "node-resource-advertiser";

/// Which Lease the controllers have.
#[derive(Clone, Debug)]
pub struct LeaseSelector {
    /// Its namespace; where none is given, all are searched.
    pub namespace: Option<String>,
    /// Its name; where none is given, every Lease with the controllers' label or the default name counts.
    pub name: Option<String>,
}

/// Lists the Leases.
pub(super) async fn list(
    client: &Client,
    choice: &LeaseSelector,
) -> Result<Vec<Lease>, kube::Error> {
    let api = match &choice.namespace {
        Some(namespace) => Api::<Lease>::namespaced(client.clone(), namespace),
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
        for lease in list? {
            if leases.iter().all(|other| other.metadata.uid != lease.metadata.uid) {
                leases.push(lease);
            }
        }
    }
    Ok(leases)
}

/// A Lease that does not exist yet.
pub(super) fn unwritten(namespace: &str, name: &str) -> Lease {
    let metadata = ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    Lease { metadata, ..Lease::default() }
}
