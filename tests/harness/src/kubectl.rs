//! kubectl, as the administrator.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::programs::CONTROL_PLANE;
use crate::{ControlPlane, Process};

/// A command's output and exit code.
#[derive(Clone, Debug)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit code, or -1 after a signal.
    pub code: i32,
}

impl Output {
    /// Runs a command until it exits, with `input` on standard input.
    ///
    /// # Errors
    /// Returns an error if it cannot be run.
    pub fn run(command: &mut Command, input: Option<&str>) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut process = command
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {name}"))?;
        if let (Some(input), Some(mut stdin)) = (input, process.stdin.take()) {
            // A command that fails early stops reading; only its exit code matters.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = process.wait_with_output().with_context(|| format!("cannot wait for {name}"))?;
        Ok(Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        })
    }
}

impl ControlPlane {
    /// Runs kubectl, and returns what it prints.
    ///
    /// # Errors
    /// Returns an error with the arguments, the code and the output if kubectl fails.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.succeed(args, None)
    }

    /// Does the same, with `input` on standard input.
    ///
    /// # Errors
    /// Returns an error with the arguments, the code and the output if kubectl fails.
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

    /// Starts kubectl without waiting for its end. `name` names its log.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn spawn_kubectl(&self, name: &str, args: &[&str]) -> Result<Process> {
        let kubeconfig = self.kubeconfig();
        let kubeconfig = kubeconfig.to_str().context("the kubeconfig's path is not UTF-8")?;
        let log = self.logs().join(format!("{name}.log"));
        let env = [("KUBECONFIG", kubeconfig)];
        Process::spawn(name, &CONTROL_PLANE.find("kubectl")?, args, &env, &log)
    }

    /// Runs kubectl, and returns its output, whether it succeeds or not.
    ///
    /// # Errors
    /// Returns an error if it cannot be run.
    pub fn kubectl_output(&self, args: &[&str], input: Option<&str>) -> Result<Output> {
        let mut kubectl = Command::new(CONTROL_PLANE.find("kubectl")?);
        kubectl
            .args(args)
            .env("KUBECONFIG", self.kubeconfig())
            // Otherwise kubectl would share its discovery cache with other servers.
            .env("KUBECACHEDIR", self.dir().join("kubectl-cache"));
        Output::run(&mut kubectl, input)
    }
}
