//! The baseline of the second rule's rollout: the same patches, as many per second as an installation sends, beside the
//! rows about one node.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use json_patch::Patch as JsonPatch;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use node_resource_advertiser::model::api::FIELD_MANAGER;
use node_resource_advertiser::model::node::ApiNode;
use serde_json::json;

use crate::baseline::{Task, write_ledger};
use crate::cluster::{
    Cluster, MAX_CONCURRENT_PATCHES, OTHER_RESOURCE, OTHER_RULE, QUANTITY, RESOURCE, ROLLOUT_RATE, RULE, has_other,
};
use crate::nodes;

/// Starts to patch one node after another. It ends when the returned value is dropped.
pub fn start(client: &Client, node_count: usize) -> Result<Task> {
    let api = Api::<ApiNode>::all(client.clone());
    let patch = patch(true)?;
    let patches = ticks(ROLLOUT_RATE).zip(stream::iter(0..node_count)).for_each_concurrent(MAX_CONCURRENT_PATCHES, {
        move |((), number)| {
            let (api, patch) = (api.clone(), patch.clone());
            async move {
                if let Err(error) = send(&api, &nodes::name(number), &patch).await {
                    eprintln!("error: {error:#}");
                }
            }
        }
    });
    Ok(Task::spawn(patches))
}

/// Returns a stream with so many items a second.
pub fn ticks(rate: u32) -> impl Stream<Item = ()> {
    stream::unfold(tokio::time::interval(Duration::from_secs(1) / rate), |mut ticks| async {
        ticks.tick().await;
        Some(((), ticks))
    })
}

/// Removes the resource from all nodes that have it.
pub async fn withdraw(cluster: &Cluster) -> Result<()> {
    let api = &Api::<ApiNode>::all(cluster.client.clone());
    let patch = &patch(false)?;
    let nodes = cluster.list_nodes().await?;
    stream::iter(nodes.into_iter().filter(has_other))
        .map(|node| async move { send(api, &node.name, patch).await })
        .buffer_unordered(MAX_CONCURRENT_PATCHES)
        .try_collect()
        .await
}

/// Returns a patch that adds the resource and its entry in the ledger, or removes both.
fn patch(is_added: bool) -> Result<JsonPatch> {
    let quantity = QUANTITY.to_string();
    let entries = [(RESOURCE, RULE), (OTHER_RESOURCE, OTHER_RULE)];
    let ledger = write_ledger(QUANTITY, if is_added { &entries } else { &entries[..1] });
    let path = OTHER_RESOURCE.replace('/', "~1");
    let values = ["capacity", "allocatable"].map(|map| {
        let path = format!("/status/{map}/{path}");
        if is_added {
            json!({"op": "add", "path": path, "value": quantity})
        } else {
            json!({"op": "remove", "path": path})
        }
    });
    let operations = values.into_iter().chain([ledger]).collect();
    serde_json::from_value(operations).context("the patch does not decode")
}

async fn send(api: &Api<ApiNode>, node: &str, patch: &JsonPatch) -> Result<()> {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_status(node, &params, &Patch::Json::<()>(patch.clone())).await {
        // The bench has deleted the node, to register it again.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("a patch of {node} failed")),
        Ok(_) => Ok(()),
    }
}
