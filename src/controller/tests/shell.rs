//! The whole program under simulated time: `run` with its real client against a model of the API server, over a network
//! that loses, delays and cuts, while nodes, rules and processes come and go.
//!
//! ```text
//!   seed ─▶ Chaos (what becomes of each request)
//!       └─▶ World (who does what, and when) ─▶ Network ◀─ kube::Client ◀─ run, up to three times
//!                                                 └─▶ Monitor (each write) ─▶ calm (the end)
//! ```
//!
//! A seed decides everything, so that a run can be repeated: `SHELL_SEED=7 cargo test --lib random_worlds`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use world::World;

mod actors;
mod calm;
mod monitor;
mod world;

/// How many worlds there are where nobody says otherwise.
const DEFAULT_SEEDS: u64 = 24;

/// What came of a world.
struct Outcome {
    log: Vec<String>,
    /// What does not hold, in words.
    violation: Option<String>,
    /// How often what has happened, by the first words of each line.
    happened: BTreeMap<String, usize>,
}

/// Runs a world from its beginning to its end.
fn simulate(seed: u64) -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed);
        let violation = match world.live().await {
            Ok(()) => world.calm().await.err(),
            Err(violation) => Some(violation),
        };
        let log = world.network.log();
        world.end();
        Outcome { violation, happened: happened(&log), log }
    })
}

/// What a line is about: for the table that shows whether all of it happens.
fn happened(log: &[String]) -> BTreeMap<String, usize> {
    let mut happened = BTreeMap::new();
    for line in log {
        let text = line.split_once("s  ").map_or("", |(_, text)| text);
        let text = text.split_once(": ").map_or(text, |(_, text)| text);
        let mut words: Vec<_> = text.split(' ').take(2).collect();
        if let Some(object) = words.last_mut() {
            *object = object.split('/').next().unwrap_or(object);
        }
        let remark = match (text.rfind("(the "), text.contains(" is lost")) {
            (Some(at), _) => &text[at..],
            (None, true) => "is lost",
            _ => "",
        };
        let remark: Vec<_> = remark.split(' ').take(4).collect();
        let remark: String = remark.join(" ").chars().filter(|c| !c.is_ascii_digit()).collect();
        *happened.entry(format!("{} {remark}", words.join(" "))).or_default() += 1;
    }
    happened
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The story of a world that has failed: all of it in a file would be thousands of lines.
fn story(seed: u64, outcome: &Outcome) -> String {
    let lines =
        &outcome.log[outcome.log.len().saturating_sub(number("SHELL_LINES", 150) as usize)..];
    let violation = outcome.violation.as_deref().unwrap_or_default();
    format!("seed {seed}: {violation}\n{}\nseed {seed}: {violation}", lines.join("\n"))
}

/// `SHELL_SEEDS` says how many worlds, and `SHELL_SEED` with which the first begins.
#[test]
fn random_worlds_end_as_declared_and_silent() {
    let first = number("SHELL_SEED", 1);
    let count = number(
        "SHELL_SEEDS",
        if std::env::var_os("SHELL_SEED").is_some() { 1 } else { DEFAULT_SEEDS },
    );
    let next = AtomicU64::new(first);
    let failed = Mutex::new(None);
    let happened = Mutex::new(BTreeMap::<String, usize>::new());
    let start = std::time::Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let outcome = simulate(seed);
                    for (what, times) in &outcome.happened {
                        *happened.lock().unwrap().entry(what.clone()).or_default() += times;
                    }
                    if outcome.violation.is_some() {
                        *failed.lock().unwrap() = Some(story(seed, &outcome));
                    }
                }
            });
        }
    });
    for (what, times) in happened.lock().unwrap().iter() {
        println!("{times:8} {what}");
    }
    println!("{count} worlds from seed {first} in {:.1} s", start.elapsed().as_secs_f64());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_none(), "{}", failed.unwrap_or_default());
}

#[test]
fn world_is_the_same_for_the_same_seed() {
    for seed in 1..=3 {
        let [one, other] = [simulate(seed), simulate(seed)].map(|outcome| outcome.log);
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        let at = differs.map(|at| (&one[at], &other[at]));
        assert_eq!(at, None, "line {differs:?} of seed {seed}");
        assert!(one.len() == other.len() && one.len() > 500, "{} lines", one.len());
    }
}
