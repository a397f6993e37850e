//! Karpenter, which creates nodes for pods that request a resource of a rule.
//!
//! Method: start Karpenter with its provider without a cloud. Install of the rule and its NodeOverlay neither, the overlay
//! alone, or both, and compare the nodes that Karpenter creates. kwok plays their kubelets: they run pods in name only. One
//! test needs kwok alone.

use std::collections::BTreeMap;

use harness::documents::{self, Shell};
use harness::objects::{DONGLE, condition, node, pod, quantity, rule};
use harness::{Cluster, ControlPlane, Controller, Karpenter, Kwok, project_file, wait_until};
use serde_json::{Value, json};

use crate::support::program;

const LABEL: &str = "example.com/has-dongle";
/// What Karpenter reports of a pod that requests what no node would have. Why, it says once in five minutes: before it
/// knows the instance types, the NodePool has filtered them all out.
const NO_INSTANCE_TYPE: &str = "Failed to schedule pod, ";
const STARTING: &str = "example.com/starting";

/// A cluster without nodes, in which Karpenter may create some.
struct Scaled {
    cluster: Cluster,
    karpenter: Karpenter,
}

impl Scaled {
    fn start() -> Self {
        let cluster = Cluster::start_with(ControlPlane::builder().scheduler().controller_manager());
        let karpenter = Karpenter::start(&cluster.control_plane).unwrap();
        Self { cluster, karpenter }
    }

    fn apply_file(&self, path: &str) {
        self.cluster.kubectl(&["apply", "-f", project_file(path).to_str().unwrap()]);
    }

    /// Applies a rule of so many dongles on the nodes of the NodePool.
    fn apply_rule(&self, dongles: u32, spec: &Value) {
        self.cluster.apply(&dongle_rule(dongles, spec).to_string());
    }

    /// Applies the NodeOverlay of a rule of so many dongles, as the command prints it, and waits until Karpenter uses it.
    fn apply_overlay(&self, dongles: u32) {
        let printed = self.autoscaler(dongles, &[]);
        self.cluster.apply(&printed.0);
        self.cluster.wait_for("Karpenter to read the overlay", &["nodeoverlay", "dongle"], |overlay| {
            let ready =
                overlay["status"]["conditions"].as_array().into_iter().flatten().find(|it| it["type"] == "Ready");
            ready.is_some_and(|ready| {
                ready["status"] == "True" && ready["observedGeneration"] == overlay["metadata"]["generation"]
            })
        });
    }

    /// Returns what `autoscaler --for karpenter` prints for a rule of so many dongles, and its exit code.
    fn autoscaler(&self, dongles: u32, args: &[&str]) -> (String, i32) {
        let rule = dongle_rule(dongles, &json!({})).to_string();
        let args = [&["autoscaler", "-f", "-", "--for", "karpenter"], args].concat();
        let output = program::run(&self.cluster.control_plane.kubeconfig(), &args, Some(&rule));
        (output.stdout, output.code)
    }

    fn request(&self, name: &str, dongles: u32) {
        self.cluster.apply(&pod(name, DONGLE, &dongles.to_string()).to_string());
    }

    /// Waits until there are so many NodeClaims, and `test` holds for each. Fails if there are more.
    fn wait_claims(&self, count: usize, what: &str, test: impl Fn(&Value) -> bool) -> Vec<Value> {
        let what = format!("{count} NodeClaims, {what}");
        let list = self.cluster.wait_for(&what, &["nodeclaims"], |list| {
            self.karpenter.check_running().unwrap();
            let claims = list["items"].as_array().unwrap();
            assert!(claims.len() <= count, "more than {count} NodeClaims: {claims:#?}");
            claims.len() == count && claims.iter().all(&test)
        });
        list["items"].as_array().unwrap().clone()
    }

    /// Waits until there are so many NodeClaims, none of which is initialized, for this reason.
    fn wait_uninitialized(&self, count: usize, reason: &str) -> Vec<Value> {
        self.wait_claims(count, &format!("not initialized because of {reason}"), |claim| {
            condition(&claim["status"], "Initialized") == ("Unknown", reason)
        })
    }

    fn wait_initialized(&self, count: usize) -> Vec<Value> {
        self.wait_claims(count, "all initialized", |claim| condition(&claim["status"], "Initialized").0 == "True")
    }

    /// Ends all pods, and waits until Karpenter has removed all nodes.
    fn scale_to_zero(&self) {
        self.cluster.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]);
        self.cluster.kubectl(&["delete", "nodeclaims", "--all", "--timeout=180s"]);
        assert_eq!(self.cluster.nodes(), [json!(null); 0]);
    }
}

fn dongle_rule(dongles: u32, spec: &Value) -> Value {
    let mut full = json!({"quantity": dongles, "nodeSelector": {"matchLabels": {LABEL: "true"}}});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    rule("dongle", &full)
}

fn node_of(claim: &Value) -> &str {
    claim["status"]["nodeName"].as_str().unwrap()
}

/// Runs the commands of docs/karpenter.md, and waits between them as a reader does.
#[test]
fn pod_of_the_page_gets_from_no_node_to_running() {
    let scaled = Scaled::start();
    let cluster = &scaled.cluster;
    let controller = Controller::start(cluster);
    assert_eq!(cluster.nodes(), [json!(null); 0]);
    let blocks = documents::blocks_run_by("karpenter", &documents::pages().unwrap()).unwrap();
    let shell = Shell::new(cluster, &project_file("."), BTreeMap::new()).unwrap();
    let mut count = 0;
    for (index, block) in blocks.iter().enumerate() {
        count += shell.run(std::slice::from_ref(block)).unwrap();
        match index {
            0 => {
                wait_as_in_a_cloud(cluster);
                cluster.wait_event("dongle-user", "FailedScheduling", NO_INSTANCE_TYPE);
            }
            2 => {
                let claims = scaled.wait_uninitialized(1, "ResourceNotRegistered");
                wait_node_ready(cluster, &claims[0]);
            }
            _ => {}
        }
    }
    println!("{count} commands do what docs/karpenter.md shows");
    let claims = scaled.wait_initialized(1);
    cluster.wait_advertised(node_of(&claims[0]), DONGLE, "3");
    assert_eq!(cluster.wait_running("dongle-user")["spec"]["nodeName"], node_of(&claims[0]));
    controller.stop();
}

#[test]
fn karpenter_creates_a_node_that_counts_what_the_rule_declares() {
    let scaled = Scaled::start();
    let controller = Controller::start(&scaled.cluster);
    scaled.apply_file("examples/karpenter/nodepool.yaml");
    nodes_that_are_created_with_their_requests(&scaled);
    scaled.scale_to_zero();
    scaled.apply_file("examples/karpenter/nodes-as-in-a-cloud.yaml");
    wait_as_in_a_cloud(&scaled.cluster);
    overlay_without_a_rule(&scaled);
    scaled.scale_to_zero();
    starting_node(&scaled);
    scaled.scale_to_zero();
    rule_of_less_than_its_overlay(&scaled);
    controller.stop();
}

fn wait_node_ready(cluster: &Cluster, claim: &Value) -> Value {
    let is_ready = |node: &Value| condition(&node["status"], "Ready").0 == "True";
    cluster.wait_for("the node to be Ready", &["node", node_of(claim)], is_ready)
}

/// The nodes of Karpenter's provider have from the start what their NodeClaims request, unlike those of clouds. So they
/// work without a rule, and with one that does not overwrite the value, until another pod needs more.
fn nodes_that_are_created_with_their_requests(scaled: &Scaled) {
    let cluster = &scaled.cluster;
    scaled.apply_overlay(4);
    scaled.request("first", 3);
    let claims = scaled.wait_initialized(1);
    let node = node_of(&claims[0]);
    cluster.wait_running("first");
    assert_eq!(quantity(&cluster.node(node), "allocatable", DONGLE), Some("3"));

    scaled.apply_rule(4, &json!({}));
    cluster.wait_status("dongle", "a conflict", |status| status["nodes"]["conflicted"] == 1);
    scaled.apply_rule(4, &json!({"conflictPolicy": "Overwrite"}));
    cluster.wait_advertised(node, DONGLE, "4");
    cluster.wait_ready("dongle", "1/1");
    scaled.request("second", 1);
    assert_eq!(cluster.wait_running("second")["spec"]["nodeName"], node);

    // A node that is new to the rule.
    scaled.scale_to_zero();
    scaled.request("third", 3);
    let claims = scaled.wait_initialized(1);
    cluster.wait_running("third");
    cluster.wait_advertised(node_of(&claims[0]), DONGLE, "4");
    cluster.kubectl(&["delete", "ner", "dongle"]);
}

/// Waits until the policy is in force, a moment after it was created.
fn wait_as_in_a_cloud(cluster: &Cluster) {
    let map = json!({DONGLE: "3", "pods": "1"});
    let mut node = node("canary", &json!({}));
    node["status"] = json!({"capacity": map, "allocatable": map});
    let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    let created = wait_until("nodes to be created without dongles", || {
        let created = cluster.control_plane.kubectl_stdin(&create, &node.to_string())?;
        let created: Value = serde_json::from_str(&created)?;
        Ok(quantity(&created, "capacity", DONGLE).is_none().then_some(created))
    });
    let left = json!({"pods": "1"});
    let status = &created.unwrap()["status"];
    assert_eq!((&status["capacity"], &status["allocatable"]), (&left, &left));
}

/// Karpenter waits for the resource forever. Of a node that is not initialized it counts only what the NodeClaim
/// requests, so the next pod gets another node, which it would not need. A rule ends it.
fn overlay_without_a_rule(scaled: &Scaled) {
    let cluster = &scaled.cluster;
    scaled.request("first", 2);
    let claims = scaled.wait_uninitialized(1, "ResourceNotRegistered");
    let node = wait_node_ready(cluster, &claims[0]);
    assert_eq!(quantity(&node, "capacity", DONGLE), None);
    cluster.wait_event(node_of(&claims[0]), "DisruptionBlocked", "Node isn't initialized");
    scaled.request("second", 2);
    scaled.wait_uninitialized(2, "ResourceNotRegistered");

    scaled.apply_rule(4, &json!({}));
    scaled.wait_initialized(2);
    cluster.wait_ready("dongle", "2/2");
    for pod in ["first", "second"] {
        cluster.wait_running(pod);
    }
}

/// A node that is not initialized for another reason has what the rule declares, and the next pod gets no other node.
fn starting_node(scaled: &Scaled) {
    let cluster = &scaled.cluster;
    let taint = json!([{"key": STARTING, "effect": "NoSchedule"}]);
    let spec = json!({"spec": {"template": {"spec": {"startupTaints": taint}}}}).to_string();
    cluster.kubectl(&["patch", "nodepool", "dongles", "--type=merge", "-p", &spec]);
    scaled.request("first", 2);
    let claims = scaled.wait_uninitialized(1, "StartupTaintsExist");
    let node = node_of(&claims[0]);
    cluster.wait_advertised(node, DONGLE, "4");
    scaled.request("second", 2);
    cluster.wait_event("second", "Nominated", node);
    let claims = scaled.wait_uninitialized(1, "StartupTaintsExist");
    assert_eq!(claims[0]["spec"]["resources"]["requests"][DONGLE], "2", "that of the first pod");

    cluster.kubectl(&["taint", "node", node, &format!("{STARTING}-")]);
    for pod in ["first", "second"] {
        assert_eq!(cluster.wait_running(pod)["spec"]["nodeName"], node);
    }
    scaled.wait_initialized(1);
}

/// Karpenter believes the overlay: it creates node after node for a pod that fits on none.
fn rule_of_less_than_its_overlay(scaled: &Scaled) {
    let cluster = &scaled.cluster;
    cluster.kubectl(&[
        "patch",
        "nodepool",
        "dongles",
        "--type=json",
        "-p",
        r#"[{"op":"remove","path":"/spec/template/spec/startupTaints"}]"#,
    ]);
    let check = ["--check-cluster"];
    assert_eq!(scaled.autoscaler(4, &check).1, 0);
    scaled.apply_rule(2, &json!({}));
    let (printed, code) = scaled.autoscaler(2, &check);
    assert!(code == 1 && printed.contains("expected 2, found 4"), "{printed}");
    scaled.request("first", 3);
    let is_initialized = |claim: &&Value| condition(&claim["status"], "Initialized").0 == "True";
    let list = cluster.wait_for("three nodes for the same pod", &["nodeclaims"], |list| {
        list["items"].as_array().unwrap().iter().filter(is_initialized).count() >= 3
    });
    for claim in list["items"].as_array().unwrap().iter().filter(is_initialized) {
        cluster.wait_advertised(node_of(claim), DONGLE, "2");
    }

    scaled.apply_overlay(2);
    cluster.wait_event("first", "FailedScheduling", NO_INSTANCE_TYPE);
    assert_eq!(scaled.autoscaler(2, &check).1, 0);
}

/// kwok starts only when the node has the rule's value, because it leaves out cpu, memory and pods on such a node. So it is
/// whenever the controller is first.
#[test]
fn pod_runs_on_simulated_gpus_of_a_node_without_a_machine() {
    let cluster = Cluster::start_with(ControlPlane::builder().scheduler().controller_manager());
    let controller = Controller::start(&cluster);
    let apply = |file: &str| cluster.kubectl(&["apply", "-f", project_file(file).to_str().unwrap()]);
    apply("examples/simulate/gpus.yaml");
    apply("examples/simulate/node.yaml");
    cluster.wait_advertised("simulated-1", "nvidia.com/gpu", "8");
    let kwok = Kwok::start(&cluster.control_plane).unwrap();
    apply("examples/simulate/pod.yaml");
    assert_eq!(cluster.wait_running("trainer")["spec"]["nodeName"], "simulated-1");
    cluster.wait_advertised("simulated-1", "nvidia.com/mig-1g.10gb", "7");
    drop(kwok);
    controller.stop();
}
