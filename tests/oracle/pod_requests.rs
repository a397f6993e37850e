use std::collections::BTreeMap;

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

fn containers(rng: &mut Rng, most: usize, may_restart: bool) -> Value {
    let containers = (0..rng.usize(..=most)).map(|number| {
        let mut container = json!({
            "name": format!("c{number}"), "resources": {"requests": amounts(rng)},
        });
        if may_restart && rng.bool() {
            container["restartPolicy"] = json!(pick(rng, &["Always", "Never"]));
        }
        container
    });
    containers.collect()
}

fn pod(rng: &mut Rng) -> Value {
    let mut spec = json!({"containers": containers(rng, 3, false)});
    if rng.bool() {
        spec["initContainers"] = containers(rng, 4, true);
    }
    if rng.bool() {
        spec["overhead"] = amounts(rng);
    }
    if rng.bool() {
        spec["resources"] = json!({"requests": amounts(rng)});
    }
    json!({"metadata": {"name": "pod"}, "spec": spec})
}

#[test]
fn pod_requests_match_kubernetes() {
    let mut rng = Rng::with_seed(seed());
    let pods: Vec<_> = (0..PODS).map(|_| pod(&mut rng).to_string()).collect();
    let mut mismatches = Vec::new();
    for (text, theirs) in pods.iter().zip(ask("pod-requests", &pods)) {
        let pod: Pod = serde_json::from_str(text).unwrap();
        let requests = Requests::of(&pod);
        let ours = requests.iter().filter(|(_, quantity)| !quantity.is_zero());
        let ours: BTreeMap<_, _> = ours.map(|(name, quantity)| (name, quantity.whole().unwrap().to_string())).collect();
        if json!(ours) != theirs {
            mismatches.push(format!("{text}: {ours:?} here, {theirs} there"));
        }
    }
    report(&mismatches, pods.len());
}
