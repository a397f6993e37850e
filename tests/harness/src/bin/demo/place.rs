//! Where the story plays: a control plane of its own, or the cluster of a context.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use harness::{ControlPlane, control_plane_program, program, project_file};
use serde_json::Value;

pub(crate) const CRD: &str = "crds/noderesource.dev_nodeextendedresources.yaml";

/// Deletes what the demo creates on a cluster that is not its own.
const DELETE: &str = "kubectl delete --ignore-not-found --wait=false \
    pod/dongle-user deployment/second-user lease/node-resource-advertiser \
    crd/nodeextendedresources.noderesource.dev";

pub(crate) struct Place {
    /// `None` on somebody's cluster.
    control_plane: Option<ControlPlane>,
    kubeconfig: PathBuf,
    /// The folder with kubectl, before those in PATH.
    programs: Option<PathBuf>,
    /// The node with dongles.
    pub(crate) node: String,
    /// Whether pods run there.
    pub(crate) runs_pods: bool,
}

impl Place {
    /// Starts Kubernetes: all of it, or etcd and kube-apiserver alone where CONTROLPLANE_BIN names a folder that has no
    /// more, as that of setup-envtest (KUBEBUILDER_ASSETS).
    pub(crate) fn start() -> Result<Self> {
        let programs = control_plane_program("kubectl")?;
        let programs = programs.parent().context("kubectl is in no folder")?.canonicalize()?;
        let runs_pods = control_plane_program("kube-scheduler").is_ok();
        let builder = ControlPlane::builder();
        let builder = if runs_pods { builder.scheduler().kubelets(2) } else { builder };
        let control_plane = builder.start()?;
        Ok(Self {
            kubeconfig: control_plane.kubeconfig(),
            control_plane: Some(control_plane),
            programs: Some(programs),
            node: "node-1".to_owned(),
            runs_pods,
        })
    }

    /// Uses a cluster that has not got the program yet: the demo deletes the kind in the end, and all rules with it.
    pub(crate) fn of_context(context: &str) -> Result<Self> {
        let config = ["config", "view", "--raw", "--minify", "--flatten", "--context", context];
        let output = Command::new("kubectl").args(config).output().context("cannot run kubectl")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the context {context}: {}", error.trim_end());
        let folder = project_file("target/demo");
        let kubeconfig = folder.join("kubeconfig");
        write_private(&kubeconfig, &output.stdout).context("cannot copy the kubeconfig")?;
        let mut place = Self { control_plane: None, kubeconfig, programs: None, node: String::new(), runs_pods: true };
        if place.run("kubectl get crd/nodeextendedresources.noderesource.dev -o name").is_ok() {
            bail!("the cluster has NodeExtendedResources already: the demo would delete them. Use one without");
        }
        let nodes: Value = serde_json::from_str(&place.run("kubectl get nodes -o json")?)?;
        place.node = node_for_pods(&nodes).context("no node is ready and takes pods")?;
        Ok(place)
    }

    pub(crate) fn control_plane(&self) -> Option<&ControlPlane> {
        self.control_plane.as_ref()
    }

    pub(crate) fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    pub(crate) fn programs(&self) -> Option<&PathBuf> {
        self.programs.as_ref()
    }

    /// Where the controller's log goes.
    pub(crate) fn logs(&self) -> Result<PathBuf> {
        let own = self.control_plane.as_ref().map(ControlPlane::logs);
        let folder = || Some(self.kubeconfig.parent()?.to_owned());
        own.or_else(folder).context("the kubeconfig is in no folder")
    }

    /// Removes from a cluster that is not its own what the demo created.
    pub(crate) fn clean_up(&self) -> Result<()> {
        if self.control_plane.is_some() {
            return Ok(());
        }
        // Where the story ended early, the controller has not withdrawn its value.
        self.run(&format!("{} prune", program()?.display()))?;
        self.run(DELETE)?;
        self.run(&format!("kubectl label node {} example.com/has-dongle-", self.node))?;
        let folder = self.kubeconfig.parent().context("the kubeconfig is in no folder")?;
        fs::remove_dir_all(folder).context("cannot delete the copy of the kubeconfig")
    }

    /// Returns what a command prints.
    ///
    /// # Errors
    /// Where it fails, with what it prints of the reason.
    pub(crate) fn run(&self, command: &str) -> Result<String> {
        let output = self.shell(command).output().context("cannot run /bin/sh")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command}: {}", error.trim_end());
        Ok(text)
    }

    pub(crate) fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).env("KUBECONFIG", &self.kubeconfig);
        if let Some(programs) = &self.programs {
            let path = std::env::var("PATH").unwrap_or_default();
            shell.env("PATH", format!("{}:{path}", programs.display()));
        }
        shell
    }
}

/// Returns the name of a node that is ready and has no taint.
fn node_for_pods(nodes: &Value) -> Option<String> {
    let is_ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
            && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
    };
    let node = nodes["items"].as_array()?.iter().find(is_ready)?;
    Some(node["metadata"]["name"].as_str()?.to_owned())
}

fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let folder = path.parent().context("it is in no folder")?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    Ok(file.write_all(content)?)
}
