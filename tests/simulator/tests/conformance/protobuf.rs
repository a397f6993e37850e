//! Nodes, pods, lists of them and failures in protobuf: the bytes of a real server, and those that the model makes of the same
//! object in JSON.

use anyhow::{Context as _, Result, ensure};
use hyper::Method;
use serde_json::{Value, json};
use simulator::{Kind, protobuf};

use crate::client::Message;
use crate::episode::World;
use crate::exchange::collection;

/// Compares nodes and pods.
pub(crate) fn compare(world: &World) -> Result<()> {
    compare_nodes(world)?;
    compare_pods(world)
}

/// Compares a pod that has run, a list of it, and a failure.
fn compare_pods(world: &World) -> Result<()> {
    let pods = world.control_plane.url() + &collection(Kind::Pod, Some("default"));
    let resources = json!({"limits": {"example.com/dongle": "2", "cpu": "1"}, "requests": {"cpu": "500m"}});
    let pod = json!({
        "metadata": {"name": "protobuf", "labels": {"l": "1"}, "annotations": {"a": "ä"}},
        "spec": {
            "nodeName": "node-a", "automountServiceAccountToken": false,
            "initContainers": [{"name": "first", "image": "pause", "restartPolicy": "Always", "resources": resources}],
            "containers": [{"name": "app", "image": "pause", "command": ["run"], "args": ["-v"], "resources": resources}],
        },
    });
    let create = Message::new(Method::POST, pods.clone(), Some(("application/json", pod)));
    let (code, created) = world.client.send(create)?;
    ensure!(code == 201, "{code} {created}");
    let one = format!("{pods}/protobuf");
    same(world, &one)?;
    let time = "2026-01-01T00:00:00Z";
    let running = json!({"running": {"startedAt": time}});
    let ended = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "m", "startedAt": time,
        "finishedAt": time, "containerID": "c"}});
    let container = |name: &str, state: &Value| {
        json!({"name": name, "state": state, "lastState": ended, "ready": true,
        "restartCount": 3, "image": "pause", "imageID": "i", "containerID": "c", "started": true})
    };
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "m"}});
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "lastProbeTime": null,
        "lastTransitionTime": time, "reason": "R", "message": "m", "observedGeneration": 1})
    };
    let status = json!({
        "phase": "Running", "startTime": time, "message": "m", "reason": "R", "hostIP": "10.0.0.1",
        "conditions": [condition("Initialized"), condition("PodReadyToStartContainers")],
        "containerStatuses": [container("app", &running)], "initContainerStatuses": [container("first", &waiting)],
        "extendedResourceClaimStatus": {"resourceClaimName": "claim", "requestMappings": [
            {"containerName": "app", "resourceName": "example.com/dongle", "requestName": "r"}]},
    });
    let body = Some(("application/merge-patch+json", json!({"status": status})));
    let (code, patched) = world.client.send(Message::new(Method::PATCH, format!("{one}/status"), body))?;
    ensure!(code == 200, "{code} {patched}");
    for url in [&one, &pods, &format!("{pods}?fieldSelector=spec.nodeName%21%3D"), &format!("{pods}/missing")] {
        same(world, url)?;
    }
    world.client.send(Message::new(Method::DELETE, format!("{one}?gracePeriodSeconds=0"), None)).map(drop)
}

/// Compares a node with every field that the model has, a list of it, and a failure.
fn compare_nodes(world: &World) -> Result<()> {
    let nodes = world.control_plane.url() + &collection(Kind::Node, None);
    let node = json!({
        "metadata": {
            "name": "protobuf", "labels": {"zone": "a", "example.com/slots": "4"}, "finalizers": ["example.com/f"],
            "annotations": {"noderesource.dev/advertised": "{}", "a": "ä"},
        },
        "spec": {
            "unschedulable": true, "providerID": "kind://node", "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"],
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": {"cpu": "4", "example.com/dongle": "8", "memory": "1Gi"},
            "allocatable": {"example.com/dongle": "1500"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": null}],
            "addresses": [{"type": "Hostname", "address": "protobuf"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"bootID": "boot-1", "kubeletVersion": "v1.37.1", "machineID": "", "systemUUID": "",
                "kernelVersion": "6", "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64"},
        },
    });
    let create = Message::new(Method::POST, nodes.clone(), Some(("application/json", node)));
    let (code, created) = world.client.send(create)?;
    ensure!(code == 201, "{code} {created}");
    let one = format!("{nodes}/protobuf");
    for url in [&one, &nodes, &format!("{nodes}/missing")] {
        same(world, url)?;
    }
    // With a finalizer, it stays.
    world.client.send(Message::new(Method::DELETE, one.clone(), None))?;
    same(world, &one)?;
    let patch = json!({"metadata": {"finalizers": null}});
    let released = Message::new(Method::PATCH, one, Some(("application/merge-patch+json", patch)));
    world.client.send(released).map(drop)
}

fn same(world: &World, url: &str) -> Result<()> {
    let get = |accept| Message { accept: Some(accept), ..Message::new(Method::GET, url.to_owned(), None) };
    let (_, json) = world.client.send(get("application/json"))?;
    let (_, real) = world.client.send_for_bytes(get(protobuf::PROTOBUF))?;
    let model = protobuf::object(&json).with_context(|| format!("{json} has no form in protobuf"))?;
    ensure!(model == real, "{url}: {json}\nreal  {}\nmodel {}", real.escape_ascii(), model.escape_ascii());
    ensure!(real.len() > 40 && json != Value::Null, "{url} has content");
    Ok(())
}
