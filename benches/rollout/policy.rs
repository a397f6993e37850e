//! The chart's admission policy, in force for as long as it is to be measured.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use node_resource_advertiser::model::node::ApiNode;
use serde_json::json;

use crate::cluster::Cluster;
use crate::fleet;

/// What the chart calls all that it installs, its namespace too.
const NAME: &str = "node-resource-advertiser";
/// A policy takes effect some hundred milliseconds after it is bound.
const EFFECT: Duration = Duration::from_secs(30);

/// Has the policy bound again, as the chart does it, and waits until it is in force; a client of the
/// chart's ServiceAccount.
pub async fn bind(cluster: &Cluster) -> Result<Client> {
    let token = cluster.control_plane.kubectl(&["create", "token", NAME, "--namespace", NAME])?;
    let client = cluster.client_with(token.trim().to_owned())?;
    cluster.install()?;
    tokio::time::timeout(EFFECT, wait_effect(&client))
        .await
        .with_context(|| format!("waited {EFFECT:?} in vain for the policy to take effect"))??;
    Ok(client)
}

/// Takes the binding away.
pub async fn unbind(cluster: &Cluster) -> Result<()> {
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(cluster.client.clone());
    let deleted = bindings.delete(NAME, &DeleteParams::default()).await;
    deleted.context("the policy cannot be unbound")?;
    Ok(())
}

/// Until a label is refused. What is tried changes nothing.
async fn wait_effect(client: &Client) -> Result<()> {
    let label = json!([{"op": "add", "path": "/metadata/labels/example.com~1label", "value": "x"}]);
    let patch = Patch::Json::<()>(serde_json::from_value(label)?);
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let api = Api::<ApiNode>::all(client.clone());
    loop {
        match api.patch_status(&fleet::name(0), &params, &patch).await {
            Err(kube::Error::Api(status)) if status.message.contains("may not change") => {
                return Ok(());
            }
            Err(error) => return Err(error).context("no patch goes through"),
            Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
