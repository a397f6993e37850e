//! A node with real containers: a kubelet over containerd, runc and CNI plugins. It is for a test
//! that is [`isolated`](crate::isolated), and `make test-cluster` builds the programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::part::Part;
use crate::programs::{CONTAINERS, CONTROL_PLANE};
use crate::{ControlPlane, isolation, wait_until};

const SOCKET: &str = "/run/containerd/containerd.sock";

/// A node, which ends when this value is dropped; the end of the test's namespaces ends its containers.
#[derive(Debug)]
pub struct Node {
    /// The folder of containerd's configuration of registries.
    registries: PathBuf,
    _kubelet: Part,
    /// Below the kubelet, so that it is dropped after it.
    _containerd: Part,
}

impl Node {
    /// Starts containerd, imports images from archives in the format of `docker load`, starts a kubelet,
    /// and waits until the node is Ready and schedulable. `sandbox` is the name of the pause image.
    ///
    /// # Errors
    /// Returns an error if the test is not isolated, one of the programs has not been built, an image cannot be
    /// imported, or the node does not become Ready.
    pub fn start(control_plane: &ControlPlane, name: &str, sandbox: &str, images: &[&Path]) -> Result<Self> {
        let cgroup = isolation::cgroup()?;
        let dir = control_plane.dir().join(name);
        fs::create_dir_all(dir.join("cni")).context("cannot make the node's folder")?;
        let containerd = start_containerd(control_plane, &dir, sandbox)?;
        for image in images {
            let path = image.display().to_string();
            ctr(&["--namespace=k8s.io", "images", "import", &path])?;
        }
        let config = dir.join("kubelet.json");
        fs::write(&config, kubelet_configuration(&cgroup)).context("cannot write the kubelet's configuration")?;
        let args = vec![
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", control_plane.kubelet_kubeconfig(name)?.display()),
            format!("--hostname-override={name}"),
            // Without it the kubelet queries DNS, which takes 20 seconds to fail without a server.
            format!("--node-ip={}", isolation::NODE),
            "--v=2".to_owned(),
        ];
        let program = CONTROL_PLANE.find("kubelet")?;
        let kubelet = Part::start("kubelet", &program, args, Vec::new(), &control_plane.logs())?;
        control_plane.wait_schedulable(name, || kubelet.process.check_running())?;
        Ok(Self { registries: dir.join("registries"), _kubelet: kubelet, _containerd: containerd })
    }

    /// Lets the node pull images of a registry, such as `ghcr.io`, from another one, without TLS.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be written.
    pub fn mirror(&self, registry: &str, address: &str) -> Result<()> {
        let folder = self.registries.join(registry);
        let hosts = format!(
            "server = \"http://{address}\"\n[host.\"http://{address}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
        );
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("hosts.toml"), hosts).with_context(|| format!("cannot mirror {registry}"))
    }
}

fn start_containerd(control_plane: &ControlPlane, dir: &Path, sandbox: &str) -> Result<Part> {
    let network = json!({
        "cniVersion": "1.0.0", "name": "pods",
        "plugins": [{
            "type": "ptp", "ipMasq": false,
            "ipam": {
                "type": "host-local", "dataDir": "/run/cni",
                "ranges": [[{"subnet": isolation::PODS}]], "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    });
    fs::write(dir.join("cni/10-pods.conflist"), network.to_string()).context("cannot write the pods' network")?;
    let bin = CONTAINERS.folder();
    let config = dir.join("containerd.toml");
    fs::write(&config, containerd_configuration(&bin, dir, sandbox))
        .context("cannot write containerd's configuration")?;
    // containerd finds its shim in PATH.
    let path = env::var("PATH").unwrap_or_default();
    let path = ("PATH".to_owned(), format!("{}:{path}", bin.display()));
    let args = vec![format!("--config={}", config.display())];
    let program = CONTAINERS.find("containerd")?;
    let containerd = Part::start("containerd", &program, args, vec![path], &control_plane.logs())?;
    wait_until("containerd to be ready", || {
        if let Err(ended) = containerd.process.check_running() {
            return Ok(Some(Err(ended)));
        }
        ctr(&["version"]).map(|()| Some(Ok(())))
    })??;
    Ok(containerd)
}

/// Runs containerd's own client.
fn ctr(args: &[&str]) -> Result<()> {
    let mut ctr = Command::new(CONTAINERS.find("ctr")?);
    let output = ctr.args(["--address", SOCKET]).args(args).output().context("cannot run ctr")?;
    if !output.status.success() {
        bail!("ctr {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Everything is in memory: it is small, ends with the namespace, and supports an overlay mount even where
/// the machine's own disk is an overlay.
fn containerd_configuration(bin: &Path, dir: &Path, sandbox: &str) -> String {
    let (bin, dir) = (bin.display(), dir.display());
    format!(
        r#"
version = 4
root = "/run/containerd-images"
state = "/run/containerd"
imports = []
disabled_plugins = [
    "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.erofs", "io.containerd.tracing.processor.v1.otlp",
]
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{sandbox}"
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "{dir}/registries"
[plugins.'io.containerd.cri.v1.runtime']
# What a machine that is itself a container may not do or has not got.
disable_apparmor = true
disable_hugetlb_controller = true
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{bin}"]
conf_dir = "{dir}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{bin}/runtime"
Root = "/run/runc"
SystemdCgroup = false
"#
    )
}

/// A kubelet's configuration, without features that change the machine, except for containers in one
/// cgroup.
fn kubelet_configuration(cgroup: &str) -> String {
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "address": isolation::NODE, "readOnlyPort": 0, "healthzPort": 0,
        // The network has no other hosts.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "resolvConf": "",
        // Without cgroupsPerQOS the kubelet sets no parent cgroup for containers.
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{cgroup}"), "cgroupsPerQOS": true,
        "enforceNodeAllocatable": [], "failCgroupV1": false,
        "failSwapOn": false, "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false, "evictionHard": {}, "imageGCHighThresholdPercent": 100,
    });
    configuration.to_string()
}
