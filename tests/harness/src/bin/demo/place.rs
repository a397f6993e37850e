//! Where the story plays: a control plane of its own, or the cluster of a context.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use harness::{ControlPlane, Karpenter, control_plane_program, program, project_file};
use serde_json::Value;

pub(crate) const CRD: &str = "crds/noderesource.dev_nodeextendedresources.yaml";

/// What the demo creates, and deletes in the end, on a cluster that is not its own.
const OBJECTS: &str = "pod/dongle-user deployment/second-user lease/node-resource-advertiser \
    crd/nodeextendedresources.noderesource.dev";
const LABEL: &str = "example.com/has-dongle";
const LEDGER: &str = "noderesource.dev/advertised";

pub(crate) struct Place {
    /// `None` on a cluster that is not the demo's own.
    control_plane: Option<ControlPlane>,
    _karpenter: Option<Karpenter>,
    /// Deletes the copy of the kubeconfig.
    _folder: Option<PrivateFolder>,
    kubeconfig: PathBuf,
    /// The folders of kubectl and of the program, before those in PATH.
    programs: Vec<PathBuf>,
    /// The node with dongles.
    pub(crate) node: String,
    /// Whether pods run there.
    pub(crate) runs_pods: bool,
}

impl Place {
    /// Starts Kubernetes: all of it, or etcd and kube-apiserver alone where CONTROLPLANE_BIN names a folder that has no
    /// more, as that of setup-envtest (KUBEBUILDER_ASSETS).
    pub(crate) fn start() -> Result<Self> {
        let runs_pods = control_plane_program("kube-scheduler").is_ok();
        let builder = ControlPlane::builder();
        let builder = if runs_pods { builder.scheduler().kubelets(2) } else { builder };
        Ok(Self { node: "node-1".to_owned(), runs_pods, ..Self::of_control_plane(builder.start()?)? })
    }

    /// Starts Kubernetes without nodes, and Karpenter, which creates them.
    pub(crate) fn start_with_karpenter() -> Result<Self> {
        let control_plane = ControlPlane::builder().scheduler().controller_manager().start()?;
        let karpenter = Karpenter::start(&control_plane)?;
        Ok(Self { _karpenter: Some(karpenter), ..Self::of_control_plane(control_plane)? })
    }

    fn of_control_plane(control_plane: ControlPlane) -> Result<Self> {
        let programs = [control_plane_program("kubectl")?, program()?];
        let folder = |program: &PathBuf| Ok(program.parent().context("a program is in no folder")?.canonicalize()?);
        Ok(Self {
            kubeconfig: control_plane.kubeconfig(),
            control_plane: Some(control_plane),
            _karpenter: None,
            _folder: None,
            programs: programs.iter().map(folder).collect::<Result<_>>()?,
            node: String::new(),
            runs_pods: true,
        })
    }

    /// Uses the cluster of a context, on which nothing exists that the demo creates: it deletes all of it in the end.
    pub(crate) fn of_context(context: &str) -> Result<Self> {
        let config = ["config", "view", "--raw", "--minify", "--flatten", "--context", context];
        let output = Command::new("kubectl").args(config).output().context("cannot run kubectl")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the context {context}: {}", error.trim_end());
        let folder = PrivateFolder::create(project_file("target/demo"))?;
        let kubeconfig = folder.write("kubeconfig", &output.stdout)?;
        let mut place = Self {
            control_plane: None,
            _karpenter: None,
            _folder: Some(folder),
            kubeconfig,
            programs: Vec::new(),
            node: String::new(),
            runs_pods: true,
        };
        let find = format!("kubectl get {OBJECTS} --ignore-not-found -o name && kubectl get nodes -l {LABEL} -o name");
        let existing = place.run(&find)?;
        if !existing.is_empty() {
            bail!("the demo would change what the cluster has already: {}", existing.trim_end().replace('\n', ", "));
        }
        let nodes: Value = serde_json::from_str(&place.run("kubectl get nodes -o json")?)?;
        if let Some(name) = listing_node(&nodes) {
            bail!("the node {name} has values of an earlier installation (the annotation {LEDGER})");
        }
        place.node = node_for_pods(&nodes).context("no node is ready and without taints")?;
        Ok(place)
    }

    pub(crate) fn control_plane(&self) -> Option<&ControlPlane> {
        self.control_plane.as_ref()
    }

    pub(crate) fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    pub(crate) fn programs(&self) -> &[PathBuf] {
        &self.programs
    }

    /// Where the controller's log goes.
    pub(crate) fn logs(&self) -> Result<PathBuf> {
        let own = self.control_plane.as_ref().map(ControlPlane::logs);
        let folder = || Some(self.kubeconfig.parent()?.to_owned());
        own.or_else(folder).context("the kubeconfig is in no folder")
    }

    /// Removes from a cluster that is not its own what the demo created: all of it, as far as the cluster allows.
    pub(crate) fn clean_up(&self) -> Result<()> {
        if self.control_plane.is_some() {
            return Ok(());
        }
        let node = &self.node;
        // If the story ended early, its value is still on the node, and its Lease is held by a controller that is gone.
        let steps = [
            format!("{} prune --rule dongle --node {node} --take-over", program()?.display()),
            format!("kubectl delete --ignore-not-found --wait=false {OBJECTS}"),
            format!("kubectl label node {node} {LABEL}-"),
        ];
        let errors: Vec<_> = steps.iter().filter_map(|step| Some(format!("{:#}", self.run(step).err()?))).collect();
        ensure!(errors.is_empty(), "the demo did not remove all that it created:\n{}", errors.join("\n"));
        Ok(())
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
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.programs.iter().map(|folder| folder.as_os_str()).chain([&*path]);
        shell.env("PATH", folders.collect::<Vec<_>>().join(OsStr::new(":")));
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

/// Returns the name of a node whose ledger lists something.
fn listing_node(nodes: &Value) -> Option<&str> {
    let mut nodes = nodes["items"].as_array()?.iter();
    nodes.find(|node| !node["metadata"]["annotations"][LEDGER].is_null())?["metadata"]["name"].as_str()
}

/// A folder that only this user may read, deleted with this value.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn create(path: PathBuf) -> Result<Self> {
        let context = || format!("cannot create {}", path.display());
        if path.exists() {
            fs::remove_dir_all(&path).with_context(context)?;
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).with_context(context)?;
        Ok(Self(path))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.0.join(name);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(content));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: cannot delete {}, which has a copy of your kubeconfig: {error}", self.0.display());
        }
    }
}
