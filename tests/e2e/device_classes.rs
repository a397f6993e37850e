use harness::ControlPlane;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, condition};
use crate::faults::{grant, rights};

const DONGLE: &str = "example.com/dongle";

fn device_class(name: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"extendedResourceName": resource},
    })
}

fn wait_mapped(cluster: &Cluster, rule: &str, says: (&str, &str)) -> Value {
    cluster.wait_status(rule, &format!("DeviceClassMapped {says:?}"), |status| {
        condition(status, "DeviceClassMapped") == says
    })
}

#[test]
fn a_rule_tells_of_a_device_class_that_maps_its_resource() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    cluster.apply(&device_class("other", "example.com/other").to_string());
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key"}));
    cluster.wait_ready("dongle", "1/1");
    wait_mapped(&cluster, "dongle", ("False", "NoDeviceClass"));

    cluster.apply(&device_class("dongles", DONGLE).to_string());
    let status = wait_mapped(&cluster, "dongle", ("True", "DeviceClass"));
    let conditions = status["conditions"].as_array().unwrap();
    let said = conditions.iter().find(|said| said["type"] == "DeviceClassMapped").unwrap();
    assert!(
        said["message"].as_str().unwrap().starts_with("DeviceClass dongles maps this resource")
    );
    assert_eq!(condition(&status, "Ready"), ("True", "Advertised"), "it is a warning");
    wait_mapped(&cluster, "key", ("False", "NoDeviceClass"));

    // It renames its resource, and goes.
    cluster.apply(&device_class("dongles", "example.com/key").to_string());
    wait_mapped(&cluster, "dongle", ("False", "NoDeviceClass"));
    wait_mapped(&cluster, "key", ("True", "DeviceClass"));
    cluster.kubectl(&["delete", "deviceclass", "dongles"]);
    wait_mapped(&cluster, "key", ("False", "NoDeviceClass"));
    controller.stop();
}

#[test]
fn without_the_right_to_read_device_classes_everything_else_works() {
    let cluster = Cluster::with(ControlPlane::builder().user("limited"));
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let mut some = rights();
    some.retain(|right| right["resources"] != json!(["deviceclasses"]));
    grant(&cluster, &json!(some));
    let kubeconfig = cluster.control_plane.kubeconfig_for("limited");
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_ready("dongle", "1/1");
    assert_eq!(condition(&status, "DeviceClassMapped"), ("Unknown", "DeviceClassesUnreadable"));
    controller.stop();
}

#[test]
fn without_the_api_everything_works_and_nothing_is_said() {
    let cluster = Cluster::with(ControlPlane::builder().without_api("resource.k8s.io/v1"));
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    let status = cluster.wait_ready("dongle", "1/1");
    assert_eq!(condition(&status, "DeviceClassMapped"), ("False", "NoDeviceClass"));
    assert!(!controller.log().contains("DRA"), "{}", controller.log());
    controller.stop();
}
