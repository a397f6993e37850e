//! The nodes and pods with which the chart's recording rules are tested: they show what `top` does.

use super::*;

#[test]
fn top_has_the_numbers_that_the_recording_rules_have() {
    let objects: Value = serde_json::from_str(include_str!("../../../../tests/testdata/inventory.json")).unwrap();
    let [nodes, pods] = ["nodes", "pods"].map(|field| objects[field].as_array().unwrap().as_slice());
    let inventory = inventory(nodes, pods, Vec::new());
    let uses = inventory.uses();
    for (resource, top) in objects["top"].as_object().unwrap() {
        let of_resource = &uses[resource.as_str()];
        let largest = of_resource.largest().map(|(_, quantity)| quantity).unwrap_or_default();
        let shown = [of_resource.total(), of_resource.requested(), of_resource.free(), largest];
        let expected = ["total", "requested", "free", "largest"].map(|column| top[column].to_string());
        assert_eq!(shown.map(|quantity| quantity.to_string()), expected, "{resource}");
    }
    assert_eq!(uses.len(), objects["top"].as_object().unwrap().len());
}
