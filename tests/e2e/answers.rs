use harness::ControlPlane;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// The controller tells a stale picture from a refused value by the causes in a 422. What the mocked
/// answers in its unit tests have, a real API server's must have too.
#[tokio::test]
async fn a_failed_test_has_no_causes_and_a_refused_value_has() {
    let cluster = Cluster::without_crd(ControlPlane::builder());
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let kubeconfig = Kubeconfig::read_from(cluster.control_plane.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = node_resource_advertiser::cluster::client::with_config(config).unwrap();

    let stale = json!([{"op": "test", "path": "/metadata/uid", "value": "another"}]);
    let answer = self::answer(&client, "node-1", &stale).await;
    assert_eq!(answer["code"], 422, "{answer:#}");
    assert!(answer["details"]["causes"].is_null(), "{answer:#}");

    let refused =
        json!([{"op": "add", "path": "/status/capacity", "value": {"example.com/a": "500m"}}]);
    let answer = self::answer(&client, "node-1", &refused).await;
    assert_eq!(answer["code"], 422, "{answer:#}");
    assert!(answer["details"]["causes"][0]["message"].is_string(), "{answer:#}");

    let gone = json!([{"op": "test", "path": "/metadata/annotations", "value": null}]);
    let answer = self::answer(&client, "nowhere", &gone).await;
    assert_eq!(answer["code"], 404, "{answer:#}");

    // `test` with null holds for a key that is absent where the map is there, and for that alone.
    for (path, holds) in [
        ("/metadata/labels/none", true),
        ("/metadata/labels/kubernetes.io~1hostname", false),
        ("/metadata/none/none", false),
    ] {
        let test = json!([{"op": "test", "path": path, "value": null}]);
        let answer = self::answer(&client, "node-1", &test).await;
        assert_eq!(answer["code"] == 422, !holds, "{path}: {answer:#}");
    }
}

/// Patches a node's status, and gives the `Status` that comes back; null where it goes through.
async fn answer(client: &Client, node: &str, operations: &Value) -> Value {
    let nodes = Api::<Node>::all(client.clone());
    let patch: json_patch::Patch = serde_json::from_value(operations.clone()).unwrap();
    let patch = Patch::Json::<()>(patch);
    match nodes.patch_status(node, &PatchParams::default(), &patch).await {
        Ok(_) => Value::Null,
        Err(kube::Error::Api(status)) => serde_json::to_value(status).unwrap(),
        Err(error) => panic!("{error}"),
    }
}
