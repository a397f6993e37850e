//! DeviceClasses that map the resource of a rule (DRA).
//!
//! Method: create, change and delete DeviceClasses, and wait for the condition DeviceClassMapped;
//! then without the permission to list them, and without the API.

use harness::objects::{DONGLE, condition};
use harness::{Cluster, ControlPlane, Controller};
use serde_json::{Value, json};

use crate::support::permissions;

fn device_class(name: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"extendedResourceName": resource},
    })
}

fn wait_mapped(cluster: &Cluster, rule: &str, expected: (&str, &str)) -> Value {
    cluster.wait_status(rule, &format!("DeviceClassMapped {expected:?}"), |status| {
        condition(status, "DeviceClassMapped") == expected
    })
}

#[test]
fn device_class_with_the_same_resource_sets_condition() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.apply(&device_class("other", "example.com/other").to_string());
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_ready("dongle", "1/1");
    wait_mapped(&cluster, "dongle", ("False", "NoDeviceClass"));

    cluster.apply(&device_class("dongles", DONGLE).to_string());
    let status = wait_mapped(&cluster, "dongle", ("True", "DeviceClassFound"));
    let conditions = status["conditions"].as_array().unwrap();
    let mapped = conditions.iter().find(|one| one["type"] == "DeviceClassMapped").unwrap();
    let message = mapped["message"].as_str().unwrap();
    assert!(message.starts_with("DeviceClass dongles maps this resource"), "{message}");
    assert_eq!(condition(&status, "Ready"), ("True", "Advertised"), "only a warning");
    wait_mapped(&cluster, "key", ("False", "NoDeviceClass"));

    // The DeviceClass changes its resource, and is deleted.
    cluster.apply(&device_class("dongles", "example.com/key").to_string());
    wait_mapped(&cluster, "dongle", ("False", "NoDeviceClass"));
    wait_mapped(&cluster, "key", ("True", "DeviceClassFound"));
    cluster.kubectl(&["delete", "deviceclass", "dongles"]);
    wait_mapped(&cluster, "key", ("False", "NoDeviceClass"));
    controller.stop();
}

#[test]
fn device_classes_not_listable_leaves_condition_unknown() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    permissions::grant(&cluster, &permissions::required_without("deviceclasses"));
    let kubeconfig = cluster.control_plane.kubeconfig_for("limited");
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_ready("dongle", "1/1");
    assert_eq!(condition(&status, "DeviceClassMapped"), ("Unknown", "DeviceClassesUnavailable"));
    controller.stop();
}

#[test]
fn device_class_api_absent_reports_no_device_class() {
    let cluster = Cluster::shared_with(ControlPlane::builder().without_api("resource.k8s.io/v1"));
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_ready("dongle", "1/1");
    assert_eq!(condition(&status, "DeviceClassMapped"), ("False", "NoDeviceClass"));
    assert!(!controller.log().contains("DRA"), "{}", controller.log());
    controller.stop();
}
