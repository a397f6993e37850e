//! Runs worlds by their seeds on all cores, until one fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::service::Network;

/// The default number of history lines that are shown: the last ones.
const LINES: u64 = 150;

/// The result of a world.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The history, one line per event.
    pub log: Vec<String>,
    /// The number of occurrences of each event.
    pub tally: BTreeMap<String, usize>,
    /// The violation, if any.
    pub violation: Option<String>,
}

impl Outcome {
    /// Returns the result of a world on this network.
    #[must_use]
    pub fn new(network: &Network, violation: Option<String>) -> Self {
        Self { log: network.log(), tally: network.tally(), violation }
    }
}

/// The worlds that the environment selects.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    first: u64,
    count: u64,
}

impl Seeds {
    /// `SHELL_SEEDS` worlds, from `SHELL_SEED` on; by default the first ones, or that one.
    #[must_use]
    pub fn from_env(default: u64) -> Self {
        let first = number("SHELL_SEED");
        let count = number("SHELL_SEEDS").unwrap_or(if first.is_some() { 1 } else { default });
        Self { first: first.unwrap_or(1), count }
    }

    /// Runs the worlds, and prints and returns the number of occurrences of each event.
    ///
    /// # Errors
    /// Returns the history of a world that failed.
    pub fn run(self, world: impl Fn(u64) -> Outcome + Sync) -> Result<BTreeMap<String, usize>, String> {
        let Self { first, count } = self;
        let next = AtomicU64::new(first);
        let done = Mutex::new((BTreeMap::<String, usize>::new(), None));
        let lock = || done.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count || lock().1.is_some() {
                    return;
                }
                let outcome = world(seed);
                for (what, times) in &outcome.tally {
                    *lock().0.entry(what.clone()).or_default() += times;
                }
                if outcome.violation.is_some() {
                    lock().1 = Some(story(seed, &outcome));
                }
            }
        };
        thread::scope(|threads| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                threads.spawn(work);
            }
        });
        let (tally, failed) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (what, times) in &tally {
            println!("{times:9} {what}");
        }
        let seconds = start.elapsed().as_secs_f64();
        let worlds = next.into_inner().min(first + count) - first;
        println!("{worlds} worlds from seed {first} in {seconds:.1} s");
        failed.map_or(Ok(tally), Err)
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the end of the history, with `SHELL_LINES` lines.
fn story(seed: u64, outcome: &Outcome) -> String {
    let lines = usize::try_from(number("SHELL_LINES").unwrap_or(LINES)).unwrap_or(usize::MAX);
    let violation = outcome.violation.as_deref().unwrap_or_default();
    let mut text = format!("seed {seed}: {violation}\n");
    for line in &outcome.log[outcome.log.len().saturating_sub(lines)..] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text + &format!("seed {seed}: {violation}")
}
