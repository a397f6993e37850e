use serde_json::{Value, json};

use super::*;

const OWN: &str = FIELD_MANAGER;

/// Each entry is a manager, the second in which it wrote, and the maps in which it has the dongle. The kubelet is
/// part of k3s.
fn managers(entries: &[(&str, u32, &[&str])]) -> FieldManagers {
    let entries = entries.iter().map(|(manager, second, maps)| {
        let maps = maps.iter().map(|map| (format!("f:{map}"), json!({"f:example.com/a": {}})));
        json!({
            "manager": manager, "operation": "Update", "subresource": "status",
            "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": maps.collect::<serde_json::Map<_, _>>()},
        })
    });
    read(Value::Array([heartbeats("k3s")].into_iter().chain(entries).collect()))
}

fn read(entries: Value) -> FieldManagers {
    let entries: Vec<ManagedFields> = serde_json::from_value(entries).unwrap();
    FieldManagers::new(&entries, &mut Pool::default(), &mut Pool::default())
}

fn named(managers: &FieldManagers) -> Option<&str> {
    managers.get("example.com/a")?.last([true, true]).map(|manager| &**manager.name())
}

const BOTH: &[&str] = &["capacity", "allocatable"];
const CAPACITY: &[&str] = &["capacity"];
const ALLOCATABLE: &[&str] = &["allocatable"];

#[test]
fn value_is_own_only_with_no_other_manager_in_either_map() {
    let are_own = |managers: &FieldManagers| managers.get("example.com/a").is_some_and(ResourceManagers::are_own);
    assert!(are_own(&managers(&[("k3s", 9, &[]), (OWN, 1, BOTH)])));
    for other in [BOTH, CAPACITY, ALLOCATABLE] {
        // Co-owned by server-side apply, however long ago.
        let managers = managers(&[("helm", 0, other), (OWN, 1, BOTH)]);
        assert!(!are_own(&managers), "{other:?}");
        assert_eq!(named(&managers), Some("helm"), "{other:?}");
    }
    for one in [CAPACITY, ALLOCATABLE] {
        assert!(!are_own(&managers(&[(OWN, 1, one)])), "{one:?}");
    }
    assert!(!are_own(&managers(&[])));
}

#[test]
fn named_manager_is_the_one_that_answers_for_the_value() {
    for (entries, name) in [
        // A person writes capacity, and the kubelet copies it.
        ([("kubectl", 1, CAPACITY), ("k3s", 2, ALLOCATABLE)], "kubectl"),
        ([("k3s", 1, CAPACITY), ("kubectl", 2, ALLOCATABLE)], "kubectl"),
        // managedFields are sorted with the oldest first.
        ([("nfd", 1, CAPACITY), ("kubectl", 2, ALLOCATABLE)], "kubectl"),
        ([("nfd", 1, ALLOCATABLE), ("kubectl", 2, CAPACITY)], "kubectl"),
        ([(OWN, 2, ALLOCATABLE), ("kubectl", 1, CAPACITY)], "kubectl"),
        ([(OWN, 2, CAPACITY), ("k3s", 1, ALLOCATABLE)], "k3s"),
        // Two appliers of one field.
        ([("argocd", 2, BOTH), ("flux", 1, BOTH)], "argocd"),
        ([("argocd", 1, BOTH), ("flux", 2, BOTH)], "flux"),
    ] {
        assert_eq!(named(&managers(&entries)), Some(name), "{entries:?}");
    }
    let both = managers(&[("nfd", 1, CAPACITY), ("kubectl", 2, ALLOCATABLE)]);
    let both = both.get("example.com/a").unwrap();
    assert_eq!(both.last([true, false]).map(|manager| &**manager.name()), Some("nfd"));
    assert_eq!(both.last([false, false]), None);
}

#[test]
fn kubelet_is_who_writes_the_heartbeats_whatever_its_name() {
    let both = json!({"f:example.com/a": {}});
    let wrote = |manager: &str| {
        json!({"manager": manager, "subresource": "status",
        "fieldsV1": {"f:status": {"f:capacity": both, "f:allocatable": both}}})
    };
    let is_kubelets = |entries: Value| read(entries).get("example.com/a").is_some_and(ResourceManagers::are_kubelets);
    for name in ["kubelet", "k3s", "kubelite", "hollow-kubelet", "kwok", "f:\"odd\""] {
        assert!(is_kubelets(json!([wrote(name), heartbeats(name)])), "{name}");
        // Several managers may have conditions of their own, and write at the same time.
        let others = json!({
            "manager": "node-problem-detector", "subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {
                r#"k:{"type":"KernelDeadlock"}"#: {".": {}, "f:lastHeartbeatTime": {}},
            }}},
        });
        assert!(!is_kubelets(json!([wrote("node-problem-detector"), others, heartbeats(name)])), "{name}");
        let cloud = json!({
            "manager": "cloud-controller-manager", "subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {
                r#"k:{"type":"Ready"}"#: {"f:status": {}, "f:reason": {}, "f:lastTransitionTime": {}},
            }}},
        });
        assert!(!is_kubelets(json!([wrote("cloud-controller-manager"), cloud, heartbeats(name)])), "{name}");
    }
    // Renamed by an upgrade: the heartbeats that follow belong to the new name.
    assert!(!is_kubelets(json!([wrote("kubelet"), heartbeats("kubelite")])));
    // The controller is never taken for a kubelet.
    assert!(!is_kubelets(json!([wrote(OWN), heartbeats(OWN)])));
    // Nothing shows that there is a kubelet.
    let mut elsewhere = heartbeats("kubelet");
    elsewhere["subresource"] = json!("");
    for unknown in [json!({}), elsewhere] {
        assert!(!is_kubelets(json!([wrote("kubelet"), unknown])), "{unknown}");
    }
    // Either, where both applied the same heartbeat.
    for name in ["k3s", "restore"] {
        assert!(is_kubelets(json!([heartbeats("k3s"), wrote(name), heartbeats("restore")])), "{name}");
    }
}

#[test]
fn managers_compare_without_their_times() {
    let at = |second| managers(&[("nfd", 5, CAPACITY), ("kubectl", second, ALLOCATABLE)]);
    assert!(at(1).same_for_planning(&at(9)));
    assert!(!at(1).same_for_planning(&managers(&[("nfd", 5, BOTH)])));
}

#[test]
fn incomplete_entries_name_no_manager() {
    for entry in [
        json!({}),
        json!({"manager": null, "time": null, "fieldsV1": null}),
        json!({"manager": OWN, "fieldsV1": {"f:status": null}}),
        json!({"manager": OWN, "fieldsV1": {"f:status": {"f:capacity": null}}}),
        json!({"manager": OWN, "fieldsV1": {"f:status": {"f:capacity": {".": {}, "f:cpu": {}}}}}),
        json!({"manager": OWN, "fieldsType": "FieldsV2", "fieldsV2": "x"}),
        json!({"manager": OWN, "fieldsV1": {"f:status": {"f:conditions": null}}}),
        json!({"manager": OWN, "fieldsV1": {"f:status": {"f:conditions": {r#"k:{"type":"Ready"}"#: null}}}}),
        json!({"subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {}}}}),
    ] {
        assert_eq!(named(&read(json!([entry.clone()]))), None, "{entry}");
    }
}

#[test]
fn nodes_of_one_kind_share_one_list() {
    let entries = json!([{"manager": OWN, "fieldsV1": {"f:status": {"f:capacity": {"f:example.com/a": {}}}}}]);
    let entries: Vec<ManagedFields> = serde_json::from_value(entries).unwrap();
    let (mut names, mut lists) = (Pool::default(), Pool::default());
    let mut new = || FieldManagers::new(&entries, &mut names, &mut lists);
    assert!(Arc::ptr_eq(&new().0, &new().0));
}
