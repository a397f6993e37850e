//! Nodes that are read as protobuf, and what is read as JSON from the same API server.

use std::fmt::Debug;
use std::pin::pin;

use futures::StreamExt as _;
use harness::Cluster;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use node_resource_advertiser::cluster::protobuf::{self, Objects};
use node_resource_advertiser::model::node::ApiNode;
use serde_json::{Value, json};

/// The same API server, read in both encodings.
struct Encodings {
    json: Client,
    protobuf: Client,
}

impl Encodings {
    async fn of(cluster: &Cluster) -> Self {
        let kubeconfig = Kubeconfig::read_from(cluster.control_plane.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let json = node_resource_advertiser::cluster::client::with_config(config).await.unwrap();
        let protobuf = protobuf::client(&json, Objects::Nodes);
        Self { json, protobuf }
    }

    /// Checks that the request has the same result in both. It must not depend on the version of the whole cluster, which
    /// changes at any time.
    async fn check<T: Debug, F: Future<Output = T>>(&self, request: impl Fn(Api<ApiNode>) -> F) -> T {
        let json = request(Api::all(self.json.clone())).await;
        let protobuf = request(Api::all(self.protobuf.clone())).await;
        assert_eq!(format!("{protobuf:#?}"), format!("{json:#?}"));
        protobuf
    }

    async fn write(&self, manager: &str, node: &str, patch: Value) {
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(self.json.clone());
        let patch = Patch::Merge(patch);
        if patch_of(&patch).get("status").is_some() {
            nodes.patch_status(node, &params, &patch).await.unwrap();
        } else {
            nodes.patch(node, &params, &patch).await.unwrap();
        }
    }
}

fn patch_of(patch: &Patch<Value>) -> &Value {
    match patch {
        Patch::Merge(patch) => patch,
        _ => &Value::Null,
    }
}

/// Nodes whose fields are absent, empty, unusual or long.
fn nodes() -> [Value; 6] {
    let labels: serde_json::Map<_, _> = (0..60).map(|n| (format!("example.com/{n}"), json!(format!("{n}")))).collect();
    let status = json!({
        "capacity": {"cpu": "8", "memory": "32Gi", "example.com/dongle": "4", "example.com/storage": "800Gi"},
        "allocatable": {"cpu": "7500m", "memory": "31Gi", "example.com/dongle": "0"},
        "conditions": [
            {"type": "noderesource.dev/Advertised", "status": "False", "reason": "Held", "message": "held: \"4\"\n≠ 3"},
            {"type": "Ready", "status": "True"},
        ],
        "nodeInfo": {"bootID": "b-1", "machineID": "", "systemUUID": "", "kernelVersion": "", "osImage": "",
            "containerRuntimeVersion": "", "kubeletVersion": "v1.37.1", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64"},
        "images": [{"names": ["example.com/a:1"], "sizeBytes": 1}],
    });
    [
        json!({"metadata": {"name": "bare"}}),
        json!({"metadata": {"name": "empty", "labels": {}, "annotations": {}}, "status": {"capacity": {}, "conditions": []}}),
        json!({"metadata": {"name": "null", "labels": null, "annotations": null}, "status": null}),
        json!({"metadata": {"name": "full", "labels": labels, "annotations": {
            "noderesource.dev/advertised": "{\"example.com/dongle\":{\"quantity\":\"4\",\"rule\":\"dongle\"}}",
            "example.com/text": "ß \u{2028} \u{0} \\ \" 😀", "example.com/empty": "",
            "example.com/long": "x".repeat(100_000),
        }}, "status": status}),
        json!({"metadata": {"name": "unschedulable"}, "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24"}}),
        json!({"metadata": {"name": "last"}, "spec": {"taints": [{"key": "example.com/a", "effect": "NoSchedule"}]}}),
    ]
}

#[tokio::test]
async fn nodes_are_the_same_as_protobuf_and_as_json() {
    let cluster = Cluster::shared();
    cluster.control_plane.excuse("I1: an unlisted resource is changed", "the test writes with the program's client");
    let both = Encodings::of(&cluster).await;
    let api = Api::<k8s_openapi::api::core::v1::Node>::all(both.json.clone());
    for node in nodes() {
        let node = serde_json::from_value(node).unwrap();
        api.create(&PostParams::default(), &node).await.unwrap();
    }
    // Several field managers, of which one owns half of a resource.
    let values = json!({"example.com/dongle": "7"});
    both.write("kubectl-patch", "full", json!({"status": {"capacity": values}})).await;
    both.write("node-resource-advertiser", "bare", json!({"status": {"capacity": values, "allocatable": values}}))
        .await;

    let all = both.check(|nodes| async move { nodes.list(&ListParams::default()).await.unwrap().items }).await;
    assert_eq!(all.len(), nodes().len());
    both.check(|nodes| async move {
        let page = ListParams::default().limit(4);
        let first = nodes.list(&page).await.unwrap();
        let token = first.metadata.continue_.clone().expect("there is a second page");
        let rest = nodes.list(&page.continue_token(&token)).await.unwrap();
        assert_eq!((first.items.len(), rest.items.len()), (4, 2));
        (first.items, rest.items)
    })
    .await;
    for node in nodes() {
        let name = node["metadata"]["name"].as_str().unwrap();
        both.check(|nodes| async move { nodes.get(name).await.unwrap() }).await;
    }

    // What the controller does not read does not come, so this was protobuf.
    let text = |client: Client| async move {
        client.request_text(http::Request::get("/api/v1/nodes/full").body(Vec::new()).unwrap()).await.unwrap()
    };
    assert!(text(both.json.clone()).await.contains("images"));
    assert!(!text(both.protobuf.clone()).await.contains("images"));
}

/// The API server stores what clients write as protobuf without a look at its texts, and Go writes JSON from it.
#[tokio::test]
async fn texts_that_are_not_utf_8_are_the_same_as_protobuf_and_as_json() {
    let cluster = Cluster::shared();
    let both = Encodings::of(&cluster).await;
    let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    let broken = b"half a \xe2\x82 and \xff";
    let annotation = [field(1, b"example.com/a"), field(2, broken)].concat();
    let metadata = [field(1, b"broken"), field(12, &annotation)].concat();
    let condition = [field(1, b"Ready"), field(2, b"True"), field(5, broken), field(6, broken)].concat();
    let status = field(4, &condition);
    let node = [field(1, &metadata), field(3, &status)].concat();
    let kind = [field(1, b"v1"), field(2, b"Node")].concat();
    assert!(node.len() < 128, "its length would take two bytes");
    let object = [b"k8s\0".to_vec(), field(1, &kind), field(2, &node)].concat();
    let request = http::Request::post("/api/v1/nodes").header("Content-Type", "application/vnd.kubernetes.protobuf");
    let created = both.json.request_text(request.body(object).unwrap()).await.unwrap();
    assert!(created.contains("\\ufffd"), "{created}");

    both.check(|nodes| async move { nodes.list(&ListParams::default()).await.unwrap().items }).await;
    let node = both.check(|nodes| async move { nodes.get("broken").await.unwrap() }).await;
    let annotations = kube::ResourceExt::annotations(&node);
    assert_eq!(annotations["example.com/a"], "half a \u{fffd}\u{fffd} and \u{fffd}");
}

#[tokio::test]
async fn events_of_a_watch_are_the_same_as_protobuf_and_as_json() {
    let cluster = Cluster::shared();
    let both = Encodings::of(&cluster).await;
    let api = Api::<k8s_openapi::api::core::v1::Node>::all(both.json.clone());
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for node in nodes() {
        let node = serde_json::from_value(node).unwrap();
        api.create(&PostParams::default(), &node).await.unwrap();
    }
    both.write("kubectl-label", "bare", json!({"metadata": {"labels": {"example.com/a": "b"}}})).await;
    both.write("kubectl-label", "bare", json!({"metadata": {"labels": null}})).await;
    both.write("kubelet", "empty", json!({"status": {"capacity": {"example.com/dongle": "0"}}})).await;
    api.delete("null", &DeleteParams::default()).await.unwrap();

    let count = nodes().len() + 4;
    both.check(|nodes| {
        let version = &version;
        async move {
            let mut events = Vec::new();
            let mut stream = pin!(nodes.watch(&WatchParams::default(), version).await.unwrap());
            while events.len() < count {
                let event = stream.next().await.expect("the watch goes on").unwrap();
                // Whether there are bookmarks depends on time.
                if !matches!(event, WatchEvent::Bookmark(_)) {
                    events.push(event);
                }
            }
            events
        }
    })
    .await;

    // A bookmark is the last of the initial events.
    let params = &WatchParams::default().initial_events();
    let (annotations, nodes) = both
        .check(|nodes| async move {
            let mut stream = pin!(nodes.watch(params, "").await.unwrap());
            let mut listed = 0;
            loop {
                match stream.next().await.expect("the watch goes on").unwrap() {
                    WatchEvent::Bookmark(bookmark) => {
                        let metadata = bookmark.metadata;
                        assert!(!metadata.resource_version.is_empty());
                        return (metadata.annotations, listed);
                    }
                    _ => listed += 1,
                }
            }
        })
        .await;
    assert_eq!(nodes, api.list(&ListParams::default()).await.unwrap().items.len());
    assert!(!annotations.is_empty());
}

#[tokio::test]
async fn errors_are_the_same_as_protobuf_and_as_json() {
    let cluster = Cluster::shared();
    let both = Encodings::of(&cluster).await;
    let error = both.check(|nodes| async move { nodes.get("nowhere").await.unwrap_err() }).await;
    assert!(matches!(&error, kube::Error::Api(status) if status.is_not_found()), "{error:?}");
    let error =
        both.check(|nodes| async move { nodes.list(&ListParams::default().labels("a=b=c")).await.unwrap_err() }).await;
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 400), "{error:?}");
    let error = both
        .check(|nodes| async move { nodes.list(&ListParams::default().continue_token("no-token")).await.unwrap_err() })
        .await;
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 400), "{error:?}");
    let error = both
        .check(|nodes| async move {
            let old = WatchParams::default().labels("a=b=c");
            nodes.watch(&old, "0").await.map(drop).unwrap_err()
        })
        .await;
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 400), "{error:?}");
}
