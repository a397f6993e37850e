//! What each test costs, besides its own time: the CPU time of the processes that it uses, and what it waits for the
//! longest. Each test appends a line to the file that TEST_COSTS names; `hack/test-runner.sh` reads it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The unit of CPU times in /proc on every architecture that Kubernetes supports.
const TICKS_PER_SECOND: f64 = 100.0;

thread_local! {
    static COSTS: RefCell<Costs> = RefCell::new(Costs::new());
}

/// The costs of one thread: of a test, which has a thread to itself.
struct Costs {
    test: Option<String>,
    cpu: Duration,
    waits: BTreeMap<String, Duration>,
}

impl Costs {
    fn new() -> Self {
        Self { test: thread::current().name().map(str::to_owned), cpu: Duration::ZERO, waits: BTreeMap::new() }
    }
}

impl Drop for Costs {
    fn drop(&mut self) {
        let (Some(test), Some(path)) = (&self.test, env::var_os("TEST_COSTS")) else { return };
        let longest = self.waits.iter().max_by_key(|(_, time)| **time);
        let (what, time) = longest.map_or(("", Duration::ZERO), |(what, time)| (what.as_str(), *time));
        let line = format!("{test}\t{:.2}\t{what}\t{:.2}\n", self.cpu.as_secs_f64(), time.as_secs_f64());
        // A report that cannot be written fails no test.
        let _ = File::options().append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// Adds CPU time to the costs of this thread's test.
pub(crate) fn add_cpu(time: Duration) {
    // A thread that ends may have no costs any more.
    let _ = COSTS.try_with(|costs| costs.borrow_mut().cpu += time);
}

/// Adds the time since `start` to what this thread's test has waited for.
pub(crate) fn add_wait(what: &str, start: Instant) {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = COSTS.try_with(|costs| *costs.borrow_mut().waits.entry(what).or_default() += start.elapsed());
}

/// Returns the CPU time of a process and of those of its children that have ended, or none if it is gone.
pub(crate) fn cpu_of(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain spaces. utime, stime, cutime and cstime are the 14th to the 17th field.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(4).filter_map(|field| field.parse::<f64>().ok());
    Duration::from_secs_f64(ticks.sum::<f64>() / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;

    #[test]
    fn cpu_time_of_a_process_grows_as_it_computes() {
        let before = cpu_of(std::process::id());
        let grown = wait_until("CPU time of this process", || {
            let numbers = std::hint::black_box(0..1_000_000_u64).sum::<u64>();
            Ok((cpu_of(std::process::id()) > before).then_some(numbers))
        });
        grown.unwrap();
        assert_eq!(cpu_of(u32::MAX), Duration::ZERO);
    }
}
