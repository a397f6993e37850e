//! The DeviceClasses that map resources, which DRA then provides. Pure.

use std::collections::BTreeMap;

use kube::core::{NotUsed, Object};
use serde::Deserialize;

/// Where the API server has them.
pub(crate) const DEVICE_CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

/// A DeviceClass, reduced to the resource that it maps.
pub(crate) type DeviceClass = Object<ClassSpec, NotUsed>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClassSpec {
    extended_resource_name: Option<String>,
}

/// Returns the DeviceClass of each resource that one maps. Of several, the scheduler takes the youngest, and of those
/// the first by name (KEP-5004).
pub(crate) fn by_resource(mut classes: Vec<DeviceClass>) -> BTreeMap<String, String> {
    let age = |class: &DeviceClass| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
    classes.sort_by(|one, other| age(one).cmp(&age(other)).then_with(|| other.metadata.name.cmp(&one.metadata.name)));
    // A later entry replaces an earlier one.
    let mapped = classes.into_iter();
    mapped.filter_map(|class| Some((class.spec.extended_resource_name?, class.metadata.name?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn youngest_device_class_of_a_resource_wins_then_the_first_by_name() {
        let class = |name: &str, minute: u8| {
            let created = format!("2026-01-01T00:{minute:02}:00Z");
            let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
                "metadata": {"name": name, "creationTimestamp": created},
                "spec": {"extendedResourceName": "example.com/dongle"}});
            serde_json::from_value::<DeviceClass>(object).unwrap()
        };
        let none = serde_json::from_value(json!({"metadata": {"name": "z"}, "spec": {}})).unwrap();
        for (classes, winner) in [
            (vec![class("a", 1), class("b", 2), none], "b"),
            (vec![class("b", 2), class("a", 1)], "b"),
            (vec![class("b", 1), class("a", 1)], "a"),
        ] {
            assert_eq!(by_resource(classes)["example.com/dongle"], winner);
        }
    }
}
