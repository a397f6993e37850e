use std::collections::BTreeMap;

use node_resource_advertiser::cli::why_filters;

use serde_json::{Value, json};

use super::*;

const WORLDS: usize = 500;
const RESOURCES: [&str; 2] = ["example.com/a", "example.com/b"];
/// Few keys, values and names, so that they meet.
const KEYS: &[&str] = &["zone", "size", "kubernetes.io/hostname"];
const VALUES: &[&str] = &["a", "b", "", "1", "2", "node-1", "node-2"];
const EFFECTS: &[&str] = &["NoSchedule", "NoExecute", "PreferNoSchedule"];

fn name(rng: &mut Rng) -> String {
    format!("node-{}", rng.u8(1..=6))
}

fn amounts(rng: &mut Rng, most: u8) -> Value {
    let mut amounts = json!({});
    for resource in RESOURCES {
        if rng.u8(..3) > 0 {
            amounts[resource] = json!(rng.u8(..=most).to_string());
        }
    }
    amounts
}

/// Returns a container with requests or limits of what is extended, and of cpu and memory.
fn container(rng: &mut Rng, most: u8) -> Value {
    let mut requests = amounts(rng, most);
    if rng.bool() {
        requests["cpu"] = json!(pick(rng, &["0", "250m", "1", "1500m", "1u"]));
    }
    if rng.bool() {
        requests["memory"] = json!(pick(rng, &["0", "512Mi", "1G", "3Gi", "1500m"]));
    }
    json!({"name": "a", "resources": {"requests": requests}})
}

/// Adds init containers, sidecars, an overhead and requests of the whole pod to a pod.
fn complicate(rng: &mut Rng, spec: &mut Value) {
    let init = |rng: &mut Rng| {
        let mut init = container(rng, 1);
        if rng.bool() {
            init["restartPolicy"] = json!("Always");
        }
        init
    };
    spec["initContainers"] = (0..rng.usize(..4).saturating_sub(1)).map(|_| init(rng)).collect();
    if rng.u8(..4) == 0 {
        spec["overhead"] = json!({"cpu": "100m", "memory": "100Mi"});
    }
    if rng.u8(..4) == 0 {
        spec["resources"] =
            json!({"requests": {"cpu": pick(rng, &["500m", "3"]), "memory": pick(rng, &["1Gi", "5Gi"])}});
    }
}

fn node(rng: &mut Rng, number: usize) -> Value {
    let mut labels = json!({});
    for key in KEYS {
        if rng.bool() {
            labels[key] = json!(pick(rng, VALUES));
        }
    }
    let taint = |rng: &mut Rng| {
        let mut taint = json!({"key": pick(rng, KEYS), "effect": pick(rng, EFFECTS)});
        if rng.bool() {
            taint["value"] = json!(pick(rng, VALUES));
        }
        taint
    };
    let taints: Vec<_> = (0..rng.usize(..4).saturating_sub(2)).map(|_| taint(rng)).collect();
    let mut amounts = amounts(rng, 5);
    amounts["pods"] = json!(pick(rng, &["110", "2", "1"]));
    amounts["cpu"] = json!(pick(rng, &["1", "2500m", "4"]));
    amounts["memory"] = json!(pick(rng, &["1Gi", "4096Mi", "8G"]));
    json!({
        "metadata": {"name": format!("node-{number}"), "labels": labels},
        "spec": {"unschedulable": rng.u8(..8) == 0, "taints": taints},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

fn requirement(rng: &mut Rng) -> Value {
    let operator = pick(rng, &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    let values: Vec<_> = match operator {
        "In" | "NotIn" => (0..rng.usize(1..3)).map(|_| pick(rng, VALUES)).collect(),
        "Gt" | "Lt" => vec![pick(rng, &["0", "1", "2"])],
        _ => Vec::new(),
    };
    json!({"key": pick(rng, KEYS), "operator": operator, "values": values})
}

fn term(rng: &mut Rng) -> Value {
    let mut term = json!({});
    let labels: Vec<_> = (0..rng.usize(..3)).map(|_| requirement(rng)).collect();
    if !labels.is_empty() {
        term["matchExpressions"] = json!(labels);
    }
    if rng.u8(..3) == 0 {
        let operator = pick(rng, &["In", "In", "NotIn"]);
        term["matchFields"] = json!([{"key": "metadata.name", "operator": operator, "values": [name(rng)]}]);
    }
    term
}

fn toleration(rng: &mut Rng) -> Value {
    let mut toleration = json!({"operator": pick(rng, &["Exists", "Equal", ""])});
    // The API server accepts no other operator without a key.
    if toleration["operator"] != "Exists" || rng.bool() {
        toleration["key"] = json!(pick(rng, KEYS));
    }
    if toleration["operator"] != "Exists" && rng.bool() {
        toleration["value"] = json!(pick(rng, VALUES));
    }
    if rng.bool() {
        toleration["effect"] = json!(pick(rng, EFFECTS));
    }
    if rng.u8(..6) == 0 {
        toleration["key"] = json!("node.kubernetes.io/unschedulable");
    }
    toleration
}

fn pod(rng: &mut Rng) -> Value {
    let mut spec = json!({"containers": [container(rng, 4)]});
    complicate(rng, &mut spec);
    if rng.u8(..3) == 0 {
        spec["nodeSelector"][pick(rng, KEYS)] = json!(pick(rng, VALUES));
    }
    if rng.bool() {
        let terms: Vec<_> = (0..rng.usize(1..4)).map(|_| term(rng)).collect();
        let required = json!({"nodeSelectorTerms": terms});
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
    }
    spec["tolerations"] = (0..rng.usize(..3)).map(|_| toleration(rng)).collect();
    json!({"metadata": {"namespace": "default", "name": "asks"}, "spec": spec, "status": {"phase": "Pending"}})
}

fn world(rng: &mut Rng) -> Value {
    let nodes: Vec<_> = (1..=rng.usize(1..=6)).map(|number| node(rng, number)).collect();
    let user = |rng: &mut Rng, number: usize| {
        let mut spec = json!({"nodeName": name(rng), "containers": [container(rng, 2)]});
        complicate(rng, &mut spec);
        json!({
            "metadata": {"namespace": "default", "name": format!("user-{number}"), "uid": number.to_string()},
            "spec": spec, "status": {"phase": "Running"},
        })
    };
    let pods: Vec<_> = (0..rng.usize(..8)).map(|number| user(rng, number)).collect();
    json!({"pod": pod(rng), "nodes": nodes, "pods": pods})
}

/// What `why` answers for a node is what the first filter of the scheduler that rejects it says.
#[test]
fn why_agrees_with_the_filters_of_the_scheduler() {
    let worlds = random(WORLDS, world);
    let inputs: Vec<_> = worlds.iter().map(Value::to_string).collect();
    let (mut mismatches, mut counts, mut total) = (Vec::new(), BTreeMap::<String, usize>::new(), 0);
    for (world, theirs) in worlds.iter().zip(ask("can-schedule", &inputs)) {
        let list = |field: &str| world[field].as_array().unwrap().clone();
        let ours = why_filters(world["pod"].clone(), list("nodes"), list("pods")).unwrap();
        for (node, theirs) in theirs.as_object().unwrap() {
            let theirs = theirs.as_str().unwrap();
            let filter = theirs.split(':').next().unwrap();
            total += 1;
            *counts.entry(filter.to_owned()).or_default() += 1;
            if ours.get(node).copied() != Some(filter) {
                mismatches.push(format!("{node}: {:?} here, {theirs:?} there: {world}", ours.get(node)));
            }
        }
    }
    report(&mismatches, total);
    println!("{counts:?}");
    for filter in ["", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit"] {
        assert!(counts.get(filter).is_some_and(|count| *count > 50), "{filter:?}: {counts:?}");
    }
}
