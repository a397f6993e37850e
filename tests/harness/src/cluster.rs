//! A control plane with the CRD, for tests.

// For tests, which fail with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::judge::RULES as RULES_PATH;
use crate::objects::{self, advertises, condition, has_event, ledger, quantity};
use crate::{Builder, ControlPlane, project_file, wait_until};

/// How often a kubelet may reject a pod before it observes what the scheduler has observed.
const MAX_REJECTIONS: usize = 5;

/// A control plane. Every method panics if it fails.
#[derive(Debug)]
pub struct Cluster {
    /// The control plane.
    pub control_plane: ControlPlane,
}

impl Cluster {
    /// Starts etcd and an API server, and installs the CRD.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(ControlPlane::builder())
    }

    /// Starts what `builder` describes, and installs the CRD.
    #[must_use]
    pub fn start_with(builder: Builder) -> Self {
        let cluster = Self::start_without_crd(builder);
        cluster.install_crd();
        cluster
    }

    /// Starts an API server with the CRD and without an audit log: nothing judges the program's patches.
    #[must_use]
    pub fn start_unjudged() -> Self {
        let cluster = Self { control_plane: ControlPlane::builder().start().expect("the control plane starts") };
        cluster.install_crd();
        cluster
    }

    /// Starts what `builder` describes.
    #[must_use]
    pub fn start_without_crd(builder: Builder) -> Self {
        Self { control_plane: builder.judged().start().expect("the control plane starts") }
    }

    /// Installs the CRD, and waits until the API server serves it.
    pub fn install_crd(&self) {
        let crd = project_file("crds/noderesource.dev_nodeextendedresources.yaml");
        self.kubectl(&["apply", "-f", crd.to_str().unwrap()]);
        self.wait_crds();
    }

    /// Deletes the CRD, and waits until the API server no longer serves its group.
    pub(crate) fn delete_crd(&self) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeextendedresources.noderesource.dev";
        self.control_plane.delete(path).expect("the CRD is deleted");
        self.wait_served(false);
    }

    /// Waits until the API server serves rules and lists their group, or neither.
    pub(crate) fn wait_served(&self, expected: bool) {
        let what = if expected { "rules to be served" } else { "rules no longer to be served" };
        wait_until(what, || {
            let is_listed = self.control_plane.get("/apis")?.contains("noderesource.dev");
            let is_served = self.control_plane.get(RULES_PATH).is_ok();
            Ok((is_listed == expected && is_served == expected).then_some(()))
        })
        .unwrap();
    }

    /// Waits until the API server serves every CRD.
    pub fn wait_crds(&self) {
        self.wait_for("all CRDs to be Established", &["crd"], |list| {
            let crds = list["items"].as_array().unwrap();
            crds.iter().all(|crd| condition(&crd["status"], "Established").0 == "True")
        });
    }

    /// Runs kubectl, which must succeed, and returns what it prints.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.control_plane.kubectl(args).expect("kubectl succeeds")
    }

    /// Applies objects, given as JSON or YAML.
    pub fn apply(&self, objects: &str) {
        self.control_plane.kubectl_stdin(&["apply", "-f", "-"], objects).expect("the objects are applied");
    }

    /// Applies [`objects::rule`].
    pub fn apply_rule(&self, name: &str, spec: &Value) {
        self.apply(&objects::rule(name, spec).to_string());
    }

    /// Creates Node objects, without kubelets.
    pub fn create_nodes<T: AsRef<str>>(&self, names: impl IntoIterator<Item = T>, labels: &Value) {
        let nodes = names.into_iter().map(|name| objects::node(name.as_ref(), labels));
        let items: Vec<_> = nodes.collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.control_plane.kubectl_stdin(&["create", "-f", "-"], &list.to_string()).expect("the nodes are created");
    }

    /// Returns what `kubectl get -o json` prints.
    pub fn get(&self, args: &[&str]) -> Value {
        self.try_get(args).expect("the objects are read")
    }

    /// Reads what tests poll without kubectl, whose start takes a hundred times as long.
    fn try_get(&self, args: &[&str]) -> Result<Value> {
        let path = match *args {
            ["nodes"] => "/api/v1/nodes".to_owned(),
            ["node", name] => format!("/api/v1/nodes/{name}"),
            ["pod", name] => format!("/api/v1/namespaces/default/pods/{name}"),
            ["ner"] => RULES_PATH.to_owned(),
            ["ner", name] => format!("{RULES_PATH}/{name}"),
            ["nodeclaims"] => "/apis/karpenter.sh/v1/nodeclaims".to_owned(),
            ["crd"] => "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            ["events"] => "/apis/events.k8s.io/v1/events".to_owned(),
            _ => {
                let args = [&["get", "-o", "json"], args].concat();
                return Ok(serde_json::from_str(&self.control_plane.kubectl(&args)?)?);
            }
        };
        Ok(serde_json::from_str(&self.control_plane.get(&path)?)?)
    }

    /// Returns a node.
    pub fn node(&self, name: &str) -> Value {
        self.get(&["node", name])
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> Vec<Value> {
        match self.get(&["nodes"])["items"].take() {
            Value::Array(nodes) => nodes,
            other => panic!("no list of nodes: {other}"),
        }
    }

    /// Waits until the output of `kubectl get -o json` would satisfy `test`.
    pub fn wait_for(&self, what: &str, args: &[&str], test: impl Fn(&Value) -> bool) -> Value {
        self.wait_until(what, args, |object| Ok(test(object)))
    }

    /// Does the same with a test that may fail, which is no reason to stop waiting.
    fn wait_until(&self, what: &str, args: &[&str], mut test: impl FnMut(&Value) -> Result<bool>) -> Value {
        let mut last = Value::Null;
        let found = wait_until(what, || {
            last = self.try_get(args)?;
            Ok(test(&last)?.then(|| last.clone()))
        });
        found.unwrap_or_else(|error| panic!("{error:#}\nlast observed: {last:#}"))
    }

    /// Waits until a node has `quantity` of a resource in both maps, and the resource in its ledger.
    pub fn wait_advertised(&self, node: &str, resource: &str, quantity: &str) -> Value {
        let what = format!("{node} to advertise {resource}={quantity}");
        self.wait_for(&what, &["node", node], |node| advertises(node, resource, quantity))
    }

    /// Waits until a node has neither the resource nor a ledger.
    pub fn wait_withdrawn(&self, node: &str, resource: &str) -> Value {
        let what = format!("{resource} and the ledger to be withdrawn from {node}");
        self.wait_for(&what, &["node", node], |node| {
            quantity(node, "capacity", resource).is_none()
                && quantity(node, "allocatable", resource).is_none()
                && ledger(node).is_none()
        })
    }

    /// Waits until a rule's status is for its current generation and satisfies `test`.
    pub fn wait_status(&self, rule: &str, what: &str, test: impl Fn(&Value) -> bool) -> Value {
        let what = format!("the status of rule {rule} to report {what}");
        self.wait_for(&what, &["ner", rule], |rule| {
            rule["status"]["observedGeneration"] == rule["metadata"]["generation"] && test(&rule["status"])
        })["status"]
            .clone()
    }

    /// Waits until a rule is Ready on `summary` nodes.
    pub fn wait_ready(&self, rule: &str, summary: &str) -> Value {
        self.wait_status(rule, &format!("Ready on {summary}"), |status| {
            condition(status, "Ready").0 == "True" && status["nodes"]["summary"] == summary
        })
    }

    /// Waits for an Event about `name`, with this reason and with `text` in its note.
    pub fn wait_event(&self, name: &str, reason: &str, text: &str) {
        let what = format!("an Event {reason} about {name} with {text:?} in its note");
        self.wait_for(&what, &["events"], |events| has_event(events, name, reason, text));
    }

    /// Waits until a pod of the namespace `default`, created by `kubectl apply`, is in the phase Running. A kubelet may
    /// observe a value, or the end of a pod, later than the scheduler, and reject the pod: it is created again, as a
    /// ReplicaSet would, but not without end.
    pub fn wait_running(&self, pod: &str) -> Value {
        let mut rejected = BTreeSet::new();
        self.wait_until(&format!("pod {pod} to be Running"), &["pod", pod], |pod| {
            let applied = &pod["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
            let is_rejected = pod["status"]["reason"].as_str().is_some_and(|reason| reason.starts_with("OutOf"));
            if let Some(applied) = applied.as_str().filter(|_| is_rejected) {
                if rejected.insert(pod["metadata"]["uid"].to_string()) {
                    println!("rejected {} times: {}", rejected.len(), pod["status"]["message"]);
                }
                assert!(rejected.len() <= MAX_REJECTIONS, "the value is not there to stay: {:#}", pod["status"]);
                let args = ["replace", "--force", "--grace-period=0", "--save-config", "-f", "-"];
                self.control_plane.kubectl_stdin(&args, applied)?;
            }
            Ok(pod["status"]["phase"] == "Running")
        })
    }

    /// Waits until a user has a permission, which takes effect a moment after it is granted.
    pub fn wait_permission(&self, user: &str, verb: &str, resource: &str) {
        self.wait_can_i(user, verb, resource, true);
    }

    /// Waits until a user no longer has a permission.
    pub fn wait_no_permission(&self, user: &str, verb: &str, resource: &str) {
        self.wait_can_i(user, verb, resource, false);
    }

    fn wait_can_i(&self, user: &str, verb: &str, resource: &str, expected: bool) {
        let not = if expected { "" } else { "not " };
        wait_until(&format!("{user} {not}to be allowed to {verb} {resource}"), || {
            let args = ["auth", "can-i", verb, resource, "--as", user];
            let allowed = self.control_plane.kubectl_output(&args, None)?.code == 0;
            Ok((allowed == expected).then_some(()))
        })
        .unwrap();
    }

    /// Panics unless each version of a node since `since` (one of its versions) satisfies `test`: also one that existed
    /// for a moment.
    pub fn assert_always(&self, since: &Value, what: &str, test: impl Fn(&Value) -> bool) {
        let name = since["metadata"]["name"].as_str().unwrap();
        let mut versions = self.control_plane.node_versions(name).expect("the audit log");
        versions.sort_by_key(version);
        versions.retain(|node| version(node) >= version(since));
        assert!(!versions.is_empty(), "{name} has no version");
        let other = versions.iter().find(|node| !test(node));
        assert!(other.is_none(), "{name}: {what}: {other:#?}");
    }

    /// Waits until the controller has planned these nodes after everything that has happened so far: it advertises
    /// another resource on them, and withdraws it.
    pub fn wait_planned(&self, nodes: &[&str]) {
        const MARKER: &str = "example.com/marker";
        self.apply_rule("marker", &json!({"resourceName": MARKER, "nodeNames": nodes}));
        for node in nodes {
            self.wait_advertised(node, MARKER, "4");
        }
        self.kubectl(&["delete", "ner", "marker"]);
        for node in nodes {
            self.wait_for(&format!("{MARKER} to be withdrawn from {node}"), &["node", node], |node| {
                quantity(node, "capacity", MARKER).is_none() && !ledger(node).is_some_and(|it| it.contains(MARKER))
            });
        }
    }

    /// Patches a node's status with a strategic merge patch, as this field manager.
    pub fn patch_status_as(&self, manager: &str, node: &str, status: &Value) {
        let (manager, patch) = (format!("--field-manager={manager}"), json!({"status": status}).to_string());
        self.kubectl(&["patch", "node", node, "--subresource=status", "--type=strategic", &manager, "-p", &patch]);
    }

    /// Writes a heartbeat of a node: from then on, this field manager is its kubelet.
    pub fn heartbeat(&self, node: &str, kubelet: &str) {
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"});
        self.patch_status_as(kubelet, node, &json!({"conditions": [ready]}));
    }

    /// Sets a resource of a node to 0, as this field manager, like a kubelet that registers its node after a reboot.
    pub fn reset(&self, node: &str, manager: &str, resource: &str) {
        let map = json!({resource: "0"});
        self.patch_status_as(manager, node, &json!({"capacity": map, "allocatable": map}));
    }

    /// Patches a node's status, as the field manager `kubectl-patch`: `kind` is json or merge.
    pub fn patch_status(&self, node: &str, kind: &str, patch: &Value) {
        let (kind, patch) = (format!("--type={kind}"), patch.to_string());
        self.kubectl(&["patch", "node", node, "--subresource=status", &kind, "-p", &patch]);
    }

    /// Writes a value into both maps of a node, as the field manager `kubectl-patch`.
    pub fn write_quantity(&self, node: &str, resource: &str, quantity: &str) {
        let map = json!({resource: quantity});
        self.patch_status(node, "merge", &json!({"status": {"capacity": map, "allocatable": map}}));
    }

    /// Counts the controller's writes so far, except those of its Lease and dry runs.
    pub fn writes(&self) -> u64 {
        self.control_plane.controller_requests(false).expect("the audit log")
    }

    /// Waits until `window` has passed without any request of the controller, except watches, renewals of its Lease,
    /// and the dry run each minute.
    pub fn wait_idle(&self, window: Duration) {
        let requests = || self.control_plane.controller_requests(true);
        let mut last = (requests().expect("the audit log"), Instant::now());
        wait_until(&format!("{window:?} without a request"), || {
            let count = requests()?;
            if count != last.0 {
                last = (count, Instant::now());
            }
            Ok((last.1.elapsed() >= window).then_some(()))
        })
        .unwrap();
    }

    /// Counts the patches of nodes' status so far.
    pub fn node_patches(&self) -> u64 {
        self.control_plane.request_count("PATCH", "nodes", "status").expect("the API server's metrics")
    }
}

fn version(node: &Value) -> u64 {
    node["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
