//! `make demo`: from a rule to running pods in a real cluster, with real commands and their output. The
//! demo checks every step, and exits with code 1 at the first that fails.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use harness::{ControlPlane, Controller, wait_until};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

const SECOND_USER: &str = "kubectl get pods -l app=second-user";
const CRD: &str = "crds/noderesource.dev_nodeextendedresources.yaml";

fn main() -> ExitCode {
    let keep = std::env::args().any(|argument| argument == "--keep");
    match demo(keep) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nthe demo ends here: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(keep: bool) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&interrupted)).context("cannot wait for Ctrl-C")?;
    }

    heading("Start Kubernetes: etcd, API server, controller manager, scheduler and two kubelets");
    let control_plane = ControlPlane::builder().scheduler().kubelets(2).start()?;
    let stage = Stage { control_plane, interrupted };
    stage.show("kubectl get nodes", "node-2", "Ready")?;

    heading("Install the custom resource, and start the controller");
    stage.show(&format!("kubectl apply -f {CRD}"), "", "created")?;
    let established = "kubectl wait --for=condition=Established crd --all --timeout=180s";
    stage.show(established, "", "condition met")?;
    let controller = stage.start_controller()?;
    let ready = wait_until("the controller to have listed rules and nodes", || {
        stage.check_interrupted()?;
        let log = controller.log();
        let listed = log.contains("all rules listed") && log.contains("all nodes listed");
        Ok(listed.then_some(log))
    })?;
    print!("{ready}");

    four_dongles(&stage)?;
    repair(&stage)?;
    let mut log = changes(&controller);
    let controller = reboot_without_a_controller(&stage, controller)?;
    back_to_nothing(&stage)?;

    heading("What the controller did, one line for each change");
    log.extend(changes(&controller));
    println!("{}", log.join("\n"));

    if keep {
        stage.stay()?;
    }
    println!("\nThe demo is complete; its processes are stopped and its files deleted.");
    Ok(())
}

/// The lines of the log about changes of nodes.
fn changes(controller: &Controller) -> Vec<String> {
    let log = controller.log();
    log.lines().filter(|line| line.contains(" action=")).map(str::to_owned).collect()
}

fn four_dongles(stage: &Stage) -> Result<()> {
    heading("One node has dongles, and a label that marks it");
    let label = "kubectl label node node-1 example.com/has-dongle=true";
    stage.show(label, "", "labeled")?;

    heading("A rule: four dongles on every node with that label");
    stage.show("grep -v '^#' examples/dongle.yaml", "", "quantity: 4")?;
    stage.show("kubectl apply -f examples/dongle.yaml", "", "created")?;
    let wait = "kubectl wait --for=condition=Ready ner/dongle --timeout=180s";
    stage.show(wait, "", "condition met")?;
    stage.show("kubectl get ner", "dongle", "1/1")?;

    heading("The node advertises them, in capacity and in allocatable");
    let describe =
        "kubectl describe node node-1 | grep -E '^(Capacity|Allocatable)|example.com/dongle:'";
    stage.show(describe, "example.com/dongle:", "4")?;

    heading("A pod that requests three dongles runs");
    stage.show("kubectl apply -f examples/pod.yaml", "", "created")?;
    stage.show("kubectl get pod dongle-user -o wide", "dongle-user", "Running")?;

    heading("A Deployment whose pod requests two: it stays Pending, since one is free");
    stage.show(
        "kubectl create deployment second-user --image=registry.k8s.io/pause:3.10 --replicas=0",
        "",
        "created",
    )?;
    stage.show(
        "kubectl set resources deployment/second-user --limits=example.com/dongle=2",
        "",
        "updated",
    )?;
    stage.show("kubectl scale deployment/second-user --replicas=1", "", "scaled")?;
    stage.show(SECOND_USER, "second-user", "Pending")?;
    let why = "kubectl get pods -l app=second-user -o jsonpath='{.items[*].status.conditions[?(@.type==\"PodScheduled\")].message}{\"\\n\"}'";
    stage.show(why, "", "Insufficient example.com/dongle")?;

    // If the scheduler is ahead of the kubelet, the kubelet rejects the pod, and the Deployment creates another.
    heading("Edit the rule to five dongles: the second pod runs");
    let raise = "kubectl patch ner dongle --type=merge -p '{\"spec\":{\"quantity\":5}}'";
    stage.show(raise, "", "patched")?;
    stage.show(SECOND_USER, "second-user", "Running")
}

fn repair(stage: &Stage) -> Result<()> {
    heading("Set the node's dongles to 0, as a kubelet does after a reboot");
    let path = "/status/capacity/example.com~1dongle";
    let zero = format!(
        "kubectl patch node node-1 --subresource=status --type=json -p '[{{\"op\":\"replace\",\"path\":\"{path}\",\"value\":\"0\"}}]'"
    );
    stage.show(&zero, "", "patched")?;

    heading("The controller repairs it at once, and an Event names the field manager");
    let capacity =
        "kubectl get node node-1 -o jsonpath='{.status.capacity.example\\.com/dongle}{\"\\n\"}'";
    stage.show(capacity, "", "5")?;
    let events = "kubectl get events --field-selector reason=Repaired -o custom-columns=ON:.involvedObject.name,MESSAGE:.message";
    stage.show(events, "node-1", "kubectl-patch")
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

const ALLOCATABLE: &str =
    "kubectl get node node-1 -o jsonpath='{.status.allocatable.example\\.com/dongle}{\"\\n\"}'";

/// Waits until the policy takes effect, on a separate node, because repeated resets count as contested. No
/// controller runs.
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
    let advertise =
        format!("kubectl patch node canary --subresource=status --type=merge -p '{}'", dongles(4));
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
    heading("Let the API server itself keep the values across reboots, and stop the controller");
    stage.show("kubectl apply --server-side -f deploy/protect.yaml", "", "serverside-applied")?;
    controller.stop();
    wait_protected(stage)?;
    stage.show(ALLOCATABLE, "", "5")?;

    heading("The node reboots: its kubelet sets the dongles to 0 when it registers, and they stay");
    stage.show(&reset("node-1"), "", "patched")?;
    stage.show(ALLOCATABLE, "", "5")?;
    stage.show("kubectl get pods", "dongle-user", "Running")?;

    heading("Start the controller again");
    let controller = stage.start_controller()?;
    stage.show("kubectl get ner", "dongle", "1/1     5")?;
    Ok(controller)
}

fn back_to_nothing(stage: &Stage) -> Result<()> {
    heading("Delete the rule: nothing is left on the node, and the pods keep running");
    stage.show("kubectl delete ner dongle", "", "deleted")?;
    let left = "kubectl get node node-1 -o yaml | grep -E 'example.com/dongle|noderesource.dev' || echo nothing";
    stage.show(left, "", "nothing")?;
    stage.show("kubectl get pods", "dongle-user", "Running")
}

/// Prints a heading for the next commands.
fn heading(line: &str) {
    println!("\n==> {line}");
}

/// The control plane of the demo.
struct Stage {
    control_plane: ControlPlane,
    interrupted: Arc<AtomicBool>,
}

impl Stage {
    /// Shows a command and its output, which must contain `expected`, in the line with `row` if that is not
    /// empty. Repeats the command until it does.
    fn show(&self, command: &str, row: &str, expected: &str) -> Result<()> {
        println!("$ {command}");
        let mut last = String::new();
        let what = format!("{expected:?} in the output of this command");
        let result = wait_until(&what, || {
            if let Err(interrupted) = self.check_interrupted() {
                return Ok(Some(Err(interrupted)));
            }
            last = self.run(command)?;
            let mut rows = last.lines().filter(|line| line.contains(row));
            Ok(rows.any(|line| line.contains(expected)).then_some(Ok(())))
        });
        print!("{last}");
        result?
    }

    fn run(&self, command: &str) -> Result<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("/bin/sh")
            // Errors are part of the shown output.
            .args(["-c", &format!("exec 2>&1; {command}")])
            .env("PATH", format!("{}:{path}", binaries()?.display()))
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .stdin(Stdio::null())
            .output()
            .context("cannot run /bin/sh")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn start_controller(&self) -> Result<Controller> {
        println!("$ node-resource-advertiser run");
        let kubeconfig = self.control_plane.kubeconfig();
        Controller::spawn(&self.control_plane, &kubeconfig, &["run"], &[])
    }

    fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; its processes are stopped and its files deleted");
        }
        Ok(())
    }

    /// Keeps everything running until Ctrl-C.
    fn stay(&self) -> Result<()> {
        heading("Kubernetes keeps running until Ctrl-C. In another terminal:");
        println!("export KUBECONFIG={}", self.control_plane.kubeconfig().display());
        println!("export PATH={}:$PATH", binaries()?.display());
        println!("kubectl apply -f examples/dongle.yaml && kubectl get ner");
        while !self.interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

fn binaries() -> Result<PathBuf> {
    Path::new("target/controlplane/bin").canonicalize().context("run `make controlplane` first")
}
