//! Karpenter's kind NodeOverlay: enough of it for an API server without Karpenter.

use harness::Cluster;
use serde_json::{Value, json};

/// Lets the API server serve NodeOverlays.
pub fn install(cluster: &Cluster) {
    let text = json!({"type": "string"});
    let requirement = json!({"type": "object", "required": ["key", "operator"], "properties": {
        "key": text, "operator": text, "values": {"type": "array", "items": text},
    }});
    let quantity = json!({"x-kubernetes-int-or-string": true});
    let spec = json!({"type": "object", "required": ["requirements"], "properties": {
        "requirements": {"type": "array", "maxItems": 100, "items": requirement},
        "capacity": {"type": "object", "additionalProperties": quantity},
        "weight": {"type": "integer", "minimum": 1, "maximum": 10_000},
        "price": text,
    }});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodeoverlays.karpenter.sh"},
        "spec": {
            "group": "karpenter.sh", "scope": "Cluster", "versions": [version],
            "names": {"kind": "NodeOverlay", "plural": "nodeoverlays", "singular": "nodeoverlay"},
        },
    });
    cluster.apply(&crd.to_string());
    cluster.wait_crds();
}

/// Returns the NodeOverlay of a rule for every node with so many dongles.
pub fn overlay(name: &str, quantity: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
        "metadata": {
            "name": name, "annotations": {"noderesource.dev/rule": name},
            "labels": {"app.kubernetes.io/managed-by": "node-resource-advertiser"},
        },
        "spec": {"requirements": [], "capacity": {"example.com/dongle": quantity}, "weight": 10_000},
    })
}
