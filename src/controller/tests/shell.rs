//! The whole program under simulated time: `run` with its real client against a model of the API server, over a network
//! that loses, delays and cuts, while nodes, rules and processes come and go.
//!
//! ```text
//!   seed ─▶ Chaos (what becomes of each request)
//!       └─▶ World (who does what, and when) ─▶ Network ◀─ kube::Client ◀─ run, up to three times
//!                                                 └─▶ Monitor (each write) ─▶ calm (the end)
//! ```
//!
//! A seed decides everything, so that a run can be repeated: `SHELL_SEED=7 cargo test --workspace --lib random_worlds`.
//! `SHELL_SEEDS=1000` runs as many, and `SHELL_LINES=5000` shows more of the story of one that fails.

use simulator::{Fate, Outcome, Seeds};

use super::*;
use world::World;

mod actors;
mod calm;
mod monitor;
mod world;

/// How many worlds there are where nobody says otherwise.
const DEFAULT_SEEDS: u64 = 24;

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
        Outcome::new(&world.network, violation)
    })
}

#[test]
fn random_worlds_end_as_declared_and_silent() {
    let tally = Seeds::from_env(DEFAULT_SEEDS).run(simulate).unwrap_or_else(|story| panic!("{story}"));
    if std::env::var_os("SHELL_SEED").is_none() {
        for name in Fate::NAMES {
            let is_of = |what: &&String| what.ends_with(&format!(": {name}"));
            assert!(tally.keys().any(|what| is_of(&what)), "no request is {name}: {tally:?}");
        }
    }
}

#[test]
fn world_is_the_same_for_the_same_seed() {
    for seed in 1..=3 {
        let [one, other] = [simulate(seed), simulate(seed)].map(|outcome| outcome.log);
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        let at = differs.map(|at| (&one[at], &other[at]));
        assert_eq!(at, None, "line {differs:?} of seed {seed}");
        assert!(one.len() == other.len() && one.len() > 300, "{} lines", one.len());
    }
}
