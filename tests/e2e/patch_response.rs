//! The API server's responses to JSON Patches that fail.
//!
//! The controller distinguishes a stale observation from a rejected value by the causes in a 422. The
//! mocked responses of its unit tests must contain causes exactly where a real API server's do.

use harness::Cluster;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

#[tokio::test]
async fn failed_json_patch_test_has_no_causes_in_its_422() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let kubeconfig = Kubeconfig::read_from(cluster.control_plane.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = node_resource_advertiser::cluster::client::with_config(config).await.unwrap();

    let stale = json!([{"op": "test", "path": "/metadata/uid", "value": "another"}]);
    let response = respond(&client, "node-1", &stale).await;
    assert_eq!(response["code"], 422, "{response:#}");
    assert!(response["details"]["causes"].is_null(), "{response:#}");

    let rejected = json!([{"op": "add", "path": "/status/capacity", "value": {"example.com/a": "500m"}}]);
    let response = respond(&client, "node-1", &rejected).await;
    assert_eq!(response["code"], 422, "{response:#}");
    assert!(response["details"]["causes"][0]["message"].is_string(), "{response:#}");

    let absent = json!([{"op": "test", "path": "/metadata/annotations", "value": null}]);
    let response = respond(&client, "nowhere", &absent).await;
    assert_eq!(response["code"], 404, "{response:#}");

    // `test` with null succeeds only for a key that is absent from a map that exists.
    for (path, holds) in [
        ("/metadata/labels/none", true),
        ("/metadata/labels/kubernetes.io~1hostname", false),
        ("/metadata/none/none", false),
    ] {
        let test = json!([{"op": "test", "path": path, "value": null}]);
        let response = respond(&client, "node-1", &test).await;
        assert_eq!(response["code"] == 422, !holds, "{path}: {response:#}");
    }
}

/// Patches a node's status, and returns the `Status` of the response, or null where it succeeds.
async fn respond(client: &Client, node: &str, operations: &Value) -> Value {
    let nodes = Api::<Node>::all(client.clone());
    let patch: json_patch::Patch = serde_json::from_value(operations.clone()).unwrap();
    let patch = Patch::Json::<()>(patch);
    match nodes.patch_status(node, &PatchParams::default(), &patch).await {
        Ok(_) => Value::Null,
        Err(kube::Error::Api(status)) => serde_json::to_value(status).unwrap(),
        Err(error) => panic!("{error}"),
    }
}
