//! Edits of nodes while the controller or the baseline runs, one node at a time, and the time until all nodes
//! are as desired again.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::Api;
use kube::api::{Patch, PatchParams};
use node_resource_advertiser::model::node::ApiNode;
use serde_json::json;

use crate::cluster::{Cluster, RESOURCE};
use crate::nodes;
use crate::observer::Observer;
use crate::proxy::Proxy;

const REPAIRS: usize = 200;
/// The controller backs off when a value is reverted five times on one node.
const MAX_REPAIRS_PER_NODE: usize = 4;
const NEW_NODES: usize = 100;
const DEADLINE: Duration = Duration::from_secs(60);
/// Spreads consecutive edits over all nodes: a prime.
const STRIDE: usize = 7919;
/// Another field manager, and its value.
const OTHER: (&str, &str) = ("other", "3");

/// Writes another value on one node after another, as another field manager, and waits for the desired value.
/// Measures from the response to the edit until the observer sees the desired value.
pub async fn repairs(cluster: &Cluster, observer: &Observer) -> Result<Vec<Duration>> {
    let count = REPAIRS.min(MAX_REPAIRS_PER_NODE * cluster.node_count);
    let mut latencies = Vec::with_capacity(count);
    for number in 0..count {
        let before = observer.seen();
        write(cluster, number * STRIDE % cluster.node_count, OTHER).await?;
        let start = Instant::now();
        let repaired = observer.wait_complete(&before, DEADLINE).await?;
        latencies.push(repaired.saturating_duration_since(start));
    }
    Ok(latencies)
}

/// Replaces one node after another by a new node of the same name. Measures from the response to the
/// registration until the observer sees the value.
pub async fn new_nodes(cluster: &Cluster, observer: &Observer) -> Result<Vec<Duration>> {
    let count = NEW_NODES.min(cluster.node_count);
    let mut latencies = Vec::with_capacity(count);
    for number in 0..count {
        let number = number * STRIDE % cluster.node_count;
        nodes::delete(&cluster.client, number).await?;
        cluster.count_own_request("DELETE nodes");
        let before = observer.seen();
        nodes::register(&cluster.client, number).await?;
        cluster.count_own_request("POST nodes");
        let start = Instant::now();
        let advertised = observer.wait_complete(&before, DEADLINE).await?;
        latencies.push(advertised.saturating_duration_since(start));
    }
    Ok(latencies)
}

pub struct Relist {
    /// Measured from the first request for the list.
    pub time: Duration,
    /// Measured from the end of the watch. The backoff in between is random.
    pub time_with_backoff: Duration,
}

/// Ends the watch on nodes behind `proxy` with 410 Expired, and waits for the repair of a value that only the
/// new list shows, on the last node in the list.
pub async fn relist(cluster: &Cluster, observer: &Observer, proxy: &Proxy) -> Result<Relist> {
    proxy.hold();
    let before = observer.seen();
    write(cluster, cluster.node_count - 1, OTHER).await?;
    let expired = Instant::now();
    proxy.expire();
    let repaired = observer.wait_complete(&before, DEADLINE).await?;
    let listed = proxy.listed_at().context("repaired without a new list")?;
    Ok(Relist {
        time: repaired.saturating_duration_since(listed),
        time_with_backoff: repaired.saturating_duration_since(expired),
    })
}

/// Sets a node's value to 0, as a kubelet that restarts.
pub async fn reset(cluster: &Cluster, number: usize) -> Result<()> {
    write(cluster, number, ("kubelet", "0")).await
}

/// Writes a value, as a field manager.
async fn write(cluster: &Cluster, number: usize, (manager, value): (&str, &str)) -> Result<()> {
    let path = RESOURCE.replace('/', "~1");
    let operations = ["capacity", "allocatable"]
        .map(|map| json!({"op": "replace", "path": format!("/status/{map}/{path}"), "value": value}));
    let patch = Patch::Json::<()>(serde_json::from_value(json!(operations))?);
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let name = nodes::name(number);
    let api = Api::<ApiNode>::all(cluster.client.clone());
    let patched = api.patch_status(&name, &params, &patch).await;
    patched.with_context(|| format!("cannot change {name}"))?;
    cluster.count_own_request("PATCH nodes/status");
    Ok(())
}
