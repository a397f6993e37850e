//! kubectl, as the administrator.

use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::programs::CONTROL_PLANE;
use crate::{ControlPlane, Process, costs};

/// The folder in which kubectl keeps what the API server serves.
pub(crate) const CACHE: &str = "kubectl-cache";

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
        let start = Instant::now();
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
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        let (stdout, stderr) = thread::scope(|scope| {
            let stderr = scope.spawn(|| read(stderr));
            (read(stdout), stderr.join().unwrap_or_default())
        });
        // The kernel forgets it with the process.
        costs::add_cpu(costs::cpu_of(process.id()));
        let status = process.wait().with_context(|| format!("cannot wait for {name}"))?;
        costs::add_wait(Path::new(&name).file_name().and_then(OsStr::to_str).unwrap_or(&name), start);
        Ok(Self { stdout, stderr, code: status.code().unwrap_or(-1) })
    }
}

/// Reads what a process prints until it ends.
fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // A process that is killed has printed what it has printed.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
            .env("KUBECACHEDIR", self.dir().join(CACHE));
        Output::run(&mut kubectl, input)
    }
}
