//! Boots a real Kubernetes on loopback: etcd and kube-apiserver, and where asked for, the
//! controller manager, the scheduler and kubelets of kubemark. `make controlplane` builds them. A
//! [`Kubelet`] is a real one beside it, over a fake container runtime, and a [`Node`] one with real
//! containers.
//!
//! ```text
//! ControlPlane ──holds──▶ Process ──pipe──▶ sh ──▶ etcd, kube-apiserver, …
//!                                           └ kills it when the pipe closes: nothing outlives
//!                                             its owner, whichever way that ends
//! ```
//!
//! Everything is on free ports and in a folder of its own below `target/controlplane/run/`, so that
//! many can run at once. The folder goes with the control plane, unless the test panics: then it
//! stays, and where the logs are is said.

mod builder;
mod credentials;
mod isolation;
mod kubectl;
mod kubelet;
mod node;
mod process;
mod tool;
mod wait;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

pub use builder::{Builder, free_port};
pub use isolation::isolated;
pub use kubectl::Output;
pub use kubelet::{DevicePlugin, Kubelet};
pub use node::Node;
pub use process::Process;
pub use rustix::process::Signal;
use tool::CONTROL_PLANE;
pub use tool::tool;
pub use wait::wait_until;

/// How long any part of the control plane may take to come up. Generous: machines are busy.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    dir: PathBuf,
    etcd: Part,
    apiserver: Part,
    others: Vec<Part>,
    kubelets: BTreeMap<String, Part>,
}

/// A process of the control plane, with what it takes to start it again.
#[derive(Debug)]
struct Part {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    log: PathBuf,
    process: Process,
}

impl Part {
    fn start(
        name: &str,
        program: &Path,
        args: Vec<String>,
        env: Vec<(String, String)>,
        logs: &Path,
    ) -> Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let process = spawn(name, program, &args, &env, &log)?;
        Ok(Self { name: name.to_owned(), program: program.to_owned(), args, env, log, process })
    }

    fn restart(&mut self) -> Result<()> {
        self.process = spawn(&self.name, &self.program, &self.args, &self.env, &self.log)?;
        Ok(())
    }
}

fn spawn(
    name: &str,
    program: &Path,
    args: &[String],
    env: &[(String, String)],
    log: &Path,
) -> Result<Process> {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Process::spawn(name, program, &args, &env, log)
}

impl ControlPlane {
    /// Says what is to be started; without more, etcd and kube-apiserver.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The folder with everything in it: data, credentials, logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder with a log for every process.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// The kubeconfig of an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_for(credentials::ADMIN)
    }

    /// The kubeconfig of a user that the builder was told of.
    #[must_use]
    pub fn kubeconfig_for(&self, user: &str) -> PathBuf {
        credentials::kubeconfig(&self.dir, user)
    }

    /// The process id of kube-apiserver.
    #[must_use]
    pub fn apiserver_pid(&self) -> i32 {
        self.apiserver.process.pid()
    }

    /// Kills kube-apiserver with SIGKILL.
    ///
    /// # Errors
    /// Where the signal cannot be sent.
    pub fn kill_apiserver(&mut self) -> Result<()> {
        self.apiserver.process.kill()
    }

    /// Starts kube-apiserver again, at the same address, and waits until it is ready.
    ///
    /// # Errors
    /// Where it does not become ready.
    pub fn restart_apiserver(&mut self) -> Result<()> {
        self.apiserver.restart()?;
        self.wait_apiserver()
    }

    fn wait_apiserver(&self) -> Result<()> {
        wait_until("kube-apiserver to be ready", START_DEADLINE, || {
            let running = [&self.etcd, &self.apiserver].map(|part| part.process.check_running());
            if let Some(ended) = running.into_iter().find(Result::is_err) {
                return Ok(Some(ended));
            }
            let answer = self.kubectl_output(&["get", "--raw", "/readyz"], None)?;
            Ok((answer.code == 0).then_some(Ok(())))
        })?
    }

    fn start_kubelet(&mut self, node: &str) -> Result<()> {
        let port = builder::free_port()?;
        let args = vec![
            "--morph=kubelet".to_owned(),
            format!("--name={node}"),
            format!("--kubeconfig={}", self.kubeconfig().display()),
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

    fn wait_kubelet(&self, node: &str) -> Result<()> {
        let path = "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status}{.spec.taints}";
        wait_until(&format!("node {node} to be Ready and without taints"), START_DEADLINE, || {
            let kubelet = self.kubelets.get(node);
            if let Some(Err(ended)) = kubelet.map(|kubelet| kubelet.process.check_running()) {
                return Ok(Some(Err(ended)));
            }
            let answer = self.kubectl_output(&["get", "node", node, path], None)?;
            Ok((answer.stdout == "True").then_some(Ok(())))
        })?
    }

    /// How many requests kube-apiserver has answered, by verb, resource and subresource.
    ///
    /// # Errors
    /// Where its metrics cannot be read.
    pub fn request_counts(&self) -> Result<BTreeMap<(String, String, String), u64>> {
        let metrics = self.kubectl(&["get", "--raw", "/metrics"])?;
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            let Some(series) = line.strip_prefix("apiserver_request_total{") else { continue };
            let (labels, value) = series.rsplit_once("} ").context("a series with a value")?;
            let label = |name: &str| {
                let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
                labels.get(start..)?.split('"').next().map(str::to_owned)
            };
            let key = (label("verb"), label(",resource"), label("subresource"));
            let (Some(verb), Some(resource), Some(subresource)) = key else { continue };
            let value: u64 = value.trim().parse().with_context(|| line.to_owned())?;
            *counts.entry((verb, resource, subresource)).or_default() += value;
        }
        Ok(counts)
    }

    /// The requests by service accounts so far, as objects of `audit.k8s.io`.
    ///
    /// # Errors
    /// Where the builder was not told to log them, or the log cannot be read.
    pub fn audit(&self) -> Result<Vec<Value>> {
        let log = std::fs::read_to_string(builder::audit_log(&self.dir));
        let log = log.context("there is no audit log")?;
        log.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// How many requests of one kind kube-apiserver has answered.
    ///
    /// # Errors
    /// Where its metrics cannot be read.
    pub fn request_count(&self, verb: &str, resource: &str, subresource: &str) -> Result<u64> {
        let key = (verb.to_owned(), resource.to_owned(), subresource.to_owned());
        Ok(self.request_counts()?.get(&key).copied().unwrap_or_default())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let parts = [&mut self.etcd, &mut self.apiserver].into_iter();
        for part in parts.chain(&mut self.others).chain(self.kubelets.values_mut()) {
            // One that has ended already is as good as killed.
            let _ = part.process.kill();
        }
        for kubelet in self.kubelets.values() {
            // kubemark makes a folder below /tmp, whatever TMPDIR is, and never deletes it.
            let log = kubelet.process.log();
            let made = log.split_once("Using /tmp/hollow-kubelet.").map(|(_, rest)| rest);
            if let Some(number) = made.and_then(|made| made.split_whitespace().next()) {
                let _ = std::fs::remove_dir_all(format!("/tmp/hollow-kubelet.{number}"));
            }
        }
        if std::thread::panicking() {
            eprintln!("the control plane's logs are in {}", self.logs().display());
        } else {
            // What is left over goes with `make clean`.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
