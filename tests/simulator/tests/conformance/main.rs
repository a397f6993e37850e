//! Compares the model of the API server with a real one: sends the same random operations to both, and compares the
//! results. [`mask`] lists what cannot be equal.
//!
//! ```text
//! Generator ─▶ Operation ─┬▶ Real: kube-apiserver ─▶ mask ─┬▶ equal, or the shortest sequence that differs
//!                         └▶ Model: the simulator ─▶ mask ─┘
//! ```
//!
//! Half of the episodes run on a server with default settings, half on one without a watch cache, where compacted
//! versions are unavailable at once. `make test-conformance` runs many with a new seed, `make test` a few, most of them
//! with a fixed seed and the others with that of the run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod bookmarks;
mod client;
mod episode;
mod exchange;
mod generator;
mod history;
mod mask;
mod model;
mod operation;
mod pods;
mod protobuf;
mod real;

use std::env;
use std::thread;

use simulator::seeds;

use crate::episode::{Counts, World};

/// Default number of operations.
const OPERATIONS: usize = 4_000;
/// Maximum number of differences per server.
const MAX_DIFFERENCES: usize = 5;
/// Default seed.
const SEED: u64 = 1;

#[test]
fn model_responds_like_a_real_server() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let operations = number("OPERATIONS").map_or(OPERATIONS, |number| number as usize) / 2;
    let seeds = match number("SEED") {
        Some(seed) => vec![(seed, operations)],
        None => vec![(SEED, operations - operations / 5), (seeds::of_run(), operations / 5)],
    };
    let only = number("EPISODE");
    let worlds = [false, true].map(|compacts| {
        let seeds = seeds.clone();
        thread::spawn(move || run(compacts, &seeds, only))
    });
    let (mut counts, mut differences) = (Counts::new(), Vec::new());
    for world in worlds {
        let (of_world, mut found) = world.join().expect("a world, which has printed why it failed");
        differences.append(&mut found);
        for (name, (all, succeeded)) in of_world {
            let count = counts.entry(name).or_default();
            *count = (count.0 + all, count.1 + succeeded);
        }
    }
    report(&counts, &seeds, &differences);
    assert!(differences.is_empty(), "{} differences", differences.len());
}

/// Runs episodes on one server: with each seed, up to this number of operations or the maximum of differences.
fn run(compacts: bool, seeds: &[(u64, usize)], only: Option<u64>) -> (Counts, Vec<String>) {
    let (mut counts, mut differences) = (Counts::new(), Vec::new());
    // The number of an episode selects its server.
    let parity = u64::from(compacts);
    if only.is_some_and(|only| only % 2 != parity) {
        return (counts, differences);
    }
    let world = World::start(compacts).unwrap();
    if !compacts {
        // Without a watch cache, bookmarks come when etcd reports its progress.
        bookmarks::compare(&world).unwrap();
        protobuf::compare(&world).unwrap();
    }
    pods::compare(&world).unwrap();
    for &(seed, operations) in seeds {
        let mut episodes = (0..).map(|number| 2 * number + parity);
        let mut done = 0;
        while done < operations && differences.len() < MAX_DIFFERENCES {
            let episode = only.or_else(|| episodes.next()).unwrap_or_default();
            let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ episode;
            let trace = world.run_random(mixed).unwrap();
            trace.count(&mut counts);
            done += trace.len();
            if trace.differs {
                let step = trace.len();
                let shortest = world.shrink(trace).unwrap().report();
                differences
                    .push(format!("SEED={seed} EPISODE={episode}, step {step}; the shortest sequence:\n{shortest}"));
            }
            if only.is_some() {
                break;
            }
        }
    }
    (counts, differences)
}

fn report(counts: &Counts, seeds: &[(u64, usize)], differences: &[String]) {
    let all: usize = counts.values().map(|(all, _)| all).sum();
    let succeeded: usize = counts.values().map(|(_, succeeded)| succeeded).sum();
    for (name, (all, succeeded)) in counts {
        println!("{all:>7} {name} ({} % succeed)", succeeded * 100 / all);
    }
    for difference in differences {
        println!("\n{difference}");
    }
    let (kinds, percent, found) = (counts.len(), succeeded * 100 / all.max(1), differences.len());
    let seeds: Vec<_> = seeds.iter().map(|(seed, _)| seed).collect();
    println!("{all} operations ({kinds} kinds; {percent} % succeed) with the seeds {seeds:?}, {found} differences");
}
