//! Nodes like those of a kubelet and the usual agents: about 13 KB of JSON each.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const MAX_CONCURRENT_REQUESTS: usize = 16;
const KUBELET: &str = "kubelet";

/// Creates `count` nodes. Returns the size in bytes of one in the API server's responses.
pub async fn create_all(client: &Client, count: usize) -> Result<usize> {
    let api = Api::<Node>::all(client.clone());
    let images = images();
    stream::iter(0..count)
        .map(|number| create_one(&api, number, &images))
        .buffer_unordered(MAX_CONCURRENT_REQUESTS)
        .try_collect::<()>()
        .await?;
    let request = http::Request::get(format!("/api/v1/nodes/{}", name(0))).body(Vec::new())?;
    Ok(client.request_text(request).await.context("cannot read a node")?.len())
}

pub fn name(number: usize) -> String {
    format!("node-{number:05}")
}

/// Creates a node and then writes its status, so that managedFields are like those of a real node.
async fn create_one(api: &Api<Node>, number: usize, images: &Value) -> Result<()> {
    let name = name(number);
    let node = serde_json::from_value(node(&name, number)).context("the node does not decode")?;
    api.create(&as_kubelet(), &node).await.with_context(|| format!("cannot create {name}"))?;
    let params = PatchParams { field_manager: Some(KUBELET.to_owned()), ..PatchParams::default() };
    let status = Patch::Merge(json!({ "status": status(number, images) }));
    api.patch_status(&name, &params, &status).await.with_context(|| format!("cannot write the status of {name}"))?;
    Ok(())
}

pub async fn delete(client: &Client, number: usize) -> Result<()> {
    let name = name(number);
    let deleted = Api::<Node>::all(client.clone()).delete(&name, &DeleteParams::default()).await;
    deleted.with_context(|| format!("cannot delete {name}"))?;
    Ok(())
}

/// Registers a node in one request, status included, as a kubelet does.
pub async fn register(client: &Client, number: usize) -> Result<()> {
    let name = name(number);
    let mut node = node(&name, number);
    node["status"] = status(number, &images());
    let node = serde_json::from_value(node).context("the node does not decode")?;
    let created = Api::<Node>::all(client.clone()).create(&as_kubelet(), &node).await;
    created.with_context(|| format!("cannot register {name}"))?;
    Ok(())
}

fn as_kubelet() -> PostParams {
    PostParams { field_manager: Some(KUBELET.to_owned()), ..PostParams::default() }
}

fn node(name: &str, number: usize) -> Value {
    let zone = format!("eu-central-1{}", ["a", "b", "c"][number % 3]);
    let mut labels = BTreeMap::from([
        ("kubernetes.io/hostname".to_owned(), name.to_owned()),
        ("kubernetes.io/arch".to_owned(), "amd64".to_owned()),
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("node.kubernetes.io/instance-type".to_owned(), "m5.2xlarge".to_owned()),
        ("topology.kubernetes.io/region".to_owned(), "eu-central-1".to_owned()),
        ("topology.kubernetes.io/zone".to_owned(), zone),
    ]);
    for feature in labels.len()..20 {
        labels.insert(format!("feature.node.example.com/cpu-{feature}"), "true".to_owned());
    }
    let annotations: BTreeMap<_, _> = (0..10)
        .map(|agent| (format!("agent-{agent}.example.com/state"), format!("{number}-ok-{agent:032x}")))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": format!("example:///{name}")},
    })
}

fn status(number: usize, images: &Value) -> Value {
    let amounts = json!({
        "cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let conditions = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let conditions = conditions.map(|(kind, status, reason, message)| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    });
    let address = format!("10.{}.{}.{}", number / 65536, number / 256 % 256, number % 256);
    json!({
        "capacity": amounts, "allocatable": amounts, "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name(number)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64", "bootID": format!("{number:032x}"),
            "containerRuntimeVersion": "containerd://2.1.4", "kernelVersion": "6.12.41",
            "kubeProxyVersion": "", "kubeletVersion": "v1.37.1", "machineID": format!("{number:032x}"),
            "operatingSystem": "linux", "osImage": "Debian GNU/Linux 13 (trixie)",
            "systemUUID": format!("{number:032x}"),
        },
        "images": images,
    })
}

/// Returns forty images, each by digest and by tag.
fn images() -> Value {
    let mut random = fastrand::Rng::with_seed(0);
    let images = (0..40).map(|number| {
        let image = format!("registry.example.com/service-{number}");
        let digest = format!("{:032x}{:032x}", random.u128(..), random.u128(..));
        json!({
            "names": [format!("{image}@sha256:{digest}"), format!("{image}:v1.{number}.0")],
            "sizeBytes": 20_000_000 + number * 1_234_567,
        })
    });
    images.collect()
}
