//! Pods on the nodes, for the rows that depend on them: about 4.5 KB of JSON each. Some of them request the resource,
//! no more than the rule declares even when it is lowered.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::{LOWERED, POD_PAGE_SIZE, RESOURCE};
use crate::nodes;

const PER_NODE: usize = 10;
/// One node in this number has a pod that requests the resource.
const REQUESTING_SHARE: usize = 10;

const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Returns the number of requests with which the controller lists all pods.
pub fn pages(node_count: usize) -> usize {
    (node_count * PER_NODE).div_ceil(POD_PAGE_SIZE as usize)
}

/// Returns the number of nodes whose pods request the resource.
pub fn requesting_nodes(node_count: usize) -> usize {
    node_count.div_ceil(REQUESTING_SHARE)
}

/// Returns the number of one of these nodes.
pub fn requesting_node(number: usize) -> usize {
    number * REQUESTING_SHARE
}

/// A pod that is bound to a node.
#[derive(Clone, Debug)]
pub struct BoundPod {
    pub app: String,
    /// The number of the node.
    pub node: usize,
    /// How much of the resource it requests.
    pub amount: i64,
}

impl BoundPod {
    fn name(&self) -> String {
        format!("{}-{}", self.app, nodes::name(self.node))
    }
}

/// Creates the pods that are on the nodes in every row.
pub async fn create_all(client: &Client, node_count: usize) -> Result<()> {
    let pods = (0..node_count * PER_NODE).map(|number| {
        let (node, place) = (number / PER_NODE, number % PER_NODE);
        let requests = place == 0 && node.is_multiple_of(REQUESTING_SHARE);
        BoundPod { app: format!("service-{place}"), node, amount: if requests { LOWERED } else { 0 } }
    });
    create(client, pods).await
}

pub async fn create(client: &Client, pods: impl Iterator<Item = BoundPod>) -> Result<()> {
    let api = Api::<Pod>::default_namespaced(client.clone());
    stream::iter(pods).map(|pod| create_one(&api, pod)).buffer_unordered(MAX_CONCURRENT_REQUESTS).try_collect().await
}

async fn create_one(api: &Api<Pod>, pod: BoundPod) -> Result<()> {
    let object = serde_json::from_value(object(&pod)).context("the pod does not decode")?;
    let created = api.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("cannot create {}", pod.name()))?;
    Ok(())
}

/// Deletes a pod at once, as if it had ended.
pub async fn end(client: &Client, pod: &BoundPod) -> Result<()> {
    let (name, at_once) = (pod.name(), DeleteParams::default().grace_period(0));
    let deleted = Api::<Pod>::default_namespaced(client.clone()).delete(&name, &at_once).await;
    deleted.with_context(|| format!("cannot delete {name}"))?;
    Ok(())
}

/// Changes a pod's status to one that no other number gives it.
pub async fn change(client: &Client, pod: &BoundPod, number: usize) -> Result<()> {
    let name = pod.name();
    let status = Patch::Merge(json!({"status": {"message": format!("{number} of {:?}", Instant::now())}}));
    let api = Api::<Pod>::default_namespaced(client.clone());
    let changed = api.patch_status(&name, &PatchParams::default(), &status).await;
    changed.with_context(|| format!("cannot change {name}"))?;
    Ok(())
}

fn object(pod: &BoundPod) -> Value {
    let BoundPod { app, node, amount } = pod;
    let mut requests = json!({"cpu": "100m", "memory": "128Mi"});
    if *amount > 0 {
        requests[RESOURCE] = json!(amount.to_string());
    }
    let variables = (0..10).map(|variable| {
        let value = format!("https://backend-{variable}.example.com/api/{app}");
        json!({"name": format!("BACKEND_{variable}"), "value": value})
    });
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod.name(),
            "labels": {
                "app.kubernetes.io/name": app, "app.kubernetes.io/version": "1.2.3",
                "pod-template-hash": "5d59d67564",
            },
        },
        "spec": {
            "nodeName": nodes::name(*node),
            "containers": [{
                "name": "app", "image": format!("registry.example.com/{app}:v1.2.3"),
                "env": variables.collect::<Value>(),
                "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": requests, "limits": requests},
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{"name": "cache", "mountPath": "/var/cache/app"}],
            }],
            "volumes": [{"name": "cache", "emptyDir": {}}],
        },
    })
}
