//! kubectl, as the administrator.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::tool::CONTROL_PLANE;
use crate::{ControlPlane, Process};

/// What a command answered.
#[derive(Clone, Debug)]
pub struct Output {
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
    /// Its exit code.
    pub code: i32,
}

impl ControlPlane {
    /// Runs kubectl, and gives what it prints.
    ///
    /// # Errors
    /// Where it fails: with the arguments, the code and what it says.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.succeed(args, None)
    }

    /// The same, with `input` on standard input.
    ///
    /// # Errors
    /// Where it fails: with the arguments, the code and what it says.
    pub fn kubectl_stdin(&self, args: &[&str], input: &str) -> Result<String> {
        self.succeed(args, Some(input))
    }

    fn succeed(&self, args: &[&str], input: Option<&str>) -> Result<String> {
        let Output { stdout, stderr, code } = self.kubectl_output(args, input)?;
        if code != 0 {
            bail!("kubectl {} ended with {code}: {stdout}{stderr}", args.join(" "));
        }
        Ok(stdout)
    }

    /// Starts kubectl, such as one that waits. `name` is that of its log.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn spawn_kubectl(&self, name: &str, args: &[&str]) -> Result<Process> {
        let kubeconfig = self.kubeconfig();
        let kubeconfig = kubeconfig.to_str().context("the kubeconfig's path is not UTF-8")?;
        let log = self.logs().join(format!("{name}.log"));
        let env = [("KUBECONFIG", kubeconfig)];
        Process::spawn(name, &CONTROL_PLANE.find("kubectl")?, args, &env, &log)
    }

    /// Runs kubectl, and gives what it answers, success or not.
    ///
    /// # Errors
    /// Where it cannot be run.
    pub fn kubectl_output(&self, args: &[&str], input: Option<&str>) -> Result<Output> {
        let mut kubectl = Command::new(CONTROL_PLANE.find("kubectl")?)
            .args(args)
            .env("KUBECONFIG", self.kubeconfig())
            // Its cache of what the server can do would be shared with other servers.
            .env("KUBECACHEDIR", self.dir().join("kubectl-cache"))
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run kubectl")?;
        if let (Some(input), Some(mut stdin)) = (input, kubectl.stdin.take()) {
            stdin.write_all(input.as_bytes()).context("kubectl does not read its input")?;
        }
        let output = kubectl.wait_with_output().context("cannot wait for kubectl")?;
        Ok(Output {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        })
    }
}
