use serde_json::json;

use super::*;

const KEY: &str = "k8s.io/cluster-autoscaler/node-template/resources/example.com/dongle";

fn pair(key: &str, value: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), value.to_owned())].into()
}

#[test]
fn aws_tags_are_read_as_the_aws_command_prints_them() {
    let tag = |group: &str, value: &str| json!({"ResourceId": group, "Key": KEY, "Value": value});
    for value in [
        json!({"Tags": [tag("workers", "4"), tag("other", "5")]}),
        json!({"AutoScalingGroups": [
            {"AutoScalingGroupName": "other", "Tags": [tag("other", "5")]},
            {"AutoScalingGroupName": "workers", "Tags": [tag("workers", "4")]},
        ]}),
        json!([tag("workers", "4")]),
        json!({ KEY: "4" }),
    ] {
        assert_eq!(aws_tags(&value, Some("workers")), Ok(pair(KEY, "4")), "{value}");
    }
    assert_eq!(aws_tags(&json!({"Tags": []}), Some("workers")), Ok(BTreeMap::new()));
    assert_eq!(aws_tags(&json!({"Tags": [tag("a", "4")]}), None), Ok(pair(KEY, "4")));
    let several = aws_tags(&json!({"Tags": [tag("a", "4"), tag("b", "4")]}), None).unwrap_err();
    assert!(several.contains("several groups"), "{several}");
    for odd in [json!({"Tags": [{"Key": KEY}]}), json!("x"), json!({"Tags": {"a": {}}}), json!(4)] {
        assert!(aws_tags(&odd, None).is_err(), "{odd}");
    }
}

#[test]
fn auto_scaling_group_is_found_by_its_name_even_without_tags() {
    let tags = json!([{"ResourceId": "a", "Key": KEY, "Value": "4"}]);
    let groups = json!([{"AutoScalingGroupName": "a", "Tags": tags}, {"AutoScalingGroupName": "b", "Tags": []}]);
    let read = |group: Option<&str>| aws_tags(&json!({"AutoScalingGroups": groups}), group);
    assert_eq!(read(Some("b")), Ok(BTreeMap::new()));
    assert_eq!(read(None).unwrap_err(), "there is more than one Auto Scaling group: name one with --group");
    assert_eq!(read(Some("c")).unwrap_err(), "there is no Auto Scaling group c");
}

#[test]
fn node_pool_is_found_by_its_name() {
    let pools = json!([{"name": "a", "config": {"labels": {"x": "1"}}}, {"name": "b", "config": {}}]);
    assert_eq!(pool(&pools, Some("b")).unwrap()["name"], "b");
    assert_eq!(pool(&pools, None).unwrap_err(), "there is more than one node pool: name one with --group");
    assert_eq!(pool(&pools, Some("c")).unwrap_err(), "there is no node pool c");
    assert_eq!(pool(&pools, Some("B")).unwrap_err(), "there is no node pool B");
    assert_eq!(pool(&pools[1], Some("B")).unwrap_err(), "there is no node pool B: it is b");
    // Names in Azure have no case.
    let sets = json!([{"name": "a", "tags": {}}, {"name": "b", "tags": {}}]);
    assert_eq!(scale_set(&sets, Some("B")).unwrap()["name"], "b");
    assert_eq!(scale_set(&sets[1], Some("B")).unwrap()["name"], "b");
    assert_eq!(scale_set(&sets[1], Some("C")).unwrap_err(), "there is no scale set C: it is b");
    let labels = |value: Value| pool(&value, Some("a")).and_then(pool_labels);
    assert_eq!(labels(pools), Ok(pair("x", "1")));
    assert_eq!(labels(json!({"x": "1"})), Ok(pair("x", "1")));
    assert_eq!(labels(json!({"name": "a", "config": {"machineType": "e2"}})), Ok(BTreeMap::new()));
    assert!(labels(json!([{"name": "a", "config": 4, "labels": {}}])).is_ok_and(|labels| labels.is_empty()));
}

#[test]
fn machines_are_found_by_kind_and_name() {
    let object = |kind: &str, namespace: &str, owner: Option<&str>| {
        json!({"kind": kind, "metadata": {
            "namespace": namespace, "name": "workers", "annotations": {"a": namespace},
            "ownerReferences": owner.map(|name| json!([{"name": name}])),
        }})
    };
    let deployment = object("MachineDeployment", "one", None);
    let owned = object("MachineSet", "one", Some("workers"));
    let found = machines(&[owned.clone(), deployment.clone(), json!({"kind": "Pod"})], Some("workers")).unwrap();
    let pairs = Pairs { object: "MachineDeployment one/workers".to_owned(), pairs: pair("a", "one") };
    assert_eq!(found, pairs);
    let two = [deployment, object("MachinePool", "two", None)];
    assert!(machines(&two, Some("workers")).unwrap_err().contains("NAMESPACE/NAME"));
    assert_eq!(machines(&two, Some("two/workers")).unwrap().pairs, pair("a", "two"));
    assert!(machines(&[owned], None).unwrap_err().starts_with("there is no MachineDeployment"));
}

#[test]
fn worker_pool_is_found_in_a_shoot() {
    let config = json!({"nodeTemplate": {"virtualCapacity": {"example.com/dongle": 4}}});
    let workers = json!([{"name": "a", "providerConfig": config}, {"name": "b"}]);
    let shoot = [json!({"kind": "Shoot", "spec": {"provider": {"workers": workers}}})];
    let found = worker(&shoot, Some("a")).unwrap();
    assert_eq!(found, Pairs { object: "worker pool a".to_owned(), pairs: pair("example.com/dongle", "4") });
    assert!(worker(&shoot, Some("b")).unwrap().pairs.is_empty());
    assert!(worker(&shoot, None).unwrap_err().contains("more than one worker pool"));
    assert!(worker(&[], None).unwrap_err().contains("no worker pool"));
}

#[test]
fn groups_are_read_as_every_command_of_a_provider_prints_them() {
    let nodegroup = json!({"nodegroup": {"nodegroupName": "eks", "labels": {"a": "b"}, "tags": {KEY: "4"}}});
    assert_eq!(aws_tags(&nodegroup, Some("workers")), Ok(pair(KEY, "4")));
    assert_eq!(aws_tags(&json!({"nodegroup": {}}), None), Ok(BTreeMap::new()));
    let cluster = json!({"name": "c", "nodePools": [{"name": "a", "config": {"labels": {"x": "1"}}}, {"name": "b"}]});
    assert_eq!(pool(&cluster, Some("a")).and_then(pool_labels), Ok(pair("x", "1")));
    assert_eq!(pool(&cluster, None).unwrap_err(), "there is more than one node pool: name one with --group");
    let sets = json!([{"name": "a", "tags": {"x": "1"}}, {"name": "b"}]);
    assert_eq!(scale_set(&sets, Some("a")).unwrap()["tags"]["x"], "1");
    assert_eq!(scale_set(&sets, Some("c")).unwrap_err(), "there is no scale set c");
}

#[test]
fn machines_are_found_in_the_topology_of_a_cluster() {
    let group = json!({"class": "w", "name": "workers", "metadata": {"annotations": {"a": "b"}}});
    let workers = json!({"machineDeployments": [group], "machinePools": [{"class": "p", "name": "pool"}]});
    let cluster = json!({
        "kind": "Cluster", "metadata": {"name": "c", "namespace": "one"}, "spec": {"topology": {"workers": workers}},
    });
    let found = machines(std::slice::from_ref(&cluster), Some("workers")).unwrap();
    assert_eq!(found, Pairs { object: "MachineDeployment one/workers".to_owned(), pairs: pair("a", "b") });
    assert_eq!(machines(&[cluster], Some("one/pool")).unwrap().object, "MachinePool one/pool");
    assert!(machines(&[json!({"kind": "Cluster"})], None).unwrap_err().starts_with("there is no MachineDeployment"));
}

#[test]
fn annotation_that_is_no_text_is_an_error() {
    let machines = |value: Value| {
        machines(&[json!({"kind": "MachineDeployment", "metadata": {"name": "a", "annotations": {"a": value}}})], None)
    };
    assert_eq!(machines(json!("20")).unwrap().pairs, pair("a", "20"));
    let error = "the annotation a is 20, and kubectl accepts only text: put it in quotes";
    assert_eq!(machines(json!(20)).unwrap_err(), error);
    assert!(machines(json!(true)).is_err());
}
