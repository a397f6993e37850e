//! A control plane with the CRD in it, and the program as a process beside it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use harness::{Builder, ControlPlane, Process, Signal, wait_until};
use serde_json::{Value, json};

/// How long anything may take to come about. Generous: the machine may be busy.
pub const DEADLINE: Duration = Duration::from_secs(90);

pub const LEDGER: &str = "noderesource.dev/advertised";

/// A control plane.
pub struct Cluster {
    pub control_plane: ControlPlane,
}

impl Cluster {
    /// Boots etcd and an API server, with the CRD installed.
    pub fn start() -> Self {
        Self::with(ControlPlane::builder())
    }

    /// Boots what `builder` says, with the CRD installed.
    pub fn with(builder: Builder) -> Self {
        let cluster = Self::without_crd(builder);
        cluster.install_crd();
        cluster
    }

    pub fn without_crd(builder: Builder) -> Self {
        let control_plane = builder.start().expect("the control plane starts");
        Self { control_plane }
    }

    pub fn install_crd(&self) {
        let crd = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("crds/noderesource.dev_nodeextendedresources.yaml");
        self.kubectl(&["apply", "-f", crd.to_str().unwrap()]);
        self.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
    }

    /// Runs kubectl, which must succeed.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.control_plane.kubectl(args).expect("kubectl succeeds")
    }

    /// Applies objects, given as JSON or YAML.
    pub fn apply(&self, objects: &str) {
        self.control_plane
            .kubectl_stdin(&["apply", "-f", "-"], objects)
            .expect("the objects are applied");
    }

    /// Applies a rule for `example.com/dongle`, of 4 on every node where `spec` does not say
    /// otherwise.
    pub fn apply_rule(&self, name: &str, spec: &Value) {
        self.apply(&rule(name, spec).to_string());
    }

    /// Makes Nodes, as objects: there is no kubelet behind them.
    pub fn create_nodes(&self, names: impl IntoIterator<Item = String>, labels: &Value) {
        let items: Vec<_> = names
            .into_iter()
            .map(|name| {
                let mut labels = labels.clone();
                // As every kubelet sets it. The API server keeps no managedFields of an object that
                // is created without any field.
                labels["kubernetes.io/hostname"] = json!(name);
                json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": {"name": name, "labels": labels},
                })
            })
            .collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.control_plane
            .kubectl_stdin(&["create", "-f", "-"], &list.to_string())
            .expect("the nodes are created");
    }

    pub fn get(&self, args: &[&str]) -> Value {
        let text = self.kubectl(&[&["get", "-o", "json"], args].concat());
        serde_json::from_str(&text).expect("kubectl prints JSON")
    }

    pub fn node(&self, name: &str) -> Value {
        self.get(&["node", name])
    }

    /// Waits until an object satisfies `test`.
    pub fn wait_for(&self, what: &str, args: &[&str], test: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = wait_until(what, DEADLINE, || {
            last = serde_json::from_str(
                &self.control_plane.kubectl(&[&["get", "-o", "json"], args].concat())?,
            )?;
            Ok(test(&last).then(|| last.clone()))
        });
        found.unwrap_or_else(|error| panic!("{error:#}\nlast seen: {last:#}"))
    }

    /// Waits until a node has `quantity` of a resource in both maps, and it is listed.
    pub fn wait_advertised(&self, node: &str, resource: &str, quantity: &str) -> Value {
        let what = format!("{node} to advertise {resource}={quantity}");
        self.wait_for(&what, &["node", node], |node| advertises(node, resource, quantity))
    }

    /// Waits until a node has nothing of a resource, nor a ledger.
    pub fn wait_withdrawn(&self, node: &str, resource: &str) -> Value {
        let what = format!("{resource} and the ledger to be gone from {node}");
        self.wait_for(&what, &["node", node], |node| {
            amount(node, "capacity", resource).is_none()
                && amount(node, "allocatable", resource).is_none()
                && ledger(node).is_none()
        })
    }

    /// Waits until a rule's status speaks of its present generation and `test` holds for it.
    pub fn wait_status(&self, rule: &str, what: &str, test: impl Fn(&Value) -> bool) -> Value {
        let what = format!("the status of rule {rule} to say {what}");
        self.wait_for(&what, &["ner", rule], |rule| {
            rule["status"]["observedGeneration"] == rule["metadata"]["generation"]
                && test(&rule["status"])
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
        let what = format!("an Event {reason} about {name} that says {text:?}");
        self.wait_for(&what, &["events.events.k8s.io"], |list| {
            list["items"].as_array().unwrap().iter().any(|event| {
                event["regarding"]["name"] == name
                    && event["reason"] == reason
                    && event["note"].as_str().is_some_and(|note| note.contains(text))
            })
        });
    }

    /// Waits until a user has a right: the API server takes a moment to see what was granted.
    pub fn wait_right(&self, user: &str, verb: &str, resource: &str) {
        let what = format!("{user} to be allowed to {verb} {resource}");
        wait_until(&what, DEADLINE, || {
            let args = ["auth", "can-i", verb, resource, "--as", user];
            let answer = self.control_plane.kubectl_output(&args, None)?;
            Ok((answer.code == 0).then_some(()))
        })
        .unwrap();
    }

    /// Patches a node's status as another writer would.
    pub fn write_status(&self, node: &str, patch: &Value) {
        self.kubectl(&[
            "patch",
            "node",
            node,
            "--subresource=status",
            "--type=json",
            "-p",
            &patch.to_string(),
        ]);
    }

    /// Gives a node that has neither map both, with this value, as another writer would.
    pub fn write_first_amount(&self, node: &str, resource: &str, quantity: &str) {
        let amounts = json!({resource: quantity});
        self.write_status(
            node,
            &json!([
                {"op": "add", "path": "/status/capacity", "value": amounts},
                {"op": "add", "path": "/status/allocatable", "value": amounts},
            ]),
        );
    }

    /// Puts a value into both maps, as another writer would.
    pub fn write_amount(&self, node: &str, resource: &str, quantity: &str) {
        let resource = resource.replace('/', "~1");
        self.write_status(
            node,
            &json!([
                {"op": "add", "path": format!("/status/capacity/{resource}"), "value": quantity},
                {"op": "add", "path": format!("/status/allocatable/{resource}"), "value": quantity},
            ]),
        );
    }

    /// How many requests there have been about what the controller works with, reading ones too.
    /// Nothing in an API server without a controller manager asks about these.
    pub fn requests(&self) -> u64 {
        self.count(|_, resource| matches!(resource, "nodes" | "nodeextendedresources" | "events"))
    }

    /// How many of them were writes.
    pub fn writes(&self) -> u64 {
        self.count(|verb, resource| {
            matches!(resource, "nodes" | "nodeextendedresources" | "events")
                && !matches!(verb, "GET" | "LIST" | "WATCH")
        })
    }

    fn count(&self, wanted: impl Fn(&str, &str) -> bool) -> u64 {
        let counts = self.control_plane.request_counts().expect("the API server's metrics");
        let counts = counts.iter().filter(|((verb, resource, _), _)| wanted(verb, resource));
        counts.map(|(_, count)| count).sum()
    }

    /// Waits until there has been no request for `time`.
    pub fn wait_quiet(&self, time: Duration) {
        let mut last = (self.requests(), Instant::now());
        wait_until(&format!("no request for {time:?}"), DEADLINE, || {
            let now = self.requests();
            if now != last.0 {
                last = (now, Instant::now());
            }
            Ok((last.1.elapsed() >= time).then_some(()))
        })
        .unwrap();
    }

    pub fn node_patches(&self) -> u64 {
        self.control_plane
            .request_count("PATCH", "nodes", "status")
            .expect("the API server's metrics")
    }
}

/// A rule for `example.com/dongle`, of 4 on every node where `spec` does not say otherwise.
pub fn rule(name: &str, spec: &Value) -> Value {
    let mut full = json!({"resourceName": "example.com/dongle", "quantity": 4});
    let fields = full.as_object_mut().unwrap();
    fields.extend(spec.as_object().unwrap().clone());
    if !fields.contains_key("nodeNames") && !fields.contains_key("nodeSelector") {
        fields.insert("nodeSelector".to_owned(), json!({}));
    }
    json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name}, "spec": full,
    })
}

/// What a node has of a resource in one of the maps.
pub fn amount<'a>(node: &'a Value, map: &str, resource: &str) -> Option<&'a str> {
    node["status"][map][resource].as_str()
}

/// A node's ledger, if it has one.
pub fn ledger(node: &Value) -> Option<&str> {
    node["metadata"]["annotations"][LEDGER].as_str()
}

pub fn advertises(node: &Value, resource: &str, quantity: &str) -> bool {
    amount(node, "capacity", resource) == Some(quantity)
        && amount(node, "allocatable", resource) == Some(quantity)
        && ledger(node).is_some_and(|ledger| ledger.contains(resource))
}

/// The status and the reason of a condition.
pub fn condition<'a>(status: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    let field = |name: &str| found.and_then(|found| found[name].as_str()).unwrap_or("");
    (field("status"), field("reason"))
}

/// The program, running.
pub struct Controller {
    process: Process,
    address: SocketAddr,
}

impl Controller {
    /// Starts it as an administrator, and waits until it is ready.
    pub fn start(cluster: &Cluster) -> Self {
        Self::start_with(cluster, &[])
    }

    /// The same, with arguments.
    pub fn start_with(cluster: &Cluster, args: &[&str]) -> Self {
        let controller = Self::start_unready(cluster, &cluster.control_plane.kubeconfig(), args);
        controller.wait_ready();
        controller
    }

    /// Starts it with a kubeconfig, and waits for nothing.
    pub fn start_unready(cluster: &Cluster, kubeconfig: &Path, args: &[&str]) -> Self {
        let args = [&["run"], args].concat();
        Self::start_as(cluster, kubeconfig, &args, &[])
    }

    /// Starts it with just these arguments and this environment, but for the address it listens at.
    pub fn start_as(
        cluster: &Cluster,
        kubeconfig: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], harness::free_port().unwrap()));
        let log = cluster.control_plane.dir().join(format!("controller-{}.log", address.port()));
        let listen = address.to_string();
        let process = Process::spawn(
            "controller",
            Path::new(env!("CARGO_BIN_EXE_node-resource-advertiser")),
            args,
            &[env, &[("KUBECONFIG", kubeconfig.to_str().unwrap()), ("NRA_LISTEN", &listen)]]
                .concat(),
            &log,
        );
        Self { process: process.expect("the controller starts"), address }
    }

    /// What `/readyz` answers; `None` while nothing listens.
    pub fn readiness(&self) -> Option<(u16, String)> {
        self.ask("/readyz")
    }

    /// What a path is answered; `None` while nothing listens.
    pub fn ask(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let code = answer.split_whitespace().nth(1)?.parse().ok()?;
        let body = answer.split_once("\r\n\r\n")?.1.to_owned();
        Some((code, body))
    }

    pub fn wait_ready(&self) {
        self.wait_readiness("the controller to be ready", |code, _| code == 200);
    }

    /// Waits until it is not ready, and says `reason`.
    pub fn wait_unready(&self, reason: &str) {
        let what = format!("the controller not to be ready, because of {reason:?}");
        self.wait_readiness(&what, |code, body| code == 503 && body.contains(reason));
    }

    fn wait_readiness(&self, what: &str, test: impl Fn(u16, &str) -> bool) {
        let mut last = None;
        wait_until(what, DEADLINE, || {
            last = self.readiness();
            Ok(last.as_ref().filter(|(code, body)| test(*code, body)).map(|_| ()))
        })
        .unwrap_or_else(|error| panic!("{error:#}\nlast answer: {last:?}\n{}", self.log()));
    }

    /// Waits until its log has `text` in it.
    pub fn wait_log(&self, text: &str) {
        wait_until(&format!("the log to say {text:?}"), DEADLINE, || {
            Ok(self.log().contains(text).then_some(()))
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", self.log()));
    }

    pub fn log(&self) -> String {
        self.process.log()
    }

    /// SIGTERM; it must end with 0 within the 5 seconds that it promises.
    pub fn stop(mut self) {
        self.process.signal(Signal::TERM).unwrap();
        let code = self.process.wait_exit(Duration::from_secs(5));
        let code = code.unwrap_or_else(|error| panic!("{error:#}\n{}", self.log()));
        assert_eq!(code, 0, "{}", self.log());
    }

    /// SIGSTOP, or SIGCONT to let it go on.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
    }
}
