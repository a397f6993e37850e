//! The policies that `guard` prints, on a real API server.
//!
//! Method: create pods as people who do not know the policies create them, and as people who try to get around them, and
//! compare what the pods request then, or the message of the rejection. docs/slots.md names what remains.

mod kyverno;

use std::process::Command;

use harness::objects::{DONGLE, quantity, rule};
use harness::{Cluster, wait_until};
use serde_json::{Value, json};

const SELECTOR: &str = "app=renderer,size in (big, small)";

/// What becomes of a pod.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The quantities of its containers and init containers.
    Counts(Vec<Option<String>>),
    Rejected,
    RejectedWith(&'static str),
}

fn counts<const N: usize>(quantities: [Option<&str>; N]) -> Fate {
    Fate::Counts(quantities.map(|it| it.map(str::to_owned)).into())
}

const NOTHING: Fate = Fate::RejectedWith("pods with these labels have to request example.com/dongle");
const BYPASS: Fate = Fate::RejectedWith("must not set spec.nodeName");

/// Returns the policies for the rules of a text.
fn policies(args: &[&str]) -> String {
    let folder = std::env::temp_dir().join(format!("guard-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let rules = folder.join("rules.json");
    std::fs::write(&rules, rule("dongle", &json!({})).to_string()).unwrap();
    let mut command = Command::new(harness::program().unwrap());
    let output = command.args(["guard", "-f"]).arg(rules).args(["--pods", SELECTOR]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stderr, b"");
    String::from_utf8(output.stdout).unwrap()
}

fn container(name: &str, resources: &Value) -> Value {
    json!({"name": name, "image": "pause", "resources": resources})
}

fn limits(amount: &str) -> Value {
    json!({"limits": {DONGLE: amount}})
}

/// Returns a pod of the kind, with these fields besides.
fn pod(fields: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "renderer", "namespace": "default", "labels": {"app": "renderer", "size": "big"}},
        "spec": {"containers": [container("app", &json!({}))]},
    });
    json_patch::merge(&mut pod, fields);
    pod
}

fn spec(fields: &Value) -> Value {
    pod(&json!({"spec": fields}))
}

fn containers(resources: &[Value]) -> Value {
    let containers = resources.iter().enumerate().map(|(at, it)| container(&format!("c{at}"), it));
    json!({"containers": containers.collect::<Vec<_>>()})
}

/// What an API server does with an object that is given to kubectl like this.
fn fate(cluster: &Cluster, args: &[&str], object: Option<&Value>) -> Fate {
    let text = object.map(Value::to_string);
    let output = cluster.control_plane.kubectl_output(&[args, &["-o", "json"]].concat(), text.as_deref()).unwrap();
    if output.code != 0 {
        let known = [&NOTHING, &BYPASS].into_iter().find_map(|fate| match fate {
            Fate::RejectedWith(message) if output.stderr.contains(message) => Some(*message),
            _ => None,
        });
        return known.map_or(Fate::Rejected, Fate::RejectedWith);
    }
    counted(&serde_json::from_str(&output.stdout).unwrap())
}

/// Returns what a pod counts.
fn counted(pod: &Value) -> Fate {
    let of = |field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
    let containers = [of("containers"), of("initContainers")].concat();
    let amount = |container: &Value| {
        let [request, limit] = ["requests", "limits"]
            .map(|map| quantity(&json!({"status": container["resources"]}), map, DONGLE).map(str::to_owned));
        assert_eq!(request, limit, "{pod}");
        request
    };
    Fate::Counts(containers.iter().map(amount).collect())
}

/// A Deployment of such pods.
fn deployment() -> Value {
    let template = json!({
        "metadata": {"labels": {"app": "renderer", "size": "big"}}, "spec": pod(&json!({}))["spec"],
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "renderer", "namespace": "default", "labels": template["metadata"]["labels"]},
        "spec": {"selector": {"matchLabels": {"app": "renderer"}}, "template": template},
    })
}

fn created(cluster: &Cluster, pod: &Value) -> Fate {
    fate(cluster, &["create", "--dry-run=server", "-f", "-"], Some(pod))
}

fn wait_in_force(cluster: &Cluster) {
    let bypass = spec(&json!({"nodeName": "in-no-cluster"}));
    wait_until("the guard to be in force", || {
        let is_in_force = created(cluster, &bypass) == BYPASS;
        let counts = created(cluster, &spec(&json!({}))) != counts([None]);
        Ok((is_in_force && counts).then_some(()))
    })
    .unwrap();
}

#[test]
fn pods_of_a_guard_count_or_are_rejected() {
    let cluster = Cluster::shared();
    cluster.apply(&policies(&[]));
    wait_in_force(&cluster);
    let one = Some("1");
    let dongles = |amount: &str| containers(&[limits(amount)]);
    let gates = json!({"schedulingGates": [{"name": "example.com/wait"}]});
    let odd = json!({
        "hostNetwork": true, "tolerations": [{"operator": "Exists"}], "schedulerName": "other",
        "terminationGracePeriodSeconds": 0, "enableServiceLinks": false,
    });
    let native = json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}});
    let init = |init: Value| json!({"initContainers": [init]});
    let sidecar = json!({"name": "s", "image": "pause", "restartPolicy": "Always"});
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    let mut mirror_on_node = mirror.clone();
    mirror_on_node["spec"] = json!({"nodeName": "node-1"});
    for (what, pod, expected) in [
        ("no request", spec(&json!({})), counts([one])),
        ("a generated name", pod(&json!({"metadata": {"name": null, "generateName": "r-"}})), counts([one])),
        ("several containers", spec(&containers(&[json!({}), json!({}), json!({})])), counts([one, None, None])),
        ("other resources", spec(&containers(std::slice::from_ref(&native))), counts([one])),
        ("an init container", spec(&init(container("i", &json!({})))), counts([one, None])),
        ("a sidecar", spec(&init(sidecar)), counts([one, None])),
        ("a gate", spec(&gates), counts([one])),
        ("odd fields", spec(&odd), counts([one])),
        ("a mirror that is none", pod(&mirror), Fate::Rejected),
        ("a mirror that is none, on a node", pod(&mirror_on_node), BYPASS),
        ("resources of the pod", spec(&json!({"resources": {"requests": {"cpu": "2"}}})), counts([one])),
        ("an amount of its own", spec(&dongles("3")), counts([Some("3")])),
        ("a suffix", spec(&dongles("2k")), counts([Some("2k")])),
        (
            "requests too",
            spec(&containers(&[json!({"limits": {DONGLE: 2}, "requests": {DONGLE: 2}})])),
            counts([Some("2")]),
        ),
        ("the second container's", spec(&containers(&[native, limits("2")])), counts([None, Some("2")])),
        ("an init container's", spec(&init(container("i", &limits("2")))), counts([None, Some("2")])),
        ("zero", spec(&dongles("0")), counts([one])),
        ("zero in the second", spec(&containers(&[json!({}), limits("0")])), counts([one, Some("0")])),
        ("zero in all", spec(&containers(&[limits("0"), limits("0")])), counts([one, Some("0")])),
        ("a fraction", spec(&dongles("500m")), Fate::Rejected),
        ("less than nothing", spec(&dongles("-1")), counts([one])),
        (
            "a limit of another amount",
            spec(&containers(&[json!({"limits": {DONGLE: 2}, "requests": {DONGLE: 1}})])),
            Fate::Rejected,
        ),
        ("a node", spec(&json!({"nodeName": "node-1"})), BYPASS),
        (
            "a node, and a request",
            spec(&json!({"nodeName": "node-1", "containers": dongles("1")["containers"]})),
            BYPASS,
        ),
        ("a node, and odd fields", spec(&json!({"nodeName": "node-1", "schedulerName": "other"})), BYPASS),
        ("the other size", pod(&json!({"metadata": {"labels": {"size": "small"}}})), counts([one])),
        ("no size", pod(&json!({"metadata": {"labels": {"size": null}}})), counts([None])),
        ("another app", pod(&json!({"metadata": {"labels": {"app": "other"}}})), counts([None])),
        ("no labels", pod(&json!({"metadata": {"labels": null}})), counts([None])),
        ("the system's namespace", pod(&json!({"metadata": {"namespace": "kube-system"}})), counts([None])),
    ] {
        assert_eq!(created(&cluster, &pod), expected, "{what}");
    }
}

/// What is done to pods that exist: by labels, by edits of every kind, and by subresources.
#[test]
fn pods_of_a_guard_count_after_edits() {
    let cluster = Cluster::shared();
    let control_plane = &cluster.control_plane;
    let create = |name: &str, labels: &Value| {
        let pod = pod(&json!({"metadata": {"name": name, "labels": labels}}));
        control_plane.kubectl_stdin(&["create", "-f", "-"], &pod.to_string()).unwrap();
    };
    // From before the guard.
    create("old", &json!({}));
    cluster.apply(&policies(&[]));
    wait_in_force(&cluster);
    create("counted", &json!({}));
    create("unlabeled", &json!({"app": null, "size": null}));
    let as_labeled = pod(&json!({"metadata": {"name": "unlabeled"}}));
    let patch = r#"{"metadata": {"labels": {"app": "renderer", "size": "big"}}}"#;
    let edits = [
        fate(&cluster, &["label", "pod", "unlabeled", "app=renderer", "size=big"], None),
        fate(&cluster, &["patch", "pod", "unlabeled", "-p", patch], None),
        fate(&cluster, &["patch", "pod", "unlabeled", "--type=merge", "-p", patch], None),
        fate(&cluster, &["replace", "-f", "-"], Some(&as_labeled)),
        fate(&cluster, &["apply", "--server-side", "--force-conflicts", "-f", "-"], Some(&as_labeled)),
        fate(&cluster, &["apply", "-f", "-"], Some(&as_labeled)),
    ];
    assert!(edits.iter().all(|fate| *fate == NOTHING), "{edits:?}");

    // A pod that counts may lose its labels, and counts.
    let count = || counts([Some("1")]);
    assert_eq!(fate(&cluster, &["label", "pod", "counted", "app-", "size-"], None), count());
    assert_eq!(fate(&cluster, &["label", "pod", "counted", "app=renderer", "size=small"], None), count());
    let image = r#"{"spec": {"containers": [{"name": "app", "image": "other"}]}}"#;
    assert_eq!(fate(&cluster, &["patch", "pod", "counted", "-p", image], None), count());
    for removal in [
        json!([{"op": "remove", "path": "/spec/containers/0/resources"}]),
        json!([{"op": "replace", "path": "/spec/containers/0/resources/requests/example.com~1dongle", "value": "0"}]),
    ] {
        let removal = removal.to_string();
        for subresource in [&[][..], &["--subresource=resize"]] {
            let args = ["patch", "pod", "counted", "--type=json", "-p", &removal];
            assert_eq!(fate(&cluster, &[&args[..], subresource].concat(), None), Fate::Rejected, "{subresource:?}");
        }
    }
    // One from before the guard can be edited, and end.
    assert_eq!(fate(&cluster, &["label", "pod", "old", "more=labels"], None), counts([None]));
    assert_eq!(fate(&cluster, &["patch", "pod", "old", "-p", image], None), counts([None]));
    cluster.kubectl(&["delete", "pod", "old", "--now"]);
    cluster.kubectl(&["delete", "pod", "counted", "unlabeled", "--now"]);
}

#[test]
fn guard_leaves_templates_and_mirror_pods_alone() {
    let cluster = Cluster::shared();
    cluster.apply(&policies(&[]));
    wait_in_force(&cluster);
    let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    let created = cluster.control_plane.kubectl_stdin(&create, &deployment().to_string()).unwrap();
    let created: Value = serde_json::from_str(&created).unwrap();
    assert_eq!(created["spec"]["template"]["spec"]["containers"][0]["resources"], json!({}));

    // The kubelet runs a static pod whatever becomes of its mirror.
    cluster.create_nodes(["node-1"], &json!({}));
    let uid = cluster.node("node-1")["metadata"]["uid"].clone();
    let mirror = pod(&json!({
        "metadata": {
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": uid, "controller": true}],
        },
        "spec": {"nodeName": "node-1"},
    }));
    let as_kubelet = ["create", "--dry-run=server", "--as=system:node:node-1", "--as-group=system:nodes", "-f", "-"];
    assert_eq!(fate(&cluster, &as_kubelet, Some(&mirror)), counts([None]));
}

#[test]
fn guard_that_only_rejects_needs_the_request_in_the_template() {
    let cluster = Cluster::shared();
    let text = policies(&["--reject-only", "--namespaces", "team=media", "--name", "renderers"]);
    assert!(!text.contains("Mutating"), "{text}");
    cluster.apply(&text);
    cluster.kubectl(&["create", "namespace", "media"]);
    cluster.kubectl(&["label", "namespace", "media", "team=media"]);
    let there = |fields: Value| {
        let mut pod = spec(&fields);
        pod["metadata"]["namespace"] = json!("media");
        created(&cluster, &pod)
    };
    wait_until("the guard to be in force", || Ok((there(json!({})) == NOTHING).then_some(()))).unwrap();
    assert_eq!(there(containers(&[limits("1")])), counts([Some("1")]));
    assert_eq!(created(&cluster, &spec(&json!({}))), counts([None]), "another namespace");
}
