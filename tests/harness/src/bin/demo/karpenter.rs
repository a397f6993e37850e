//! The story with Karpenter: from no node to a running pod, whose resource no cloud knows.

use std::time::Instant;

use anyhow::{Context as _, Result};
use harness::objects::condition;
use harness::{Controller, wait_until};
use serde_json::Value;

use crate::stage::Stage;
use crate::story;

const POD: &str = "kubectl get pod dongle-user -o wide";
const CLAIMS: &str = "kubectl get nodeclaims -o custom-columns='NAME:.metadata.name,NODE:.status.nodeName,\
    INITIALIZED:.status.conditions[?(@.type==\"Initialized\")].status,REASON:.status.conditions[?(@.type==\"Initialized\")].reason'";
const OVERLAYS: &str = "node-resource-advertiser autoscaler -f examples/dongle.yaml --for karpenter";

/// Plays it to the end, and returns the controller, which still runs.
pub(crate) fn play(stage: &Stage) -> Result<Controller> {
    stage.heading("Kubernetes without any node; and Karpenter, which creates nodes for pods that fit on none");
    stage.show("kubectl get nodes", "", "No resources found")?;
    let controller = story::install_controller(stage)?;

    stage.heading("The nodes that Karpenter may create. They have no dongles when they are created, as in a cloud");
    stage.show("grep -v '^#' examples/karpenter/nodepool.yaml", "", "KWOKNodeClass")?;
    stage.show("kubectl apply -f examples/karpenter/", "", "created")?;

    stage.heading("A pod requests three dongles: Karpenter knows no node that would have any");
    stage.show("kubectl apply -f examples/pod.yaml", "", "created")?;
    let events = "kubectl get events --field-selector involvedObject.name=dongle-user -o custom-columns=FROM:.source.component,MESSAGE:.message";
    stage.show(events, "karpenter", "Failed to schedule pod")?;

    stage.heading("A NodeOverlay from the rule: Karpenter creates a node, and waits for its dongles");
    stage.show(&format!("{OVERLAYS} | kubectl apply -f -"), "", "created")?;
    stage.show(CLAIMS, "Unknown", "ResourceNotRegistered")?;
    stage.show("kubectl get nodes", "kwok-dongles", " Ready")?;
    stage.show(POD, "dongle-user", "Pending")?;

    stage.heading("The rule itself: the pod runs");
    stage.show("kubectl apply -f examples/dongle.yaml", "", "created")?;
    stage.show(CLAIMS, "kwok-dongles", "True")?;
    stage.show(POD, "dongle-user", "Running")?;
    stage.show(&format!("{OVERLAYS} --check-cluster"), "", "No differences")?;

    stage.heading("Back to no node");
    stage.show("kubectl delete pod dongle-user --grace-period=0 --force", "", "deleted")?;
    stage.show("kubectl delete nodeclaims --all", "", "deleted")?;
    stage.show("kubectl get nodes", "", "No resources found")?;

    stage.heading("The same pod, now with the overlay and the rule in place");
    stage.show("kubectl apply -f examples/pod.yaml", "", "created")?;
    timeline(stage)?;
    stage.show(POD, "dongle-user", "Running")?;

    stage.heading("Edit the rule: the overlay must change too");
    let lower = "kubectl patch ner dongle --type=merge -p '{\"spec\":{\"quantity\":2}}'";
    stage.show(lower, "", "patched")?;
    let check = "kubectl get ner -o yaml | node-resource-advertiser autoscaler -f - --for karpenter --check-cluster";
    stage.show(check, "", "expected 2, found 4")?;
    Ok(controller)
}

/// What happens on the way to a running pod: what the objects of a path must be like.
type Step = (&'static str, &'static str, fn(&Value) -> bool);

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const NODE_CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const STEPS: [Step; 7] = [
    ("the pod fits on no node", PODS, |pod| condition(&pod["status"], "PodScheduled").1 == "Unschedulable"),
    ("Karpenter creates a NodeClaim", NODE_CLAIMS, |_| true),
    ("the Node exists", NODES, |_| true),
    ("the Node has four dongles", NODES, |node| node["status"]["allocatable"]["example.com/dongle"] == "4"),
    ("the Node is Ready", NODES, |node| condition(&node["status"], "Ready").0 == "True"),
    ("the NodeClaim is initialized", NODE_CLAIMS, |claim| condition(&claim["status"], "Initialized").0 == "True"),
    ("the pod runs", PODS, |pod| pod["status"]["phase"] == "Running"),
];

/// Prints when each step is first observed. Each is observed within some milliseconds.
fn timeline(stage: &Stage) -> Result<()> {
    let control_plane = stage.place().control_plane().context("no control plane")?;
    let begun = Instant::now();
    let mut left = STEPS.to_vec();
    wait_until("the pod to run", || {
        if let Err(interrupted) = stage.check_interrupted() {
            return Ok(Some(Err(interrupted)));
        }
        let mut failed = None;
        left.retain(|(what, path, is_done)| {
            let list = control_plane.get(path).and_then(|text| Ok(serde_json::from_str::<Value>(&text)?));
            let done = match &list {
                Ok(list) => list["items"].as_array().is_some_and(|items| items.iter().any(is_done)),
                Err(_) => false,
            };
            failed = list.err().or(failed.take());
            if done {
                stage.print(&format!("{:7.3} s   {what}\n", begun.elapsed().as_secs_f64()));
            }
            !done
        });
        failed.map_or(Ok(left.is_empty().then_some(Ok(()))), Err)
    })?
}
