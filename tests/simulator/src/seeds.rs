//! Worlds by their seeds, on all cores, until one fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::service::Network;

/// How many lines of a story are shown, where nobody says otherwise: those before its end.
const LINES: u64 = 150;

/// What came of a world.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What has happened, a line each.
    pub log: Vec<String>,
    /// How often what has happened.
    pub tally: BTreeMap<String, usize>,
    /// What does not hold, in words.
    pub violation: Option<String>,
}

impl Outcome {
    /// What came of a world on this network.
    #[must_use]
    pub fn new(network: &Network, violation: Option<String>) -> Self {
        Self { log: network.log(), tally: network.tally(), violation }
    }
}

/// Which worlds, by the environment.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    first: u64,
    count: u64,
}

impl Seeds {
    /// As many worlds as `SHELL_SEEDS` says, from `SHELL_SEED` on; else the first so many, or that one.
    #[must_use]
    pub fn from_env(default: u64) -> Self {
        let first = number("SHELL_SEED");
        let count = number("SHELL_SEEDS").unwrap_or(if first.is_some() { 1 } else { default });
        Self { first: first.unwrap_or(1), count }
    }

    /// Runs them, and prints how often what has happened in all of them, which is returned.
    ///
    /// # Errors
    /// The story of one that failed.
    pub fn run(
        self,
        world: impl Fn(u64) -> Outcome + Sync,
    ) -> Result<BTreeMap<String, usize>, String> {
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

/// The end of what happened: `SHELL_LINES` says how much of it.
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
