//! A process that cannot outlive its owner.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::costs;
use crate::wait::{wait_until, wait_within};

/// Starts the program, prints its process id, and exits with its exit code. Kills the program when standard
/// input closes, at the latest when the owner ends.
const SUPERVISOR: &str = r#"
log=$1; shift
# Messages of sh itself, such as "Killed".
exec 2>/dev/null
exec 3<&0
"$@" </dev/null 3<&- >>"$log" 2>&1 &
program=$!
echo "$program"
exec >/dev/null
{ read -r _ <&3; kill -KILL "$program"; } &
watcher=$!
wait "$program"
code=$?
kill "$watcher"
exit "$code"
"#;

/// A supervised program: it ends with the `Process`, and with the program that owns it, even if that is
/// killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: Pid,
    supervisor: Child,
    /// The CPU time that a test has been charged with.
    charged: Duration,
}

impl Process {
    /// Starts a program. Its output is appended to `log`.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn spawn(name: &str, program: &Path, args: &[&str], env: &[(&str, &str)], log: &Path) -> Result<Self> {
        let context = || format!("cannot start {name} ({})", program.display());
        File::options().create(true).append(true).open(log).with_context(context)?;
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "sh"])
            .arg(log)
            .arg(program)
            .args(args)
            .envs(env.iter().copied())
            // Ctrl-C goes to the owner, which then ends its processes.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(context)?;
        let mut pid = String::new();
        let stdout = supervisor.stdout.take().with_context(context)?;
        BufReader::new(stdout).read_line(&mut pid).with_context(context)?;
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).with_context(context)?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), pid, supervisor, charged: Duration::ZERO })
    }

    /// Returns the program's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal, such as `Signal::TERM`.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal)
            .map_err(|error| io::Error::from_raw_os_error(error.raw_os_error()))
            .with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    /// Kills the program with SIGKILL, and waits until it has ended.
    ///
    /// # Errors
    /// Returns an error if it cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        self.charge();
        if self.supervisor.try_wait()?.is_none() {
            // The program may end by itself at this moment.
            let _ = self.signal(Signal::KILL);
            self.supervisor.wait()?;
        }
        Ok(())
    }

    /// Waits until the program ends by itself, and returns its exit code, or 128 plus the number of the signal.
    ///
    /// # Errors
    /// Returns an error if it has not ended at the deadline.
    pub fn wait_exit(&mut self, deadline: Duration) -> Result<i32> {
        wait_within(deadline, &format!("{} to end", self.name), || {
            // The kernel forgets the CPU time of a process whose end has been collected.
            self.charge();
            let status = self.supervisor.try_wait()?;
            Ok(status.map(|status| status.code().unwrap_or(-1)))
        })
    }

    /// Charges the current test with the CPU time that no test has been charged with.
    pub(crate) fn charge(&mut self) {
        costs::add_cpu(self.take_uncharged());
    }

    /// Returns the CPU time since the last call, or since the start.
    pub(crate) fn take_uncharged(&mut self) -> Duration {
        // The supervisor's time includes the program's once that has ended.
        let used = costs::cpu_of(self.supervisor.id()) + costs::cpu_of(self.pid().unsigned_abs());
        let uncharged = used.saturating_sub(self.charged);
        self.charged += uncharged;
        uncharged
    }

    /// Fails if the program has ended, with the end of its log.
    ///
    /// # Errors
    /// Returns an error if it has ended.
    pub fn check_running(&self) -> Result<()> {
        // A zombie that the supervisor has not collected yet still has a folder here.
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        let running = status.is_ok_and(|status| !status.contains(") Z "));
        if running {
            return Ok(());
        }
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let end = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n");
        bail!("{} has ended; the end of {}:\n{end}", self.name, self.log.display())
    }

    /// Waits until the program's output contains `text`.
    ///
    /// # Errors
    /// Returns an error if it ends before, or does not print it.
    pub fn wait_log(&self, text: &str) -> Result<()> {
        wait_until(&format!("{} to log {text:?}", self.name), || {
            // Checked first: a program may print the text and end.
            let running = self.check_running();
            if self.log().contains(text) {
                return Ok(Some(Ok(())));
            }
            Ok(running.err().map(Err))
        })?
    }

    /// Returns the path of its log.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Returns the program's output.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Drop cannot return an error, and the pipe closes in any case.
        let _ = self.kill();
    }
}
