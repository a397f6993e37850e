//! Seeds of random tests: the same ones in every run, then others that vary from run to run.
//!
//! | variable | meaning |
//! |---|---|
//! | `NRA_TEST_SEED` | selects the seeds that vary: a number or any text, such as the hash of a commit |
//! | `NRA_TEST_SECONDS` | for so long, a test goes on with more seeds that vary. What passes does not depend on it |
//! | `SHELL_SEED`, `SHELL_SEEDS` | worlds of [`Seeds::from_env`]: this seed, or so many from it |
//! | `SHELL_LINES` | how many lines of the history of a world that failed are shown |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::service::Network;

const RUN_SEED: &str = "NRA_TEST_SEED";
const SECONDS: &str = "NRA_TEST_SECONDS";
/// The seed of a run without `NRA_TEST_SEED`.
const DEFAULT_RUN_SEED: &str = "1";
/// The default number of history lines that are shown: the last ones.
const LINES: u64 = 150;

/// Returns the seed of this run, and prints how to repeat the test that calls this: a test that fails shows it.
#[must_use]
pub fn of_run() -> u64 {
    let text = std::env::var(RUN_SEED).unwrap_or_else(|_| DEFAULT_RUN_SEED.to_owned());
    println!("to repeat: {RUN_SEED}={text} {}", command());
    hash(&text)
}

/// Returns the command that runs the current test.
fn command() -> String {
    let thread = thread::current();
    // With one thread, tests run in the main thread, and have no name.
    let name = thread.name().filter(|name| *name != "main").unwrap_or_default();
    format!("cargo test --workspace --locked -- --include-ignored {name}")
}

/// A number below 2^40 for a text: FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step) >> 24
}

/// Returns random numbers for so many cases: for four fifths of them by a fixed seed, for the rest by that of the run.
#[must_use]
pub fn random(fixed: u64, cases: usize) -> [(usize, Rng); 2] {
    let varied = cases / 5;
    let seed = of_run().wrapping_add(fixed);
    [(cases - varied, Rng::with_seed(fixed)), (varied, Rng::with_seed(seed))]
}

/// The time that a test may use beyond what it always runs.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    start: Instant,
    limit: Duration,
}

impl Budget {
    /// The time from now that `NRA_TEST_SECONDS` gives: none by default.
    #[must_use]
    pub fn from_env() -> Self {
        Self { start: Instant::now(), limit: Duration::from_secs(number(SECONDS).unwrap_or_default()) }
    }

    /// Returns whether there is time left.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.start.elapsed() < self.limit
    }
}

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

/// The seeds of a test's worlds: these, some that vary, and more of those while there is time left.
#[derive(Clone, Debug)]
pub struct Seeds {
    fixed: Range<u64>,
    varied: Range<u64>,
    budget: Budget,
}

impl Seeds {
    /// These seeds alone.
    #[must_use]
    pub fn only(fixed: Range<u64>) -> Self {
        let budget = Budget { start: Instant::now(), limit: Duration::ZERO };
        Self { fixed, varied: 0..0, budget }
    }

    /// These seeds, and then so many that vary.
    #[must_use]
    pub fn new(fixed: Range<u64>, varied: u64) -> Self {
        // Beyond all fixed ones.
        let first = of_run() + (1 << 20);
        Self { fixed, varied: first..first + varied, budget: Budget::from_env() }
    }

    /// `SHELL_SEEDS` worlds from `SHELL_SEED` on, or that one. By default so many, a fifth of which vary.
    #[must_use]
    pub fn from_env(default: u64) -> Self {
        match (number("SHELL_SEED"), number("SHELL_SEEDS")) {
            (None, None) => Self::new(1..1 + default - default / 5, default / 5),
            (first, count) => {
                let first = first.unwrap_or(1);
                Self::only(first..first + count.unwrap_or(1))
            }
        }
    }

    /// Calls this with each seed, on all cores, until it returns false. Prints and returns the number of seeds.
    pub fn each(self, work: impl Fn(u64) -> bool + Sync) -> u64 {
        let Self { fixed, varied, budget } = self;
        let (start, next, is_over) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(false));
        let (first, all) = (fixed.end - fixed.start, fixed.end - fixed.start + varied.end - varied.start);
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= all && !(varied.start > 0 && budget.is_left()) {
                    next.fetch_sub(1, Ordering::Relaxed);
                    return;
                }
                let seed = if number < first { fixed.start + number } else { varied.start + number - first };
                if !work(seed) {
                    is_over.store(true, Ordering::Relaxed);
                }
            }
        };
        thread::scope(|threads| {
            for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
                threads.spawn(work);
            }
        });
        let (done, seconds) = (next.into_inner(), start.elapsed().as_secs_f64());
        println!(
            "{done} seeds in {seconds:.1} s: {} from {}, then from {}",
            first.min(done),
            fixed.start,
            varied.start
        );
        done
    }

    /// Runs the worlds, and prints and returns the number of occurrences of each event.
    ///
    /// # Errors
    /// Returns the history of a world that failed.
    pub fn run(self, world: impl Fn(u64) -> Outcome + Sync) -> Result<BTreeMap<String, usize>, String> {
        let done = Mutex::new((BTreeMap::<String, usize>::new(), None));
        let lock = || done.lock().unwrap_or_else(PoisonError::into_inner);
        let command = command();
        self.each(|seed| {
            let outcome = world(seed);
            for (what, times) in &outcome.tally {
                *lock().0.entry(what.clone()).or_default() += times;
            }
            let failed = outcome.violation.is_some().then(|| story(seed, &outcome, &command));
            let is_well = failed.is_none();
            if !is_well {
                lock().1 = failed;
            }
            is_well
        });
        let (tally, failed) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (what, times) in &tally {
            println!("{times:9} {what}");
        }
        failed.map_or(Ok(tally), Err)
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    // A number that is misspelt must not become the default.
    assert!(number.is_ok(), "{name}={text} is no number");
    number.ok()
}

/// Returns the end of the history, with `SHELL_LINES` lines.
fn story(seed: u64, outcome: &Outcome, command: &str) -> String {
    let lines = usize::try_from(number("SHELL_LINES").unwrap_or(LINES)).unwrap_or(usize::MAX);
    let violation = outcome.violation.as_deref().unwrap_or_default();
    let mut text = format!("seed {seed}: {violation}\n");
    for line in &outcome.log[outcome.log.len().saturating_sub(lines)..] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text + &format!("seed {seed}: {violation}\nto repeat: SHELL_SEED={seed} {command}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    fn seeds_of(seeds: Seeds) -> BTreeSet<u64> {
        let seen = Mutex::new(BTreeSet::new());
        let count = seeds.each(|seed| seen.lock().unwrap().insert(seed));
        let seen = seen.into_inner().unwrap();
        assert_eq!(count, seen.len() as u64);
        seen
    }

    #[test]
    fn seeds_are_the_fixed_ones_and_as_many_that_vary() {
        let seeds = Seeds::new(0..40, 10);
        let first = seeds.varied.start;
        assert_eq!(seeds_of(seeds), (0..40).chain(first..first + 10).collect());
        assert!(first > 1 << 20 && hash("1") != hash("2") && hash("a41c") != hash("a41d"));
        assert_eq!(seeds_of(Seeds::only(7..9)), BTreeSet::from([7, 8]));
    }

    #[test]
    fn seeds_go_on_while_time_is_left() {
        let mut seeds = Seeds::new(0..4, 2);
        seeds.budget.limit = Duration::from_secs(3600);
        let (first, done) = (seeds.varied.start, AtomicU64::new(0));
        // The last one ends it.
        seeds.each(|seed| done.fetch_add(1, Ordering::Relaxed) < 20 || seed < first);
        assert!(done.into_inner() > 20);
    }

    #[test]
    fn world_that_fails_ends_the_run_and_names_the_command() {
        let world = |seed| Outcome { violation: (seed == 5).then(|| "I3".to_owned()), ..Outcome::default() };
        let story = Seeds::only(1..1_000_000).run(world).unwrap_err();
        assert!(story.contains("seed 5: I3") && story.contains("SHELL_SEED=5 cargo test"), "{story}");
    }
}
