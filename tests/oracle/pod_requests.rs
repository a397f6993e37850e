use std::collections::BTreeMap;

use node_resource_advertiser::model::pod::object::PodObject;
use node_resource_advertiser::model::pod::{Pod, Requests};
use serde_json::{Value, json};

use super::*;

const PODS: usize = 20_000;

fn amounts(rng: &mut Rng) -> Value {
    let names = ["example.com/a", "example.com/b", "cpu", "memory", "hugepages-2Mi", "a.kubernetes.io/x"];
    let quantities = ["0", "1", "2", "7", "1k", "4Ki", "3e3", "800Gi"];
    let mut amounts = json!({});
    for name in names {
        if rng.u8(..3) == 0 {
            amounts[name] = json!(pick(rng, &quantities));
        }
    }
    amounts
}

fn containers(rng: &mut Rng, most: usize, name: &str, may_restart: bool) -> Value {
    let containers = (0..rng.usize(..=most)).map(|number| {
        let mut container = json!({
            "name": format!("{name}{number}"), "resources": {"requests": amounts(rng)},
        });
        if may_restart && rng.bool() {
            container["restartPolicy"] = json!(pick(rng, &["Always", "Never"]));
        }
        container
    });
    containers.collect()
}

/// Returns the statuses of all or some containers, as a kubelet writes them: a resize in place changes cpu and memory
/// only, and the API server rejects any other.
fn statuses(rng: &mut Rng, containers: &Value, all: bool) -> Value {
    let containers = containers.as_array().into_iter().flatten();
    let started = containers.filter(|_| all || rng.bool()).cloned().collect::<Vec<_>>();
    let statuses = started.into_iter().map(|container| {
        let mut requests = container["resources"]["requests"].clone();
        for native in ["cpu", "memory"] {
            requests[native] = json!(rng.u8(..).to_string());
        }
        json!({"name": container["name"], "resources": {"requests": requests}, "allocatedResources": requests})
    });
    statuses.collect()
}

fn pod(rng: &mut Rng) -> Value {
    let mut spec = json!({"containers": containers(rng, 3, "c", false)});
    if rng.bool() {
        spec["initContainers"] = containers(rng, 4, "i", true);
    }
    if rng.bool() {
        spec["overhead"] = amounts(rng);
    }
    if rng.bool() {
        spec["resources"] = json!({"requests": amounts(rng)});
    }
    // Of a pod whose resize is infeasible, Kubernetes counts the statuses only: its kubelet has written all of them.
    let is_infeasible = rng.bool();
    let mut status = json!({
        "containerStatuses": statuses(rng, &spec["containers"], is_infeasible),
        "initContainerStatuses": statuses(rng, &spec["initContainers"], is_infeasible),
    });
    if is_infeasible {
        status["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    }
    json!({"metadata": {"name": "pod"}, "spec": spec, "status": status})
}

#[test]
fn pod_requests_match_kubernetes() {
    let pods = random(PODS, |rng| pod(rng).to_string());
    let mut mismatches = Vec::new();
    for (text, theirs) in pods.iter().zip(ask("pod-requests", &pods)) {
        let pod: Pod = serde_json::from_str(text).unwrap();
        let requests = Requests::of(&pod);
        let object: PodObject = serde_json::from_str(text).unwrap();
        assert_eq!(Requests::of(&object.pod), requests, "{text}");
        let ours = requests.iter().filter(|(_, quantity)| !quantity.is_zero());
        let ours: BTreeMap<_, _> = ours.map(|(name, quantity)| (name, quantity.whole().unwrap().to_string())).collect();
        if json!(ours) != theirs {
            mismatches.push(format!("{text}: {ours:?} here, {theirs} there"));
        }
    }
    report(&mismatches, pods.len());
}
