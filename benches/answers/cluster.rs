//! A large cluster, served as pages of JSON like those of an API server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

pub const NODE_PAGE: usize = 200;
pub const POD_PAGE: usize = 500;
const RESOURCE: &str = "example.com/dongle";
/// One node in this number has a pod that requests the resource.
const REQUESTING_SHARE: usize = 2;

/// Returns what all pods on nodes request.
pub fn requested(nodes: usize) -> usize {
    nodes.div_ceil(REQUESTING_SHARE) * 3
}

/// Nodes with 4 of the resource each, and pods on them in turn, of which some request 3. The last pod has no node and
/// requests 5.
#[derive(Clone)]
pub struct Cluster {
    pub nodes: usize,
    pub pods: usize,
    node: Arc<str>,
    pod: Arc<str>,
    requesting_pod: Arc<str>,
}

impl Cluster {
    pub fn new(nodes: usize, pods: usize) -> Self {
        let text = |value: Value| value.to_string().into();
        Self { nodes, pods, node: text(node()), pod: text(pod(false)), requesting_pod: text(pod(true)) }
    }

    /// Returns a cluster of the same objects, but so many times fewer.
    pub fn smaller(&self, times: usize) -> Self {
        Self { nodes: self.nodes.div_ceil(times), pods: self.pods.div_ceil(times), ..self.clone() }
    }

    pub fn node_bytes(&self) -> usize {
        self.node.len()
    }

    pub fn pod_bytes(&self) -> usize {
        self.pod.len()
    }

    /// Returns the page of nodes from `first` on.
    pub fn node_page(&self, first: usize, size: usize) -> String {
        page("NodeList", first, size, self.nodes, |number| self.node.replace("@NODE@", &node_name(number)))
    }

    /// Returns the page of pods from `first` on.
    pub fn pod_page(&self, first: usize, size: usize) -> String {
        page("PodList", first, size, self.pods, |number| self.pod(number))
    }

    fn pod(&self, number: usize) -> String {
        if number + 1 == self.pods {
            return pending().to_string();
        }
        let is_requesting = number < self.nodes && number.is_multiple_of(REQUESTING_SHARE);
        let template = if is_requesting { &self.requesting_pod } else { &self.pod };
        let name = format!("service-{number:06}-5d59d67564-x2x2x");
        template.replace("@POD@", &name).replace("@NODE@", &node_name(number % self.nodes))
    }

    /// Serves the cluster from threads of this process.
    pub fn serve(self) -> Result<Server> {
        let requests = Arc::new(AtomicUsize::new(0));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/api/v1/nodes", get(nodes))
            .route("/api/v1/pods", get(pods))
            .route("/api/v1/namespaces/default/pods/pending", get(|| async { json(pending().to_string()) }))
            .route("/apis/noderesource.dev/v1alpha1/nodeextendedresources", get(rules))
            .fallback(async || (StatusCode::NOT_FOUND, "404"))
            .with_state((self, Arc::clone(&requests)));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                axum::serve(listener, router).await
            })
        });
        Ok(Server { address, requests })
    }
}

/// Serves a cluster until the process ends.
pub struct Server {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Server {
    /// Returns the number of lists and pages so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "bench", "user": {}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        })
    }
}

type Served = State<(Cluster, Arc<AtomicUsize>)>;

/// Returns a number in the query of a request: `limit`, or `continue`, the number of the page's first object.
fn parameter(uri: &Uri, name: &str) -> Option<usize> {
    let mut parameters = uri.query()?.split('&').filter_map(|parameter| parameter.split_once('='));
    parameters.find(|(key, _)| *key == name)?.1.parse().ok()
}

async fn nodes(State((cluster, requests)): Served, uri: Uri) -> Response {
    requests.fetch_add(1, Ordering::Relaxed);
    let (first, limit) = (parameter(&uri, "continue").unwrap_or_default(), parameter(&uri, "limit"));
    json(cluster.node_page(first, limit.unwrap_or(cluster.nodes)))
}

async fn pods(State((cluster, requests)): Served, uri: Uri) -> Response {
    requests.fetch_add(1, Ordering::Relaxed);
    let (first, limit) = (parameter(&uri, "continue").unwrap_or_default(), parameter(&uri, "limit"));
    json(cluster.pod_page(first, limit.unwrap_or(cluster.pods)))
}

async fn rules(State((_, requests)): Served) -> Response {
    requests.fetch_add(1, Ordering::Relaxed);
    let rule = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "dongle", "uid": "1"},
        "spec": {"resourceName": RESOURCE, "quantity": 4, "allNodes": true},
    });
    let list = json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResourceList",
        "metadata": {"resourceVersion": "1"}, "items": [rule]});
    json(list.to_string())
}

fn json(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn page(kind: &str, first: usize, size: usize, count: usize, item: impl Fn(usize) -> String) -> String {
    let last = (first + size).min(count);
    let next = if last < count { last.to_string() } else { String::new() };
    let items: Vec<_> = (first..last).map(item).collect();
    format!(
        r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"resourceVersion":"1","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// Returns a node of 13 KB, like those of a kubelet and the usual agents.
fn node() -> Value {
    let labels: serde_json::Map<_, _> =
        (0..20).map(|number| (format!("feature.node.example.com/cpu-{number}"), json!("true"))).collect();
    let amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0", RESOURCE: "4"});
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|kind| {
        let status = if kind == "Ready" { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    let images = (0..40).map(|number| {
        let image = format!("registry.example.com/service-{number}");
        json!({"names": [format!("{image}@sha256:{number:064x}"), format!("{image}:v1.{number}.0")],
            "sizeBytes": 20_000_000 + number})
    });
    json!({
        "metadata": {"name": "@NODE@", "uid": "@NODE@", "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels,
            "annotations": {"noderesource.dev/advertised": format!(r#"{{"{RESOURCE}":{{"rule":"dongle","quantity":"4"}}}}"#)},
            "managedFields": [managed(&["metadata", "labels"], &labels), written(&amounts)]},
        "spec": {"providerID": "example:///@NODE@"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions,
            "images": images.collect::<Value>(),
            "nodeInfo": {"bootID": format!("{:032x}", 1), "kubeletVersion": "v1.37.1", "osImage": "Debian GNU/Linux 13"}},
    })
}

/// Returns the managedFields entry of a kubelet's labels.
fn managed(path: &[&str], keys: &serde_json::Map<String, Value>) -> Value {
    let leaves: serde_json::Map<_, _> = keys.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    let fields = path.iter().rev().fold(Value::Object(leaves), |fields, name| json!({format!("f:{name}"): fields}));
    json!({"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields})
}

/// Returns the managedFields entry of a writer of the amounts.
fn written(amounts: &Value) -> Value {
    let leaves: serde_json::Map<_, _> =
        amounts.as_object().into_iter().flatten().map(|(key, _)| (format!("f:{key}"), json!({}))).collect();
    json!({"manager": "node-resource-advertiser", "operation": "Update", "apiVersion": "v1", "subresource": "status",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:capacity": leaves, "f:allocatable": leaves}}})
}

/// Returns a pod of 4.5 KB, as of a deployment.
fn pod(is_requesting: bool) -> Value {
    let mut requests = json!({"cpu": "100m", "memory": "128Mi"});
    if is_requesting {
        requests[RESOURCE] = json!("3");
    }
    let variables = (0..10).map(|number| {
        json!({"name": format!("BACKEND_{number}"), "value": format!("https://backend-{number}.example.com/api/app")})
    });
    let variables: Value = variables.collect();
    let names = (0..10).map(|number| (format!(r#"k:{{"name":"BACKEND_{number}"}}"#), json!({".": {}, "f:name": {}})));
    let owned: serde_json::Map<_, _> = names.collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1,
        "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    json!({
        "metadata": {"name": "@POD@", "namespace": "default", "uid": "@POD@", "resourceVersion": "1",
            "labels": {"app.kubernetes.io/name": "service", "pod-template-hash": "5d59d67564"},
            "managedFields": [managed(&["spec", "containers", "env"], &owned)]},
        "spec": {"nodeName": "@NODE@", "containers": [{"name": "app", "image": "registry.example.com/app:v1.2.3",
            "env": variables, "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": requests, "limits": requests}, "livenessProbe": probe, "readinessProbe": probe,
            "volumeMounts": [{"name": "cache", "mountPath": "/var/cache/app"}]}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}],
            "volumes": [{"name": "cache", "emptyDir": {}}]},
        "status": {"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": "10.1.0.1",
            "containerStatuses": [{"name": "app", "ready": true, "restartCount": 0, "started": true,
                "imageID": "registry.example.com/app@sha256:5d59d675645d59d675645d59d675645d59d675645d59d67564",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}], "qosClass": "Burstable"},
    })
}

/// Returns a pod without a node, for which every node has too little.
fn pending() -> Value {
    let message = format!("0/5000 nodes are available: 5000 Insufficient {RESOURCE}.");
    json!({
        "metadata": {"name": "pending", "namespace": "default", "uid": "pending", "resourceVersion": "1"},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {RESOURCE: "5"}}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": message}]},
    })
}
