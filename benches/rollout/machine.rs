//! Data about processes and the machine, from /proc.

use std::fs;
use std::thread;

use anyhow::{Context as _, Result};

/// Linux reports CPU time in hundredths of a second (USER_HZ), on every architecture.
const TICK_S: f64 = 0.01;

/// Identifies a process, or a thread of this process, whose CPU time is measured.
#[derive(Clone, Copy, Debug)]
pub enum Cpu {
    Process(i32),
    Thread(i32),
}

impl Cpu {
    pub fn this_thread() -> Result<Self> {
        let link = fs::read_link("/proc/thread-self").context("/proc/thread-self")?;
        let thread = link.file_name().and_then(|name| name.to_str()?.parse().ok());
        Ok(Self::Thread(thread.context("/proc/thread-self")?))
    }

    /// Returns the CPU time that it has used so far.
    pub fn used_s(self) -> Result<f64> {
        let path = match self {
            Self::Process(pid) => format!("/proc/{pid}/stat"),
            Self::Thread(thread) => format!("/proc/self/task/{thread}/stat"),
        };
        let stat = read(&path)?;
        // After the name, which may contain blanks, utime and stime are the 12th and 13th fields.
        let (_, fields) = stat.rsplit_once(") ").with_context(|| path.clone())?;
        let times = fields.split(' ').skip(11).take(2).map(str::parse::<f64>);
        Ok(times.sum::<Result<f64, _>>().with_context(|| path.clone())? * TICK_S)
    }
}

/// Returns the peak of a process's resident memory since its start or the last reset.
pub fn peak_memory_mib(pid: i32) -> Result<f64> {
    memory_mib_of(pid, "VmHWM:")
}

/// Returns a process's resident memory.
pub fn memory_mib(pid: i32) -> Result<f64> {
    memory_mib_of(pid, "VmRSS:")
}

fn memory_mib_of(pid: i32, field: &str) -> Result<f64> {
    let status = read(&format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib = kib.with_context(|| format!("process {pid} has no {field}"))?;
    let kib: f64 = kib.trim().parse().with_context(|| format!("{field} {kib}"))?;
    Ok(kib / 1024.0)
}

/// Resets the peak to the current memory of the process; see proc_pid_clear_refs(5).
pub fn reset_peak_memory(pid: i32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("cannot reset the peak of memory")
}

/// Finds the process with `argument` on its command line.
pub fn find_process(argument: &str) -> Result<i32> {
    for entry in fs::read_dir("/proc").context("cannot read /proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has just ended has no command line.
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_program = !command.starts_with(b"/bin/sh");
        if is_program && command.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()) {
            return Ok(pid);
        }
    }
    anyhow::bail!("no process has {argument}")
}

/// Returns the number of runnable processes, averaged over a minute.
pub fn load_average() -> Result<f64> {
    let text = read("/proc/loadavg")?;
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().with_context(|| format!("/proc/loadavg: {text}"))
}

pub fn cores() -> usize {
    thread::available_parallelism().map_or(0, usize::from)
}

pub fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|rest| rest.trim_start_matches(['\t', ' ', ':']).to_owned());
    model.unwrap_or_else(|| "unknown".to_owned())
}

pub fn memory_gib() -> f64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.map_or(0.0, |kib| (kib / 1024.0 / 1024.0).round())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.to_owned())
}
