//! Karpenter with its provider without a cloud, which creates Node objects, and kwok, which plays kubelets: it makes nodes
//! Ready, and runs pods in name only.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::programs::KARPENTER;
use crate::{ControlPlane, Process};

/// Whose kubelets kwok plays: those of nodes that have this as a label, which Karpenter's provider sets, or as an
/// annotation, by which kwok selects where nothing else is configured.
const NODES: &str = "kwok.x-k8s.io/node=fake";

/// Both programs.
#[derive(Debug)]
pub struct Karpenter {
    provisioner: Process,
    kubelets: Kwok,
}

/// Kubelets of nodes without a machine.
#[derive(Debug)]
pub struct Kwok(Process);

impl Karpenter {
    /// Installs Karpenter's CRDs, and starts both programs. The control plane needs the scheduler and the controller
    /// manager, which removes the taint of a node that was not ready.
    ///
    /// # Errors
    /// Returns an error if something has not been built, or the CRDs are rejected.
    pub fn start(control_plane: &ControlPlane) -> Result<Self> {
        let crds = KARPENTER.find("crds")?;
        control_plane.kubectl(&["apply", "--server-side", "-f", text(&crds)?])?;
        control_plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=180s"])?;
        let (kubeconfig, logs) = (control_plane.kubeconfig(), control_plane.logs());
        let kubeconfig = text(&kubeconfig)?;
        let provisioner = Process::spawn(
            "karpenter",
            &KARPENTER.find("provisioner/kwok")?,
            &[
                "--disable-leader-election",
                "--feature-gates=NodeOverlay=true",
                // Any free port.
                "--metrics-port=0",
                "--health-probe-port=0",
            ],
            &[("KUBECONFIG", kubeconfig)],
            &logs.join("karpenter.log"),
        )?;
        let kubelets = Kwok::start_for("label", control_plane)?;
        Ok(Self { provisioner, kubelets })
    }

    /// Fails if one of the programs has ended, with the end of its log.
    ///
    /// # Errors
    /// Returns an error if one has ended.
    pub fn check_running(&self) -> Result<()> {
        self.provisioner.check_running()?;
        self.kubelets.0.check_running()
    }
}

impl Kwok {
    /// Plays the kubelets of nodes with kwok's annotation, as in a cluster where nothing else is configured.
    ///
    /// # Errors
    /// Returns an error if kwok has not been built.
    pub fn start(control_plane: &ControlPlane) -> Result<Self> {
        Self::start_for("annotation", control_plane)
    }

    fn start_for(selects_by: &str, control_plane: &ControlPlane) -> Result<Self> {
        let mut args = vec![
            format!("--kubeconfig={}", text(&control_plane.kubeconfig())?),
            format!("--manage-nodes-with-{selects_by}-selector={NODES}"),
            // Without a server for logs and exec.
            "--node-port=0".to_owned(),
            "--server-address=".to_owned(),
        ];
        for stage in stages()? {
            args.push(format!("--config={}", text(&stage)?));
        }
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        // It reads and writes a folder in there.
        let home = ("HOME", text(control_plane.dir())?);
        let log = control_plane.logs().join("kwok.log");
        Ok(Self(Process::spawn("kwok", &KARPENTER.find("kubelets/kwok")?, &args, &[home], &log)?))
    }
}

/// What kwok does with nodes and pods.
fn stages() -> Result<Vec<PathBuf>> {
    let folder = KARPENTER.find("stages")?;
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let stages = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    ensure!(!stages.is_empty(), "{} is empty: run `make karpenter`", folder.display());
    Ok(stages)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
