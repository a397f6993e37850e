//! A running control plane.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value;

use crate::api::Proxy;
use crate::authority::Authority;
use crate::etcd::{self, Etcd};
use crate::judge::Judge;
use crate::objects::condition;
use crate::part::Part;
use crate::programs::CONTROL_PLANE;
use crate::{Builder, builder, credentials, judge, wait_until};

/// etcd and kube-apiserver, and the other programs that the [`Builder`] started.
#[derive(Debug)]
pub struct ControlPlane {
    dir: PathBuf,
    pub(crate) etcd: Etcd,
    apiserver: Part,
    pub(crate) proxy: Proxy,
    pub(crate) authority: Authority,
    others: Vec<Part>,
    kubelets: BTreeMap<String, Part>,
    pub(crate) judge: Option<Judge>,
}

impl ControlPlane {
    /// Returns a builder that starts etcd and kube-apiserver, and other programs on request.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(dir: PathBuf, etcd: Etcd, apiserver: Part, proxy: Proxy, authority: Authority) -> Self {
        let (others, kubelets) = (Vec::new(), BTreeMap::new());
        Self { dir, etcd, apiserver, proxy, authority, others, kubelets, judge: None }
    }

    pub(crate) fn add(&mut self, part: Part) {
        self.others.push(part);
    }

    /// Returns the folder of this control plane: data, credentials, logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the folder with a log for every process.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Returns the kubeconfig of an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_for(credentials::ADMIN)
    }

    /// Returns the kubeconfig of a user that the builder created.
    #[must_use]
    pub fn kubeconfig_for(&self, user: &str) -> PathBuf {
        credentials::kubeconfig(&self.dir, user)
    }

    /// Returns the URL at which the API server accepts an administrator's requests over plain HTTP.
    #[must_use]
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// Returns the process id of kube-apiserver.
    #[must_use]
    pub fn apiserver_pid(&self) -> i32 {
        self.apiserver.process.pid()
    }

    /// Kills kube-apiserver with SIGKILL.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub fn kill_apiserver(&mut self) -> Result<()> {
        self.apiserver.process.kill()?;
        self.interrupt_history();
        Ok(())
    }

    /// Starts kube-apiserver again, at the same address, and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if it does not become ready.
    pub fn restart_apiserver(&mut self) -> Result<()> {
        self.spawn_apiserver()?;
        self.wait_apiserver()
    }

    /// Starts kube-apiserver again, at the same address, without waiting: [`ControlPlane::wait_apiserver`] does.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn spawn_apiserver(&mut self) -> Result<()> {
        self.apiserver.restart()
    }

    /// Kills kube-apiserver, and restarts it with another self-signed certificate.
    ///
    /// # Errors
    /// Returns an error if it does not become ready.
    pub fn rotate_apiserver_certificate(&mut self) -> Result<()> {
        self.kill_apiserver()?;
        credentials::remove_certificate(&self.dir)?;
        self.apiserver.restart()?;
        credentials::wait_certificate(&self.dir, &self.apiserver)?;
        // It has read the previous one.
        self.proxy.part.process.kill()?;
        self.proxy.part.restart()?;
        self.wait_apiserver()
    }

    /// Kills etcd with SIGKILL.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub fn kill_etcd(&mut self) -> Result<()> {
        self.etcd.part.process.kill()?;
        self.interrupt_history();
        Ok(())
    }

    /// Starts etcd again with its data, and waits until kube-apiserver is ready.
    ///
    /// # Errors
    /// Returns an error if one of them does not become ready.
    pub fn restart_etcd(&mut self) -> Result<()> {
        self.etcd.restart()?;
        self.wait_apiserver()
    }

    /// Stops kube-apiserver and etcd, passes the folder with etcd's data to `change`, and restarts both.
    ///
    /// # Errors
    /// Returns an error if `change` fails, or one of them does not become ready.
    pub fn change_etcd_data(&mut self, change: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.kill_apiserver()?;
        self.kill_etcd()?;
        change(&self.dir.join("etcd"))?;
        self.etcd.restart()?;
        self.restart_apiserver()
    }

    /// Compacts etcd: only the current state of every object remains.
    ///
    /// # Errors
    /// Returns an error if etcd rejects that.
    pub fn compact_etcd(&self) -> Result<()> {
        self.etcd.compact()
    }

    /// Compacts etcd up to a revision, unless it has already.
    ///
    /// # Errors
    /// Returns an error if etcd rejects that.
    pub fn compact_etcd_to(&self, revision: &str) -> Result<()> {
        self.etcd.compact_to(revision)
    }

    /// Writes an object to etcd, past the API server, as an earlier version has left it there.
    ///
    /// # Errors
    /// Returns an error if etcd rejects that.
    pub fn put_in_etcd(&self, key: &str, object: &str) -> Result<()> {
        self.etcd.put(&[(&key.to_owned(), &etcd::encode(object))])
    }

    /// Returns the address on which kube-apiserver listens.
    ///
    /// # Errors
    /// Returns an error if the administrator's kubeconfig has no such address.
    pub fn apiserver_address(&self) -> Result<SocketAddr> {
        credentials::server(&self.kubeconfig())
    }

    /// Returns all processes.
    pub(crate) fn parts(&mut self) -> impl Iterator<Item = &mut Part> {
        let parts = [&mut self.etcd.part, &mut self.apiserver, &mut self.proxy.part].into_iter();
        parts.chain(&mut self.others).chain(self.kubelets.values_mut())
    }

    /// Waits until kube-apiserver is ready.
    ///
    /// # Errors
    /// Returns an error if it does not become ready.
    pub fn wait_apiserver(&self) -> Result<()> {
        wait_until("kube-apiserver to be ready", || {
            let parts = [&self.etcd.part, &self.apiserver, &self.proxy.part];
            let running = parts.map(|part| part.process.check_running());
            if let Some(ended) = running.into_iter().find(Result::is_err) {
                return Ok(Some(ended));
            }
            self.get("/readyz").map(|_| Some(Ok(())))
        })??;
        self.resume_history()
    }

    pub(crate) fn start_kubelet(&mut self, node: &str) -> Result<()> {
        let port = builder::free_port()?;
        let args = vec![
            "--morph=kubelet".to_owned(),
            format!("--name={node}"),
            format!("--kubeconfig={}", self.kubelet_kubeconfig(node)?.display()),
            "--use-host-image-service=false".to_owned(),
            format!("--kubelet-port={port}"),
            "--kubelet-read-only-port=0".to_owned(),
        ];
        let name = format!("kubelet-{node}");
        let program = CONTROL_PLANE.find("kubemark")?;
        let kubelet = Part::start(&name, &program, args, Vec::new(), &self.logs())?;
        self.kubelets.insert(node.to_owned(), kubelet);
        Ok(())
    }

    pub(crate) fn wait_kubelets(&self) -> Result<()> {
        self.kubelets.keys().try_for_each(|node| self.wait_kubelet(node))
    }

    pub(crate) fn wait_kubelet(&self, node: &str) -> Result<()> {
        self.wait_schedulable(node, || {
            self.kubelets.get(node).map_or(Ok(()), |kubelet| kubelet.process.check_running())
        })
    }

    /// Waits until a node is Ready and has no taint, which the controller manager removes. An error
    /// of `check` ends the wait.
    pub(crate) fn wait_schedulable(&self, node: &str, check: impl Fn() -> Result<()>) -> Result<()> {
        let what = format!("node {node} to be Ready and without taints");
        self.wait_node(&what, node, check, |node| is_ready(node) && node["spec"]["taints"].is_null())
    }

    /// Waits until a node is Ready. An error of `check` ends the wait.
    pub(crate) fn wait_ready(&self, node: &str, check: impl Fn() -> Result<()>) -> Result<()> {
        self.wait_node(&format!("node {node} to be Ready"), node, check, is_ready)
    }

    fn wait_node(
        &self,
        what: &str,
        node: &str,
        check: impl Fn() -> Result<()>,
        test: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let path = format!("/api/v1/nodes/{node}");
        wait_until(what, || {
            if let Err(ended) = check() {
                return Ok(Some(Err(ended)));
            }
            let node = serde_json::from_str(&self.get(&path)?)?;
            Ok(test(&node).then_some(Ok(())))
        })?
    }
}

fn is_ready(node: &Value) -> bool {
    condition(&node["status"], "Ready").0 == "True"
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for part in self.parts() {
            // A process that has already ended needs no kill.
            let _ = part.process.kill();
        }
        for kubelet in self.kubelets.values() {
            // kubemark creates a folder below /tmp, whatever TMPDIR is, and never deletes it.
            let log = kubelet.process.log();
            let made = log.split_once("Using /tmp/hollow-kubelet.").map(|(_, rest)| rest);
            if let Some(number) = made.and_then(|made| made.split_whitespace().next()) {
                let _ = std::fs::remove_dir_all(format!("/tmp/hollow-kubelet.{number}"));
            }
        }
        let verdict = self.judge();
        if std::thread::panicking() || verdict.is_err() {
            eprintln!("the control plane's logs are in {}", self.logs().display());
        } else {
            // `make clean` deletes the rest.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
        judge::announce(verdict);
    }
}
