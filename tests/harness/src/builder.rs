//! Starts a control plane.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::{fs, io, process};

use anyhow::{Context as _, Error, Result, bail};

use crate::api::Proxy;
use crate::audit::AuditLog;
use crate::authority::{self, Authority};
use crate::credentials::{self, ServiceAccountKeys};
use crate::etcd::Etcd;
use crate::judge::Judge;
use crate::part::Part;
use crate::programs::{CONTROL_PLANE, project_file};
use crate::{ControlPlane, isolation};

/// Maximum number of starts, for when another program takes a port between the check that it is free and
/// its use.
const MAX_TRIES: u32 = 3;

/// Describes what a control plane consists of, besides etcd and kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Builder {
    controller_manager: bool,
    scheduler: bool,
    kubelets: usize,
    users: Vec<String>,
    without_apis: Vec<String>,
    without_admission: Vec<String>,
    feature_gates: Vec<String>,
    without_watch_cache: bool,
    static_policies: Option<PathBuf>,
    judged: bool,
    pods: bool,
}

impl Builder {
    /// With the controller manager.
    #[must_use]
    pub fn controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }

    /// With the scheduler.
    #[must_use]
    pub fn scheduler(mut self) -> Self {
        self.scheduler = true;
        self
    }

    /// With kubelets, whose nodes are `node-1` to `node-<count>`, and the controller manager,
    /// without which their nodes stay tainted.
    #[must_use]
    pub fn kubelets(mut self, count: usize) -> Self {
        self.kubelets = count;
        self.controller_manager = true;
        self
    }

    /// With a user whose only permissions are those that the test grants.
    #[must_use]
    pub fn user(mut self, name: &str) -> Self {
        self.users.push(name.to_owned());
        self
    }

    /// Without an API that kube-apiserver serves by default, such as `resource.k8s.io/v1`. Excludes kubelets.
    #[must_use]
    pub fn without_api(mut self, group_version: &str) -> Self {
        self.without_apis.push(format!("{group_version}=false"));
        self
    }

    /// Without an admission plugin that kube-apiserver has by default.
    #[must_use]
    pub fn without_admission(mut self, plugin: &str) -> Self {
        self.without_admission.push(plugin.to_owned());
        self
    }

    /// With a feature gate on at kube-apiserver and the scheduler. Kubelets of kubemark have none.
    #[must_use]
    pub fn feature_gate(mut self, name: &str) -> Self {
        self.feature_gates.push(format!("{name}=true"));
        self
    }

    /// With an API server that reads everything from etcd, so that compacted revisions are unavailable at once.
    #[must_use]
    pub fn without_watch_cache(mut self) -> Self {
        self.without_watch_cache = true;
        self
    }

    /// With the admission policies in this folder, which is like deploy/static/.
    #[must_use]
    pub fn static_policies(mut self, folder: &Path) -> Self {
        self.static_policies = Some(folder.to_owned());
        self
    }

    /// With an audit log, by which every node patch of the program is judged when the control plane is dropped or
    /// handed over to another test. A violation of an invariant is a panic then.
    #[must_use]
    pub fn judged(mut self) -> Self {
        self.judged = true;
        self
    }

    /// With an API server that pods in real containers can reach at the address of its Service, and with
    /// service accounts for them. The test must be isolated.
    #[must_use]
    pub fn reachable_from_pods(mut self) -> Self {
        self.pods = true;
        self
    }

    /// Starts everything, and waits until kube-apiserver and the nodes are ready.
    ///
    /// # Errors
    /// Returns an error, with the end of the log, if a program does not become ready.
    pub fn start(&self) -> Result<ControlPlane> {
        let mut last = None;
        for _ in 0..MAX_TRIES {
            match self.try_start() {
                Err(error) if format!("{error:#}").contains("address already in use") => {
                    last = Some(error);
                }
                result => return result.map_err(explain_full_disk),
            }
        }
        last.map_or_else(|| bail!("no try at starting"), Err)
    }

    fn try_start(&self) -> Result<ControlPlane> {
        let dir = folder()?;
        let logs = dir.join("logs");
        fs::create_dir_all(&logs).context("cannot make a folder for the logs")?;

        let [client, peer] = [free_port()?, free_port()?];
        let (address, secure) = if self.pods { (isolation::NODE, 443) } else { ("127.0.0.1", free_port()?) };
        let etcd_url = format!("http://127.0.0.1:{client}");
        let etcd = start_etcd(&dir, &logs, &etcd_url, &format!("http://127.0.0.1:{peer}"))?;
        let etcd = Etcd { part: etcd, address: SocketAddr::from(([127, 0, 0, 1], client)) };
        let keys = ServiceAccountKeys::write(&dir)?;
        let authority = Authority::write(&dir)?;
        let server_url = format!("https://{address}:{secure}");
        let mut users = self.users.clone();
        users.extend([credentials::ADMIN, credentials::OBSERVER].map(str::to_owned));
        for user in &users {
            credentials::write_kubeconfig(&dir, &server_url, user)?;
        }
        let endpoint = (address, secure);
        let (audit, audit_args) = self.judged.then(|| AuditLog::prepare(&dir)).transpose()?.unzip();
        let mut args = self.apiserver_args(&dir, &etcd_url, endpoint, &keys)?;
        args.extend(audit_args.into_iter().flatten());
        // Its start allocates a lot: fewer garbage collections save a second.
        let collector = ("GOGC".to_owned(), "400".to_owned());
        let apiserver =
            Part::start("kube-apiserver", &CONTROL_PLANE.find("kube-apiserver")?, args, vec![collector], &logs)?;
        credentials::wait_certificate(&dir, &apiserver)?;
        let proxy = Proxy::start("kubectl-proxy", &credentials::kubeconfig(&dir, credentials::OBSERVER), &logs)?;
        let mut control_plane = ControlPlane::new(dir, etcd, apiserver, proxy, authority);
        control_plane.wait_apiserver()?;
        if self.controller_manager {
            control_plane.add(start_controller_manager(&control_plane, &keys)?);
        }
        if self.scheduler {
            control_plane.add(start_scheduler(&control_plane, &self.feature_gates)?);
        }
        let nodes: Vec<_> = (1..=self.kubelets).map(|number| format!("node-{number}")).collect();
        for node in &nodes {
            control_plane.start_kubelet(node)?;
        }
        control_plane.wait_kubelets()?;
        // If the start fails, its error is what matters.
        control_plane.judge = audit.map(Judge::new);
        Ok(control_plane)
    }

    fn apiserver_args(
        &self,
        dir: &Path,
        etcd: &str,
        (address, port): (&str, u16),
        keys: &ServiceAccountKeys,
    ) -> Result<Vec<String>> {
        let tokens = credentials::write_tokens(dir, &self.users)?;
        // The Node authorizer, which kubelets need, is never ready without resource.k8s.io.
        let authorizers = if self.without_apis.is_empty() { "Node,RBAC" } else { "RBAC" };
        let mut args = vec![
            format!("--etcd-servers={etcd}"),
            format!("--advertise-address={address}"),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", credentials::certificates(dir).display()),
            format!("--token-auth-file={}", tokens.display()),
            format!("--client-ca-file={}", authority::path(dir).display()),
            format!("--authorization-mode={authorizers}"),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            // Tests delete hundreds of nodes at once.
            "--delete-collection-workers=8".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", keys.public.display()),
            format!("--service-account-signing-key-file={}", keys.private.display()),
        ];
        let mut without_admission = self.without_admission.clone();
        args.extend(if self.pods {
            vec![
                format!("--service-cluster-ip-range={}", isolation::SERVICES),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
            ]
        } else {
            without_admission.push("ServiceAccount".to_owned());
            vec!["--bind-address=127.0.0.1".to_owned()]
        });
        if !without_admission.is_empty() {
            args.push(format!("--disable-admission-plugins={}", without_admission.join(",")));
        }
        if !self.without_apis.is_empty() {
            args.push(format!("--runtime-config={}", self.without_apis.join(",")));
        }
        if !self.feature_gates.is_empty() {
            args.push(format!("--feature-gates={}", self.feature_gates.join(",")));
        }
        if self.without_watch_cache {
            args.push("--watch-cache=false".to_owned());
        }
        if let Some(folder) = &self.static_policies {
            let config = write_admission_config(dir, folder)?;
            args.push(format!("--admission-control-config-file={}", config.display()));
        }
        Ok(args)
    }
}

/// Copies the configuration of a folder like deploy/static/, with the folder's own path in it.
fn write_admission_config(dir: &Path, folder: &Path) -> Result<PathBuf> {
    let config =
        fs::read_to_string(folder.join("admission.yaml")).context("cannot read the admission configuration")?;
    let path = dir.join("admission.yaml");
    let config = config.replace("/etc/kubernetes/admission", &folder.display().to_string());
    fs::write(&path, config).context("cannot write the admission configuration")?;
    Ok(path)
}

fn start_etcd(dir: &Path, logs: &Path, client: &str, peer: &str) -> Result<Part> {
    let args = vec![
        // The data need not survive a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ];
    // The default of 2 GiB is full after some 45 minutes of a bench, and every write then fails.
    let quota = ("ETCD_QUOTA_BACKEND_BYTES".to_owned(), (8_u64 << 30).to_string());
    Part::start("etcd", &CONTROL_PLANE.find("etcd")?, args, vec![quota], logs)
}

fn start_controller_manager(control_plane: &ControlPlane, keys: &ServiceAccountKeys) -> Result<Part> {
    let authority = credentials::certificates(control_plane.dir()).join("apiserver.crt");
    let args = vec![
        format!("--kubeconfig={}", control_plane.kubeconfig().display()),
        "--leader-elect=false".to_owned(),
        format!("--service-account-private-key-file={}", keys.private.display()),
        format!("--root-ca-file={}", authority.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", free_port()?),
    ];
    let program = CONTROL_PLANE.find("kube-controller-manager")?;
    Part::start("kube-controller-manager", &program, args, Vec::new(), &control_plane.logs())
}

fn start_scheduler(control_plane: &ControlPlane, feature_gates: &[String]) -> Result<Part> {
    let mut args = vec![
        format!("--kubeconfig={}", control_plane.kubeconfig().display()),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", free_port()?),
    ];
    if !feature_gates.is_empty() {
        args.push(format!("--feature-gates={}", feature_gates.join(",")));
    }
    let program = CONTROL_PLANE.find("kube-scheduler")?;
    Part::start("kube-scheduler", &program, args, Vec::new(), &control_plane.logs())
}

/// Returns a port that is free, and that no other call returns while this process runs: not in another checkout either.
/// It is below the ephemeral range, so that a restarted program finds its port still free.
///
/// # Errors
/// Returns an error if all ports are taken.
pub fn free_port() -> Result<u16> {
    /// Nothing listens for UDP: a UDP socket on a port reserves it for this process, among test programs.
    static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const PORTS: std::ops::Range<u32> = 20_000..30_000;
    for _ in PORTS {
        // Other test programs run in parallel: each starts elsewhere.
        let offset = process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + offset % (PORTS.end - PORTS.start))?;
        let Ok(reserved) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(reserved);
            return Ok(port);
        }
    }
    bail!("no free port on loopback")
}

/// The parent folder of the control planes' folders.
pub(crate) fn runs() -> PathBuf {
    project_file("target/controlplane/run")
}

/// Adds that the disk is full, if it is: a program whose log cannot be written does not say why it ended.
fn explain_full_disk(error: Error) -> Error {
    // etcd allocates 64 MiB when it starts.
    const NEEDED: usize = 100 << 20;
    let probe = runs().join(format!("probe-{}", process::id()));
    let written = fs::write(&probe, vec![0; NEEDED]);
    // It may not exist.
    let _ = fs::remove_file(probe);
    match written {
        Err(cause) if cause.kind() == io::ErrorKind::StorageFull => error.context(format!(
            "a control plane needs 100 MiB in {}, and the disk is full: make room there, for example with `make clean` \
             in another checkout",
            runs().display()
        )),
        _ => error,
    }
}

/// A file in the folder of a control plane that no test uses.
pub(crate) const IDLE_MARKER: &str = "idle";

/// Creates a folder for one control plane.
pub(crate) fn folder() -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static ABANDONED: Once = Once::new();
    ABANDONED.call_once(remove_abandoned_folders);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = runs().join(format!("{}-{number}", process::id()));
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot clear {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

/// Removes the folders of control planes that were idle when their test program ended. Those of
/// failed tests are kept.
fn remove_abandoned_folders() {
    for entry in fs::read_dir(runs()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split_once('-')).map(|(owner, _)| owner);
        let ended = owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists());
        if ended && entry.path().join(IDLE_MARKER).exists() {
            // `make clean` deletes the rest.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two programs of tests look for a port at once, before either of them uses it.
    #[test]
    fn port_that_is_not_used_yet_is_free_for_no_other_process() {
        let port = free_port().unwrap();
        let other = UdpSocket::bind(("127.0.0.1", port));
        assert_eq!(other.unwrap_err().kind(), std::io::ErrorKind::AddrInUse, "{port}");
        // Only the reservation: the program that it is for can listen.
        TcpListener::bind(("127.0.0.1", port)).unwrap();
    }
}
