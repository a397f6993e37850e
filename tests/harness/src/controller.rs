//! The program as a process next to the control plane: `node-resource-advertiser run`.

// For tests, which fail with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::{Cgroup, Cluster, DEADLINE, Process, Signal, credentials, free_port, http, program, wait_until};

/// The running program. Methods without a Result panic if they fail.
#[derive(Debug)]
pub struct Controller {
    process: Process,
    address: SocketAddr,
}

impl Controller {
    /// Starts the program as an administrator, and waits until it is ready.
    #[must_use]
    pub fn start(cluster: &Cluster) -> Self {
        Self::start_with(cluster, &[])
    }

    /// Starts the program as an administrator with more arguments, and waits until it is ready.
    #[must_use]
    pub fn start_with(cluster: &Cluster, args: &[&str]) -> Self {
        let controller = Self::start_unready(cluster, &cluster.control_plane.kubeconfig(), args);
        controller.wait_ready();
        controller
    }

    /// Starts the program as it is shipped, as an administrator, and waits until it is ready. Elsewhere values of missing
    /// rules are withdrawn at once, because tests delete rules while no controller runs.
    #[must_use]
    pub fn start_as_shipped(cluster: &Cluster) -> Self {
        let kubeconfig = cluster.control_plane.kubeconfig();
        let program = program().expect("the program is built");
        let controller = Self::start_process(&program, &cluster.control_plane.logs(), &kubeconfig, &["run"], &[]);
        let controller = controller.expect("the controller starts");
        controller.wait_ready();
        controller
    }

    /// Starts the program with a kubeconfig, without waiting.
    #[must_use]
    pub fn start_unready(cluster: &Cluster, kubeconfig: &Path, args: &[&str]) -> Self {
        let args = [&["run"], args].concat();
        Self::spawn(&cluster.control_plane.logs(), kubeconfig, &args, &[]).expect("the controller starts")
    }

    /// Starts the program as an administrator in a cgroup, without waiting.
    #[must_use]
    pub fn start_in(cgroup: &Cgroup, cluster: &Cluster, args: &[&str]) -> Self {
        let (processes, program) = (cgroup.processes(), program().expect("the program is built"));
        // The shell enters the cgroup, and becomes the program.
        let enter = r#"echo $$ > "$0" && exec "$@""#;
        let shell = ["-c", enter, processes.to_str().unwrap(), program.to_str().unwrap(), "run"];
        let (logs, kubeconfig) = (cluster.control_plane.logs(), cluster.control_plane.kubeconfig());
        let args = [&shell, args].concat();
        let env = [("NRA_MASS_WITHDRAWAL_DELAY", "0s")];
        Self::start_process(Path::new("/bin/sh"), &logs, &kubeconfig, &args, &env).expect("the controller starts")
    }

    /// Starts it with just these arguments and this environment, with an address to listen on, and a log in `logs`.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn spawn(logs: &Path, kubeconfig: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let env = [env, &[("NRA_MASS_WITHDRAWAL_DELAY", "0s")]].concat();
        Self::start_process(&program()?, logs, kubeconfig, args, &env)
    }

    fn start_process(
        program: &Path,
        logs: &Path,
        kubeconfig: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let log = logs.join(format!("controller-{}.log", address.port()));
        let kubeconfig = credentials::distinguish(kubeconfig, logs)?;
        let kubeconfig = kubeconfig.to_str().context("the kubeconfig's path is not UTF-8")?;
        let bind_address = address.to_string();
        let env = [env, &[("KUBECONFIG", kubeconfig), ("NRA_BIND_ADDRESS", &bind_address)]].concat();
        let process = Process::spawn("controller", program, args, &env, &log)?;
        Ok(Self { process, address })
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Returns the address that it serves at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the status code and the body of a GET.
    ///
    /// # Errors
    /// Returns an error if nothing listens.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        http::get(self.address, path)
    }

    /// Waits until `/readyz` is 200.
    pub fn wait_ready(&self) {
        self.wait_readiness("the controller to be ready", |code, _| code == 200);
    }

    /// Waits until `/readyz` is 503 with `reason` in its body.
    pub fn wait_unready(&self, reason: &str) {
        let what = format!("the controller not to be ready, because of {reason:?}");
        self.wait_readiness(&what, |code, body| code == 503 && body.contains(reason));
    }

    fn wait_readiness(&self, what: &str, test: impl Fn(u16, &str) -> bool) {
        let mut last = None;
        wait_until(what, || {
            if let Err(ended) = self.process.check_running() {
                return Ok(Some(Err(ended)));
            }
            let (code, body) = last.insert(self.get("/readyz")?);
            Ok(test(*code, body).then_some(Ok(())))
        })
        .and_then(|ready| ready)
        .unwrap_or_else(|error| panic!("{error:#}\nlast response: {last:?}\n{}", self.log()));
    }

    /// Waits until the log contains `text`.
    pub fn wait_log(&self, text: &str) {
        self.process.wait_log(text).unwrap_or_else(|error| panic!("{error:#}\n{}", self.log()));
    }

    /// Panics unless it leads, in its first term. A new term plans every node again, which hides one that was lost.
    pub fn assert_first_term(&self) {
        let log = self.log();
        let terms = log.matches("this process is now the leader").count();
        assert!(terms == 1 && !log.contains("this process is no longer the leader"), "{terms} terms:\n{log}");
    }

    /// Returns the log.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Sends SIGTERM; the program must exit with code 0.
    pub fn stop(self) {
        let log = self.process.log_path().to_owned();
        let ended = self.terminate();
        ended.unwrap_or_else(|error| panic!("{error:#}\n{}", std::fs::read_to_string(log).unwrap_or_default()));
    }

    /// Sends SIGTERM, and waits until the program exits with code 0.
    ///
    /// # Errors
    /// Returns an error if the program exits with another code, or not at all.
    pub fn terminate(mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let code = self.process.wait_exit(DEADLINE)?;
        ensure!(code == 0, "the controller ended with {code}");
        Ok(())
    }

    /// Waits until the program exits by itself with a code other than 0, and returns the log.
    #[must_use]
    pub fn wait_failure(mut self) -> String {
        let code = self.process.wait_exit(DEADLINE);
        let log = self.log();
        assert!(code.as_ref().is_ok_and(|code| *code != 0), "the controller ended with {code:?}\n{log}");
        log
    }

    /// Sends a signal, such as SIGSTOP and SIGCONT.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// Sends SIGKILL, and waits until the program has ended.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
    }
}
