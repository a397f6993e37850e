//! The story, chapter by chapter.

use anyhow::{Context as _, Result};
use harness::{Controller, wait_until};

use crate::place::CRD;
use crate::stage::Stage;

const SECOND_USER: &str = "kubectl get pods -l app=second-user";

/// Plays it to the end, and returns the controller, which still runs.
pub(crate) fn play(stage: &Stage) -> Result<Controller> {
    let controller = install(stage)?;
    four_dongles(stage)?;
    if stage.place().runs_pods {
        pods(stage)?;
    }
    five_dongles(stage)?;
    repair(stage)?;
    let is_own = stage.place().control_plane().is_some();
    let (mut log, controller) = if is_own && stage.place().runs_pods {
        (changes(&controller), reboot_without_a_controller(stage, controller)?)
    } else {
        (Vec::new(), controller)
    };
    back_to_nothing(stage)?;

    stage.heading("What the controller did, one line for each change");
    log.extend(changes(&controller));
    stage.print(&format!("{}\n", log.join("\n")));
    Ok(controller)
}

/// What README shows in twenty seconds, on a control plane of its own. What comes before is not recorded.
pub(crate) fn play_in_short(stage: &Stage) -> Result<Controller> {
    let controller = install(stage)?;
    let node = &stage.place().node;
    stage.show(&format!("kubectl label node {node} example.com/has-dongle=true"), "", "labeled")?;
    stage.take_output();

    stage.heading("A rule: four dongles on every node with a label");
    stage.show("grep -v '^#' examples/dongle.yaml", "", "quantity: 4")?;
    stage.show("kubectl apply -f examples/dongle.yaml", "", "created")?;
    stage.show("kubectl get ner", "dongle", "1/1     4")?;
    stage.heading("A pod that requests three of them runs");
    stage.show("kubectl apply -f examples/pod.yaml", "", "created")?;
    stage.show("kubectl get pod dongle-user", "dongle-user", "Running")?;
    stage.heading("Reset them to 0, as a kubelet does after a reboot: the controller repairs that at once");
    stage.show(&zero(node), "", "patched")?;
    stage.show(&quantity(node, "capacity"), "", "4")?;
    stage.heading("Delete the rule: nothing is left on the node, and the pod runs on");
    stage.show("kubectl delete ner dongle", "", "deleted")?;
    stage.show(&left(node), "", "nothing")?;
    stage.show("kubectl get pod dongle-user", "dongle-user", "Running")?;
    Ok(controller)
}

fn install(stage: &Stage) -> Result<Controller> {
    let place = stage.place();
    stage.heading(match (place.control_plane(), place.runs_pods) {
        (None, _) => "The cluster",
        (_, true) => "Start Kubernetes: etcd, API server, controller manager, scheduler and two kubelets",
        (_, false) => "Start etcd and kube-apiserver, without a scheduler and kubelets: no pod runs",
    });
    if !place.runs_pods {
        let node = format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{}"}}}}"#, place.node);
        stage.show(&format!("echo '{node}' | kubectl apply -f -"), "", "created")?;
    }
    let status = if place.runs_pods { "Ready" } else { "" };
    stage.show("kubectl get nodes", &place.node, status)?;
    install_controller(stage)
}

pub(crate) fn install_controller(stage: &Stage) -> Result<Controller> {
    stage.heading("Install the custom resource, and start the controller");
    stage.show(&format!("kubectl apply -f {CRD}"), "", "created")?;
    let established =
        "kubectl wait --for=condition=Established crd/nodeextendedresources.noderesource.dev --timeout=180s";
    stage.show(established, "", "condition met")?;
    let controller = stage.start_controller()?;
    let expected = ["all rules listed", "all nodes listed"];
    let listed = wait_until("the controller to have listed rules and nodes", || {
        stage.check_interrupted()?;
        let log = controller.log();
        let lines = log.lines().filter(|line| expected.iter().any(|text| line.contains(text)));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        Ok((lines.len() >= expected.len()).then_some(lines))
    })?;
    stage.print(&format!("{}\n", listed.join("\n")));
    Ok(controller)
}

/// The lines of the log about changes of nodes.
fn changes(controller: &Controller) -> Vec<String> {
    let log = controller.log();
    log.lines().filter(|line| line.contains(" action=")).map(str::to_owned).collect()
}

fn four_dongles(stage: &Stage) -> Result<()> {
    let node = &stage.place().node;
    stage.heading("One node has dongles, and a label that marks it");
    let label = format!("kubectl label node {node} example.com/has-dongle=true");
    stage.show(&label, "", "labeled")?;

    stage.heading("A rule: four dongles on every node with that label");
    stage.show("grep -v '^#' examples/dongle.yaml", "", "quantity: 4")?;
    stage.show("kubectl apply -f examples/dongle.yaml", "", "created")?;
    let wait = "kubectl wait --for=condition=Ready ner/dongle --timeout=180s";
    stage.show(wait, "", "condition met")?;
    stage.show("kubectl get ner", "dongle", "1/1")?;

    stage.heading("The node advertises them, in capacity and in allocatable");
    let describe = format!("kubectl describe node {node} | grep -E '^(Capacity|Allocatable)|example.com/dongle:'");
    stage.show(&describe, "example.com/dongle:", "4")
}

fn pods(stage: &Stage) -> Result<()> {
    stage.heading("A pod that requests three dongles runs");
    stage.show("kubectl apply -f examples/pod.yaml", "", "created")?;
    stage.show("kubectl get pod dongle-user -o wide", "dongle-user", "Running")?;

    stage.heading("A Deployment whose pod requests two: it stays Pending, since one is free");
    stage.show(
        "kubectl create deployment second-user --image=registry.k8s.io/pause:3.10 --replicas=0",
        "",
        "created",
    )?;
    stage.show("kubectl set resources deployment/second-user --limits=example.com/dongle=2", "", "updated")?;
    stage.show("kubectl scale deployment/second-user --replicas=1", "", "scaled")?;
    stage.show(SECOND_USER, "second-user", "Pending")?;
    let why = "kubectl get pods -l app=second-user -o jsonpath='{.items[*].status.conditions[?(@.type==\"PodScheduled\")].message}{\"\\n\"}'";
    stage.show(why, "", "Insufficient example.com/dongle")
}

fn five_dongles(stage: &Stage) -> Result<()> {
    stage.heading("Edit the rule to five dongles");
    let raise = "kubectl patch ner dongle --type=merge -p '{\"spec\":{\"quantity\":5}}'";
    stage.show(raise, "", "patched")?;
    if stage.place().runs_pods {
        // If the scheduler is ahead of the kubelet, the kubelet rejects the pod, and the Deployment creates another.
        stage.heading("The second pod runs");
        stage.show(SECOND_USER, "second-user", "Running")?;
    }
    stage.show("kubectl get ner", "dongle", "1/1     5")
}

fn repair(stage: &Stage) -> Result<()> {
    let node = &stage.place().node;
    stage.heading("Set the node's dongles to 0, as a kubelet does after a reboot");
    stage.show(&zero(node), "", "patched")?;

    stage.heading("The controller repairs it at once, and an Event names the field manager");
    stage.show(&quantity(node, "capacity"), "", "5")?;
    let events = "kubectl get events -n default --field-selector reason=Repaired -o custom-columns=ON:.involvedObject.name,MESSAGE:.message";
    stage.show(events, node, "kubectl-patch")
}

/// A command that sets the dongles of a node to 0.
fn zero(node: &str) -> String {
    let path = "/status/capacity/example.com~1dongle";
    format!(
        "kubectl patch node {node} --subresource=status --type=json -p '[{{\"op\":\"replace\",\"path\":\"{path}\",\"value\":\"0\"}}]'"
    )
}

/// A command that prints what is left of the dongles on a node.
fn left(node: &str) -> String {
    format!("kubectl get node {node} -o yaml | grep -E 'example.com/dongle|noderesource.dev' || echo nothing")
}

/// A command that prints the dongles of a node.
fn quantity(node: &str, map: &str) -> String {
    format!("kubectl get node {node} -o jsonpath='{{.status.{map}.example\\.com/dongle}}{{\"\\n\"}}'")
}

/// Sets the dongles of a node to 0 with its kubelet's identity, like a kubelet that registers the node.
fn reset(node: &str) -> String {
    format!(
        "kubectl patch node {node} --subresource=status --type=strategic --field-manager=kubelet \
         --as=system:node:{node} --as-group=system:nodes -p '{}'",
        dongles(0)
    )
}

fn dongles(number: u32) -> String {
    let map = format!(r#"{{"example.com/dongle":"{number}"}}"#);
    format!(r#"{{"status":{{"capacity":{map},"allocatable":{map}}}}}"#)
}

/// Waits until the policy is in force, a moment after it was written, on a node of its own: what is reset again and again
/// counts as contested. No controller runs.
fn wait_protected(stage: &Stage) -> Result<()> {
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let canary = format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"canary","annotations":{{"noderesource.dev/advertised":{ledger:?}}}}}}}"#
    );
    // kubectl reads before it patches.
    stage.run(&format!(
        "kubectl create clusterrole kubelets-read-status --verb=get --resource=nodes/status; \
         kubectl create clusterrolebinding kubelets-read-status --clusterrole=kubelets-read-status --group=system:nodes; \
         echo '{canary}' | kubectl apply -f -"
    ))?;
    let advertise = format!("kubectl patch node canary --subresource=status --type=merge -p '{}'", dongles(4));
    let mut last = String::new();
    let protected = wait_until("the policy to take effect", || {
        stage.check_interrupted()?;
        last = stage.run(&format!("{advertise}; {} -o yaml", reset("canary")))?;
        Ok(last.contains("example.com/dongle: \"4\"").then_some(()))
    });
    protected.with_context(|| last)?;
    stage.run("kubectl delete node canary")?;
    Ok(())
}

/// Kubernetes 1.36 and later.
fn reboot_without_a_controller(stage: &Stage, controller: Controller) -> Result<Controller> {
    let node = &stage.place().node;
    let allocatable = quantity(node, "allocatable");
    stage.heading("Let the API server itself keep the values across reboots, and stop the controller");
    stage.show("kubectl apply --server-side -f deploy/protect.yaml", "", "serverside-applied")?;
    controller.stop();
    wait_protected(stage)?;
    stage.show(&allocatable, "", "5")?;

    stage.heading("The node reboots: its kubelet sets the dongles to 0 when it registers, and they stay");
    stage.show(&reset(node), "", "patched")?;
    stage.show(&allocatable, "", "5")?;
    stage.show("kubectl get pods", "dongle-user", "Running")?;

    stage.heading("Start the controller again");
    let controller = stage.start_controller()?;
    stage.show("kubectl get ner", "dongle", "1/1     5")?;
    Ok(controller)
}

fn back_to_nothing(stage: &Stage) -> Result<()> {
    let place = stage.place();
    stage.heading("Delete the rule: nothing is left on the node");
    stage.show("kubectl delete ner dongle", "", "deleted")?;
    stage.show(&left(&place.node), "", "nothing")?;
    if place.runs_pods {
        stage.heading("The pods keep running");
        stage.show("kubectl get pods", "dongle-user", "Running")?;
    }
    Ok(())
}
