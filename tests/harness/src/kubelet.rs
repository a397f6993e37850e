//! A real kubelet, with its device manager, over a fake container runtime. It requires root on Linux;
//! `make test-kubelet` builds the programs.
//!
//! ```text
//! <control plane's folder>/<node>/lib ── as /var/lib, in mount namespaces of their own ─▶ kubelet
//!                                 │                                                       │ socket
//!                                 ├ kubelet/device-plugins ◀── device plugin              ▼
//!                                 └ runtime-not-ready ◀──────────────────────────── fake runtime
//! ```
//!
//! The mount namespace is necessary because the kubelet's folder for device plugins is fixed, and because it
//! writes to sysctls. The runtime and its containers outlive the kubelet.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::part::Part;
use crate::programs::CONTROL_PLANE;
use crate::{ControlPlane, Process, Signal, free_port, wait_until};

/// Runs a program where `/var/lib` and `/var/log` are the folders `lib` and `log` in the one given,
/// and the sysctls that a kubelet writes are the copies in `sysctl`. The process stays the same, and the
/// mounts end with it.
pub(crate) const PRIVATELY: &str = r#"
set -eu
dir=$1; shift
for sysctl in $(cd "$dir/sysctl" && find . -type f); do
    mount --bind "$dir/sysctl/$sysctl" "/proc/sys/$sysctl"
done
mount --bind "$dir/lib" /var/lib
# Otherwise the kubelet mounts its folder over itself while it creates a socket there, and ends if that is cut in two.
mount --make-shared /var/lib
mount --bind "$dir/log" /var/log
exec "$@"
"#;

/// What `setupKernelTunables` in the kubelet's container manager writes.
const SYSCTLS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Paths as the programs see them. They are short because a socket's path has at most 107 characters.
const RUNTIME_SOCKET: &str = "/var/lib/runtime.sock";
const RUNTIME_NOT_READY: &str = "/var/lib/runtime-not-ready";

/// A kubelet and its runtime, which end with it.
#[derive(Debug)]
pub struct Kubelet {
    kubelet: Part,
    /// The length of its log at the last start.
    logged_before: usize,
    /// Below the kubelet, so that it is dropped after it.
    _runtime: Part,
    dir: PathBuf,
    logs: PathBuf,
}

impl Kubelet {
    /// Starts the kubelet on a new node, and waits until the node is Ready. The kubelet writes its node's status
    /// every `tick`, in whole seconds; the default of a kubelet is 10.
    ///
    /// # Errors
    /// Returns an error if one of the programs has not been built, mounting is not allowed, or the node does not
    /// become Ready.
    pub fn start(control_plane: &ControlPlane, node: &str, tick: Duration) -> Result<Self> {
        let (dir, logs) = (control_plane.dir().join(node), control_plane.logs());
        for folder in ["lib/kubelet/device-plugins", "log"] {
            fs::create_dir_all(dir.join(folder)).context("cannot make the node's folders")?;
        }
        copy_sysctls(&dir)?;
        let config = dir.join("kubelet.json");
        fs::write(&config, configuration(tick)?).context("cannot write the kubelet's configuration")?;

        let runtime = [RUNTIME_SOCKET, RUNTIME_NOT_READY];
        let runtime = start_privately(&dir, "fakeruntime", node, &runtime, &logs)?;
        wait_until("the fake runtime to listen", || {
            runtime.process.check_running()?;
            Ok(dir.join("lib/runtime.sock").exists().then_some(()))
        })?;
        let args = [
            &format!("--config={}", config.display()),
            &format!("--kubeconfig={}", control_plane.kubelet_kubeconfig(node)?.display()),
            &format!("--hostname-override={node}"),
            "--v=2",
        ];
        let kubelet = start_privately(&dir, "kubelet", node, &args, &logs)?;
        let started = Self { kubelet, logged_before: 0, _runtime: runtime, dir, logs };
        started.wait_log("Successfully registered node")?;
        control_plane.wait_ready(node, || started.kubelet.process.check_running())?;
        Ok(started)
    }

    /// Kills the kubelet with SIGKILL. The containers keep running.
    ///
    /// # Errors
    /// Returns an error if it cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        self.kubelet.process.kill()
    }

    /// Kills the kubelet if it runs, starts it, and waits until it has registered its node.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.logged_before = self.kubelet.process.log().len();
        self.kubelet.restart()?;
        self.wait_log("Successfully registered node")
    }

    /// Restarts the kubelet as after a reboot of its node: the folder for device plugins is empty, and the
    /// runtime is not ready until the node is registered. When such a kubelet registers, it resets all
    /// extended resources to 0.
    ///
    /// # Errors
    /// Returns an error if it does not register its node.
    pub fn restart_as_after_reboot(&mut self) -> Result<()> {
        self.kill()?;
        let plugins = self.dir.join("lib/kubelet/device-plugins");
        fs::remove_dir_all(&plugins).context("cannot empty the folder for device plugins")?;
        let not_ready = self.dir.join("lib/runtime-not-ready");
        fs::write(&not_ready, "").context("cannot make the runtime not ready")?;
        self.restart()?;
        fs::remove_file(&not_ready).context("cannot make the runtime ready")
    }

    /// Returns the log since the last start.
    #[must_use]
    pub fn log(&self) -> String {
        self.kubelet.process.log().get(self.logged_before..).unwrap_or_default().to_owned()
    }

    /// Waits until the kubelet has logged `text` since its last start.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub fn wait_log(&self, text: &str) -> Result<()> {
        let what = format!("{} to log {text:?}", self.kubelet.name);
        wait_until(&what, || {
            self.kubelet.process.check_running()?;
            Ok(self.log().contains(text).then_some(()))
        })
    }

    /// Starts a device plugin for a resource, with this number of devices, of which this number is unhealthy,
    /// and waits until it is registered. It does not register again when the kubelet restarts.
    ///
    /// # Errors
    /// Returns an error if it does not register.
    pub fn device_plugin(&self, resource: &str, devices: u32, unhealthy: u32) -> Result<DevicePlugin> {
        let name = resource.replace('/', "-");
        let file = format!("lib/{name}.devices");
        write_devices(&self.dir.join(&file), devices, unhealthy)?;
        let args = [resource, &format!("/var/{file}")];
        let plugin = start_privately(&self.dir, "deviceplugin", &name, &args, &self.logs)?;
        let plugin = DevicePlugin { process: plugin.process, devices: self.dir.join(&file) };
        plugin.process.wait_log("registered with the Kubelet")?;
        Ok(plugin)
    }
}

/// A device plugin, which ends when this value is dropped.
#[derive(Debug)]
pub struct DevicePlugin {
    process: Process,
    devices: PathBuf,
}

impl DevicePlugin {
    /// Changes the number of devices that the plugin reports, and how many of them are unhealthy.
    ///
    /// # Errors
    /// Returns an error if it has ended.
    pub fn set_devices(&self, devices: u32, unhealthy: u32) -> Result<()> {
        write_devices(&self.devices, devices, unhealthy)?;
        self.process.signal(Signal::HUP)
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// Returns an error if it cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }
}

pub(crate) fn copy_sysctls(dir: &Path) -> Result<()> {
    for name in SYSCTLS {
        let copy = dir.join("sysctl").join(name);
        let value = fs::read(Path::new("/proc/sys").join(name));
        fs::create_dir_all(copy.parent().unwrap_or(dir))
            .and_then(|()| fs::write(&copy, value?))
            .with_context(|| format!("cannot copy the sysctl {name}"))?;
    }
    Ok(())
}

fn write_devices(file: &Path, devices: u32, unhealthy: u32) -> Result<()> {
    fs::write(file, format!("{devices} {unhealthy}\n")).context("cannot write the devices")
}

/// Starts a program in a mount namespace with the node's folders; the log is named after `of`.
fn start_privately(dir: &Path, program: &str, of: &str, args: &[&str], logs: &Path) -> Result<Part> {
    let path = CONTROL_PLANE.find(program)?;
    let [dir, path] = [dir, &path].map(|path| path.display().to_string());
    let privately = ["--mount", "--propagation=private", "sh", "-c", PRIVATELY, "sh", &dir, &path];
    let all = privately.iter().chain(args).map(|&arg| arg.to_owned()).collect();
    Part::start(&format!("{program}-{of}"), Path::new("unshare"), all, Vec::new(), logs)
}

/// A kubelet's configuration, without features that change the machine.
fn configuration(tick: Duration) -> Result<String> {
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{RUNTIME_SOCKET}"),
        "address": "127.0.0.1", "port": free_port()?,
        "readOnlyPort": 0, "healthzPort": 0,
        // nodeStatusReportFrequency defaults to the same.
        "nodeStatusUpdateFrequency": format!("{}s", tick.as_secs()),
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "resolvConf": "",
        // The kubelet must not manage the machine's cgroups, iptables, memory and disk.
        "cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": [],
        "failCgroupV1": false, "failSwapOn": false, "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false, "evictionHard": {}, "imageGCHighThresholdPercent": 100,
    });
    Ok(configuration.to_string())
}
