//! The chart's admission policy, bound only while it is measured.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use node_resource_advertiser::model::node::ApiNode;
use serde_json::json;

use crate::cluster::Cluster;
use crate::nodes;

/// The name of everything that the chart installs, including its namespace.
const NAME: &str = "node-resource-advertiser";
/// A policy takes effect some hundred milliseconds after it is bound.
const EFFECT_DEADLINE: Duration = Duration::from_secs(30);

/// Returns a client with the token of the chart's ServiceAccount.
pub async fn client(cluster: &Cluster) -> Result<Client> {
    let token = cluster.control_plane.kubectl(&["create", "token", NAME, "--namespace", NAME])?;
    cluster.client_with(token.trim().to_owned()).await
}

/// Binds the policy as the chart does, and waits until it is in force for this client.
pub async fn bind(cluster: &Cluster, client: &Client) -> Result<()> {
    cluster.install()?;
    wait_effect(client, true).await
}

/// Deletes the binding.
pub async fn delete_binding(cluster: &Cluster) -> Result<()> {
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(cluster.client.clone());
    let deleted = bindings.delete(NAME, &DeleteParams::default()).await;
    deleted.context("cannot unbind the policy")?;
    Ok(())
}

/// Deletes the binding, and waits until the policy is no longer in force for this client.
pub async fn unbind(cluster: &Cluster, client: &Client) -> Result<()> {
    delete_binding(cluster).await?;
    wait_effect(client, false).await
}

async fn wait_effect(client: &Client, in_force: bool) -> Result<()> {
    let what = if in_force { "has no effect" } else { "still has an effect" };
    tokio::time::timeout(EFFECT_DEADLINE, poll_effect(client, in_force))
        .await
        .with_context(|| format!("the policy {what} after {EFFECT_DEADLINE:?}"))?
}

/// Tries to write a label, by dry runs, until that is rejected, or no longer.
async fn poll_effect(client: &Client, in_force: bool) -> Result<()> {
    let label = json!([{"op": "add", "path": "/metadata/labels/example.com~1label", "value": "x"}]);
    let patch = Patch::Json::<()>(serde_json::from_value(label)?);
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let api = Api::<ApiNode>::all(client.clone());
    loop {
        let is_rejected = match api.patch_status(&nodes::name(0), &params, &patch).await {
            Err(kube::Error::Api(status)) if status.message.contains("may not change") => true,
            Err(error) => return Err(error).context("cannot send the dry run of a patch"),
            Ok(_) => false,
        };
        if is_rejected == in_force {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
