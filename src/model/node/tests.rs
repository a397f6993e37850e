use serde_json::json;

use super::*;

fn node(object: serde_json::Value) -> Node {
    let node: ApiNode = serde_json::from_value(object).unwrap();
    Node::new(node, &mut Interner::default())
}

#[test]
fn node_keeps_extended_resources_labels_and_ledger_only() {
    let node = node(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "node-1", "uid": "u", "resourceVersion": "7",
            "labels": {"zone": "a", "arch": "amd64"},
            "annotations": {"other": "x", "noderesource.dev/advertised": "{}"},
            "managedFields": [
                {"manager": "kubelet", "subresource": "status", "fieldsV1": {
                    "f:status": {"f:capacity": {".": {}, "f:cpu": {}}, "f:images": {}},
                }},
                {"manager": "kubectl-patch", "subresource": "status", "fieldsV1": {
                    "f:status": {"f:capacity": {"f:example.com/dongle": {}}},
                }},
                {"manager": "node-resource-advertiser", "subresource": "status", "fieldsV1": {
                    "f:status": {"f:allocatable": {"f:example.com/dongle": {}}},
                }},
            ],
        },
        "status": {
            "capacity": {"cpu": "4", "example.com/dongle": "4", "hugepages-2Mi": "0"},
            "images": [{"names": ["a"], "sizeBytes": 1}],
        },
    }));
    assert_eq!(node.labels.get("zone"), Some("a"));
    assert_eq!(node.labels.get("none"), None);
    assert_eq!(node.ledger.as_deref(), Some("{}"));
    let managers = node.field_managers("example.com/dongle").unwrap();
    assert_eq!(managers.last([true, true]).map(|manager| &**manager.name()), Some("kubectl-patch"));
    assert_eq!(node.field_managers("cpu"), None);
    let capacity = node.capacity.unwrap();
    assert_eq!(capacity.get("example.com/dongle"), Some("4"));
    assert_eq!(capacity.get("cpu"), None, "native resources are not kept");
    assert_eq!(node.allocatable, None, "a map that is absent is no empty one");
}

#[test]
fn empty_node_is_decoded() {
    for metadata in [json!({"name": "bare"}), json!({"name": "bare", "managedFields": null})] {
        for object in [json!({"metadata": metadata}), json!({"metadata": metadata, "spec": null, "status": null})] {
            let read = node(object.clone());
            assert!(!read.has_annotations);
            assert_eq!(read.capacity, None);
            let entry: object::NodeObject = serde_json::from_value(object).unwrap();
            assert!(!entry.readiness.takes_pods());
        }
    }
}

#[test]
fn creation_of_a_node_is_read_where_it_can_be() {
    let created =
        |created: serde_json::Value| node(json!({"metadata": {"name": "n", "creationTimestamp": created}})).created;
    assert_eq!(created(json!("1970-01-01T00:00:09Z")).map(Timestamp::as_second), Some(9));
    for unknown in [json!(null), json!(""), json!("yesterday")] {
        assert_eq!(created(unknown), None);
    }
}

#[test]
fn resource_versions_compare_as_numbers() {
    let at = |version: &str| node(json!({"metadata": {"name": "n", "resourceVersion": version}}));
    assert!(at("9").is_older_than(&at("10")));
    assert!(!at("10").is_older_than(&at("10")));
    assert!(!at("x").is_older_than(&at("10")));
    assert!(at("9").same_for_planning(&at("10")));
}
