//! The chart's admission policy, in force only while it is measured.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use node_resource_advertiser::model::node::ApiNode;
use serde_json::json;

use crate::cluster::Cluster;
use crate::nodes;

/// The name of everything that the chart installs, its namespace included.
const NAME: &str = "node-resource-advertiser";
/// A policy takes effect some hundred milliseconds after it is bound.
const EFFECT_DEADLINE: Duration = Duration::from_secs(30);

/// Binds the policy as the chart does, and waits until it is in force. Returns a client with the
/// token of the chart's ServiceAccount.
pub async fn bind(cluster: &Cluster) -> Result<Client> {
    let token = cluster.control_plane.kubectl(&["create", "token", NAME, "--namespace", NAME])?;
    let client = cluster.client_with(token.trim().to_owned())?;
    cluster.install()?;
    tokio::time::timeout(EFFECT_DEADLINE, wait_effect(&client))
        .await
        .with_context(|| format!("the policy has no effect after {EFFECT_DEADLINE:?}"))??;
    Ok(client)
}

/// Deletes the binding.
pub async fn unbind(cluster: &Cluster) -> Result<()> {
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(cluster.client.clone());
    let deleted = bindings.delete(NAME, &DeleteParams::default()).await;
    deleted.context("the policy cannot be unbound")?;
    Ok(())
}

/// Waits until a label is rejected. The attempts are dry runs.
async fn wait_effect(client: &Client) -> Result<()> {
    let label = json!([{"op": "add", "path": "/metadata/labels/example.com~1label", "value": "x"}]);
    let patch = Patch::Json::<()>(serde_json::from_value(label)?);
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let api = Api::<ApiNode>::all(client.clone());
    loop {
        match api.patch_status(&nodes::name(0), &params, &patch).await {
            Err(kube::Error::Api(status)) if status.message.contains("may not change") => {
                return Ok(());
            }
            Err(error) => return Err(error).context("the dry run of a patch fails"),
            Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
