//! Pods on the nodes, for the rows that depend on them: about 4.5 KB of JSON each. Some of them request the resource,
//! no more than the rule declares even when it is lowered.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::{LOWERED, RESOURCE};
use crate::nodes;

const PER_NODE: usize = 10;
/// One node in this number has a pod that requests the resource.
const REQUESTING_SHARE: usize = 10;
/// The page size of the list with which the controller begins to watch pods.
const PAGE_SIZE: usize = 2500;

const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Returns the number of requests with which the controller lists all pods.
pub fn pages(node_count: usize) -> usize {
    (node_count * PER_NODE).div_ceil(PAGE_SIZE)
}

/// Returns the number of nodes whose pods request the resource.
pub fn requesting_nodes(node_count: usize) -> usize {
    node_count.div_ceil(REQUESTING_SHARE)
}

/// Creates the pods, bound to their nodes.
pub async fn create_all(client: &Client, node_count: usize) -> Result<()> {
    let api = Api::<Pod>::default_namespaced(client.clone());
    stream::iter(0..node_count * PER_NODE)
        .map(|number| create_one(&api, number))
        .buffer_unordered(MAX_CONCURRENT_REQUESTS)
        .try_collect()
        .await
}

async fn create_one(api: &Api<Pod>, number: usize) -> Result<()> {
    let pod = serde_json::from_value(pod(number)).context("the pod does not decode")?;
    let created = api.create(&PostParams::default(), &pod).await;
    created.with_context(|| format!("cannot create pod {number}"))?;
    Ok(())
}

fn name(number: usize) -> String {
    format!("service-{}-{}", number % PER_NODE, nodes::name(number / PER_NODE))
}

fn pod(number: usize) -> Value {
    let (node, place) = (number / PER_NODE, number % PER_NODE);
    let mut requests = json!({"cpu": "100m", "memory": "128Mi"});
    if place == 0 && node.is_multiple_of(REQUESTING_SHARE) {
        requests[RESOURCE] = json!(LOWERED.to_string());
    }
    let app = format!("service-{place}");
    let variables = (0..10).map(|variable| {
        let value = format!("https://backend-{variable}.example.com/api/{app}");
        json!({"name": format!("BACKEND_{variable}"), "value": value})
    });
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(number),
            "labels": {
                "app.kubernetes.io/name": app, "app.kubernetes.io/version": "1.2.3",
                "pod-template-hash": "5d59d67564",
            },
        },
        "spec": {
            "nodeName": nodes::name(node),
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
